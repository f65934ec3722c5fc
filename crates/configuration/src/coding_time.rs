//! How long coding takes in virtual time.

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

/// What a call in virtual time is told of the time that coding takes.
#[derive(Debug, Clone)]
pub struct EncodeTimeSettings {
    /// What was measured.
    #[cfg(feature = "simulation")]
    pub model: EncodeTime,
    /// The file that it is from; none for what comes with Lockstep.
    pub file: Option<PathBuf>,
    /// What a menu of two candidates takes, one after the other, in place of what was measured.
    pub menu: Option<Milliseconds>,
}

impl EncodeTimeSettings {
    /// The times in `file`, or those that come with Lockstep.
    ///
    /// # Errors
    /// If there is no such file, or it has no times.
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
