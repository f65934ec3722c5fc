//! The per-frame log as a CSV or Parquet file: one row a captured frame, times in seconds since the call's start.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result, bail};

use lockstep_call::{FRAME_COLUMNS as COLUMNS, FrameColumn as Column, FrameRecord, video_delays};
use lockstep_units::Timestamp;

use crate::parquet_table::{self, Values};

/// Writes `records`, whose call began at `start`, to `path`: Parquet if it ends in `.parquet`, CSV if in `.csv`.
pub fn write(path: &Path, records: &[FrameRecord], start: Timestamp) -> Result<()> {
    let write = match path.extension().and_then(|extension| extension.to_str()) {
        Some("csv") => write_csv,
        Some("parquet") => write_parquet,
        _ => bail!("frame log {}: the name must end in .csv or .parquet", path.display()),
    };
    crate::progress::make_parent(path)?;
    let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    let end = records.iter().flat_map(|record| [Some(record.captured_at), record.displayed_at]).flatten().max();
    let delays = video_delays(records, end.unwrap_or(start));
    write(file, records, &delays, start).with_context(|| format!("cannot write {}", path.display()))
}

fn write_csv(file: File, records: &[FrameRecord], delays: &[f64], start: Timestamp) -> Result<()> {
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

fn write_parquet(file: File, records: &[FrameRecord], delays: &[f64], start: Timestamp) -> Result<()> {
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
