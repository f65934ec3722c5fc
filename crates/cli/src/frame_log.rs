//! Per-frame log as a CSV or Parquet file: one row per captured frame, written during the call.
//!
//! Times are seconds since the first capture. Memory stays constant, except for Parquet's index of row groups.

use std::path::Path;

use anyhow::{Context, Result, bail};

use lockstep_measure::{FRAME_COLUMNS as COLUMNS, FrameColumn as Column, FrameObserver, LoggedFrame};
use lockstep_runner::output_file::{OutputFile, is_standard_output};
use lockstep_runner::parquet_table::{self, Kind, TableWriter, Values};
use lockstep_units::Timestamp;

/// Rows of a Parquet row group: nine minutes at 30 frames/s. A shorter call has one row group.
const ROW_GROUP: usize = 1 << 14;

// The process holds few values of this type.
#[allow(clippy::large_enum_variant)]
enum Format {
    Csv(csv::Writer<OutputFile>),
    Parquet { table: TableWriter, columns: Vec<Values>, rows: usize, written: bool },
}

/// Frame log that is being written. [`FrameWriter::finish`] reports errors, because an observer cannot fail.
pub struct FrameWriter {
    name: String,
    format: Format,
    /// Capture time of the first picture.
    start: Option<Timestamp>,
    failure: Option<anyhow::Error>,
}

impl FrameWriter {
    /// A log at `path`: Parquet if it ends in `.parquet`, CSV if in `.csv` and on standard output.
    pub fn create(path: &Path) -> Result<Self> {
        let parquet = check_name(path)?;
        let output = OutputFile::create(path)?;
        let format = if parquet { parquet_format(output) } else { csv_format(output) };
        let format = format.with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { name: path.display().to_string(), format, start: None, failure: None })
    }

    fn write(&mut self, frame: &LoggedFrame) -> Result<()> {
        let start = *self.start.get_or_insert(frame.record.captured_at);
        match &mut self.format {
            Format::Csv(writer) => writer.write_record(COLUMNS.iter().map(|(_, column)| text(column, frame, start)))?,
            Format::Parquet { table, columns, rows, written } => {
                for ((_, column), values) in COLUMNS.iter().zip(columns.iter_mut()) {
                    push(values, column, frame, start);
                }
                *rows += 1;
                if *rows == ROW_GROUP {
                    table.write_group(columns)?;
                    columns.iter_mut().for_each(Values::clear);
                    (*rows, *written) = (0, true);
                }
            }
        }
        Ok(())
    }

    /// Completes the file, which otherwise does not appear.
    pub fn finish(self) -> Result<()> {
        let Self { name, format, failure, .. } = self;
        let finish = || match (failure, format) {
            (Some(failure), _) => Err(failure),
            (None, Format::Csv(writer)) => Ok(writer.into_inner().map_err(csv::IntoInnerError::into_error)?),
            (None, Format::Parquet { mut table, columns, rows, written }) => {
                if rows > 0 || !written {
                    table.write_group(&columns)?;
                }
                table.finish()
            }
        };
        finish().with_context(|| format!("cannot write {name}"))?.finish()
    }
}

impl FrameObserver for FrameWriter {
    fn frame(&mut self, frame: &LoggedFrame) {
        if self.failure.is_none() {
            self.failure = self.write(frame).err();
        }
    }
}

/// Whether the name of a frame log ends in `.parquet`.
pub fn check_name(path: &Path) -> Result<bool> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("csv") => Ok(false),
        Some("parquet") => {
            parquet_table::check().map(|()| true).with_context(|| format!("frame log {}", path.display()))
        }
        _ if is_standard_output(path) => Ok(false),
        _ => bail!("frame log {}: the name must end in .csv or .parquet", path.display()),
    }
}

fn csv_format(output: OutputFile) -> Result<Format> {
    let mut writer = csv::Writer::from_writer(output);
    writer.write_record(COLUMNS.iter().map(|(name, _)| name))?;
    Ok(Format::Csv(writer))
}

