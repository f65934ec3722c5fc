//! How long coding takes in virtual time.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use lockstep_call::{EncodeTime, EncodeWork, JobTimes};
use lockstep_vp8::Preset;

use crate::{CodecArgument, ControlArguments, SimulateArguments};

/// What coding took in a call in virtual time, and where that was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CodingTimes {
    /// The processor of the machine that was measured.
    pub processor: String,
    /// Its cores.
    pub cores: u32,
    /// Time until there was something of a picture to send, milliseconds.
    pub first_job_ms: f64,
    /// Time of each pass more, where frames are made to fit, milliseconds.
    pub later_pass_ms: f64,
}

/// The times in `path`, or those that come with Lockstep.
///
/// # Errors
/// If there is no such file, or it has no times.
pub fn open_encode_time(path: Option<&Path>) -> Result<EncodeTime> {
    let Some(path) = path else { return Ok(EncodeTime::built_in()?) };
    let name = || format!("encode times {}", path.display());
    let text = fs::read_to_string(path).with_context(name)?;
    EncodeTime::from_json(&text).with_context(name)
}

impl ControlArguments {
    /// What the encoder does until there is something to send.
    #[must_use]
    pub fn first_work(&self) -> EncodeWork {
        match self.codec {
            CodecArgument::Functional => self.menu_mode().first_work(),
            CodecArgument::Conventional => EncodeWork::OneFrame,
        }
    }
}

impl SimulateArguments {
    /// How long jobs take on pictures of `pixels` luma samples, and the same as it is reported.
    ///
    /// # Errors
    /// If the times cannot be read.
    pub fn job_times(&self, pixels: usize) -> Result<(JobTimes, CodingTimes)> {
        let model = open_encode_time(self.encode_time.as_deref())?;
        let measured = model.job_times(Preset::from(self.control.preset), pixels);
        let times = self
            .encode_ms
            .map_or(measured, |menu| measured.where_takes(EncodeWork::SerialMenu, Duration::from_secs_f64(menu / 1e3)));
        let milliseconds = |work| times.of(work).as_secs_f64() * 1e3;
        let told = CodingTimes {
            processor: model.machine.processor,
            cores: model.machine.cores,
            first_job_ms: milliseconds(self.control.first_work()),
            later_pass_ms: milliseconds(EncodeWork::LaterPass),
        };
        Ok((times, told))
    }
}
