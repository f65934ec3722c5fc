//! Table writer that uses the crate `parquet`.

use std::sync::Arc;

use anyhow::{Context, Result};
use parquet::basic::{Encoding, LogicalType, Repetition, Type as PhysicalType};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use super::{Kind, Values};
use crate::output_file::OutputFile;

impl Kind {
    fn column(self, name: &str) -> Result<Arc<Type>> {
        let (physical, logical, repetition) = match self {
            Self::Integers => (PhysicalType::INT64, None, Repetition::OPTIONAL),
            Self::Small => (PhysicalType::INT32, None, Repetition::OPTIONAL),
            Self::Names => (PhysicalType::INT64, None, Repetition::REQUIRED),
            Self::Numbers => (PhysicalType::DOUBLE, None, Repetition::OPTIONAL),
            Self::Flags => (PhysicalType::BOOLEAN, None, Repetition::REQUIRED),
            Self::Texts => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String), Repetition::REQUIRED),
        };
        let builder = Type::primitive_type_builder(name, physical);
        Ok(Arc::new(builder.with_logical_type(logical).with_repetition(repetition).build()?))
    }
}

/// Present values, and per row whether it has one (Parquet's definition level).
fn present<T: Copy>(values: &[Option<T>]) -> (Vec<T>, Vec<i16>) {
    (values.iter().flatten().copied().collect(), values.iter().map(|value| i16::from(value.is_some())).collect())
}

/// Table that is written by row groups.
pub struct TableWriter {
    writer: SerializedFileWriter<OutputFile>,
}

impl TableWriter {
    /// Starts the table `name` with these columns.
    pub fn new(file: OutputFile, name: &str, columns: &[(&str, Kind)]) -> Result<Self> {
        Self::with_metadata(file, name, columns, &[])
    }

    /// Starts the table with key-value metadata of the file.
    pub fn with_metadata(
        file: OutputFile,
        name: &str,
        columns: &[(&str, Kind)],
        metadata: &[(&str, String)],
    ) -> Result<Self> {
        let fields = columns.iter().map(|(name, kind)| kind.column(name)).collect::<Result<Vec<_>>>()?;
        let schema = Type::group_type_builder(name).with_fields(fields).build()?;
        let mut properties = WriterProperties::builder();
        for &(name, _) in columns.iter().filter(|(_, kind)| matches!(kind, Kind::Small | Kind::Names)) {
            properties = properties
                .set_column_dictionary_enabled(name.into(), false)
                .set_column_encoding(name.into(), Encoding::DELTA_BINARY_PACKED);
        }
        if !metadata.is_empty() {
            let words = metadata.iter().map(|(key, value)| KeyValue::new((*key).to_owned(), value.clone()));
            properties = properties.set_key_value_metadata(Some(words.collect()));
        }
        let properties = Arc::new(properties.build());
        Ok(Self { writer: SerializedFileWriter::new(file, Arc::new(schema), properties)? })
    }

    /// Writes a row group: the values of each column, in order.
    pub fn write_group(&mut self, columns: &[Values]) -> Result<()> {
        let mut group = self.writer.next_row_group()?;
        for values in columns {
            let mut out = group.next_column()?.context("the schema has fewer columns than the table")?;
            match values {
                Values::Integers(values) => {
                    let (values, levels) = present(values);
                    out.typed::<Int64Type>().write_batch(&values, Some(&levels), None)?;
                }
                Values::Small(values) => {
                    let (values, levels) = present(values);
                    out.typed::<Int32Type>().write_batch(&values, Some(&levels), None)?;
                }
                Values::Names(values) => {
                    out.typed::<Int64Type>().write_batch(values, None, None)?;
                }
                Values::Numbers(values) => {
                    let (values, levels) = present(values);
                    out.typed::<DoubleType>().write_batch(&values, Some(&levels), None)?;
                }
                Values::Flags(values) => {
                    out.typed::<BoolType>().write_batch(values, None, None)?;
                }
                Values::Texts(values) => {
                    let values: Vec<ByteArray> =
                        values.iter().map(|text| ByteArray::from(text.as_bytes().to_vec())).collect();
                    out.typed::<ByteArrayType>().write_batch(&values, None, None)?;
                }
            }
            out.close()?;
        }
        group.close()?;
        Ok(())
    }

    /// Writes the footer and returns the file.
    pub fn finish(self) -> Result<OutputFile> {
        Ok(self.writer.into_inner()?)
    }
}
