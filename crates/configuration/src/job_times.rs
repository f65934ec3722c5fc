//! Durations of a call's jobs in virtual time.

use lockstep_av1::Av1;
use lockstep_call::EncodeWork;
use lockstep_measure::CodingTimes;
use lockstep_sim::{EncodeTime, JobTimes};

use crate::coding_time::EncodeTimeSettings;
use crate::options::{CodecKind, Milliseconds};
use crate::settings::{CallSettings, ControlSettings};

impl ControlSettings {
    /// Work of the encoder until it has a frame to send.
    #[must_use]
    pub fn first_work(&self) -> EncodeWork {
        if let Some(versions) = self.salsify_versions() {
            return versions.first_work();
        }
        match self.codec {
            CodecKind::Functional | CodecKind::Av1 => self.menu.first_work(),
            CodecKind::Conventional => EncodeWork::OneFrame,
        }
    }

    /// Job times of `model` for pictures of `pixels` luma samples with the codec of these settings.
    pub(crate) fn measured_times(&self, model: &EncodeTime, pixels: usize) -> JobTimes {
        match self.codec {
            CodecKind::Av1 => model.av1_job_times(pixels, Av1::EFFORTS),
            CodecKind::Functional | CodecKind::Conventional => model.job_times(pixels),
        }
    }
}

impl CallSettings {
    /// Job times for pictures of `pixels` luma samples, and their record for the report.
    #[must_use]
    pub fn job_times(&self, pixels: usize) -> (JobTimes, CodingTimes) {
        let EncodeTimeSettings { model, menu, .. } = &self.encode_time;
        // With an automatic preset, the first picture and those of a busy encoder have this level.
        let first = self.control.preset.first_level();
        let measured = self.control.measured_times(model, pixels);
        let given = |menu: &Milliseconds| measured.scaled_to(EncodeWork::SerialMenu, first, menu.get());
        let times = menu.as_ref().map_or(measured, given);
        let milliseconds = |work| times.of(work, first).as_secs_f64() * 1e3;
        let record = CodingTimes {
            machine: model.machine.clone(),
            first_job_ms: milliseconds(self.control.first_work()),
            later_pass_ms: milliseconds(EncodeWork::LaterPass),
        };
        (times, record)
    }
}
