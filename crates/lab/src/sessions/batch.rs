//! Batches of [`SIZE`] sessions in two files. Population, seed and position name them, so that whole batches are not
//! generated again.

use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::path::Path;

use anyhow::{Context, Result};
use data_encoding::BASE64;
use parquet::file::reader::{FileReader, SerializedFileReader};
use serde::{Deserialize, Serialize};

use lockstep_runner::output_file;
use lockstep_runner::session_log::Files;
use lockstep_runner::session_log::rows::{SessionRow, write_seconds, write_sessions};

use super::draw::Session;

/// Sessions per batch.
pub const SIZE: u64 = 128;

/// A pair of files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// Number of the population.
    pub population: i64,
    /// Seed of the sessions.
    pub seed: u64,
    /// First session of the batch.
    pub first: u64,
    /// Session after the last of the batch.
    pub end: u64,
}

impl Batch {
    /// All batches of `count` sessions.
    pub fn all(population: i64, seed: u64, count: u64) -> Vec<Self> {
        let starts = (0..count.div_ceil(SIZE)).map(|index| index * SIZE);
        starts.map(|first| Self { population, seed, first, end: count.min(first + SIZE) }).collect()
    }

    /// The numbers of its sessions.
    pub fn sessions(&self) -> Range<u64> {
        self.first..self.end
    }

    /// Its files in `folder`.
    pub fn files(&self, folder: &Path) -> Result<Files> {
        // The upper half of the number identifies a population.
        let name = format!("generate-{:08x}-{}-{:06}", self.population >> 31, self.seed, self.first / SIZE);
        Files::new(folder, name)
    }

    /// Whether both files are in `folder` with the right number of sessions. A last batch of a smaller count is not.
    pub fn exists(&self, folder: &Path) -> Result<bool> {
        let files = self.files(folder)?;
        let rows = |path: &Path| -> Option<i64> {
            let reader = SerializedFileReader::new(File::open(path).ok()?).ok()?;
            Some(reader.metadata().file_metadata().num_rows())
        };
        let sessions = rows(&files.sessions()).and_then(|rows| u64::try_from(rows).ok());
        Ok(sessions == Some(self.end - self.first) && rows(&files.seconds(0)).is_some())
    }

    /// Writes all `sessions` of the batch into `folder`. The seconds come first, so that every listed session has its
    /// seconds.
    pub fn write(&self, folder: &Path, sessions: &[Session]) -> Result<()> {
        let files = self.files(folder)?;
        let seconds: Vec<_> = sessions.iter().map(|one| (one.description.session, 0, &one.rows[..])).collect();
        write_seconds(&files.seconds(0), &seconds)?;
        let rows: Vec<_> = sessions
            .iter()
            .map(|one| SessionRow { description: &one.description, totals: &one.totals, complete: true })
            .collect();
        write_sessions(&files.sessions(), &rows)
    }
}

/// Result of a batch on a cluster machine, as one line of JSON: its files, or the failure.
#[derive(Debug, Serialize, Deserialize)]
pub struct Made {
    pub batch: Batch,
    #[serde(default)]
    sessions: String,
    #[serde(default)]
    seconds: String,
    #[serde(default)]
    pub failure: Option<String>,
}

impl Made {
    /// A failed batch.
    pub fn failed(batch: Batch, failure: String) -> Self {
        Self { batch, sessions: String::new(), seconds: String::new(), failure: Some(failure) }
    }

    /// Reads the files of `batch` in `folder`.
    pub fn read(batch: Batch, folder: &Path) -> Result<Self> {
        let files = batch.files(folder)?;
        let text = |path: &Path| -> Result<String> {
            Ok(BASE64.encode(&std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?))
        };
        let (sessions, seconds) = (text(&files.sessions())?, text(&files.seconds(0))?);
        Ok(Self { batch, sessions, seconds, failure: None })
    }

    /// Writes the files into `folder`.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let files = self.batch.files(folder)?;
        for (path, text) in [(files.seconds(0), &self.seconds), (files.sessions(), &self.sessions)] {
            let bytes = BASE64.decode(text.as_bytes()).context("invalid base64 from the cluster")?;
            output_file::write(&path, |output| Ok(output.write_all(&bytes)?))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use lockstep_runner::session_log::rows::Description;

    fn session(number: i64) -> Session {
        let description = Description { session: number, seen_from: "both", ..Description::default() };
        Session { description, rows: vec![lockstep_measure::SessionSecond::default(); 3], totals: Default::default() }
    }

    #[test]
    fn batches_partition_the_sessions() {
        for count in [1, SIZE - 1, SIZE, SIZE + 1, 5 * SIZE + 3] {
            let sessions: Vec<u64> = Batch::all(1, 2, count).iter().flat_map(Batch::sessions).collect();
            assert_eq!(sessions, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn batch_requires_both_files_with_all_sessions() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let batch = &Batch::all(1, 2, 2)[0];
        assert!(!batch.exists(folder).unwrap());
        batch.write(folder, &[session(1), session(2)]).unwrap();
        assert!(batch.exists(folder).unwrap());
        // The batch is incomplete for a larger count.
        assert!(!Batch::all(1, 2, 9)[0].exists(folder).unwrap());
        let elsewhere = tempfile::tempdir().unwrap();
        Made::read(batch.clone(), folder).unwrap().write(elsewhere.path()).unwrap();
        let bytes = |folder: &Path| fs::read(batch.files(folder).unwrap().seconds(0)).unwrap();
        assert_eq!(bytes(folder), bytes(elsewhere.path()));
        let path = batch.files(folder).unwrap().seconds(0);
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        assert!(!batch.exists(folder).unwrap(), "a truncated file is none");
    }
}
