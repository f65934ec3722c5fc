//! From acknowledgements and silence to what the filter learns from: bytes that the bottleneck delivered, and the time
//! for which it had something to deliver.

use super::rate_filter::{RateFilter, TICK};

/// A packet that found nothing before it shows only that the path is no slower than this share of what is expected of
/// it: the rate then still grows while a source has little to send, but not within a few packets to what no path
/// carries.
const LEAST_SHARE: f64 = 0.5;

/// The bottleneck's time, in the sender's clock: a packet that is sent at a moment and waits for nothing has left at
/// that moment. Seconds.
#[derive(Debug)]
pub(super) struct BusyTime {
    filter: RateFilter,
    /// All is known until then.
    known_until: f64,
    /// When the last packet had left that is known to.
    free_at: f64,
    tick_end: f64,
    bytes: f64,
    seconds: f64,
}

impl BusyTime {
    pub(super) fn new(filter: RateFilter) -> Self {
        Self { filter, known_until: 0.0, free_at: 0.0, tick_end: TICK, bytes: 0.0, seconds: 0.0 }
    }

    pub(super) fn filter(&self) -> &RateFilter {
        &self.filter
    }

    /// When the last packet had left that is known to.
    pub(super) fn free_at(&self) -> f64 {
        self.free_at
    }

    /// A packet of `bytes` left at `left`; its service began at `start`, unless that of the one before ended later.
    /// `idle`: nothing of the sender's own was before it.
    pub(super) fn departed(&mut self, bytes: f64, start: f64, left: f64, idle: bool) {
        let start = start.max(self.free_at).min(left);
        self.pass(left, start);
        self.bytes += bytes;
        if idle {
            let expected = bytes / self.filter.mean_rate().max(1.0);
            self.seconds += (LEAST_SHARE * expected - (left - start)).max(0.0);
        }
        self.free_at = self.free_at.max(left);
    }

    /// Nothing left until `until`, although something was there from `since` on.
    pub(super) fn silent(&mut self, since: f64, until: f64) {
        let since = since.max(self.free_at);
        if until > since.max(self.known_until) {
            self.pass(until, since);
        }
    }

    fn pass(&mut self, until: f64, busy_from: f64) {
        // After a long silence there is nothing to remember between its ticks.
        const MOST_TICKS: f64 = 500.0;
        if until - self.known_until > MOST_TICKS * TICK {
            self.known_until = until - MOST_TICKS * TICK;
            self.tick_end = self.known_until + TICK;
        }
        while self.known_until < until {
            let step = self.tick_end.min(until);
            self.seconds += (step - self.known_until.max(busy_from)).max(0.0);
            self.known_until = step;
            if step >= self.tick_end {
                self.filter.observe(self.bytes, self.seconds);
                self.filter.evolve();
                (self.bytes, self.seconds) = (0.0, 0.0);
                self.tick_end += TICK;
            }
        }
    }
}
