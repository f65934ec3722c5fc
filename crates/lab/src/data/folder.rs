//! A folder of traces in any format.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use walkdir::WalkDir;

use lockstep_link::Trace;

/// Maximum number of files.
pub const MAX_FILES: usize = 100_000;

/// A trace in the folder.
pub struct Found {
    /// Its path in the folder, with `/` as separator.
    pub name: String,
    /// Its full path.
    pub path: PathBuf,
    /// The trace.
    pub trace: Trace,
}

/// Content of a folder.
pub struct Contents {
    /// Its traces, sorted by name.
    pub traces: Vec<Found>,
    /// Files that are not traces, and why.
    pub unread: Vec<(String, String)>,
}

impl Contents {
    /// Prints the skipped files.
    pub fn print_skipped(&self) {
        for (name, why) in &self.unread {
            eprint_line!("skipped {name}: {why}");
        }
    }
}

/// Reads every trace of `folder` and its subfolders.
///
/// # Errors
/// If the folder cannot be listed, has too many files, or has no trace.
pub fn read(folder: &Path) -> Result<Contents> {
    let mut contents = Contents { traces: Vec::new(), unread: Vec::new() };
    for (count, entry) in WalkDir::new(folder).sort_by_file_name().into_iter().enumerate() {
        let entry = entry.with_context(|| format!("folder {}", folder.display()))?;
        if count > MAX_FILES {
            bail!("folder {} has more than {MAX_FILES} files", folder.display());
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
