//! The finished calls of a sweep, one line of JSON each, written as they finish: what a killed sweep goes on from.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use lockstep_call::Scores;

/// A call that is over, under the key of its job.
#[derive(Debug)]
pub struct Finished {
    pub key: String,
    /// Its scores, or why it failed.
    pub outcome: Result<Scores, String>,
}

/// A line of the journal. Exactly one of scores and failure is there.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    key: String,
    scores: Option<Scores>,
    failure: Option<String>,
}

impl Finished {
    /// As one line, without its end.
    pub fn to_line(&self) -> Result<String> {
        let line =
            Line { key: self.key.clone(), scores: self.outcome.clone().ok(), failure: self.outcome.clone().err() };
        Ok(serde_json::to_string(&line)?)
    }

    /// From such a line; none if it is none, as the last line of a journal is whose writer was killed.
    pub fn from_line(line: &str) -> Option<Self> {
        let Line { key, scores, failure } = serde_json::from_str(line).ok()?;
        let outcome = match (scores, failure) {
            (Some(scores), None) => Ok(scores),
            (None, Some(failure)) => Err(failure),
            _ => return None,
        };
        Some(Self { key, outcome })
    }
}

/// The journal of one sweep. The default one is kept in no file.
#[derive(Default)]
pub struct Journal {
    file: Option<(File, PathBuf)>,
    finished: HashMap<String, Result<Scores, String>>,
}

impl Journal {
    /// The journal beside `output`, with what it has, or empty if it shall be `fresh`.
    pub fn open(output: &Path, fresh: bool) -> Result<Self> {
        let path = PathBuf::from(format!("{}.journal", output.display()));
        let mut finished = HashMap::new();
        let mut torn = false;
        if path.exists() && !fresh {
            let text = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let text = String::from_utf8_lossy(&text);
            torn = !text.is_empty() && !text.ends_with('\n');
            // A call that failed is tried again.
            let lines = text.lines().filter_map(Finished::from_line).filter(|finished| finished.outcome.is_ok());
            finished = lines.map(|line| (line.key, line.outcome)).collect();
        }
        let mut options = OpenOptions::new();
        let options = if fresh { options.write(true).truncate(true) } else { options.append(true) };
        let mut file = options.create(true).open(&path).with_context(|| format!("cannot write {}", path.display()))?;
        if torn {
            writeln!(file)?;
        }
        Ok(Self { file: Some((file, path)), finished })
    }

    /// Whether the call under `key` is over.
    pub fn has(&self, key: &str) -> bool {
        self.finished.contains_key(key)
    }

    /// The scores of the call under `key`.
    pub fn scores(&self, key: &str) -> Option<&Scores> {
        self.finished.get(key)?.as_ref().ok()
    }

    /// Why the call under `key` failed.
    pub fn failure(&self, key: &str) -> Option<&str> {
        self.finished.get(key)?.as_ref().err().map(String::as_str)
    }

    /// Keeps a call that is over.
    pub fn append(&mut self, finished: Finished) -> Result<()> {
        let line = finished.to_line()?;
        if let Some((file, path)) = &mut self.file {
            writeln!(file, "{line}").with_context(|| format!("cannot write {}", path.display()))?;
        }
        // What a sweep has just computed and what a later one reads back shall be the same numbers to the last digit.
        let read = Finished::from_line(&line).context("a line of the journal cannot be read back")?;
        self.finished.insert(read.key, read.outcome);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_whose_writer_was_killed_keeps_all_whole_lines_and_takes_new_ones() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("sweep.parquet");
        let failed = |key: &str| Finished { key: key.to_owned(), outcome: Err("why".to_owned()) };
        let mut journal = Journal::open(&output, false).unwrap();
        journal.append(failed("a")).unwrap();
        assert_eq!(journal.failure("a"), Some("why"));
        write!(journal.file.as_mut().unwrap().0, "{{\"key\": \"b").unwrap();
        let mut journal = Journal::open(&output, false).unwrap();
        assert!(!journal.has("a"), "a failed call is tried again");
        journal.append(failed("c")).unwrap();
        let text = fs::read_to_string(format!("{}.journal", output.display())).unwrap();
        let lines: Vec<_> = text.lines().filter_map(Finished::from_line).map(|line| line.key).collect();
        assert_eq!(lines, ["a", "c"]);
    }
}
