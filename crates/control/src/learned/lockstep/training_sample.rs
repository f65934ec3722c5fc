//! Training samples: an observation, and the bytes that the path really delivered afterwards. Only a simulator knows
//! both.

use lockstep_transport::wire::DATAGRAM_OVERHEAD;
use lockstep_units::{ByteCount, Timestamp};

use super::OBSERVED;
use super::forecast::{Basis, HORIZONS};
use crate::KnownPath;
use crate::hindsight::bottleneck::Bottleneck;

/// Training sample of one picture.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainingSample {
    /// Observation at the decision.
    pub seen: [f32; OBSERVED],
    /// Correct model output for each of [`HORIZONS`].
    pub outputs: [f32; HORIZONS.len()],
}

/// Training samples of a call with a known path.
#[derive(Debug)]
pub(super) struct TrainingSamples {
    path: Bottleneck,
    /// Sample of the present picture, by its last decision so far.
    present: Option<TrainingSample>,
    past: Vec<TrainingSample>,
}

impl TrainingSamples {
    pub fn new(path: KnownPath, datagram: ByteCount) -> Self {
        Self { path: Bottleneck::new(path, datagram.get()), present: None, past: Vec::new() }
    }

    /// Adds a datagram of `size` to the path.
    pub fn on_transmit(&mut self, now: Timestamp, size: ByteCount) {
        self.path.take(now, size + ByteCount::new(DATAGRAM_OVERHEAD));
    }

    /// Begins the next picture.
    pub fn next(&mut self) {
        self.past.extend(self.present.take());
    }

    /// Records the decision at `now` with the observation `seen` and `bytes_in_flight` bytes in flight.
    pub fn decided(&mut self, now: Timestamp, seen: [f32; OBSERVED], bytes_in_flight: f64, basis: Basis) {
        // Bytes in flight that are no longer in the queue have left the bottleneck.
        let passed = bytes_in_flight - self.path.backlog(now).as_f64();
        let outputs = HORIZONS.map(|horizon| {
            let until = now + std::time::Duration::from_secs_f64(horizon);
            basis.output_for(horizon, passed + self.path.carried(now, until).as_f64()) as f32
        });
        self.present = Some(TrainingSample { seen, outputs });
    }

    pub fn take(&mut self) -> Vec<TrainingSample> {
        std::mem::take(&mut self.past)
    }
}
