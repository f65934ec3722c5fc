//! A finished simulation with the records of all its frames.

use std::ops::Deref;
use std::time::Duration;

use lockstep_call::{EncodeWork, FrameRecord};
use lockstep_measure::KeptFrames;
use lockstep_sim::{EncodeTime, JobTimes, Simulation, SimulationResult};
use lockstep_vp8::Effort;

/// Encode times of a machine that needs `menu` for a serial menu.
pub fn job_times(menu: Duration) -> JobTimes {
    let times = EncodeTime::built_in().expect("the built-in encode times are valid").job_times(320 * 180);
    times.scaled_to(EncodeWork::SerialMenu, Effort::REAL_TIME, menu)
}

pub struct Finished {
    /// One record per captured picture.
    pub records: Vec<FrameRecord>,
    result: SimulationResult,
}

impl Finished {
    /// Runs `simulation`. Its source must not fail.
    pub fn of(simulation: Simulation) -> Self {
        let kept = KeptFrames::default();
        let result = simulation.observed_by(Box::new(kept.clone())).run(|_, _| Ok(()));
        Self {
            result: result.expect("a generated source does not fail"),
            records: kept.take().into_iter().map(|frame| frame.record).collect(),
        }
    }
}

impl Deref for Finished {
    type Target = SimulationResult;

    fn deref(&self) -> &SimulationResult {
        &self.result
    }
}
