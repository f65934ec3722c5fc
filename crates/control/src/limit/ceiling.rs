//! Ceiling: the bit rate beyond which pictures gain nothing.

use std::time::Duration;

use lockstep_transport::wire::DATAGRAM_OVERHEAD;
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use super::{Budget, Limit, LimitedBy};
use crate::{CeilingConfig, Gross, InFlight, PathView, TokenBucket, Tuning};

/// The ceiling for pictures of this size and frame rate: half a bit per pixel, at least 500 kb/s.
#[must_use]
pub fn bitrate_ceiling(width: usize, height: usize, frame_interval: Duration) -> Bitrate {
    CeilingConfig::default().rate(width, height, frame_interval)
}

impl CeilingConfig {
    /// The ceiling for pictures of this size and frame rate.
    #[must_use]
    pub fn rate(&self, width: usize, height: usize, frame_interval: Duration) -> Bitrate {
        let pixels = (width * height) as f64 / frame_interval.as_secs_f64().max(1e-6);
        Bitrate::from_bps((self.bits_per_pixel * pixels) as u64).max(self.least)
    }
}

/// Upper bound of the mean rate with all headers: a token bucket.
#[derive(Debug)]
pub struct Ceiling {
    rate: Bitrate,
    bucket: TokenBucket,
    /// Bytes that a frame may have after any earlier frames.
    least: ByteCount,
}

impl Ceiling {
    /// A ceiling of `rate`, for frames every `frame_interval` in fragments of up to `payload` bytes.
    #[must_use]
    pub fn new(rate: Bitrate, payload: ByteCount, frame_interval: Duration, tuning: &Tuning) -> Self {
        let least = rate.bytes_in(frame_interval.mul_f64(tuning.ceiling.least_share));
        Self { rate, bucket: TokenBucket::new(payload, frame_interval), least }
    }

    /// Records that a datagram of `size` bytes was sent.
    pub fn on_sent(&mut self, now: Timestamp, size: ByteCount) {
        self.bucket.on_transmit(now, size + ByteCount::new(DATAGRAM_OVERHEAD), self.rate);
    }

    /// Upper bound of a frame at `now`.
    #[must_use]
    pub fn most(&self, now: Timestamp, in_flight: InFlight) -> Gross {
        Gross(self.bucket.budget(now, in_flight, self.rate).max(self.least))
    }
}

impl Limit for Ceiling {
    fn kind(&self) -> LimitedBy {
        LimitedBy::Ceiling
    }

    fn limit(&self, path: &PathView<'_>, budget: Budget) -> Budget {
        let frame = budget.frame.min(self.most(path.now, budget.in_flight));
        Budget { frame, target: budget.target.min(self.rate), ..budget }
    }
}
