//! The smallest of recent one-way delays: what a path takes without queues, on two clocks that need not agree.

use std::time::Duration;

use lockstep_units::{SlidingMinimum, Timestamp};

/// The smallest one-way delay of the last while, in nanoseconds of unsynchronised clocks (so possibly negative); none
/// is taken for longer than 292 years.
#[derive(Debug)]
pub(crate) struct BaseDelay {
    memory: Duration,
    smallest: SlidingMinimum<i64>,
}

impl BaseDelay {
    /// Believes a delay for `memory`. Clocks that drift by 50 millionths are wrong by half a millisecond in ten
    /// seconds; but a controller that keeps a queue takes it for the path when the memory of the empty one has gone.
    pub(crate) fn new(memory: Duration) -> Self {
        Self { memory, smallest: SlidingMinimum::new() }
    }

    /// A datagram sent at `sent_at` on one clock arrived at `arrived_at` on the other: its delay and the smallest, the
    /// new one included.
    pub(crate) fn update(&mut self, sent_at: Timestamp, arrived_at: Timestamp) -> (i64, i64) {
        let delay = if arrived_at >= sent_at {
            i64::try_from(arrived_at.as_nanos() - sent_at.as_nanos()).unwrap_or(i64::MAX)
        } else {
            i64::try_from(sent_at.as_nanos() - arrived_at.as_nanos()).map_or(i64::MIN, |early| -early)
        };
        (delay, self.smallest.put(arrived_at, delay, self.memory))
    }

    /// The path takes `delay` now, and not less, as of `at`.
    pub(crate) fn restart(&mut self, at: Timestamp, delay: i64) {
        self.smallest = SlidingMinimum::new();
        self.smallest.put(at, delay, self.memory);
    }

    /// The same, as the time that the datagram waited in queues.
    pub(crate) fn queueing_delay(&mut self, sent_at: Timestamp, arrived_at: Timestamp) -> Duration {
        let (delay, smallest) = self.update(sent_at, arrived_at);
        Duration::from_nanos(delay.abs_diff(smallest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_what_the_delay_is_above_the_smallest_whatever_the_clocks_say() {
        let mut base = BaseDelay::new(Duration::from_secs(10));
        let mut queue = |sent, arrived| {
            base.queueing_delay(Timestamp::from_millis(sent), Timestamp::from_millis(arrived)).as_millis()
        };
        // The receiver's clock is a minute behind.
        assert_eq!(queue(60_000, 20), 0);
        assert_eq!(queue(60_100, 150), 30);
        // After ten seconds the first delay is forgotten: the path has become longer.
        assert_eq!(queue(70_200, 10_250), 0);
    }
}
