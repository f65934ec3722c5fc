//! Overuse detector: compares the delay trend with a threshold that adapts to the variation of the delay.

use std::time::Duration;

use lockstep_units::Timestamp;

use super::trendline::Trendline;

/// Factor of the slope, in addition to the number of groups. The product is a delay in milliseconds.
const GAIN: f64 = 4.0;
/// Upper bound of the number of groups in that product.
const MAX_COUNTED_GROUPS: u32 = 60;
/// Initial threshold and its bounds, milliseconds (draft-ietf-rmcat-gcc-02, section 5.4).
const INITIAL_THRESHOLD: f64 = 12.5;
const THRESHOLD_BOUNDS: (f64, f64) = (6.0, 600.0);
/// Gains of the threshold upwards and downwards, per millisecond (WebRTC; draft-ietf-rmcat-gcc-02, section 5.4, has
/// 0.01 and 0.00018).
const GROWTH: f64 = 0.0087;
const FALL: f64 = 0.039;
/// Largest excess over the threshold that still adapts it, milliseconds. A larger one is a sudden change.
const MAX_EXCESS_MS: f64 = 15.0;
/// Longest pause between two groups that counts for the adaptation.
const MAX_STEP: Duration = Duration::from_millis(100);
/// Shortest overuse that counts.
const OVERUSE_TIME: Duration = Duration::from_millis(10);

/// Use of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Usage {
    /// The queue is constant.
    #[default]
    Normal,
    /// The queue grows.
    Over,
    /// The queue shrinks.
    Under,
}

/// The overuse detector with its adaptive threshold (`TrendlineEstimator::Detect` and `UpdateThreshold` in WebRTC).
#[derive(Debug, Clone)]
pub(super) struct OveruseDetector {
    threshold: f64,
    adapted_at: Option<Timestamp>,
    over_for: Option<Duration>,
    groups_over: u32,
    previous_slope: f64,
    usage: Usage,
}

impl Default for OveruseDetector {
    fn default() -> Self {
        Self {
            threshold: INITIAL_THRESHOLD,
            adapted_at: None,
            over_for: None,
            groups_over: 0,
            previous_slope: 0.0,
            usage: Usage::Normal,
        }
    }
}

impl OveruseDetector {
    /// Updates the detector after a new group in the trend line. `sent` is the time between the sending of this group
    /// and the previous one.
    pub(super) fn update(&mut self, trendline: &Trendline, sent: Duration, arrived_at: Timestamp) {
        if trendline.groups() < 2 {
            self.usage = Usage::Normal;
            return;
        }
        let counted = f64::from(trendline.groups().min(MAX_COUNTED_GROUPS));
        self.judge(counted * trendline.slope() * GAIN, trendline.slope(), sent, arrived_at);
    }

    fn judge(&mut self, trend: f64, slope: f64, sent: Duration, arrived_at: Timestamp) {
        if trend > self.threshold {
            // Half of the time before the first group over the threshold counts as overuse.
            let over_for = self.over_for.map_or(sent / 2, |time| time + sent);
            self.over_for = Some(over_for);
            self.groups_over += 1;
            if over_for > OVERUSE_TIME && self.groups_over > 1 && slope >= self.previous_slope {
                self.over_for = Some(Duration::ZERO);
                self.groups_over = 0;
                self.usage = Usage::Over;
            }
        } else {
            self.over_for = None;
            self.groups_over = 0;
            self.usage = if trend < -self.threshold { Usage::Under } else { Usage::Normal };
        }
        self.previous_slope = slope;
        self.adapt(trend.abs(), arrived_at);
    }

    fn adapt(&mut self, trend: f64, arrived_at: Timestamp) {
        let since = arrived_at.saturating_since(self.adapted_at.unwrap_or(arrived_at)).min(MAX_STEP);
        self.adapted_at = Some(arrived_at);
        if trend > self.threshold + MAX_EXCESS_MS {
            return;
        }
        let speed = if trend < self.threshold { FALL } else { GROWTH };
        let adapted = self.threshold + speed * (trend - self.threshold) * since.as_secs_f64() * 1e3;
        self.threshold = adapted.clamp(THRESHOLD_BOUNDS.0, THRESHOLD_BOUNDS.1);
    }

    /// Current use of the path.
    pub(super) fn usage(&self) -> Usage {
        self.usage
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_millis(20);

    /// Usage and threshold after each trend, one every 20 ms.
    fn judged(trends: &[f64]) -> Vec<(Usage, f64)> {
        let mut detector = OveruseDetector::default();
        let mut at = Timestamp::ZERO;
        let judge = |&trend: &f64| {
            at += STEP;
            detector.judge(trend, trend / 240.0, STEP, at);
            (detector.usage(), detector.threshold)
        };
        trends.iter().map(judge).collect()
    }

    fn last(trends: &[f64]) -> (Usage, f64) {
        judged(trends)[trends.len() - 1]
    }

    #[test]
    fn overuse_needs_two_groups_and_a_trend_that_does_not_fall() {
        let usages: Vec<_> = judged(&[20.0, 21.0]).into_iter().map(|(usage, _)| usage).collect();
        assert_eq!(usages, [Usage::Normal, Usage::Over]);
        assert_eq!(last(&[20.0, 19.5]).0, Usage::Normal, "the trend decreases");
        assert_eq!(last(&[20.0, 0.0, 20.0]).0, Usage::Normal, "the overuse was interrupted");
    }

    #[test]
    fn overuse_must_last_10_ms() {
        let mut detector = OveruseDetector::default();
        let step = Duration::from_millis(2);
        for group in 0..5_u32 {
            detector.judge(25.0, 0.1, step, Timestamp::from_millis(u64::from(group) * 2));
            assert_eq!(detector.usage(), Usage::Normal, "1, 3, 5, 7 and 9 ms");
        }
        detector.judge(25.0, 0.1, step, Timestamp::from_millis(10));
        assert_eq!(detector.usage(), Usage::Over);
    }

    #[test]
    fn draining_queue_is_underuse() {
        assert_eq!(last(&[-20.0]).0, Usage::Under);
        assert_eq!(last(&[-20.0, 1.0]).0, Usage::Normal);
    }

    #[test]
    fn threshold_follows_the_trend_within_its_bounds() {
        assert_eq!(last(&[0.0; 200]).1, 6.0);
        let (_, raised) = last(&[16.0; 200]);
        assert!((15.9..=16.0).contains(&raised), "{raised}");
        let (_, ignored) = last(&[30.0; 200]);
        assert_eq!(ignored, 12.5, "a trend far above the threshold does not move it");
    }
}
