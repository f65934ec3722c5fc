//! Salsify's controller: a window of the fragments that drain within the tolerated delay (NSDI 2018, section 3.3), `(d
//! / tau - N)` fragments.
//!
//! A fragment counts as in flight until its acknowledgement. So this window cannot fill a path with a round-trip time
//! above d: at 300 ms it uses a third. Adding the base round-trip time to d would fill it. But a call that joins others
//! would count their queue as its path and take more than its share (lab: 2026-11-notes-control). Therefore the
//! published rule is kept.
//!
//! The target, for a codec that follows a bit rate, is the rate of the path. If more than the window is in flight, the
//! target is lower, so that the excess drains.

use std::time::Duration;

use lockstep_transport::Feedback;
use lockstep_units::{Bitrate, ByteCount};

use crate::inter_arrival::INITIAL_INTER_ARRIVAL;
use crate::{Allowance, Controller, InFlight, Input, PathView, Traits};

/// Tolerated queueing delay, d (Salsify, section 3.3).
const TOLERATED_DELAY: Duration = Duration::from_millis(100);

/// Bounds of the pacing interval. It is a fifth of the inter-arrival time within them (Salsify's published code).
const PACING_BOUNDS: (Duration, Duration) = (Duration::from_micros(500), Duration::from_millis(2));
const PACING_SHARE: u32 = 5;

/// Lower bound of the inter-arrival average. Below it, the average shows only that the link is faster than the sender.
/// At 50 us a window holds 2,000 fragments, 240 Mb/s.
const MIN_INTER_ARRIVAL: Duration = Duration::from_micros(50);

/// Salsify's window.
#[derive(Debug)]
pub struct SalsifyWindow {
    payload: ByteCount,
    /// Values that follow from the inter-arrival time: the fragments that drain in the tolerated delay, the pacing
    /// interval and the arrival rate. They are read more often than that time changes.
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
            *self = Self::at(self.payload, inter_arrival.max(MIN_INTER_ARRIVAL));
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
            Input::Sent(_)
            | Input::FeedbackSent(_)
            | Input::Encoded(_)
            | Input::Time
            | Input::Lost(_)
            | Input::PictureSkipped => {}
        }
    }

    fn allowance(&self, _path: &PathView<'_>, in_flight: InFlight) -> Allowance {
        // The last fragment of a frame may be short, so the budget need not be a multiple of the payload.
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
