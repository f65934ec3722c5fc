//! The same bit rate whatever the path does: a yardstick, and the way to measure what a codec does at a rate.

use std::time::Duration;

use lockstep_transport::Feedback;
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use crate::{Allowance, Controller, InFlight, Setting, TokenBucket};

/// Pacing rate over target, as WebRTC has it (its `PacingController`), so that a frame is on its way before the next.
const PACING_FACTOR: f64 = 2.5;

/// Sends at one rate.
#[derive(Debug)]
pub struct Fixed {
    rate: Bitrate,
    pacing_rate: Bitrate,
    bucket: TokenBucket,
}

impl Fixed {
    /// A controller that targets `rate`.
    #[must_use]
    pub fn new(rate: Bitrate, setting: &Setting) -> Self {
        let pacing_rate = rate.mul_f64(PACING_FACTOR);
        Self { rate, pacing_rate, bucket: TokenBucket::new(setting.payload, setting.frame_interval) }
    }
}

impl Controller for Fixed {
    fn on_transmit(&mut self, now: Timestamp, size: ByteCount) {
        self.bucket.on_transmit(now, size, self.rate);
    }

    fn is_bounded(&self) -> bool {
        false
    }

    fn has_ceiling(&self) -> bool {
        false
    }

    fn on_feedback(&mut self, _now: Timestamp, _feedback: &Feedback) {}

    fn allowance(&self, now: Timestamp, in_flight: InFlight) -> Allowance {
        self.bucket.allowance(now, in_flight, self.rate, self.pacing_rate)
    }

    fn pacing_interval(&self, _now: Timestamp, _in_flight: InFlight) -> Duration {
        self.bucket.pacing_interval(self.pacing_rate)
    }
}
