//! Measures in the series of a call how fast a sender follows the capacity.

use serde::Serialize;

use lockstep_call::mean;
use lockstep_measure::Series;

/// Ratio of capacities of two seconds up to which a change is a drop. The inverse is a rise.
const CHANGE: f64 = 0.6;
/// The rate has followed a drop at or below this share of the new capacity.
const REDUCED: f64 = 1.05;
/// The rate has followed a rise at or above this share of the new capacity.
const RECOVERED: f64 = 0.7;
/// Maximum time, seconds. A change that is not followed within it counts with this time.
const MAX_SECONDS: usize = 10;

/// Mean reactions of the sender's rate to changes of capacity.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Reaction {
    /// Capacity drops.
    pub(super) drops: usize,
    /// Mean time from a drop until the rate fits the new capacity, milliseconds.
    pub(super) reduction_ms: Option<f64>,
    /// Mean share of its rate by which the sender reduces after a drop: lowest second against the one before the drop.
    pub(super) reduction: Option<f64>,
    /// Capacity rises.
    pub(super) rises: usize,
    /// Mean time from a rise until the rate is 70 % of the new capacity, milliseconds.
    pub(super) recovery_ms: Option<f64>,
    /// Points of the series with another target than the previous point.
    pub(super) target_updates: usize,
}

fn average(values: &[u64]) -> f64 {
    values.iter().sum::<u64>() as f64 / values.len().max(1) as f64
}

/// Share of the rate in the `before` window by which the lowest second of `after` is below it. None without a rate.
/// A second has `second` points.
pub(super) fn reduction(before: &[u64], after: &[u64], second: usize) -> Option<f64> {
    let rate = Some(average(before)).filter(|&rate| rate > 0.0)?;
    let lowest = after.windows(second).map(average).min_by(f64::total_cmp)?;
    Some((1.0 - lowest / rate).max(0.0))
}

/// Number of points from `from` until the rate over half a second satisfies `followed`, at most those of
/// [`MAX_SECONDS`]. A second has `second` points.
fn points_until(rates: &[u64], from: usize, second: usize, followed: impl Fn(f64) -> bool) -> usize {
    let (half, most) = (second.div_ceil(2), MAX_SECONDS * second);
    (0..most)
        .find(|&wait| rates.get(from + wait..from + wait + half).is_none_or(|rates| followed(average(rates))))
        .unwrap_or(most)
}

impl Reaction {
    pub(super) fn of(series: &Series) -> Self {
        let (capacity, sent) = (&series.capacity_bps, &series.sent_bps);
        let (mut times, mut reductions, mut recoveries) = (Vec::new(), Vec::new(), Vec::new());
        // In calls of many hours, points are further apart than a second.
        let second = (1_000 / series.interval_ms.max(1)).max(1) as usize;
        let milliseconds = |points: usize| (points as u64 * series.interval_ms) as f64;
        let mut at = second;
        while at + second <= capacity.len() {
            let (before, after) = (average(&capacity[at - second..at]), average(&capacity[at..at + second]));
            let wait = if after <= CHANGE * before {
                let wait = points_until(sent, at, second, |rate| rate <= REDUCED * after);
                times.push(milliseconds(wait));
                let end = (at + MAX_SECONDS * second).min(sent.len());
                reductions.extend(reduction(&sent[at - second..at], &sent[at..end], second));
                wait
            } else if CHANGE * after >= before {
                let wait = points_until(sent, at, second, |rate| rate >= RECOVERED * after);
                recoveries.push(milliseconds(wait));
                wait
            } else {
                0
            };
            // Skips the wait, so that one change does not count twice.
            at += if wait > 0 { wait.max(second) } else { 1 };
        }
        Self {
            drops: times.len(),
            reduction_ms: mean(&times),
            reduction: mean(&reductions),
            rises: recoveries.len(),
            recovery_ms: mean(&recoveries),
            target_updates: series.target_bps.windows(2).filter(|pair| pair[0] != pair[1]).count(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drop_and_rise_are_timed_until_the_rate_follows() {
        let part = |rate: u64, points: usize| std::iter::repeat_n(rate, points);
        let capacity: Vec<u64> = part(1_000, 30).chain(part(400, 40)).chain(part(1_000, 40)).collect();
        // The sender follows a drop after 0.5 s and a rise after 1.5 s. The windows of half a second detect it once
        // they are past it.
        let sent: Vec<u64> = part(900, 35).chain(part(300, 50)).chain(part(900, 25)).collect();
        let target_bps = sent.iter().copied().map(Some).collect();
        let series =
            Series { interval_ms: 100, capacity_bps: capacity, sent_bps: sent, target_bps, ..Series::default() };
        let reaction = Reaction::of(&series);
        assert!(reaction.drops >= 1 && reaction.rises >= 1, "{reaction:?}");
        assert!(reaction.recovery_ms.unwrap() > reaction.reduction_ms.unwrap(), "{reaction:?}");
        assert_eq!(reaction.target_updates, 2);
        let reduction = reaction.reduction.expect("a drop");
        assert!((reduction - 2.0 / 3.0).abs() < 1e-9, "{reduction}");
    }

    #[test]
    fn steady_link_has_no_changes() {
        let series =
            Series { interval_ms: 100, capacity_bps: vec![5; 100], sent_bps: vec![5; 100], ..Series::default() };
        let reaction = Reaction::of(&series);
        assert_eq!((reaction.drops, reaction.rises, reaction.reduction), (0, 0, None));
    }
}
