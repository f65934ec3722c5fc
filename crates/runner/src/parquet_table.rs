//! Parquet files, column by column, in one row group or in several.
//!
//! Without the feature `parquet` every table is refused; [`check`] says so before a command runs.

#[cfg(not(feature = "parquet"))]
mod no_writer;
#[cfg(feature = "parquet")]
mod writer;

use std::io::Write;

use anyhow::{Result, ensure};

#[cfg(not(feature = "parquet"))]
pub use no_writer::TableWriter;
#[cfg(feature = "parquet")]
pub use writer::TableWriter;

/// Finds out whether this build writes Parquet.
///
/// # Errors
/// If it does not, with the remedy.
pub fn check() -> Result<()> {
    ensure!(
        cfg!(feature = "parquet"),
        "this build writes no Parquet; build the whole command with: cargo build --release -p lockstep-cli"
    );
    Ok(())
}

/// The values of one column, one for each row.
pub enum Values {
    /// Whole numbers of 64 bits.
    Integers(Vec<Option<i64>>),
    /// Whole numbers of 32 bits, kept as differences: small where neighbours are alike.
    Small(Vec<Option<i32>>),
    /// Whole numbers that every row has, kept as differences.
    Names(Vec<i64>),
    /// Floating-point numbers.
    Numbers(Vec<Option<f64>>),
    /// True or false, in every row.
    Flags(Vec<bool>),
    /// Text, in every row.
    Texts(Vec<String>),
}

/// What the values of a column are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// [`Values::Integers`].
    Integers,
    /// [`Values::Small`].
    Small,
    /// [`Values::Names`].
    Names,
    /// [`Values::Numbers`].
    Numbers,
    /// [`Values::Flags`].
    Flags,
    /// [`Values::Texts`].
    Texts,
}

impl Values {
    /// No values, of `kind`.
    pub fn of(kind: Kind) -> Self {
        match kind {
            Kind::Integers => Self::Integers(Vec::new()),
            Kind::Small => Self::Small(Vec::new()),
            Kind::Names => Self::Names(Vec::new()),
            Kind::Numbers => Self::Numbers(Vec::new()),
            Kind::Flags => Self::Flags(Vec::new()),
            Kind::Texts => Self::Texts(Vec::new()),
        }
    }

    /// The kind of these values.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Integers(_) => Kind::Integers,
            Self::Small(_) => Kind::Small,
            Self::Names(_) => Kind::Names,
            Self::Numbers(_) => Kind::Numbers,
            Self::Flags(_) => Kind::Flags,
            Self::Texts(_) => Kind::Texts,
        }
    }

    /// Forgets the values; their memory is kept for others.
    pub fn clear(&mut self) {
        match self {
            Self::Integers(values) => values.clear(),
            Self::Small(values) => values.clear(),
            Self::Names(values) => values.clear(),
            Self::Numbers(values) => values.clear(),
            Self::Flags(values) => values.clear(),
            Self::Texts(values) => values.clear(),
        }
    }
}

/// Writes the table called `name` as one row group. Equal columns give equal bytes.
pub fn write(file: impl Write + Send, name: &str, columns: Vec<(impl AsRef<str>, Values)>) -> Result<()> {
    write_with_metadata(file, name, columns, &[])
}

/// The same with words of the whole file's, by key.
pub fn write_with_metadata(
    file: impl Write + Send,
    name: &str,
    columns: Vec<(impl AsRef<str>, Values)>,
    metadata: &[(&str, String)],
) -> Result<()> {
    let kinds: Vec<(&str, Kind)> = columns.iter().map(|(name, values)| (name.as_ref(), values.kind())).collect();
    let mut table = TableWriter::with_metadata(file, name, &kinds, metadata)?;
    table.write_group(&columns.into_iter().map(|(_, values)| values).collect::<Vec<_>>())?;
    table.finish()?;
    Ok(())
}
