//! Rows of sweeps, read back from Parquet: the settings and the scores of each call. The inverse of [`super::rows`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::{panic, thread};

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::ValueEnum;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use serde_json::Value;

use lockstep_configuration::{CallArguments, open_regular_file};

use super::jobs::SweepCodec;
use super::rows::{NAME, SCORES, VERSION, column_name};

/// Maximum number of rows of a file.
const MAX_ROWS: i64 = 1_000_000;

/// Hashes of the files of a call; `None` for a file that the call does not read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hashes {
    /// Of the trace.
    pub trace: Option<String>,
    /// Of the reverse trace.
    pub reverse: Option<String>,
    /// Of the clip.
    pub clip: Option<String>,
    /// Of the controller's model.
    pub model: Option<String>,
    /// Of the codec model.
    pub codec_model: Option<String>,
    /// Of a foreign estimator or a controller's program.
    pub estimator: Option<String>,
}

/// A submitted row.
#[derive(Debug, Clone)]
pub struct Submitted {
    /// Number of the row in its file, from 1.
    pub number: usize,
    /// Name of the controller.
    pub name: String,
    /// Codec of the call.
    pub codec: SweepCodec,
    /// File of the codec model, if it is not the built-in one.
    pub codec_model: Option<PathBuf>,
    /// All other settings.
    pub arguments: CallArguments,
    /// Hashes of its files.
    pub hashes: Hashes,
    /// Scores in the order of [`SCORES`].
    pub scores: Vec<Option<f64>>,
}

impl Submitted {
    /// The score `name`.
    pub fn score(&self, name: &str) -> Option<f64> {
        SCORES.iter().zip(&self.scores).find_map(|((score, _), value)| value.filter(|_| *score == name))
    }
}

/// Remedy for files with other columns.
const REMEDY: &str = concat!("run the sweep again with this version, `lockstep sweep` ", env!("CARGO_PKG_VERSION"));

/// Cells of a row by the name of their column.
struct Cells<'a>(BTreeMap<&'a str, &'a Field>);

impl<'a> Cells<'a> {
    fn new(row: &'a Row) -> Self {
        Self(row.get_column_iter().map(|(name, cell)| (name.as_str(), cell)).collect())
    }

    fn cell(&self, column: &str) -> Result<&'a Field> {
        self.0.get(column).copied().with_context(|| format!("column `{column}` is missing; {REMEDY}"))
    }

    /// The cell as JSON; empty text and missing values are null.
    fn value(&self, column: &str) -> Result<Value> {
        Ok(match self.cell(column)? {
            Field::Null => Value::Null,
            Field::Bool(flag) => Value::from(*flag),
            Field::Int(number) => Value::from(*number),
            Field::Long(number) => Value::from(*number),
            Field::Double(number) => Value::from(*number),
            Field::Str(text) if text.is_empty() => Value::Null,
            Field::Str(text) => Value::from(text.as_str()),
            _ => bail!("column `{column}`: expected text, a number or a flag; {REMEDY}"),
        })
    }

    fn text(&self, column: &str) -> Result<Option<String>> {
        match self.value(column)? {
            Value::Null => Ok(None),
            Value::String(text) => Ok(Some(text)),
            value => bail!("column `{column}`: expected text, found {value}; {REMEDY}"),
        }
    }

    fn required(&self, column: &str) -> Result<String> {
        self.text(column)?.with_context(|| format!("column `{column}`: expected text, found nothing; {REMEDY}"))
    }

    fn number(&self, column: &str) -> Result<Option<f64>> {
        match self.cell(column)? {
            Field::Null => Ok(None),
            Field::Double(number) if number.is_finite() => Ok(Some(*number)),
            _ => bail!("column `{column}`: expected a finite number; {REMEDY}"),
        }
    }
}

