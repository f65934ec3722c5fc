//! Token bucket: turns a bit rate into the budget of a frame, for controllers that decide on a rate.

use std::time::Duration;

use lockstep_units::{Bitrate, ByteCount, Timestamp};

use crate::{Allowance, InFlight};

/// Longest pacing interval at any rate: a guard of the pacer.
const MAX_PACING_INTERVAL: Duration = Duration::from_secs(1);

/// Upper bound of the debt, as a time at the target: a guard for falling targets. Not tuned: the default path never
/// reaches it.
const MAX_DEBT_TIME: Duration = Duration::from_millis(500);

/// Weight of a datagram in the smoothed size. It affects only the pacing of controllers that decide on a rate.
const SIZE_WEIGHT: f64 = 1.0 / 16.0;

/// Number of frame intervals whose unused rate a frame may use in addition to its own. Not tuned: other values change
/// nothing on the default path (lab: 2026-11-control-ablation).
const SAVED_INTERVALS: u32 = 1;

/// Bucket of sent bytes against the target. A frame's budget is the rest, so the mean rate is the target at any
/// variation of frame sizes.
#[derive(Debug, Clone)]
pub struct TokenBucket {
    /// Time whose rate may be saved, and the longest time between two updates.
    saved: Duration,
    longest: Duration,
    at: Timestamp,
    /// Smoothed size of a datagram. The last fragment of a frame is short, and the pacer counts fragments. With the
    /// full size, frames of slightly more than one fragment would leave at half the pacing rate.
    datagram_bytes: f64,
    /// Saved bytes; negative for debt.
    tokens: f64,
    /// The last target, and the limits computed from it.
    limits: (Bitrate, Limits),
}

/// Bounds of the saved bytes at a target, bytes.
#[derive(Debug, Clone, Copy)]
struct Limits {
    least: f64,
    most: f64,
}

impl TokenBucket {
    /// A bucket for frames every `frame_interval`, in fragments of up to `payload` bytes.
    #[must_use]
    pub fn new(payload: ByteCount, frame_interval: Duration) -> Self {
        Self {
            saved: frame_interval * (1 + SAVED_INTERVALS),
            longest: frame_interval * 64,
            at: Timestamp::ZERO,
            datagram_bytes: payload.as_f64(),
            tokens: 0.0,
            limits: (Bitrate::from_bps(0), Limits { least: 0.0, most: 0.0 }),
        }
    }

    fn limits(&self, target: Bitrate) -> Limits {
        if self.limits.0 == target {
            return self.limits.1;
        }
        // Debt from before a drop of the target expires.
        let least = -target.bytes_in(MAX_DEBT_TIME).as_f64();
        Limits { least, most: target.bytes_in(self.saved).as_f64() }
    }

    fn tokens_at(&self, now: Timestamp, target: Bitrate) -> f64 {
        let Limits { least, most } = self.limits(target);
        let earned = target.bytes_in(now.saturating_since(self.at).min(self.longest)).as_f64();
        (self.tokens.max(least) + earned).min(most)
    }

    /// Records that a datagram of `size` was sent while the target was `target`.
    pub fn on_transmit(&mut self, now: Timestamp, size: ByteCount, target: Bitrate) {
        self.limits = (target, self.limits(target));
        self.tokens = self.tokens_at(now, target) - size.as_f64();
        self.at = now;
        self.datagram_bytes += SIZE_WEIGHT * (size.as_f64() - self.datagram_bytes);
    }

    /// Time between two datagrams at `pacing_rate`.
    #[must_use]
    pub fn pacing_interval(&self, pacing_rate: Bitrate) -> Duration {
        pacing_rate.time_for(ByteCount::new(self.datagram_bytes as u64)).min(MAX_PACING_INTERVAL)
    }

    /// Budget of the next frame at `target`.
    #[must_use]
    pub fn budget(&self, now: Timestamp, in_flight: InFlight, target: Bitrate) -> ByteCount {
        ByteCount::new((self.tokens_at(now, target) - in_flight.queued.as_f64()).max(0.0) as u64)
    }

    /// The allowance at `target`, paced at `pacing_rate`.
    #[must_use]
    pub fn allowance(&self, now: Timestamp, in_flight: InFlight, target: Bitrate, pacing_rate: Bitrate) -> Allowance {
        let budget = self.budget(now, in_flight, target);
        Allowance::at_target(budget, self.pacing_interval(pacing_rate), target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_rate_of_varying_frames_is_the_target() {
        let interval = Duration::from_millis(40);
        let mut bucket = TokenBucket::new(ByteCount::new(1200), interval);
        let target = Bitrate::from_kbps(1_000);
        let mut sent = 0;
        for frame in 0..250 {
            let now = Timestamp::from_millis(40 * frame + frame % 7);
            let budget = bucket.allowance(now, InFlight::default(), target, target).budget;
            // Every other frame uses only half of its budget.
            let size = if frame % 2 == 0 { budget } else { ByteCount::new(budget.get() / 2) };
            bucket.on_transmit(now, size, target);
            sent += size.get();
        }
        let rate = sent as f64 * 8.0 / 10.0;
        assert!((0.93e6..=1.01e6).contains(&rate), "{rate}");
    }

    #[test]
    fn long_pause_saves_one_more_frame() {
        let mut bucket = TokenBucket::new(ByteCount::new(1200), Duration::from_millis(40));
        let target = Bitrate::from_kbps(1_000);
        bucket.on_transmit(Timestamp::ZERO, ByteCount::new(5_000), target);
        let later = bucket.allowance(Timestamp::from_millis(60_000), InFlight::default(), target, target);
        assert_eq!(later.budget, ByteCount::new(10_000));
    }

    #[test]
    fn small_fragments_leave_at_the_pacing_rate() {
        let mut bucket = TokenBucket::new(ByteCount::new(1200), Duration::from_millis(40));
        let target = Bitrate::from_kbps(1_000);
        (0..100).for_each(|at| bucket.on_transmit(Timestamp::from_millis(at), ByteCount::new(500), target));
        let interval =
            bucket.allowance(Timestamp::from_millis(100), InFlight::default(), target, target).pacing_interval;
        assert!(interval.abs_diff(Duration::from_millis(4)) < Duration::from_micros(50), "{interval:?}");
    }

    #[test]
    fn queued_bytes_reduce_the_budget() {
        let bucket = TokenBucket::new(ByteCount::new(1200), Duration::from_millis(40));
        let in_flight = InFlight { queued: ByteCount::new(4_000), ..InFlight::default() };
        let target = Bitrate::from_kbps(1_000);
        assert_eq!(
            bucket.allowance(Timestamp::from_millis(40), in_flight, target, target).budget,
            ByteCount::new(1_000)
        );
    }
}
