//! Trend of the queueing delay: the slope of a line through the smoothed delay of recent groups.

use std::collections::VecDeque;

use lockstep_units::Timestamp;

use super::arrival_groups::GroupDeltas;

/// Number of groups in the line.
const WINDOW: usize = 20;
/// Weight of the past in the smoothed delay.
const SMOOTHING: f64 = 0.9;
/// Upper bound of the group count.
const MAX_GROUPS: u32 = 1_000;

/// Trend line filter (`TrendlineEstimator` in WebRTC, which replaced the draft's Kalman filter).
#[derive(Debug, Clone, Default)]
pub(super) struct Trendline {
    groups: u32,
    origin: Option<Timestamp>,
    accumulated_milliseconds: f64,
    smoothed_milliseconds: f64,
    /// Arrival time since the origin and smoothed delay, both in milliseconds.
    points: VecDeque<(f64, f64)>,
    slope: f64,
}

impl Trendline {
    /// Adds a group that arrived at `arrived_at`. The time of its comparison, slightly later, is accurate enough.
    pub(super) fn update(&mut self, deltas: GroupDeltas, arrived_at: Timestamp) {
        let origin = *self.origin.get_or_insert(arrived_at);
        self.groups = (self.groups + 1).min(MAX_GROUPS);
        self.accumulated_milliseconds += deltas.delay_change_milliseconds();
        self.smoothed_milliseconds =
            SMOOTHING * self.smoothed_milliseconds + (1.0 - SMOOTHING) * self.accumulated_milliseconds;
        let arrived_milliseconds = arrived_at.saturating_since(origin).as_secs_f64() * 1e3;
        self.points.push_back((arrived_milliseconds, self.smoothed_milliseconds));
        if self.points.len() > WINDOW {
            self.points.pop_front();
        }
        if self.is_full() {
            self.slope = slope(&self.points).unwrap_or(self.slope);
        }
    }

    /// Growth of the delay in milliseconds per millisecond; zero until the window is full.
    pub(super) fn slope(&self) -> f64 {
        self.slope
    }

    /// Whether the window is full.
    pub(super) fn is_full(&self) -> bool {
        self.points.len() == WINDOW
    }

    /// Number of groups so far, at most 1000.
    pub(super) fn groups(&self) -> u32 {
        self.groups
    }
}

/// Slope of the least-squares line; none if all points have the same time.
fn slope(points: &VecDeque<(f64, f64)>) -> Option<f64> {
    let count = points.len() as f64;
    let (sum_x, sum_y) = points.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0, y + point.1));
    let (mean_x, mean_y) = (sum_x / count, sum_y / count);
    let (mut above, mut below) = (0.0, 0.0);
    for &(x, y) in points {
        above += (x - mean_x) * (y - mean_y);
        below += (x - mean_x) * (x - mean_x);
    }
    (below > 0.0).then(|| above / below)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn after(groups: u64, growth_milliseconds: u64) -> Trendline {
        let mut trendline = Trendline::default();
        for group in 1..=groups {
            let arrived = Duration::from_millis(20 + growth_milliseconds);
            let at = Timestamp::from_millis(group * (20 + growth_milliseconds));
            trendline.update(GroupDeltas { sent: Duration::from_millis(20), arrived }, at);
        }
        trendline
    }

    #[test]
    fn steady_growth_gives_its_slope() {
        assert_eq!(after(19, 2).slope(), 0.0, "the window is not full");
        let slope = after(100, 2).slope();
        assert!((slope - 2.0 / 22.0).abs() < 0.002, "{slope}");
    }

    #[test]
    fn constant_delay_has_slope_zero() {
        assert_eq!(after(100, 0).slope(), 0.0);
    }

    #[test]
    fn simultaneous_groups_keep_the_slope_finite() {
        let mut trendline = after(50, 2);
        let before = trendline.slope();
        let deltas = GroupDeltas { sent: Duration::from_millis(20), arrived: Duration::ZERO };
        (0..40).for_each(|_| trendline.update(deltas, Timestamp::from_millis(5_000)));
        assert!(trendline.slope().is_finite() && before > 0.0);
    }
}