/// Sets the option `name` to `value`, whose lists and objects may be JSON in text.
fn set(arguments: &mut CallArguments, name: &str, value: &Value) -> Result<()> {
    let error = match arguments.set_value(name, value) {
        Ok(()) => return Ok(()),
        Err(error) => error,
    };
    let inner = value.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    if inner.is_some_and(|inner| arguments.set_value(name, &inner).is_ok()) {
        return Ok(());
    }
    Err(anyhow!("column `{}`: {error}; {REMEDY}", column_name(name)))
}

fn submitted(number: usize, row: &Row) -> Result<Submitted> {
    let cells = Cells::new(row);
    let version = cells.required(VERSION)?;
    ensure!(version == env!("CARGO_PKG_VERSION"), "column `{VERSION}`: the row is from version {version}; {REMEDY}");
    let codec = cells.required("codec")?;
    let codec = SweepCodec::from_str(&codec, false)
        .map_err(|_| anyhow!("column `codec`: unknown codec `{codec}`; {REMEDY}"))?;
    let mut arguments = CallArguments::default();
    for option in CallArguments::TABLE {
        // The row has the sweep's codec. The limit of an estimator is not a setting of a row.
        if !["codec", "modelled", "estimator_limit"].contains(&option.name) {
            set(&mut arguments, option.name, &cells.value(&column_name(option.name))?)?;
        }
    }
    for (column, is_there) in [
        ("trace", arguments.trace.is_some()),
        ("seed", arguments.seed.is_some()),
        ("clip", arguments.clip.is_some()),
        ("seconds", arguments.seconds.is_some()),
        ("controller", arguments.controller.is_some()),
    ] {
        ensure!(is_there, "column `{column}`: expected a value, found nothing; {REMEDY}");
    }
    if arguments.estimator.is_some() {
        // The estimator decides.
        arguments.controller = None;
    }
    let hashes = Hashes {
        trace: cells.text("trace_hash")?,
        reverse: cells.text("reverse_hash")?,
        clip: cells.text("clip_hash")?,
        model: cells.text("model_hash")?,
        codec_model: cells.text("codec_model_hash")?,
        estimator: cells.text("estimator_hash")?,
    };
    let scores = SCORES.iter().map(|(score, _)| cells.number(score)).collect::<Result<_>>()?;
    let codec_model = cells.text("codec_model")?.map(PathBuf::from);
    Ok(Submitted { number, name: cells.required(NAME)?, codec, codec_model, arguments, hashes, scores })
}

/// Problem of a file that cannot be read to its end.
const DAMAGED: &str = "it is damaged or not a Parquet file of `lockstep sweep`; copy it again";

/// Name of the thread that reads rows.
const READER: &str = "rows";

/// Runs `read` on a separate thread, because the crate `parquet` panics on some damaged files. Its panics print
/// nothing.
fn without_panic<T: Send>(read: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let hook = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if thread::current().name() != Some(READER) {
                hook(panic);
            }
        }));
    });
    thread::scope(|scope| {
        let reader = thread::Builder::new().name(READER.to_owned()).spawn_scoped(scope, read)?;
        reader.join().unwrap_or_else(|_| bail!(DAMAGED))
    })
}

