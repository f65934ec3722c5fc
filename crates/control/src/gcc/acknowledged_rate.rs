//! How much comes through: a Bayesian average of the rate in short windows, which trusts a window the less the further
//! it is from what was known.

use std::time::Duration;

use lockstep_transport::AcknowledgedFragment;
use lockstep_units::{Bitrate, Timestamp};

/// The first window and the others (`BitrateEstimator` in WebRTC).
const FIRST_WINDOW: Duration = Duration::from_millis(500);
const WINDOW: Duration = Duration::from_millis(150);
/// Standard deviation of a window's rate, relative to how far it is from the average.
const UNCERTAINTY: f64 = 10.0;
/// Variance of the average at first, and by how much each window adds to it, in (kb/s)^2.
const INITIAL_VARIANCE: f64 = 50.0;
const DRIFT: f64 = 5.0;
/// What is added when the rate is expected to change.
const EXPECTED_CHANGE: f64 = 200.0;

/// The acknowledged bit rate.
#[derive(Debug, Clone)]
pub(super) struct AcknowledgedRate {
    bytes: u64,
    /// How much of the window has gone by.
    elapsed: Duration,
    newest: Option<Timestamp>,
    estimate_kbps: Option<f64>,
    variance: f64,
    limit_ended_at: Option<Timestamp>,
}

impl Default for AcknowledgedRate {
    fn default() -> Self {
        Self {
            bytes: 0,
            elapsed: Duration::ZERO,
            newest: None,
            estimate_kbps: None,
            variance: INITIAL_VARIANCE,
            limit_ended_at: None,
        }
    }
}

impl AcknowledgedRate {
    /// The rate, once the first window is over.
    pub(super) fn estimate(&self) -> Option<Bitrate> {
        self.estimate_kbps.map(|rate| Bitrate::from_bps((rate * 1e3).round() as u64))
    }

    /// The application no longer limits the rate: from what is sent after `now` on, the rate may change quickly.
    pub(super) fn on_limit_ended(&mut self, now: Timestamp) {
        self.limit_ended_at = Some(now);
    }

    /// A fragment arrived.
    pub(super) fn on_acknowledged(&mut self, fragment: &AcknowledgedFragment) {
        if self.limit_ended_at.is_some_and(|ended| fragment.sent_at > ended) {
            self.variance += EXPECTED_CHANGE;
            self.limit_ended_at = None;
        }
        if let Some(sample) = self.window_rate_kbps(fragment) {
            self.take(sample);
        }
    }

    /// Adds the fragment to its window; the rate of the one before if that is over, in kb/s.
    fn window_rate_kbps(&mut self, fragment: &AcknowledgedFragment) -> Option<f64> {
        let window = if self.estimate_kbps.is_some() { WINDOW } else { FIRST_WINDOW };
        let now = fragment.arrived_at;
        let newest = self.newest.unwrap_or(now);
        if newest.saturating_since(now) > window {
            // The receiver's clock went back.
            (self.newest, self.bytes, self.elapsed) = (Some(now), fragment.size.get(), Duration::ZERO);
            return None;
        }
        let pause = now.saturating_since(newest);
        self.newest = Some(newest.max(now));
        self.elapsed += pause;
        if pause > window {
            // Nothing came for more than a window; how much came in the last one is not known.
            self.bytes = 0;
            let over = self.elapsed.as_nanos() % window.as_nanos();
            self.elapsed = Duration::from_nanos(over as u64);
        }
        let mut rate = None;
        if self.elapsed >= window {
            rate = Some(self.bytes as f64 * 8e-3 / window.as_secs_f64());
            self.elapsed -= window;
            self.bytes = 0;
        }
        self.bytes = self.bytes.saturating_add(fragment.size.get());
        rate
    }

    fn take(&mut self, sample: f64) {
        let Some(estimate) = self.estimate_kbps else {
            self.estimate_kbps = Some(sample);
            return;
        };
        let deviation = if estimate > 0.0 { UNCERTAINTY * (estimate - sample).abs() / estimate } else { UNCERTAINTY };
        let sample_variance = deviation * deviation;
        let predicted = self.variance + DRIFT;
        self.estimate_kbps = Some((sample_variance * estimate + predicted * sample) / (sample_variance + predicted));
        self.variance = sample_variance * predicted / (sample_variance + predicted);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::acknowledged;
    use super::*;

    /// 125 bytes every `gap` milliseconds between two times.
    fn arrive(rate: &mut AcknowledgedRate, from: u64, to: u64, gap: u64) {
        let times = (from..to).step_by(gap as usize);
        times.for_each(|at| rate.on_acknowledged(&acknowledged(at, at, 125)));
    }

    fn kbps(rate: &AcknowledgedRate) -> u64 {
        rate.estimate().map_or(0, |rate| rate.as_bps() / 1_000)
    }

    #[test]
    fn the_first_half_second_gives_the_first_estimate() {
        let mut rate = AcknowledgedRate::default();
        arrive(&mut rate, 0, 500, 1);
        assert_eq!(rate.estimate(), None);
        arrive(&mut rate, 500, 501, 1);
        assert_eq!(kbps(&rate), 1_000);
    }

    #[test]
    fn a_lasting_change_is_followed_within_a_second_or_two() {
        let mut rate = AcknowledgedRate::default();
        arrive(&mut rate, 0, 5_000, 1);
        arrive(&mut rate, 5_000, 7_000, 2);
        assert!((495..=540).contains(&kbps(&rate)), "{}", kbps(&rate));
    }

    #[test]
    fn the_end_of_a_limit_makes_it_follow_more_quickly() {
        let after = |ended: bool| {
            let mut rate = AcknowledgedRate::default();
            arrive(&mut rate, 0, 5_050, 4);
            if ended {
                rate.on_limit_ended(Timestamp::from_millis(5_050));
            }
            arrive(&mut rate, 5_051, 5_400, 1);
            kbps(&rate)
        };
        assert!(after(true) > after(false) + 50, "{} and {}", after(true), after(false));
    }

    #[test]
    fn a_pause_is_not_a_low_rate() {
        let mut rate = AcknowledgedRate::default();
        arrive(&mut rate, 0, 5_000, 1);
        arrive(&mut rate, 15_000, 16_000, 1);
        assert!((900..=1_000).contains(&kbps(&rate)), "{}", kbps(&rate));
    }
}
