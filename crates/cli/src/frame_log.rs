//! The per-frame log as a CSV or Parquet file: one row a captured frame, times in seconds since the call's start.

use std::path::Path;

use anyhow::{Result, bail};

use lockstep_call::{FRAME_COLUMNS as COLUMNS, FrameColumn as Column, FrameRecord, video_delays};
use lockstep_units::Timestamp;

use crate::output_file::{self, OutputFile, is_standard_output};
use crate::parquet_table::{self, Values};

/// Writes a log into a file.
type Writer = fn(&mut OutputFile, &[FrameRecord], &[f64], Timestamp) -> Result<()>;

/// How the log called `path` is written: as Parquet if it ends in `.parquet`, as CSV if in `.csv` or if it is standard
/// output.
///
/// # Errors
/// If it is named otherwise.
pub fn writer(path: &Path) -> Result<Writer> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("csv") => Ok(write_csv),
        Some("parquet") => Ok(write_parquet),
        _ if is_standard_output(path) => Ok(write_csv),
        _ => bail!("frame log {}: the name must end in .csv or .parquet", path.display()),
    }
}

/// Writes `records`, whose call began at `start`, to `path`, see [`writer`].
pub fn write(path: &Path, records: &[FrameRecord], start: Timestamp) -> Result<()> {
    let write = writer(path)?;
    let end = records.iter().flat_map(|record| [Some(record.captured_at), record.displayed_at]).flatten().max();
    let delays = video_delays(records, end.unwrap_or(start));
    output_file::write(path, |output| write(output, records, &delays, start))
}

fn write_csv(file: &mut OutputFile, records: &[FrameRecord], delays: &[f64], start: Timestamp) -> Result<()> {
    let mut writer = csv::Writer::from_writer(file);
    writer.write_record(COLUMNS.iter().map(|(name, _)| name))?;
    for (record, delay) in records.iter().zip(delays) {
        writer.write_record(COLUMNS.iter().map(|(_, column)| match column {
            Column::Integer(value) => value(record).map_or_else(String::new, |value| value.to_string()),
            Column::Number(value) => value(record, start).map_or_else(String::new, |value| format!("{value:.6}")),
            Column::Flag(value) => value(record).to_string(),
            Column::Text(value) => value(record),
            Column::VideoDelay => format!("{delay:.6}"),
        }))?;
    }
    writer.flush()?;
    Ok(())
}

fn write_parquet(file: &mut OutputFile, records: &[FrameRecord], delays: &[f64], start: Timestamp) -> Result<()> {
    let columns: Vec<(&str, Values)> = COLUMNS
        .iter()
        .map(|(name, column)| {
            let values = match column {
                Column::Integer(value) => Values::Integers(records.iter().map(value).collect()),
                Column::Number(value) => Values::Numbers(records.iter().map(|record| value(record, start)).collect()),
                Column::VideoDelay => Values::Numbers(delays.iter().copied().map(Some).collect()),
                Column::Flag(value) => Values::Flags(records.iter().map(value).collect()),
                Column::Text(value) => Values::Texts(records.iter().map(value).collect()),
            };
            (*name, values)
        })
        .collect();
    parquet_table::write(file, "frame", &columns)
}
