//! Replacement of the table writer in a build without Parquet.

use std::convert::Infallible;
use std::io::Write;
use std::marker::PhantomData;

use anyhow::Result;

use super::{Kind, Values, check};

/// Table that this build cannot write, so it has no values.
pub struct TableWriter<W: Write + Send> {
    none: Infallible,
    file: PhantomData<W>,
}

impl<W: Write + Send> TableWriter<W> {
    /// Refuses the table.
    pub fn new(file: W, name: &str, columns: &[(&str, Kind)]) -> Result<Self> {
        Self::with_metadata(file, name, columns, &[])
    }

    /// Refuses the table.
    pub fn with_metadata(_: W, _: &str, _: &[(&str, Kind)], _: &[(&str, String)]) -> Result<Self> {
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
    pub fn finish(self) -> Result<W> {
        let _ = self.file;
        match self.none {}
    }
}
