//! How long the jobs of a call take in virtual time.

use lockstep_call::EncodeWork;
use lockstep_measure::CodingTimes;
use lockstep_sim::JobTimes;

use crate::coding_time::EncodeTimeSettings;
use crate::options::{CodecKind, Milliseconds};
use crate::settings::{CallSettings, ControlSettings};

impl ControlSettings {
    /// What the encoder does until there is something to send.
    #[must_use]
    pub fn first_work(&self) -> EncodeWork {
        match self.codec {
            CodecKind::Functional => self.menu.first_work(),
            CodecKind::Conventional => EncodeWork::OneFrame,
        }
    }
}

impl CallSettings {
    /// How long jobs take on pictures of `pixels` luma samples, and the same as it is reported.
    #[must_use]
    pub fn job_times(&self, pixels: usize) -> (JobTimes, CodingTimes) {
        let EncodeTimeSettings { model, menu, .. } = &self.encode_time;
        let measured = model.job_times(self.control.preset, pixels);
        let told = |menu: &Milliseconds| measured.where_takes(EncodeWork::SerialMenu, menu.get());
        let times = menu.as_ref().map_or(measured, told);
        let milliseconds = |work| times.of(work).as_secs_f64() * 1e3;
        let told = CodingTimes {
            machine: model.machine.clone(),
            first_job_ms: milliseconds(self.control.first_work()),
            later_pass_ms: milliseconds(EncodeWork::LaterPass),
        };
        (times, told)
    }
}
