//! Journal of a benchmark or a sweep: one line of JSON per result, written at once. An interrupted run resumes from it.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use lockstep_configuration::read_regular_file_within;
use lockstep_runner::output_file::{is_special, is_standard_output};

use crate::every_core::on_every_core;

/// Longest journal that is read, bytes: ten thousands of results.
const MAX_BYTES: usize = 256 << 20;

#[derive(Serialize, Deserialize)]
struct Line {
    key: String,
    value: Box<RawValue>,
}

/// Journal of one benchmark or sweep. The default one has no file.
#[derive(Default)]
pub struct Journal {
    file: Option<(File, PathBuf)>,
    measured: HashMap<String, Box<RawValue>>,
}

impl Journal {
    /// The journal next to `output`, if `output` is a regular file. Standard output, devices and pipes have a journal
    /// without a file.
    pub fn of_output(output: Option<&Path>, fresh: bool) -> Result<Self> {
        match output {
            Some(output) if !is_standard_output(output) && !is_special(output) => Self::open(output, fresh),
            _ => Ok(Self::default()),
        }
    }

    /// Opens the journal next to `output`, or empties it if `fresh`.
    fn open(output: &Path, fresh: bool) -> Result<Self> {
        let path = PathBuf::from(format!("{}.journal", output.display()));
        let mut measured = HashMap::new();
        let mut torn = false;
        if path.exists() && !fresh {
            let text = read_regular_file_within(&path, MAX_BYTES)
                .with_context(|| format!("cannot read {}; --fresh begins a new one", path.display()))?;
            let text = String::from_utf8_lossy(&text);
            torn = !text.is_empty() && !text.ends_with('\n');
            // A killed writer may leave a truncated last line.
            let lines = text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
            measured = lines.map(|line| (line.key, line.value)).collect();
        }
        // Opening a FIFO would wait for a reader.
        if is_special(&path) {
            bail!("cannot write {}: it is not a regular file", path.display());
        }
        let mut options = OpenOptions::new();
        let options = if fresh { options.write(true).truncate(true) } else { options.append(true) };
        let mut file = options.create(true).open(&path).with_context(|| format!("cannot write {}", path.display()))?;
        if torn {
            writeln!(file)?;
        }
        Ok(Self { file: Some((file, path)), measured })
    }

    /// The result with key `key`, if the journal has one.
    pub fn known<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        self.measured.get(key).and_then(|value| serde_json::from_str(value.get()).ok())
    }

    /// Keeps the result with key `key`. The returned value is read back from JSON, so that a resumed run has exactly
    /// the same numbers.
    pub fn keep<T: Serialize + DeserializeOwned>(&mut self, key: &str, measured: &T) -> Result<T> {
        let value = serde_json::value::to_raw_value(measured)?;
        let line = Line { key: key.to_owned(), value };
        if let Some((file, path)) = &mut self.file {
            let text = serde_json::to_string(&line)?;
            writeln!(file, "{text}").with_context(|| format!("cannot write {}", path.display()))?;
        }
        let read = serde_json::from_str(line.value.get())
            .with_context(|| format!("`{key}` of the journal cannot be read back"))?;
        self.measured.insert(line.key, line.value);
        Ok(read)
    }

    /// The result with key `key`: from the journal, else from `measure`.
    pub fn measured<T: Serialize + DeserializeOwned>(
        &mut self,
        key: &str,
        measure: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        match self.known(key) {
            Some(known) => Ok(known),
            None => self.keep(key, &measure()?),
        }
    }

    /// Results of `run` for each of `calls`, in order, on every core. Calls with a key in the journal do not run again.
    /// `what` labels the progress.
    ///
    /// # Errors
    /// The first failure, which ends the other calls.
    pub fn each<Call: Sync, Outcome: Serialize + DeserializeOwned + Send>(
        &mut self,
        what: &str,
        calls: &[(String, Call)],
        run: impl Fn(&Call) -> Result<Outcome> + Sync,
    ) -> Result<Vec<Outcome>> {
        let open: Vec<&(String, Call)> = calls.iter().filter(|(key, _)| self.known::<Outcome>(key).is_none()).collect();
        let kept = calls.len() - open.len();
        on_every_core(
            what,
            kept,
            &open,
            |(_, call)| run(call),
            |index, outcome| self.keep(&open[index].0, &outcome).map(drop),
        )?;
        calls.iter().map(|(key, _)| self.known(key).with_context(|| format!("a call was not run: {key}"))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_results_are_reused_and_truncated_lines_measured() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("bench.json");
        let mut journal = Journal::open(&output, false).unwrap();
        assert_eq!(journal.measured("a", || Ok(vec![0.1 + 0.2, 1e-9])).unwrap(), [0.1 + 0.2, 1e-9]);
        write!(journal.file.as_mut().unwrap().0, "{{\"key\": \"b").unwrap();
        let mut journal = Journal::open(&output, false).unwrap();
        let known: Vec<f64> = journal.measured("a", || panic!("measured twice")).unwrap();
        assert_eq!(known, [0.1 + 0.2, 1e-9]);
        assert_eq!(journal.measured("b", || Ok(5)).unwrap(), 5);
        let mut journal = Journal::open(&output, false).unwrap();
        assert_eq!(journal.measured("b", || Ok(6)).unwrap(), 5);
        assert_eq!(journal.measured::<String>("b", || Ok("of another kind".to_owned())).unwrap(), "of another kind");
        assert_eq!(Journal::open(&output, true).unwrap().measured("a", || Ok(vec![7.0])).unwrap(), [7.0]);
    }

    #[test]
    fn endless_journal_is_refused_with_its_name_and_limit() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("bench.json");
        let path = folder.path().join("bench.json.journal");
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        let error = format!("{:#}", Journal::open(&output, false).err().unwrap());
        assert!(error.contains("bench.json.journal") && error.contains("more than 268435456 bytes"), "{error}");
        assert!(Journal::open(&output, true).is_ok());
    }

    #[test]
    fn output_to_a_device_has_no_journal() {
        for output in ["-", "/dev/stdout", "/dev/null"] {
            assert!(Journal::of_output(Some(Path::new(output)), false).unwrap().file.is_none(), "{output}");
        }
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("bench.json");
        assert!(Journal::of_output(Some(&output), false).unwrap().file.is_some());
    }
}
