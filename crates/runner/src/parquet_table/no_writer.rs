//! Replacement of the table writer in a build without Parquet.

use std::convert::Infallible;

use anyhow::Result;

use super::{Kind, Values, check};
use crate::output_file::OutputFile;

/// Table that this build cannot write, so it has no values.
pub struct TableWriter {
    none: Infallible,
}

impl TableWriter {
    /// Refuses the table.
    pub fn new(file: OutputFile, name: &str, columns: &[(&str, Kind)]) -> Result<Self> {
        Self::with_metadata(file, name, columns, &[])
    }

    /// Refuses the table.
    pub fn with_metadata(_: OutputFile, _: &str, _: &[(&str, Kind)], _: &[(&str, String)]) -> Result<Self> {
        match check() {
            Err(error) => Err(error),
            Ok(()) => anyhow::bail!("this build writes no Parquet"),
        }
    }

    /// Not called: there is no table.
    pub fn write_group(&mut self, _: &[Values]) -> Result<()> {
        match self.none {}
    }

    /// Not called: there is no table.
    pub fn finish(self) -> Result<OutputFile> {
        match self.none {}
    }
}
