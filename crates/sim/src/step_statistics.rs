//! What a learning agent may observe of a call in the steps between its decisions.

mod arrivals;
mod frames;

use std::time::Duration;

pub use arrivals::ArrivalStatistics;
pub(crate) use frames::FrameCounter;
pub use frames::{FrameStatistics, MOST_WAITED};

/// Counts of a call since they were last taken.
#[derive(Debug)]
pub struct StepStatistics {
    pub(crate) frames: FrameCounter,
    pub(crate) arrivals: ArrivalStatistics,
}

impl StepStatistics {
    pub(crate) fn new(frame_interval: Duration) -> Self {
        Self { frames: FrameCounter::new(frame_interval), arrivals: ArrivalStatistics::default() }
    }

    /// What became of frames, and what the receiver saw, since this was last asked.
    pub fn take(&mut self) -> (FrameStatistics, ArrivalStatistics) {
        (self.frames.take(), self.arrivals.take())
    }
}
