//! Constant bit rate: a reference, and the way to measure a codec at a rate.

use std::time::Duration;

use lockstep_units::{Bitrate, ByteCount, Timestamp};

use crate::{Allowance, Controller, ControllerSetup, InFlight, Input, PathView, TokenBucket, Traits};

/// Pacing rate over target, as in WebRTC's `PacingController`: a frame leaves before the next one is due.
const PACING_FACTOR: f64 = 2.5;

/// Controller that sends at a constant rate.
#[derive(Debug)]
pub struct Fixed {
    rate: Bitrate,
    pacing_rate: Bitrate,
    bucket: TokenBucket,
}

impl Fixed {
    /// A controller that targets `rate`.
    #[must_use]
    pub fn new(rate: Bitrate, setup: &ControllerSetup) -> Self {
        let pacing_rate = rate.mul_f64(PACING_FACTOR);
        Self { rate, pacing_rate, bucket: TokenBucket::new(setup.payload, setup.frame_interval) }
    }
}

impl Fixed {
    fn on_sent(&mut self, now: Timestamp, size: ByteCount) {
        self.bucket.on_transmit(now, size, self.rate);
    }
}

impl Controller for Fixed {
    fn traits(&self) -> Traits {
        Traits { is_bounded: false, has_ceiling: false, ..Traits::ESTIMATING }
    }

    fn handle(&mut self, path: &PathView<'_>, input: Input<'_>) {
        match input {
            Input::Sent(size) => self.on_sent(path.now, size),
            Input::FeedbackSent(_)
            | Input::Encoded(_)
            | Input::Feedback(_)
            | Input::Time
            | Input::Lost(_)
            | Input::PictureSkipped => {}
        }
    }

    fn allowance(&self, path: &PathView<'_>, in_flight: InFlight) -> Allowance {
        self.bucket.allowance(path.now, in_flight, self.rate, self.pacing_rate)
    }

    fn pacing_interval(&self, _path: &PathView<'_>, _in_flight: InFlight) -> Duration {
        self.bucket.pacing_interval(self.pacing_rate)
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}
