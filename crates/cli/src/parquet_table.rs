//! Parquet files of one row group, column by column.

use std::io::Write;
use std::sync::Arc;

use anyhow::{Context, Result};
use parquet::basic::{LogicalType, Repetition, Type as PhysicalType};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

/// The values of one column, one for each row.
pub enum Values {
    Integers(Vec<Option<i64>>),
    Numbers(Vec<Option<f64>>),
    Flags(Vec<bool>),
    Texts(Vec<String>),
}

impl Values {
    fn column(&self, name: &str) -> Result<Arc<Type>> {
        let (physical, logical, repetition) = match self {
            Self::Integers(_) => (PhysicalType::INT64, None, Repetition::OPTIONAL),
            Self::Numbers(_) => (PhysicalType::DOUBLE, None, Repetition::OPTIONAL),
            Self::Flags(_) => (PhysicalType::BOOLEAN, None, Repetition::REQUIRED),
            Self::Texts(_) => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String), Repetition::REQUIRED),
        };
        let builder = Type::primitive_type_builder(name, physical);
        Ok(Arc::new(builder.with_logical_type(logical).with_repetition(repetition).build()?))
    }
}

/// The values that are there, and for each row whether one is (a Parquet definition level).
fn present<T: Copy>(values: &[Option<T>]) -> (Vec<T>, Vec<i16>) {
    (values.iter().flatten().copied().collect(), values.iter().map(|value| i16::from(value.is_some())).collect())
}

/// Writes the table called `name`. Equal columns give equal bytes.
pub fn write(file: impl Write + Send, name: &str, columns: &[(&str, Values)]) -> Result<()> {
    let fields = columns.iter().map(|(name, values)| values.column(name)).collect::<Result<Vec<_>>>()?;
    let schema = Type::group_type_builder(name).with_fields(fields).build()?;
    let properties = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(file, Arc::new(schema), properties)?;
    let mut group = writer.next_row_group()?;
    for (_, values) in columns {
        let mut out = group.next_column()?.context("the schema has fewer columns than the table")?;
        match values {
            Values::Integers(values) => {
                let (values, levels) = present(values);
                out.typed::<Int64Type>().write_batch(&values, Some(&levels), None)?;
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
    writer.close()?;
    Ok(())
}