/// Reads the rows of the sweep in `path`.
///
/// # Errors
/// If the file is damaged, from another version, or lacks a column. The error names the column and the remedy.
pub fn read(path: &Path) -> Result<Vec<Submitted>> {
    let read = || -> Result<Vec<Submitted>> {
        let reader = SerializedFileReader::new(open_regular_file(path)?).context(DAMAGED)?;
        let rows = reader.metadata().file_metadata().num_rows();
        ensure!((1..=MAX_ROWS).contains(&rows), "it has {rows} rows; expected 1 to {MAX_ROWS}");
        let mut read = Vec::new();
        for (index, row) in reader.get_row_iter(None).context(DAMAGED)?.enumerate() {
            let number = index + 1;
            let row = row.with_context(|| format!("row {number}: {DAMAGED}"))?;
            read.push(submitted(number, &row).with_context(|| format!("row {number}"))?);
        }
        Ok(read)
    };
    without_panic(read).with_context(|| format!("cannot read the rows {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use lockstep_configuration::CallSettings;
    use lockstep_measure::{CallLog, Scores, SeriesRecorder};
    use lockstep_runner::parquet_table::{self, Values};
    use lockstep_units::{ByteCount, Timestamp};

    use super::super::jobs::Job;
    use super::super::jobs::tests::examples;
    use super::super::rows;
    use super::*;

    fn scores() -> Scores {
        let length = Duration::from_secs(1);
        let log = CallLog::new(Timestamp::ZERO, length, Duration::from_millis(33));
        log.finish(SeriesRecorder::new(Timestamp::ZERO, length), |_, _| ByteCount::ZERO).scores
    }

    fn write(path: &Path, jobs: &[Job]) {
        let rows: Vec<(&Job, Scores)> = jobs.iter().map(|job| (job, scores())).collect();
        rows::write(path, &rows).unwrap();
    }

    #[test]
    fn every_setting_of_a_row_is_read_back() {
        let mut jobs = examples();
        jobs[1].trace_hash = Some("0".to_owned());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.parquet");
        // One file of all rows has columns of text where a file of one row has numbers.
        let together = [jobs.as_slice()].into_iter().chain(jobs.chunks(1));
        for jobs in together {
            write(&path, jobs);
            let read = read(&path).unwrap();
            assert_eq!(read.len(), jobs.len());
            for (read, job) in read.into_iter().zip(jobs) {
                let call: CallSettings = read.arguments.settings().unwrap();
                let again = Job::new(read.name, read.codec, call);
                let again = Job { trace_hash: read.hashes.trace, ..again };
                assert_eq!(again.settings(), job.settings());
                let expected: Vec<Option<f64>> = SCORES.iter().map(|(_, score)| score(&scores())).collect();
                assert_eq!(read.scores, expected);
            }
        }
    }

    #[test]
    fn damaged_files_are_refused_without_panic() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.parquet");
        write(&path, &examples()[..1]);
        let whole = fs::read(&path).unwrap();
        for (index, bit) in (0..whole.len()).step_by(61).zip((0..8).cycle()) {
            let mut damaged = whole.clone();
            damaged[index] ^= 1 << bit;
            fs::write(&path, damaged).unwrap();
            if let Err(error) = read(&path) {
                let line = lockstep_runner::output_file::in_one_line(&error);
                assert!(line.contains("rows.parquet") && !line.contains('\n'), "byte {index}: {line}");
            }
        }
        for length in (0..whole.len()).step_by(997) {
            fs::write(&path, &whole[..length]).unwrap();
            let error = format!("{:#}", read(&path).unwrap_err());
            assert!(error.contains("copy it again"), "{length} bytes: {error}");
        }
    }

    #[test]
    fn other_columns_and_versions_are_named_with_a_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.parquet");
        let texts = |text: &str| Values::Texts(vec![text.to_owned()]);
        for (columns, message) in [
            (vec![("name", texts("a"))], "row 1: column `lockstep` is missing; run the sweep again"),
            (vec![(VERSION, texts("0.1.0"))], "row 1: column `lockstep`: the row is from version 0.1.0; run the sweep"),
            (vec![(VERSION, Values::Flags(vec![true]))], "column `lockstep`: expected text, found true"),
            (vec![(VERSION, texts(env!("CARGO_PKG_VERSION"))), ("codec", texts("h265"))], "unknown codec `h265`"),
            (
                vec![
                    (VERSION, texts(env!("CARGO_PKG_VERSION"))),
                    ("codec", texts("modelled")),
                    ("clip", texts("generated")),
                    ("trace", Values::Numbers(vec![Some(1.0)])),
                ],
                "column `trace`: ",
            ),
        ] {
            parquet_table::write(&path, "call", columns, &[]).unwrap();
            let error = format!("{:#}", read(&path).unwrap_err());
            assert!(error.starts_with("cannot read the rows ") && error.contains(message), "{error}");
        }
    }
}
