//! The per-frame log as a CSV or Parquet file: one row a captured frame, times in seconds since the call's start.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use parquet::basic::{LogicalType, Repetition, Type as PhysicalType};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use lockstep_call::{FRAME_COLUMNS as COLUMNS, FrameColumn as Column, FrameRecord, video_delays};
use lockstep_units::Timestamp;

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

fn schema() -> Result<Type> {
    let fields = COLUMNS
        .iter()
        .map(|(name, column)| {
            let (physical, logical, repetition) = match column {
                Column::Integer(_) => (PhysicalType::INT64, None, Repetition::OPTIONAL),
                Column::Number(_) => (PhysicalType::DOUBLE, None, Repetition::OPTIONAL),
                Column::VideoDelay => (PhysicalType::DOUBLE, None, Repetition::REQUIRED),
                Column::Flag(_) => (PhysicalType::BOOLEAN, None, Repetition::REQUIRED),
                Column::Text(_) => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String), Repetition::REQUIRED),
            };
            Type::primitive_type_builder(name, physical)
                .with_logical_type(logical)
                .with_repetition(repetition)
                .build()
                .map(Arc::new)
        })
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Type::group_type_builder("frame").with_fields(fields).build()?)
}

/// The values that are there, and for each row whether one is (a Parquet definition level).
fn present<T>(values: impl Iterator<Item = Option<T>>) -> (Vec<T>, Vec<i16>) {
    let mut levels = Vec::new();
    let present = values.inspect(|value| levels.push(i16::from(value.is_some()))).flatten().collect();
    (present, levels)
}

fn write_parquet(file: File, records: &[FrameRecord], delays: &[f64], start: Timestamp) -> Result<()> {
    let properties = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(file, Arc::new(schema()?), properties)?;
    let mut group = writer.next_row_group()?;
    for (_, column) in COLUMNS {
        let mut out = group.next_column()?.context("the schema has fewer columns than the log")?;
        match column {
            Column::Integer(value) => {
                let (values, levels) = present(records.iter().map(value));
                out.typed::<Int64Type>().write_batch(&values, Some(&levels), None)?;
            }
            Column::Number(value) => {
                let (values, levels) = present(records.iter().map(|record| value(record, start)));
                out.typed::<DoubleType>().write_batch(&values, Some(&levels), None)?;
            }
            Column::VideoDelay => {
                out.typed::<DoubleType>().write_batch(delays, None, None)?;
            }
            Column::Flag(value) => {
                let values: Vec<bool> = records.iter().map(value).collect();
                out.typed::<BoolType>().write_batch(&values, None, None)?;
            }
            Column::Text(value) => {
                let values: Vec<ByteArray> =
                    records.iter().map(|record| ByteArray::from(value(record).into_bytes())).collect();
                out.typed::<ByteArrayType>().write_batch(&values, None, None)?;
            }
        }
        out.close()?;
    }
    group.close()?;
    writer.close()?;
    Ok(())
}
