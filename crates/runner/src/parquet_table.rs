//! Writes Parquet files, column by column, in one or several row groups.
//!
//! Without the feature `parquet` every table is refused; [`check`] reports this before a command runs.

#[cfg(not(feature = "parquet"))]
mod no_writer;
#[cfg(feature = "parquet")]
mod writer;

use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::output_file::OutputFile;

#[cfg(not(feature = "parquet"))]
pub use no_writer::TableWriter;
#[cfg(feature = "parquet")]
pub use writer::TableWriter;

/// Checks that this build writes Parquet.
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

/// Values of one column, one per row.
pub enum Values {
    /// Optional 64-bit integers.
    Integers(Vec<Option<i64>>),
    /// Optional 32-bit integers, delta-encoded: small if neighbours are similar.
    Small(Vec<Option<i32>>),
    /// 64-bit integers in every row, delta-encoded.
    Names(Vec<i64>),
    /// Optional floating-point numbers.
    Numbers(Vec<Option<f64>>),
    /// Booleans in every row.
    Flags(Vec<bool>),
    /// Text in every row.
    Texts(Vec<String>),
}

/// Type of a column.
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
    /// Empty values of `kind`.
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

    /// Kind of these values.
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

    /// Removes the values and keeps their memory.
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

/// Writes the table `name` to `path`, completely or not at all, as one row group with key-value `metadata`. Equal
/// columns give equal bytes.
///
/// # Errors
/// If the file cannot be written.
pub fn write(
    path: &Path,
    name: &str,
    columns: Vec<(impl AsRef<str>, Values)>,
    metadata: &[(&str, String)],
) -> Result<()> {
    let (names, values): (Vec<_>, Vec<Values>) = columns.into_iter().unzip();
    let kinds: Vec<(&str, Kind)> = names.iter().map(AsRef::as_ref).zip(values.iter().map(Values::kind)).collect();
    let output = OutputFile::create(path)?;
    let shown = output.name.clone();
    let write = || {
        let mut table = TableWriter::with_metadata(output, name, &kinds, metadata)?;
        table.write_group(&values)?;
        table.finish()
    };
    write().with_context(|| format!("cannot write {shown}"))?.finish()
}