fn parquet_format(output: OutputFile) -> Result<Format> {
    let kind = |column: &Column| match column {
        Column::Integer(_) => Kind::Integers,
        Column::Number(_) | Column::VideoDelay => Kind::Numbers,
        Column::Flag(_) => Kind::Flags,
        Column::Text(_) => Kind::Texts,
    };
    let kinds: Vec<(&str, Kind)> = COLUMNS.iter().map(|(name, column)| (*name, kind(column))).collect();
    let columns = kinds.iter().map(|(_, kind)| Values::of(*kind)).collect();
    Ok(Format::Parquet { table: TableWriter::new(output, "frame", &kinds)?, columns, rows: 0, written: false })
}

fn text(column: &Column, frame: &LoggedFrame, start: Timestamp) -> String {
    let LoggedFrame { record, video_delay, .. } = frame;
    match column {
        Column::Integer(value) => value(record).map_or_else(String::new, |value| value.to_string()),
        Column::Number(value) => value(record, start).map_or_else(String::new, |value| format!("{value:.6}")),
        Column::Flag(value) => value(record).to_string(),
        Column::Text(value) => value(record),
        Column::VideoDelay => format!("{:.6}", video_delay.as_secs_f64()),
    }
}

fn push(values: &mut Values, column: &Column, frame: &LoggedFrame, start: Timestamp) {
    let LoggedFrame { record, video_delay, .. } = frame;
    match (values, column) {
        (Values::Integers(values), Column::Integer(value)) => values.push(value(record)),
        (Values::Numbers(values), Column::Number(value)) => values.push(value(record, start)),
        (Values::Numbers(values), Column::VideoDelay) => values.push(Some(video_delay.as_secs_f64())),
        (Values::Flags(values), Column::Flag(value)) => values.push(value(record)),
        (Values::Texts(values), Column::Text(value)) => values.push(value(record)),
        // Unreachable: the values match the columns.
        _ => {}
    }
}

#[cfg(all(test, feature = "lab"))]
mod tests {
    use std::fs::File;

    use lockstep_call::FrameRecord;
    use parquet::file::reader::{FileReader, SerializedFileReader};

    use super::*;

    fn log(path: &Path, frames: usize) {
        let mut writer = FrameWriter::create(path).unwrap();
        for capture in 0..frames as u64 {
            let record = FrameRecord::captured(capture, Timestamp::from_millis(5_000 + 33 * capture));
            writer.frame(&LoggedFrame { record, video_delay: std::time::Duration::from_millis(50), followed: true });
        }
        writer.finish().unwrap();
    }

    #[test]
    fn long_log_has_several_row_groups_and_each_row_once() {
        let folder = tempfile::tempdir().unwrap();
        for frames in [0, 1, ROW_GROUP, 2 * ROW_GROUP + 7] {
            let path = folder.path().join("frames.parquet");
            log(&path, frames);
            let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
            let metadata = reader.metadata();
            assert_eq!(metadata.file_metadata().num_rows(), frames as i64);
            assert_eq!(metadata.num_row_groups(), frames.div_ceil(ROW_GROUP).max(1));
            let captures: Vec<i64> = reader
                .get_row_iter(None)
                .unwrap()
                .map(|row| parquet::record::RowAccessor::get_long(&row.unwrap(), 0).unwrap())
                .collect();
            assert_eq!(captures, (0..frames as i64).collect::<Vec<_>>());
        }
    }

    #[test]
    fn times_are_since_the_first_capture() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("frames.csv");
        log(&path, 2);
        let text = std::fs::read_to_string(&path).unwrap();
        let rows: Vec<&str> = text.lines().collect();
        assert_eq!(rows.len(), 3);
        assert!(rows[1].starts_with("0,0.000000,unfinished,") && rows[2].starts_with("1,0.033000,unfinished,"));
        assert!(rows[2].contains(",0.050000,"));
    }
}
