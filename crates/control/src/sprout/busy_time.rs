//! From acknowledgements and silence to what the filter learns from: bytes that the bottleneck delivered, and the time
//! for which it had something to deliver.

use super::rate_filter::{RateFilter, TICK};

/// A packet that found nothing before it shows only that the path is no slower than this share of what is expected of
/// it: the rate then still grows while a source has little to send, but not within a few packets to what no path
/// carries.
const LEAST_SHARE: f64 = 0.5;

/// The bottleneck's time, in the sender's clock: a packet that is sent at a moment and waits for nothing has left at
/// that moment. Seconds.
///
/// Silence is believed as long as it lasts, and forgotten when something is heard: that says what the bottleneck did in
/// the meantime. Where acknowledgements come late, as where the other end's pictures are before them, nothing would say
/// otherwise that it had delivered all along.
#[derive(Debug)]
pub(super) struct BusyTime {
    heard: Ledger,
    /// The same with what silence says since.
    presumed: Option<Ledger>,
}

impl BusyTime {
    pub(super) fn new(filter: RateFilter) -> Self {
        let heard = Ledger { filter, known_until: 0.0, free_at: 0.0, tick_end: TICK, bytes: 0.0, seconds: 0.0 };
        Self { heard, presumed: None }
    }

    pub(super) fn filter(&self) -> &RateFilter {
        &self.presumed.as_ref().unwrap_or(&self.heard).filter
    }

    /// When the last packet had left that is known to.
    pub(super) fn free_at(&self) -> f64 {
        self.heard.free_at
    }

    /// A packet of `bytes` left at `left`; its service began at `start`, unless that of the one before ended later.
    /// `idle`: nothing of the sender's own was before it.
    pub(super) fn departed(&mut self, bytes: f64, start: f64, left: f64, idle: bool) {
        self.presumed = None;
        self.heard.departed(bytes, start, left, idle);
    }

    /// Nothing left until `until`, although something was there from `since` on.
    pub(super) fn silent(&mut self, since: f64, until: f64) {
        let since = since.max(self.heard.free_at);
        let known_until = self.presumed.as_ref().unwrap_or(&self.heard).known_until;
        if until > since.max(known_until) {
            self.presumed.get_or_insert_with(|| self.heard.clone()).pass(until, since);
        }
    }
}

/// What the filter was told, and what it has not been told yet.
#[derive(Debug, Clone)]
struct Ledger {
    filter: RateFilter,
    /// All is known until then.
    known_until: f64,
    /// When the last packet had left that is known to.
    free_at: f64,
    tick_end: f64,
    bytes: f64,
    seconds: f64,
}

impl Ledger {
    fn departed(&mut self, bytes: f64, start: f64, left: f64, idle: bool) {
        let start = start.max(self.free_at).min(left);
        self.pass(left, start);
        self.bytes += bytes;
        if idle {
            let expected = bytes / self.filter.mean_rate().max(1.0);
            self.seconds += (LEAST_SHARE * expected - (left - start)).max(0.0);
        }
        self.free_at = self.free_at.max(left);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A path of 125,000 bytes a second that is kept busy, and what is believed of it; heard of until 4 s.
    fn busy() -> BusyTime {
        let mut busy = BusyTime::new(RateFilter::new(125_000.0, 0.5, 0.55, Default::default()));
        for packet in 0..400 {
            let left = f64::from(packet + 1) * 0.01;
            busy.departed(1_250.0, left - 0.01, left, false);
        }
        busy
    }

    #[test]
    fn what_was_believed_in_silence_is_forgotten_when_it_is_heard_that_there_was_none() {
        let mut path = busy();
        let before = path.filter().mean_rate();
        for until in 1..=10 {
            path.silent(4.0, 4.0 + 0.02 * f64::from(until));
        }
        let silent = path.filter().mean_rate();
        assert!(silent < 0.7 * before, "{silent} of {before}");
        // News was late: the path had gone on as before.
        for packet in 0..20 {
            let left = 4.0 + f64::from(packet + 1) * 0.01;
            path.departed(1_250.0, left - 0.01, left, false);
        }
        let after = path.filter().mean_rate();
        assert!((after / before - 1.0).abs() < 0.05, "{after} of {before}");
    }

    #[test]
    fn a_pause_that_the_path_did_make_stays_known() {
        let mut path = busy();
        let before = path.filter().mean_rate();
        path.silent(4.0, 4.5);
        path.departed(1_250.0, 4.0, 4.5, false);
        let after = path.filter().mean_rate();
        assert!(after < 0.7 * before, "{after} of {before}");
    }
}
