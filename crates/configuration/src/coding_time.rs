//! Coding times in virtual time.

#[cfg(feature = "simulation")]
use std::path::Path;
use std::path::PathBuf;

#[cfg(feature = "simulation")]
use anyhow::Context;
use anyhow::Result;

#[cfg(feature = "simulation")]
use lockstep_sim::EncodeTime;

use crate::options::Milliseconds;
#[cfg(feature = "simulation")]
use crate::regular_file::read_regular_text;

/// Coding times of a call in virtual time.
#[derive(Debug, Clone)]
pub struct EncodeTimeSettings {
    /// Measured times.
    #[cfg(feature = "simulation")]
    pub model: EncodeTime,
    /// File of the times; `None` for the built-in ones.
    pub file: Option<PathBuf>,
    /// Time for coding two candidates, one after the other, instead of the measured time.
    pub menu: Option<Milliseconds>,
}

impl EncodeTimeSettings {
    /// The times in `file`, or those that come with Lockstep.
    ///
    /// # Errors
    /// If the file cannot be read, or contains no times.
    pub fn open(file: Option<PathBuf>, menu: Option<Milliseconds>) -> Result<Self> {
        Ok(Self {
            #[cfg(feature = "simulation")]
            model: encode_time(file.as_deref())?,
            file,
            menu,
        })
    }
}

/// The times in `file`, or those that come with Lockstep.
#[cfg(feature = "simulation")]
fn encode_time(file: Option<&Path>) -> Result<EncodeTime> {
    let Some(path) = file else { return Ok(EncodeTime::built_in()?) };
    let name = || format!("encode times {}", path.display());
    let text = read_regular_text(path).with_context(name)?;
    EncodeTime::from_json(&text).with_context(name)
}
