//! What a model is to learn: what was seen, and what the path really took from then on. Only a simulator knows.

use lockstep_transport::wire::CARRIAGE;
use lockstep_units::{ByteCount, Timestamp};

use super::OBSERVED;
use super::forecast::{Basis, HORIZONS};
use crate::KnownPath;
use crate::hindsight::bottleneck::Bottleneck;

/// A picture of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Lesson {
    /// What was seen when it was decided on.
    pub seen: [f32; OBSERVED],
    /// For each of [`HORIZONS`], what would have been right to say.
    pub right: [f32; HORIZONS.len()],
}

/// Lessons of a call whose path is known.
#[derive(Debug)]
pub(super) struct Lessons {
    path: Bottleneck,
    /// Of the present picture, by its last decision so far.
    present: Option<Lesson>,
    past: Vec<Lesson>,
}

impl Lessons {
    pub fn new(path: KnownPath, datagram: ByteCount) -> Self {
        Self { path: Bottleneck::new(path, datagram.get()), present: None, past: Vec::new() }
    }

    /// A datagram of `size` leaves.
    pub fn on_transmit(&mut self, now: Timestamp, size: ByteCount) {
        self.path.take(now, size + ByteCount::new(CARRIAGE));
    }

    /// The next picture begins.
    pub fn next(&mut self) {
        self.past.extend(self.present.take());
    }

    /// It is decided at `now` by what is `seen`, with so many bytes on the way.
    pub fn decided(&mut self, now: Timestamp, seen: [f32; OBSERVED], on_the_way: f64, basis: Basis) {
        // Of what is on the way, what does not wait any more has passed.
        let passed = on_the_way - self.path.backlog(now).as_f64();
        let right = HORIZONS.map(|horizon| {
            let until = now + std::time::Duration::from_secs_f64(horizon);
            basis.said(horizon, passed + self.path.carried(now, until).as_f64()) as f32
        });
        self.present = Some(Lesson { seen, right });
    }

    pub fn take(&mut self) -> Vec<Lesson> {
        std::mem::take(&mut self.past)
    }
}
