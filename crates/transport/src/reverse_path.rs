//! Detects acknowledgements that queue on the reverse path, so that the sender requests fewer.

use std::time::Duration;

use lockstep_units::Timestamp;

/// Largest number of doublings of the acknowledgement interval: from 20 to 320 ms (lab: 2026-11-notes-transport).
pub(crate) const MAX_DOUBLINGS: u8 = 4;
/// Periods until a request takes effect: a round trip, and part of the queue's draining.
const EFFECT: u32 = 2;
/// A queue is gone below this fraction of [`ReversePathConfig::queue`].
const GONE: u32 = 5;
/// Largest pause between trials, in units of the first pause.
const MAX_PAUSES: u32 = 32;

/// Periods without a queue before the first trial of a shorter interval. The pause doubles after each failure.
const PAUSE: u32 = 50;
/// Half of the memory of the base delay, in periods; the memory spans one to two halves.
const HALF_MEMORY: u32 = 75;

lockstep_units::config! {
    /// Acknowledgements that queue on the reverse path.
    pub struct ReversePathConfig = "reverse_path" {
        /// Period whose smallest delay measures the queue, in both directions. A burst alone is not a queue.
        period: Duration = 0.2, "s", 0.02..=2.0, "2026-11-control-ablation";
        /// A queue longer than this shows that the reverse path has no room.
        queue: Duration = 0.05, "s", 0.005..=1.0, "2026-11-control-ablation";
    }
}

/// Measures the delays of acknowledgements by their times of transmission, and chooses the doublings of their interval.
#[derive(Debug)]
pub(crate) struct ReversePath {
    /// Smallest delays of the previous and the current half of the memory, microseconds. They include the offset
    /// between the clocks.
    least: [i64; 2],
    half_began: Timestamp,
    /// Smallest delay of the current period, microseconds.
    min_period: i64,
    period_began: Timestamp,
    /// Queueing delay of the previous period.
    queue: Duration,
    doublings: u8,
    changed_at: Timestamp,
    /// Whether the last change was a trial of a shorter interval.
    tried: bool,
    pause: Duration,
    config: ReversePathConfig,
}

impl ReversePath {
    /// A path without measurements.
    pub(crate) fn new(config: ReversePathConfig) -> Self {
        Self {
            least: [i64::MAX; 2],
            half_began: Timestamp::ZERO,
            min_period: i64::MAX,
            period_began: Timestamp::ZERO,
            queue: Duration::ZERO,
            doublings: 0,
            changed_at: Timestamp::ZERO,
            tried: false,
            pause: PAUSE * config.period,
            config,
        }
    }

    /// Number of doublings to request, 0 to [`MAX_DOUBLINGS`].
    pub(crate) fn doublings(&self) -> u8 {
        self.doublings
    }

    /// Largest number of doublings that the receiver may use at `now`. A request takes effect with a delay.
    pub(crate) fn max_applied(&self, now: Timestamp) -> u8 {
        let just_tried = self.tried && now.saturating_since(self.changed_at) < 2 * EFFECT * self.config.period;
        self.doublings + u8::from(just_tried)
    }

    /// Handles an acknowledgement that is newer than all before and left at `sent_at`, receiver's clock.
    pub(crate) fn on_acknowledgement(&mut self, now: Timestamp, sent_at: Timestamp) {
        let micros = |at: Timestamp| i64::try_from(at.as_micros()).unwrap_or(i64::MAX);
        let delay = micros(now).saturating_sub(micros(sent_at));
        if now.saturating_since(self.half_began) >= HALF_MEMORY * self.config.period {
            (self.half_began, self.least) = (now, [self.least[1], i64::MAX]);
        }
        self.least[1] = self.least[1].min(delay);
        self.min_period = self.min_period.min(delay);
        if now.saturating_since(self.period_began) >= self.config.period {
            self.period_began = now;
            let min_period = std::mem::replace(&mut self.min_period, i64::MAX);
            let queue = min_period.saturating_sub(self.least[0].min(self.least[1]));
            self.adapt(now, Duration::from_micros(u64::try_from(queue).unwrap_or(0)));
        }
    }

    fn adapt(&mut self, now: Timestamp, queue: Duration) {
        let since = now.saturating_since(self.changed_at);
        // A shrinking queue is about to empty.
        let ReversePathConfig { period, queue: too_long } = self.config;
        let pause = PAUSE * period;
        let stands = queue > too_long && queue >= std::mem::replace(&mut self.queue, queue);
        if stands && self.doublings < MAX_DOUBLINGS && since >= EFFECT * period {
            self.pause = if self.tried && since < pause { (2 * self.pause).min(MAX_PAUSES * pause) } else { pause };
            (self.doublings, self.changed_at, self.tried) = (self.doublings + 1, now, false);
        } else if queue < too_long / GONE && self.doublings > 0 && since >= self.pause {
            (self.doublings, self.changed_at, self.tried) = (self.doublings - 1, now, true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The doublings after each second. Acknowledgements arrive every 20 ms; `delays` has their delay in each second,
    /// ms.
    fn doublings(path: &mut ReversePath, begin: u64, delays: &[u64]) -> Vec<u8> {
        let second = |(second, &delay): (usize, &u64)| {
            for at in 0..50 {
                let now = 1_000 * (begin + second as u64) + 20 * at + 5_000;
                // The receiver's clock is three seconds behind.
                path.on_acknowledgement(Timestamp::from_millis(now), Timestamp::from_millis(now - 3_000 - delay));
            }
            path.doublings()
        };
        delays.iter().enumerate().map(second).collect()
    }

    #[test]
    fn standing_queue_doubles_interval_and_short_queue_does_not() {
        let mut path = ReversePath::new(ReversePathConfig::default());
        assert_eq!(doublings(&mut path, 0, &[20, 30, 60, 45]), [0; 4]);
        let grown = doublings(&mut path, 4, &[120, 250, 400]);
        assert!(grown[0] >= 1 && grown[2] == MAX_DOUBLINGS, "{grown:?}");
    }

    #[test]
    fn burst_of_100_ms_does_not_double_the_interval() {
        let mut path = ReversePath::new(ReversePathConfig::default());
        for at in 0..1_000_u64 {
            let delay = if at % 20 < 5 { 150 } else { 20 };
            let now = Timestamp::from_millis(1_000 + 20 * at);
            path.on_acknowledgement(now, Timestamp::from_millis(1_000 + 20 * at - delay));
        }
        assert_eq!(path.doublings(), 0);
    }

    #[test]
    fn failing_trials_of_shorter_interval_become_rarer() {
        let mut path = ReversePath::new(ReversePathConfig::default());
        let mut trials = Vec::new();
        for at in 50..20_000_u64 {
            // The reverse path carries half of the acknowledgements without doublings.
            let delay = if path.doublings() == 0 && at > 100 { 200 } else { 20 };
            let now = Timestamp::from_millis(20 * at);
            let before = path.doublings();
            path.on_acknowledgement(now, Timestamp::from_millis(20 * at - delay));
            if path.doublings() < before {
                trials.push(at / 50);
            }
        }
        assert!((3..=7).contains(&trials.len()), "{trials:?}");
        let gaps: Vec<u64> = trials.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.is_sorted(), "{gaps:?}");
    }
}
