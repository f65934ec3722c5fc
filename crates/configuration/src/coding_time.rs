//! How long coding takes in virtual time.

use std::path::PathBuf;

use anyhow::Result;

#[cfg(feature = "simulation")]
use lockstep_sim::EncodeTime;

use crate::options::Milliseconds;

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
            model: crate::job_times::encode_time(file.as_deref())?,
            file,
            menu,
        })
    }
}
