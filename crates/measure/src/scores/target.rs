//! Scores of a controller's decisions: stability of the target and accuracy of the estimate.

use std::time::Duration;

use lockstep_call::mean;
use lockstep_units::{Bitrate, Timestamp};

use crate::series::{SERIES_INTERVAL, Series};

/// Accuracy of the estimate over the points of a [`Series`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TargetScores {
    /// 0-2.
    pub(super) smape: Option<f64>,
    /// 1 - sMAPE / 2 with an sMAPE of 0 to 2 (BoB, IEEE TMM 2022, section IV), 0-1.
    pub(super) accuracy: Option<f64>,
}

impl TargetScores {
    pub(super) fn of(series: &Series) -> Self {
        let pairs: Vec<(f64, f64)> = series
            .estimate_bps
            .iter()
            .zip(&series.capacity_bps)
            .filter_map(|(&estimate, &capacity)| Some((estimate? as f64, capacity as f64)))
            .collect();
        let smape = symmetric_mean_absolute_percentage_error(&pairs);
        Self { smape, accuracy: smape.map(|error| 1.0 - error / 2.0) }
    }
}

/// Mean of |a(n+1) - a(n)| of the targets a(n) at the end of each [`SERIES_INTERVAL`] (eta). Lower is more stable. The
/// interval does not depend on the length of the call. Intervals before the first target do not count.
#[derive(Debug, Clone)]
pub(super) struct TargetSteps {
    start: Timestamp,
    first: Option<u64>,
    /// Interval of the newest target.
    interval: u64,
    /// Newest target, bit/s.
    target: f64,
    /// Target at the end of the previous interval, bit/s.
    before: Option<f64>,
    sum: f64,
}

impl TargetSteps {
    pub(super) fn new(start: Timestamp) -> Self {
        Self { start, first: None, interval: 0, target: 0.0, before: None, sum: 0.0 }
    }

    /// Records `target` at `at`, in order of time.
    pub(super) fn target(&mut self, at: Timestamp, target: Bitrate) {
        let interval = whole_intervals(at.saturating_since(self.start));
        if self.first.is_none() {
            (self.first, self.interval) = (Some(interval), interval);
        } else if interval > self.interval {
            self.sum += self.step();
            (self.before, self.interval) = (Some(self.target), interval);
        }
        self.target = target.as_bps() as f64;
    }

    /// Change from the end of the previous interval to the newest target.
    fn step(&self) -> f64 {
        self.before.map_or(0.0, |before| (self.target - before).abs())
    }

    /// Mean change over the whole intervals of the first `length`, bit/s. `None` with fewer than two intervals.
    pub(super) fn mean(&self, length: Duration) -> Option<f64> {
        let count = whole_intervals(length);
        let steps = count.checked_sub(self.first? + 1).filter(|&steps| steps > 0)?;
        let last = if self.interval < count { self.step() } else { 0.0 };
        Some((self.sum + last) / steps as f64)
    }
}

fn whole_intervals(time: Duration) -> u64 {
    (time.as_nanos() / SERIES_INTERVAL.as_nanos()) as u64
}

/// sMAPE of (estimate, truth) pairs: mean of |e - c| / ((|e| + |c|) / 2), 0-2. A pair of zeros has no error.
pub(super) fn symmetric_mean_absolute_percentage_error(pairs: &[(f64, f64)]) -> Option<f64> {
    let error = |&(estimate, truth): &(f64, f64)| {
        let middle = (estimate.abs() + truth.abs()) / 2.0;
        if middle > 0.0 { (estimate - truth).abs() / middle } else { 0.0 }
    };
    mean(pairs.iter().map(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_smoothness_is_the_mean_change() {
        let mut steps = TargetSteps::new(Timestamp::from_millis(50));
        for (at, bps) in [(250, 9), (260, 1), (370, 3), (470, 7), (480, 2), (770, 20)] {
            steps.target(Timestamp::from_millis(at), Bitrate::from_bps(bps));
        }
        // Ends of the intervals: none, none, 1, 3, 2, 2, 2. The last target is beyond `length`.
        assert_eq!(steps.mean(Duration::from_millis(750)), Some(3.0 / 4.0));
        assert_eq!(steps.mean(Duration::from_millis(300)), None);
    }

    #[test]
    fn half_and_double_have_the_same_symmetric_error() {
        let error = |estimate| symmetric_mean_absolute_percentage_error(&[(estimate, 100.0)]).unwrap();
        assert!((error(50.0) - 100.0 * 50.0 / 75.0).abs() < 1e-9);
        assert!((error(50.0) - error(200.0)).abs() < 1e-9);
        assert_eq!(symmetric_mean_absolute_percentage_error(&[(0.0, 0.0), (7.0, 0.0)]), Some(1.0));
    }

    #[test]
    fn accuracy_matches_bobs_paper() {
        let series = Series {
            capacity_bps: vec![100, 100, 0, 100],
            estimate_bps: vec![None, Some(60), Some(80), Some(300)],
            ..Series::default()
        };
        // Errors of 40 / 80, 80 / 40 and 200 / 200: an sMAPE of 3.5 / 3 on the paper's scale of 0 to 2.
        let scores = TargetScores::of(&series);
        assert!((scores.smape.unwrap() - 3.5 / 3.0).abs() < 1e-12);
        assert!((scores.accuracy.unwrap() - (1.0 - 3.5 / 3.0 / 2.0)).abs() < 1e-12);
        assert_eq!(TargetScores::of(&Series::default()).accuracy, None);
    }
}
