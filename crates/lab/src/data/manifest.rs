//! Manifests of splits: the files of a set of traces with their hashes, and the parts that they belong to.
//!
//! Three frozen ones name files of public sets. They hold no recordings.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use lockstep_configuration::{content_hash, open_regular_file, read_regular_text};

/// Frozen manifests by name.
pub const FROZEN: [(&str, &str); 3] = [
    ("fcc", include_str!("splits/fcc.json")),
    ("mahimahi", include_str!("splits/mahimahi.json")),
    ("norway-3g", include_str!("splits/norway-3g.json")),
];

/// Part of a split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// For training.
    Train,
    /// For choices during training.
    Validation,
    /// For the evaluation.
    Test,
}

/// A file of a split.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    /// Path in the folder, with `/` as separator.
    pub path: String,
    /// SHA-256 of its content.
    pub sha256: String,
}

/// A walk-forward fold: its training set is all parts before the evaluation part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fold {
    /// Traces for training.
    pub train: Vec<String>,
    /// Traces for the evaluation.
    pub test: Vec<String>,
}

/// Manifest of a split.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Source of the files, if they are public.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// Folder of the files.
    #[serde(default)]
    pub folder: String,
    /// Seed that selected the part of each trace.
    pub seed: u64,
    /// Every file.
    pub files: Vec<File>,
    /// Traces for training.
    pub train: Vec<String>,
    /// Traces for choices during training.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub validation: Vec<String>,
    /// Traces for the evaluation.
    pub test: Vec<String>,
    /// Walk-forward folds.
    #[serde(default)]
    pub walk_forward: Vec<Fold>,
}

/// SHA-256 of the regular file `path`.
pub fn hash_of(path: &Path) -> Result<String> {
    let mut bytes = Vec::new();
    let read = open_regular_file(path).and_then(|mut file| file.read_to_end(&mut bytes));
    read.with_context(|| path.display().to_string())?;
    Ok(content_hash(&bytes))
}

/// Whether `path` stays below its folder.
fn is_below(path: &str) -> bool {
    !path.is_empty() && Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
}

impl Manifest {
    /// The frozen split `name`, or the manifest in the file `name`.
    ///
    /// # Errors
    /// If there is neither, or the file is not a manifest.
    pub fn open(name: &str) -> Result<Self> {
        if let Some((_, text)) = FROZEN.iter().find(|(frozen, _)| *frozen == name) {
            return Self::parse(text).with_context(|| format!("split {name}"));
        }
        let path = Path::new(name);
        if !path.exists() {
            bail!("split {name}: neither a file nor a frozen split; `lockstep data list` lists the frozen ones");
        }
        let text = read_regular_text(path).with_context(|| format!("split {name}"))?;
        Self::parse(&text).with_context(|| format!("split {name}"))
    }

    fn parse(text: &str) -> Result<Self> {
        let manifest: Self = serde_json::from_str(text).context("not a manifest of `lockstep data split`")?;
        let mut known = BTreeSet::new();
        for File { path, .. } in &manifest.files {
            if !is_below(path) {
                bail!("`files`: `{path}` is not below the folder");
            }
            if !known.insert(path.as_str()) {
                bail!("`files`: `{path}` is listed twice");
            }
        }
        let parts = [&manifest.train, &manifest.validation, &manifest.test];
        if let Some(unknown) = parts.into_iter().flatten().find(|name| !known.contains(name.as_str())) {
            bail!("`files` lacks {unknown}");
        }
        Ok(manifest)
    }

    /// Names of the files of `part`; all without one.
    fn names(&self, part: Option<Part>) -> BTreeSet<&str> {
        let names = match part {
            None => return self.files.iter().map(|file| file.path.as_str()).collect(),
            Some(Part::Train) => &self.train,
            Some(Part::Validation) => &self.validation,
            Some(Part::Test) => &self.test,
        };
        names.iter().map(String::as_str).collect()
    }

    /// Files of `part`, sorted by name; all without one.
    pub fn files_of(&self, part: Option<Part>) -> Vec<&File> {
        let names = self.names(part);
        let by_name: BTreeMap<&str, &File> = self.files.iter().map(|file| (file.path.as_str(), file)).collect();
        by_name.into_iter().filter(|(name, _)| names.contains(name)).map(|(_, file)| file).collect()
    }
}

