//! Loss-based estimate of the rate.

use std::collections::VecDeque;
use std::time::Duration;

use lockstep_units::{Bitrate, Timestamp};

use crate::RateBounds;

/// The rate grows up to the first loss share and falls beyond the second one (draft-ietf-rmcat-gcc-02, section 6).
const LOW_LOSS: f64 = 0.02;
const HIGH_LOSS: f64 = 0.1;
/// The rate grows to this multiple of the minimum of the last second, plus this many bit/s.
const INCREASE: (f64, u64) = (1.08, 1_000);
const INCREASE_INTERVAL: Duration = Duration::from_secs(1);
/// Minimum time between two decreases, in addition to a round trip.
const DECREASE_INTERVAL: Duration = Duration::from_millis(300);
/// Minimum number of fragments in a loss report.
const MIN_FRAGMENTS: u64 = 20;
/// Start phase: while nothing is lost, only the delay-based estimate counts.
const START: Duration = Duration::from_secs(2);
/// Maximum age of a loss report: 1.2 times five seconds.
const REPORT_AGE: Duration = Duration::from_secs(6);
/// Longest silence before the rate falls by a factor per interval (`RttBasedBackoff` in WebRTC).
const MAX_SILENCE: Duration = Duration::from_secs(3);
const SILENCE_DECREASE: f64 = 0.8;
const SILENCE_INTERVAL: Duration = Duration::from_secs(1);

/// Loss-based estimator (`SendSideBandwidthEstimation` in WebRTC).
#[derive(Debug, Clone)]
pub(super) struct LossBased {
    bounds: RateBounds,
    rate: Bitrate,
    delay_limit: Option<Bitrate>,
    started_at: Option<Timestamp>,
    lost: u64,
    expected: u64,
    /// Share of lost fragments in the last report, and the time of the report.
    report: Option<(f64, Timestamp)>,
    /// Whether the last report has already lowered the rate.
    report_counted: bool,
    decreased_at: Option<Timestamp>,
    /// Rates of the last second, ascending: the first one is the minimum.
    least: VecDeque<(Timestamp, Bitrate)>,
    round_trip: Duration,
    /// Sending time of the first datagram since the last feedback.
    silent_since: Option<Timestamp>,
}

impl LossBased {
    pub(super) fn new(bounds: RateBounds) -> Self {
        Self {
            bounds,
            rate: bounds.initial,
            delay_limit: None,
            started_at: None,
            lost: 0,
            expected: 0,
            report: None,
            report_counted: true,
            decreased_at: None,
            least: VecDeque::new(),
            round_trip: Duration::ZERO,
            silent_since: None,
        }
    }

    /// The rate that losses and delays allow.
    pub(super) fn rate(&self) -> Bitrate {
        self.rate
    }

    pub(super) fn set_round_trip(&mut self, round_trip: Duration) {
        self.round_trip = round_trip;
    }

    /// Records that a datagram was sent.
    pub(super) fn on_transmit(&mut self, now: Timestamp) {
        self.silent_since.get_or_insert(now);
        self.update(now);
    }

    /// Adds a report of `arrived` and `lost` fragments.
    pub(super) fn on_report(&mut self, now: Timestamp, arrived: u64, lost: u64) {
        if arrived > 0 {
            self.silent_since = None;
        }
        self.lost += lost;
        self.expected += arrived + lost;
        if self.expected >= MIN_FRAGMENTS {
            self.report = Some((self.lost as f64 / self.expected as f64, now));
            self.report_counted = false;
            (self.lost, self.expected) = (0, 0);
        }
        self.update(now);
    }

    /// Sets the delay-based estimate.
    pub(super) fn set_delay_limit(&mut self, rate: Bitrate) {
        self.delay_limit = Some(rate);
        self.set(self.rate);
    }

    /// Sets the rate that a probe measured.
    pub(super) fn on_probe(&mut self, rate: Bitrate) {
        self.delay_limit = Some(rate);
        self.set(rate);
        self.least.clear();
    }

    fn update(&mut self, now: Timestamp) {
        let started_at = *self.started_at.get_or_insert(now);
        if self.is_silent(now) {
            if self.may_decrease(now, SILENCE_INTERVAL) {
                self.decreased_at = Some(now);
                self.set(self.rate.mul_f64(SILENCE_DECREASE));
                self.least.clear();
            }
            return;
        }
        let loss = self.report.filter(|&(_, at)| now.saturating_since(at) < REPORT_AGE).map(|(loss, _)| loss);
        if loss.is_none_or(|loss| loss == 0.0) && now.saturating_since(started_at) < START {
            if let Some(limit) = self.delay_limit
                && limit > self.rate
            {
                self.set(limit);
                self.least.clear();
            }
            return;
        }
        self.remember(now);
        match loss {
            Some(loss) if loss <= LOW_LOSS => {
                let least = self.least.front().map_or(self.rate, |&(_, rate)| rate);
                let (factor, constant) = INCREASE;
                self.set(least.mul_f64(factor) + Bitrate::from_bps(constant));
            }
            Some(loss)
                if loss > HIGH_LOSS
                    && !self.report_counted
                    && self.may_decrease(now, DECREASE_INTERVAL + self.round_trip) =>
            {
                self.decreased_at = Some(now);
                self.report_counted = true;
                self.set(self.rate.mul_f64(1.0 - 0.5 * loss));
            }
            _ => {}
        }
    }

