//! Pacer: when the next fragment may leave.

use std::time::Duration;

use lockstep_units::Timestamp;

/// Paces fragments: one per interval, and up to `burst` at once after a pause.
///
/// `free_at` is the time at which a path that carries one fragment per interval would be free. A fragment may leave up
/// to `burst - 1` intervals before.
#[derive(Debug)]
pub(crate) struct Pacer {
    interval: Duration,
    burst: u32,
    /// Time before `free_at` at which a fragment may leave: `burst - 1` intervals.
    lead: Duration,
    free_at: Timestamp,
    last: Option<Timestamp>,
}

impl Pacer {
    pub(crate) fn new(interval: Duration, burst: u32) -> Self {
        let mut pacer = Self { interval, burst: 1, lead: Duration::ZERO, free_at: Timestamp::ZERO, last: None };
        pacer.set(interval, burst);
        pacer
    }

    /// Changes the pace. A faster pace applies at once.
    pub(crate) fn set(&mut self, interval: Duration, burst: u32) {
        let burst = burst.max(1);
        if (self.interval, self.burst) == (interval, burst) {
            return;
        }
        (self.interval, self.burst) = (interval, burst);
        self.lead = interval.saturating_mul(burst - 1);
        if let Some(last) = self.last {
            self.free_at = self.free_at.min(last + self.lead.saturating_add(interval));
        }
    }

    /// Time at which the next fragment may leave.
    pub(crate) fn next(&self) -> Timestamp {
        self.free_at - self.lead
    }

    /// Records that a fragment leaves.
    pub(crate) fn transmitted(&mut self, now: Timestamp) {
        self.free_at = self.free_at.max(now) + self.interval;
        self.last = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn departures(pacer: &mut Pacer, from: u64, count: usize) -> Vec<u64> {
        let mut now = Timestamp::from_millis(from);
        let leave = |_| {
            now = now.max(pacer.next());
            pacer.transmitted(now);
            now.as_micros() / 1000
        };
        (0..count).map(leave).collect()
    }

    #[test]
    fn burst_leaves_at_once_and_the_rest_at_the_pace() {
        let mut pacer = Pacer::new(Duration::from_millis(10), 3);
        assert_eq!(departures(&mut pacer, 100, 5), [100, 100, 100, 110, 120]);
        assert_eq!(departures(&mut pacer, 500, 4), [500, 500, 500, 510], "a longer pause allows no longer burst");
    }

    #[test]
    fn faster_pace_applies_at_once() {
        let mut pacer = Pacer::new(Duration::from_secs(10), 1);
        pacer.transmitted(Timestamp::from_millis(5));
        pacer.set(Duration::from_millis(1), 1);
        assert_eq!(pacer.next(), Timestamp::from_millis(6));
    }
}
