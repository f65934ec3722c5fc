//! Measures how long the bit rate takes to recover after a temporary drop of the capacity.

use std::time::Duration;

use serde::Serialize;

use lockstep_configuration::Seconds;
use lockstep_measure::Series;

use super::reaction::reduction;

/// The links: 40 s at a capacity, 20 s at a share of it, three minutes at the capacity again.
pub(super) const TRACES: [&str; 4] = [
    "steps:1mbps@40s/400kbps@20s/1mbps@180s",
    "steps:1mbps@40s/200kbps@20s/1mbps@180s",
    "steps:2mbps@40s/800kbps@20s/2mbps@180s",
    "steps:2mbps@40s/400kbps@20s/2mbps@180s",
];
/// Length of a call.
pub(super) const LENGTH: Seconds = Seconds::whole(240);
/// Time at which the capacity falls, seconds.
const FALL: u64 = 40;
/// Time at which the capacity returns, seconds.
const BACK: u64 = 60;
/// Window of the mean rate, seconds.
const WINDOW: usize = 5;
/// Share of the capacity at which the mean rate has recovered.
const SHARE: f64 = 0.7;

/// Results of one call.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Recovery {
    /// Time from the return of the capacity to the recovery, seconds. Without recovery, the rest of the call.
    pub(super) seconds: f64,
    /// Whether the bit rate recovered.
    pub(super) came_back: bool,
    /// Share of its rate by which the sender reduces: lowest second until the recovery, against the rate before the fall.
    pub(super) reduction: Option<f64>,
    /// Updates of GCC's delay-based estimate per second until the recovery.
    pub(super) samples_a_second: f64,
    /// Capacity of the link and delivered rate, bit/s, per second of the call.
    pub(super) capacity_bps: Vec<u64>,
    pub(super) received_bps: Vec<u64>,
}

impl Recovery {
    /// Evaluates a call from its series, and from the number of estimate updates per `interval`.
    pub(super) fn of(series: &Series, samples: &[u64], interval: Duration) -> Self {
        let second = (1_000 / series.interval_ms.max(1)).max(1) as usize;
        let mean = |rates: &[u64]| rates.iter().sum::<u64>() / rates.len().max(1) as u64;
        let received: Vec<u64> = series.received_bps.chunks(second).map(mean).collect();
        let capacity: Vec<u64> = series.capacity_bps.chunks(second).map(mean).collect();
        let back = BACK as usize;
        let followed = |from: usize| {
            let window = from..from + WINDOW;
            let rates = received.get(window.clone()).zip(capacity.get(window));
            rates.map(|(received, capacity)| mean(received) as f64 >= SHARE * mean(capacity) as f64)
        };
        let wait = (back..).map_while(followed).position(|followed| followed);
        let seconds = wait.unwrap_or(received.len().saturating_sub(back));
        // The window counts, too, so that sources that recover at once have samples.
        let until = back + seconds.max(WINDOW);
        let at = |second: usize| {
            let index = (second as f64 / interval.as_secs_f64()) as usize;
            samples.get(index.saturating_sub(1)).or(samples.last()).copied().unwrap_or(0)
        };
        let count = at(until).saturating_sub(at(back));
        let sent = |from: usize, to: usize| {
            let points = &series.sent_bps;
            &points[(from * second).min(points.len())..(to * second).min(points.len())]
        };
        let fall = FALL as usize;
        Self {
            seconds: seconds as f64,
            came_back: wait.is_some(),
            reduction: reduction(sent(fall - WINDOW, fall), sent(fall, until), second),
            samples_a_second: count as f64 / (until - back) as f64,
            capacity_bps: capacity,
            received_bps: received,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recovery(received: impl Fn(u64) -> u64) -> Recovery {
        let capacity = |second: u64| if (FALL..BACK).contains(&second) { 200_000 } else { 1_000_000 };
        let points = |of: &dyn Fn(u64) -> u64| (0..2_400).map(|point| of(point / 10)).collect::<Vec<_>>();
        let series = Series {
            interval_ms: 100,
            capacity_bps: points(&capacity),
            received_bps: points(&|second| received(second).min(capacity(second))),
            sent_bps: points(&|second| received(second).min(capacity(second))),
            ..Series::default()
        };
        let samples: Vec<u64> = (1..=480).map(|half| 15 * half).collect();
        Recovery::of(&series, &samples, Duration::from_millis(500))
    }

    #[test]
    fn rate_recovers_when_most_of_the_capacity_is_delivered() {
        let slow = recovery(|second| if second < 85 { 300_000 } else { 800_000 });
        // Four fifths of the 5 s window that begins at 84 s are at 800 kb/s.
        assert_eq!((slow.seconds, slow.came_back), (24.0, true));
        assert_eq!(slow.samples_a_second, 30.0);
        assert_eq!(slow.received_bps.len(), 240);
        // 300 kb/s before the fall, 200 kb/s after it.
        let reduction = slow.reduction.expect("a rate before the fall");
        assert!((reduction - 1.0 / 3.0).abs() < 1e-9, "{reduction}");
    }

    #[test]
    fn call_without_recovery_counts_the_whole_wait() {
        let never = recovery(|_| 600_000);
        assert_eq!((never.seconds, never.came_back), (180.0, false));
    }
}
