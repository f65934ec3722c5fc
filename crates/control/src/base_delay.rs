//! Base delay: sliding-window minimum of one-way delays between two unsynchronised clocks.

use std::time::Duration;

use lockstep_units::{SlidingMinimum, Timestamp};

/// Base delay in nanoseconds. It is negative if the receiver's clock is behind. Delays saturate at 292 years.
#[derive(Debug)]
pub(crate) struct BaseDelay {
    memory: Duration,
    smallest: SlidingMinimum<i64>,
}

impl BaseDelay {
    /// An estimator that remembers delays for `memory`. A clock drift of 50 ppm adds an error of 0.5 ms in ten seconds.
    /// A standing queue counts as base delay once `memory` has passed without an empty queue.
    pub(crate) fn new(memory: Duration) -> Self {
        Self { memory, smallest: SlidingMinimum::new() }
    }

    /// Adds a datagram sent at `sent_at` and arrived at `arrived_at`, each by its own clock. Returns its delay and the
    /// base delay, which includes this sample.
    pub(crate) fn update(&mut self, sent_at: Timestamp, arrived_at: Timestamp) -> (i64, i64) {
        let delay = if arrived_at >= sent_at {
            i64::try_from(arrived_at.as_nanos() - sent_at.as_nanos()).unwrap_or(i64::MAX)
        } else {
            i64::try_from(sent_at.as_nanos() - arrived_at.as_nanos()).map_or(i64::MIN, |early| -early)
        };
        (delay, self.smallest.put(arrived_at, delay, self.memory))
    }

    /// Restarts the minimum at `at` with `delay`, after the path became longer.
    pub(crate) fn restart(&mut self, at: Timestamp, delay: i64) {
        self.smallest = SlidingMinimum::new();
        self.smallest.put(at, delay, self.memory);
    }

    /// Adds a datagram like [`Self::update`] and returns its queueing delay.
    pub(crate) fn queueing_delay(&mut self, sent_at: Timestamp, arrived_at: Timestamp) -> Duration {
        let (delay, smallest) = self.update(sent_at, arrived_at);
        Duration::from_nanos(delay.abs_diff(smallest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queueing_delay_is_independent_of_clock_offset() {
        let mut base = BaseDelay::new(Duration::from_secs(10));
        let mut queue = |sent, arrived| {
            base.queueing_delay(Timestamp::from_millis(sent), Timestamp::from_millis(arrived)).as_millis()
        };
        // The receiver's clock is one minute behind.
        assert_eq!(queue(60_000, 20), 0);
        assert_eq!(queue(60_100, 150), 30);
        // The first delay expires after ten seconds: the path has become longer.
        assert_eq!(queue(70_200, 10_250), 0);
    }
}
