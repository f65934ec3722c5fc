//! Compares a folder with the manifest of a split.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use walkdir::WalkDir;

use lockstep_runner::output_file::{self, write_json};

use super::download::RECORD;
use super::folder::MAX_FILES;
use super::manifest::{Manifest, Part, hash_of};

/// Maximum number of extra files that are listed.
const MAX_LISTED: usize = 10;

/// Arguments of `lockstep data verify`.
#[derive(Debug, Clone, Args)]
pub struct VerifyArguments {
    /// A frozen split, see `lockstep data list`, or a manifest of `lockstep data split`.
    split: String,
    /// Folder of the traces.
    folder: PathBuf,
    /// Compare only this part.
    #[arg(long, value_enum)]
    part: Option<Part>,
    /// Write the manifest with this folder to this file, for `lockstep train --split`.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Differences between a folder and a split, by names of files.
#[derive(Debug, Default, PartialEq, Eq)]
struct Differences {
    missing: Vec<String>,
    different: Vec<String>,
    /// Files that the split does not name.
    extra: Vec<String>,
}

fn differences(manifest: &Manifest, part: Option<Part>, folder: &Path) -> Result<Differences> {
    let mut found = Differences::default();
    for file in manifest.files_of(part) {
        let path = folder.join(&file.path);
        if !path.is_file() {
            found.missing.push(file.path.clone());
        } else if hash_of(&path)? != file.sha256 {
            found.different.push(file.path.clone());
        }
    }
    for (count, entry) in WalkDir::new(folder).sort_by_file_name().into_iter().enumerate() {
        let entry = entry.with_context(|| format!("folder {}", folder.display()))?;
        if count > MAX_FILES {
            bail!("folder {} has more than {MAX_FILES} files", folder.display());
        }
        let file_name = entry.file_name().to_string_lossy();
        if !entry.file_type().is_file() || file_name.starts_with('.') || file_name == RECORD {
            continue;
        }
        let relative = entry.path().strip_prefix(folder).unwrap_or(entry.path());
        let parts: Vec<_> = relative.components().map(|part| part.as_os_str().to_string_lossy()).collect();
        let name = parts.join("/");
        if manifest.files.iter().all(|file| file.path != name) {
            found.extra.push(name);
        }
    }
    Ok(found)
}

/// `lockstep data verify`.
pub fn run(arguments: &VerifyArguments) -> Result<()> {
    let VerifyArguments { split, folder, part, output } = arguments;
    output_file::check(&[("--output", output.as_deref())], &[Path::new(split)])?;
    let manifest = Manifest::open(split)?;
    if !folder.is_dir() {
        bail!("cannot verify {}: no such folder", folder.display());
    }
    let Differences { missing, different, extra } = differences(&manifest, *part, folder)?;
    for (state, names) in [("missing", &missing), ("different", &different)] {
        for name in names {
            print_line!("{state:<10} {name}");
        }
    }
    for name in extra.iter().take(MAX_LISTED) {
        print_line!("extra      {name}");
    }
    if extra.len() > MAX_LISTED {
        print_line!("extra      and {} other files", extra.len() - MAX_LISTED);
    }
    let files = manifest.files_of(*part).len();
    let (missing, different) = (missing.len(), different.len());
    if missing + different > 0 {
        let source = if manifest.source.is_empty() { "their source" } else { &manifest.source };
        bail!(
            "folder {} is not the split {split}: of {files} files, {missing} are missing and {different} are different; \
             get them from {source}",
            folder.display()
        );
    }
    print_line!("all {files} files match the split {split}");
    if let Some(path) = output {
        write_json(path, &Manifest { folder: folder.display().to_string(), ..manifest })?;
        print_line!("manifest      {}", path.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use lockstep_configuration::content_hash;

    use super::super::manifest::{File, with_splits};
    use super::*;

    /// A folder with three traces, and its manifest with one trace per part.
    fn split() -> (tempfile::TempDir, Manifest) {
        let folder = tempfile::tempdir().unwrap();
        let names = ["a.up", "b.up", "sub/c.up"];
        fs::create_dir(folder.path().join("sub")).unwrap();
        let files = names.iter().enumerate().map(|(index, name)| {
            let text = format!("{}\n{}\n", index + 1, index + 9);
            fs::write(folder.path().join(name), &text).unwrap();
            File { path: (*name).to_owned(), sha256: content_hash(text.as_bytes()) }
        });
        let files = files.collect();
        let [train, validation, test] = names.map(|name| vec![name.to_owned()]);
        let source = "https://example.org".to_owned();
        let manifest =
            Manifest { source, folder: String::new(), seed: 1, files, train, validation, test, walk_forward: vec![] };
        (folder, manifest)
    }

    #[test]
    fn missing_different_and_extra_files_are_found() {
        let (folder, manifest) = split();
        let compare = |part| differences(&manifest, part, folder.path()).unwrap();
        fs::write(folder.path().join(RECORD), "{}").unwrap();
        assert_eq!(compare(None), Differences::default());
        fs::write(folder.path().join("a.up"), "1\n10\n").unwrap();
        fs::remove_file(folder.path().join("sub/c.up")).unwrap();
        fs::write(folder.path().join("sub/note.txt"), "").unwrap();
        let names = |name: &str| vec![name.to_owned()];
        let expected =
            Differences { missing: names("sub/c.up"), different: names("a.up"), extra: names("sub/note.txt") };
        assert_eq!(compare(None), expected);
        let expected = Differences { extra: names("sub/note.txt"), ..Differences::default() };
        assert_eq!(compare(Some(Part::Validation)), expected);
    }

    #[test]
    fn split_of_a_sweep_names_verified_files_of_its_part() {
        let (folder, manifest) = split();
        let file = folder.path().join(".split.json");
        fs::write(&file, serde_json::to_string(&manifest).unwrap()).unwrap();
        let at = |part: &str| format!("split:{}{part}={}", file.display(), folder.path().display());
        let files = |word: String| with_splits(&[word]);
        assert_eq!(files(at("")).unwrap().len(), 3);
        let expected = folder.path().join("sub/c.up").display().to_string();
        assert_eq!(files(at(":test")).unwrap(), [expected]);
        fs::write(folder.path().join("a.up"), "1\n10\n").unwrap();
        fs::remove_file(folder.path().join("b.up")).unwrap();
        for (words, message) in [
            (at(":train"), "trace a.up differs from the split"),
            (at(":validation"), "trace b.up is missing"),
            (at(":judge"), "expected one of: train, validation, test"),
            ("split:norway-3g".to_owned(), "expected a folder, such as split:norway-3g:test=FOLDER"),
            ("split:nowhere=x".to_owned(), "neither a file nor a frozen split"),
        ] {
            let error = format!("{:#}", files(words.clone()).unwrap_err());
            assert!(error.contains(message), "{words}: {error}");
        }
    }
}
