//! Salsify's controller: the window of fragments that drains in the delay that the sender tolerates (NSDI 2018,
//! section 3.3): `(d / tau - N)` fragments.
//!
//! A fragment counts as in flight until the sender hears of it, so that this window cannot fill a path whose round trip
//! is longer than d: over 300 ms it uses a third. Adding the smallest round trip seen to d fills such a path, but a
//! call that joins others takes their queue for a part of its path and takes more than its share (three calls on one
//! link had Jain fairness 0.71 instead of 0.999), so that it is left as it was published.
//!
//! The target, for a codec that follows a bit rate and no budget, is the rate of the path as long as the window is not
//! exceeded, and less beyond, so that what is too much drains.

use std::time::Duration;

use lockstep_transport::Feedback;
use lockstep_units::{Bitrate, ByteCount};

use crate::inter_arrival::INITIAL_INTER_ARRIVAL;
use crate::{Allowance, Controller, InFlight, Input, PathView, Traits};

/// Queueing delay that the sender tolerates, d (Salsify, section 3.3).
const TOLERATED_DELAY: Duration = Duration::from_millis(100);

/// Bounds of the time between two transmissions, which is a fifth of the inter-arrival time between them (Salsify's
/// published code).
const PACING_BOUNDS: (Duration, Duration) = (Duration::from_micros(500), Duration::from_millis(2));
const PACING_SHARE: u32 = 5;

/// Below this an inter-arrival average says only that the link is faster than the sender: at 50 us a window holds 2,000
/// fragments, 240 Mb/s.
const SHORTEST_INTER_ARRIVAL: Duration = Duration::from_micros(50);

/// Salsify's window.
#[derive(Debug)]
pub struct SalsifyWindow {
    payload: ByteCount,
    /// What follows from the inter-arrival time: fragments that drain in the tolerated delay, time between two
    /// transmissions, rate at which fragments arrive. Asked for more often than that time changes.
    window: f64,
    pacing_interval: Duration,
    path_rate: Bitrate,
}

impl SalsifyWindow {
    /// A window of fragments that carry up to `payload` bytes each.
    #[must_use]
    pub fn new(payload: ByteCount) -> Self {
        Self::at(payload, INITIAL_INTER_ARRIVAL)
    }

    fn at(payload: ByteCount, inter_arrival: Duration) -> Self {
        Self {
            payload,
            window: TOLERATED_DELAY.as_secs_f64() / inter_arrival.as_secs_f64(),
            pacing_interval: (inter_arrival / PACING_SHARE).clamp(PACING_BOUNDS.0, PACING_BOUNDS.1),
            path_rate: Bitrate::mean(payload, inter_arrival),
        }
    }
}

impl SalsifyWindow {
    fn on_feedback(&mut self, feedback: &Feedback) {
        if let Some(inter_arrival) = feedback.estimate.inter_arrival {
            *self = Self::at(self.payload, inter_arrival.max(SHORTEST_INTER_ARRIVAL));
        }
    }
}

impl Controller for SalsifyWindow {
    fn traits(&self) -> Traits {
        Traits::ESTIMATING
    }

    fn handle(&mut self, _path: &PathView<'_>, input: Input<'_>) {
        match input {
            Input::Feedback(feedback) => self.on_feedback(feedback),
            Input::Sent(_) | Input::FeedbackSent(_) | Input::Time | Input::Lost(_) | Input::PictureSkipped => {}
        }
    }

    fn allowance(&self, _path: &PathView<'_>, in_flight: InFlight) -> Allowance {
        // The last fragment of a frame may be a short one, so the budget need not be a number of whole ones.
        let fragments = (self.window - in_flight.fragments as f64).max(0.0);
        let drain = (self.window / in_flight.fragments.max(1) as f64).min(1.0);
        Allowance {
            budget: ByteCount::new((fragments * self.payload.as_f64()) as u64),
            pacing_interval: self.pacing_interval,
            target: self.path_rate.mul_f64(drain),
            capacity: Some(self.path_rate),
            behind_cross_traffic: ByteCount::ZERO,
        }
    }

    fn pacing_interval(&self, _path: &PathView<'_>, _in_flight: InFlight) -> Duration {
        self.pacing_interval
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}
