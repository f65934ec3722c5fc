//! Observations of a call for a learning agent, counted between its decisions.

mod arrivals;
mod frames;

use std::time::Duration;

pub use arrivals::ArrivalStatistics;
pub(crate) use frames::FrameCounter;
pub use frames::{FrameStatistics, MAX_WAITED_SECONDS};

/// Counters of a call since the last step.
#[derive(Debug)]
pub struct StepStatistics {
    pub(crate) frames: FrameCounter,
    pub(crate) arrivals: ArrivalStatistics,
}

impl StepStatistics {
    pub(crate) fn new(frame_interval: Duration) -> Self {
        Self { frames: FrameCounter::new(frame_interval), arrivals: ArrivalStatistics::default() }
    }

    /// Returns and resets the counters of frames and arrivals.
    pub fn take(&mut self) -> (FrameStatistics, ArrivalStatistics) {
        (self.frames.take(), self.arrivals.take())
    }
}
