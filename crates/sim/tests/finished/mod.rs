//! A finished simulation with the records of all its frames.

use std::ops::Deref;

use lockstep_call::{FrameRecord, KeptFrames};
use lockstep_sim::{Simulation, SimulationResult};

pub struct Finished {
    /// One record a captured frame.
    pub records: Vec<FrameRecord>,
    result: SimulationResult,
}

impl Finished {
    /// Runs `simulation`, whose source does not fail.
    pub fn of(simulation: Simulation) -> Self {
        let kept = KeptFrames::default();
        let result = simulation.observed_by(Box::new(kept.clone())).run(|_, _| Ok(()));
        Self { result: result.expect("a generated source does not fail"), records: kept.take_records() }
    }
}

impl Deref for Finished {
    type Target = SimulationResult;

    fn deref(&self) -> &SimulationResult {
        &self.result
    }
}