/// Prefix of a split among traces.
const SPLIT: &str = "split:";

/// Files of `words`, the text after [`SPLIT`]: `NAME=FOLDER`, or `NAME:PART=FOLDER` for one part. Verifies each hash.
///
/// # Errors
/// If the split does not exist, or a file is missing or different.
fn split_files(words: &str) -> Result<Vec<PathBuf>> {
    let Some((name, folder)) = words.split_once('=') else {
        bail!("{SPLIT}{words}: expected a folder, such as {SPLIT}norway-3g:test=FOLDER");
    };
    let (name, part) = match name.rsplit_once(':') {
        Some((name, part)) => {
            let part = Part::from_str(part, false);
            let part = part
                .ok()
                .with_context(|| format!("{SPLIT}{words}: unknown part; expected one of: train, validation, test"))?;
            (name, Some(part))
        }
        None => (name, None),
    };
    let manifest = Manifest::open(name)?;
    let files = manifest.files_of(part);
    if files.is_empty() {
        bail!("{SPLIT}{words}: this part of the split has no traces");
    }
    let found = |file: &File| {
        let path = Path::new(folder).join(&file.path);
        if !path.exists() {
            bail!("{SPLIT}{words}: trace {} is missing; `lockstep data verify {name} {folder}` lists all", file.path);
        }
        if hash_of(&path)? != file.sha256 {
            bail!(
                "{SPLIT}{words}: trace {} differs from the split; `lockstep data verify {name} {folder}` lists all",
                file.path
            );
        }
        Ok(path)
    };
    files.into_iter().map(found).collect()
}

/// `words` with the files of each split instead of its word, such as `split:norway-3g:test=FOLDER`.
///
/// # Errors
/// If a split does not exist, or one of its files is missing or different.
pub fn with_splits(words: &[String]) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for word in words {
        match word.strip_prefix(SPLIT) {
            Some(split) => names.extend(split_files(split)?.iter().map(|path| path.to_string_lossy().into_owned())),
            None => names.push(word.clone()),
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frozen_splits_are_complete_and_disjoint() {
        for (name, _) in FROZEN {
            let manifest = Manifest::open(name).unwrap();
            let parts = [Part::Train, Part::Validation, Part::Test].map(|part| manifest.files_of(Some(part)));
            assert!(parts.iter().all(|part| !part.is_empty()), "{name}");
            assert_eq!(parts.iter().map(Vec::len).sum::<usize>(), manifest.files.len(), "{name}");
            assert_eq!(manifest.names(None).len(), manifest.files.len(), "{name}");
            let hashes: BTreeSet<&str> = manifest.files.iter().map(|file| file.sha256.as_str()).collect();
            assert!(hashes.len() == manifest.files.len() && hashes.iter().all(|hash| hash.len() == 64), "{name}");
            assert!(manifest.source.starts_with("https://"), "{name}");
        }
    }

    #[test]
    fn both_directions_of_a_drive_are_in_one_part() {
        let manifest = Manifest::open("mahimahi").unwrap();
        for part in [&manifest.train, &manifest.validation, &manifest.test] {
            let drives = |end| part.iter().filter_map(move |name| name.strip_suffix(end)).collect::<BTreeSet<_>>();
            assert_eq!(drives(".up"), drives(".down"));
        }
    }

    #[test]
    fn invalid_manifests_are_refused() {
        let file = |path: &str| format!("{{\"path\": {path:?}, \"sha256\": \"\"}}");
        let manifest = |files: &str, train: &str| {
            format!("{{\"seed\": 1, \"files\": [{files}], \"train\": [{train}], \"test\": []}}")
        };
        for (text, message) in [
            ("{}".to_owned(), "not a manifest of `lockstep data split`: missing field"),
            (manifest(&file("../a"), ""), "`../a` is not below the folder"),
            (manifest(&file("/a"), ""), "is not below the folder"),
            (manifest(&[file("a"), file("a")].join(","), ""), "`a` is listed twice"),
            (manifest(&file("a"), "\"b\""), "`files` lacks b"),
        ] {
            let error = format!("{:#}", Manifest::parse(&text).unwrap_err());
            assert!(error.contains(message), "{text}: {error}");
        }
        assert!(Manifest::open("nowhere").unwrap_err().to_string().contains("neither a file nor a frozen split"));
    }
}