    fn may_decrease(&self, now: Timestamp, interval: Duration) -> bool {
        self.decreased_at.is_none_or(|at| now.saturating_since(at) >= interval)
    }

    fn is_silent(&self, now: Timestamp) -> bool {
        self.silent_since.is_some_and(|since| now.saturating_since(since) > MAX_SILENCE)
    }

    fn remember(&mut self, now: Timestamp) {
        while self.least.front().is_some_and(|&(at, _)| now.saturating_since(at) >= INCREASE_INTERVAL) {
            self.least.pop_front();
        }
        while self.least.back().is_some_and(|&(_, rate)| self.rate <= rate) {
            self.least.pop_back();
        }
        self.least.push_back((now, self.rate));
    }

    fn set(&mut self, rate: Bitrate) {
        self.rate = rate.min(self.delay_limit.unwrap_or(rate)).clamp(self.bounds.min, self.bounds.max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The estimator after reports on 20 fragments every 100 ms, `lost` of which are lost.
    fn after(from: u64, to: u64, lost: u64) -> LossBased {
        let mut estimator = LossBased::new(RateBounds { initial: Bitrate::from_kbps(1_000), ..RateBounds::default() });
        estimator.set_round_trip(Duration::from_millis(100));
        report(&mut estimator, from, to, lost);
        estimator
    }

    fn report(estimator: &mut LossBased, from: u64, to: u64, lost: u64) -> u64 {
        for at in (from..to).step_by(100) {
            estimator.on_report(Timestamp::from_millis(at), 20 - lost, lost);
        }
        estimator.rate().as_bps() / 1_000
    }

    #[test]
    fn without_loss_it_grows_by_8_percent_a_second() {
        // The rate is constant in the first two seconds: there is no delay-based estimate.
        let rate = after(0, 7_000, 0).rate().as_bps() / 1_000;
        assert!((1_400..=1_600).contains(&rate), "{rate}");
    }

    #[test]
    fn loss_of_5_percent_holds_the_rate() {
        assert_eq!(after(0, 10_000, 1).rate(), Bitrate::from_kbps(1_000));
    }

    #[test]
    fn loss_of_20_percent_lowers_the_rate_by_10_percent() {
        assert_eq!(after(0, 300, 4).rate(), Bitrate::from_kbps(900));
        assert_eq!(after(0, 500, 4).rate(), Bitrate::from_kbps(810));
    }

    #[test]
    fn loss_report_needs_20_fragments() {
        let mut estimator = after(0, 100, 0);
        estimator.on_report(Timestamp::from_millis(200), 9, 10);
        assert_eq!(estimator.rate(), Bitrate::from_kbps(1_000));
        estimator.on_report(Timestamp::from_millis(300), 1, 0);
        assert_eq!(estimator.rate(), Bitrate::from_kbps(750));
    }

    #[test]
    fn delay_decides_at_the_start_until_a_loss() {
        let mut estimator = after(0, 500, 0);
        estimator.set_delay_limit(Bitrate::from_kbps(5_000));
        assert_eq!(report(&mut estimator, 500, 600, 0), 5_000);
        let mut estimator = after(0, 500, 1);
        estimator.set_delay_limit(Bitrate::from_kbps(5_000));
        assert_eq!(report(&mut estimator, 500, 600, 1), 1_000);
    }

    #[test]
    fn delay_limit_bounds_the_rate_and_a_probe_raises_it() {
        let mut estimator = after(0, 3_000, 0);
        estimator.set_delay_limit(Bitrate::from_kbps(400));
        assert_eq!(estimator.rate(), Bitrate::from_kbps(400));
        estimator.on_probe(Bitrate::from_kbps(2_000));
        assert_eq!(report(&mut estimator, 3_000, 3_100, 0), 2_000);
    }

    #[test]
    fn silence_beyond_3_s_lowers_the_rate_every_second() {
        let mut estimator = after(0, 3_000, 1);
        for at in (3_000..7_150).step_by(50) {
            estimator.on_transmit(Timestamp::from_millis(at));
        }
        assert_eq!(estimator.rate(), Bitrate::from_kbps(640), "after 6.05 and 7.05 seconds");
    }
}
