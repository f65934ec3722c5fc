//! A folder of traces in whatever formats.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use walkdir::WalkDir;

use lockstep_link::Trace;

/// No more files are looked at.
const MOST_FILES: usize = 100_000;

/// A trace that was found.
pub struct Found {
    /// Its path in the folder, with `/` between.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// It.
    pub trace: Trace,
}

/// What a folder has.
pub struct Contents {
    /// Its traces, in the order of their names.
    pub traces: Vec<Found>,
    /// The files that are none, and why.
    pub unread: Vec<(String, String)>,
}

impl Contents {
    /// Says which files were left out.
    pub fn say_unread(&self) {
        for (name, why) in &self.unread {
            aside!("left out {name}: {why}");
        }
    }
}

/// Reads every trace of `folder` and of the folders inside it.
///
/// # Errors
/// If it cannot be listed, has too many files, or no trace.
pub fn read(folder: &Path) -> Result<Contents> {
    let mut contents = Contents { traces: Vec::new(), unread: Vec::new() };
    for (count, entry) in WalkDir::new(folder).sort_by_file_name().into_iter().enumerate() {
        let entry = entry.with_context(|| format!("folder {}", folder.display()))?;
        if count > MOST_FILES {
            bail!("folder {} has more than {MOST_FILES} files", folder.display());
        }
        let hidden = entry.file_name().to_string_lossy().starts_with('.');
        if !entry.file_type().is_file() || hidden {
            continue;
        }
        let relative = entry.path().strip_prefix(folder).unwrap_or(entry.path());
        let parts = relative.components().map(|part| part.as_os_str().to_string_lossy());
        let name = parts.collect::<Vec<_>>().join("/");
        let name = if name.is_empty() { entry.file_name().to_string_lossy().into_owned() } else { name };
        match Trace::open(entry.path()) {
            Ok(trace) => contents.traces.push(Found { name, path: entry.path().to_owned(), trace }),
            Err(error) => contents.unread.push((name, error.to_string())),
        }
    }
    if contents.traces.is_empty() {
        let first = contents.unread.first().map_or(String::new(), |(name, why)| format!("; {name}: {why}"));
        bail!("no trace in {}{first}", folder.display());
    }
    Ok(contents)
}
