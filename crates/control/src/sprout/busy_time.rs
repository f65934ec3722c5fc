//! Input of the filter from acknowledgements and silence: the bytes that the bottleneck delivered, and the time in
//! which it had data to deliver.

use super::rate_filter::{RateFilter, TICK};

/// Lower bound of the service time of a packet on an idle link, as a share of its expected time. Such a packet shows
/// only that the path is at least this fast. With the bound, the rate of a quiet source grows only gradually.
const MIN_SERVICE_SHARE: f64 = 0.5;

/// Busy time of the bottleneck on the sender's clock: a packet that waits for nothing leaves when it is sent. Seconds.
///
/// The effect of silence lasts only until the next feedback, which shows the real deliveries. Otherwise, if
/// acknowledgements are late, for example behind pictures of the other end, a working bottleneck would count as
/// stopped.
#[derive(Debug)]
pub(super) struct BusyTime {
    confirmed: Ledger,
    /// The confirmed state plus the effect of the present silence.
    presumed: Option<Ledger>,
}

impl BusyTime {
    pub(super) fn new(filter: RateFilter) -> Self {
        let confirmed = Ledger { filter, known_until: 0.0, free_at: 0.0, tick_end: TICK, bytes: 0.0, seconds: 0.0 };
        Self { confirmed, presumed: None }
    }

    pub(super) fn filter(&self) -> &RateFilter {
        &self.presumed.as_ref().unwrap_or(&self.confirmed).filter
    }

    /// Time when the last confirmed packet had left.
    pub(super) fn free_at(&self) -> f64 {
        self.confirmed.free_at
    }

    /// Adds a packet of `bytes` that left at `left`. Its service began at `start`, or at the end of the previous one if
    /// that is later. `idle` means that none of the sender's packets was in front of it.
    pub(super) fn departed(&mut self, bytes: f64, start: f64, left: f64, idle: bool) {
        self.presumed = None;
        self.confirmed.departed(bytes, start, left, idle);
    }

    /// Records that nothing left until `until`, although data was waiting from `since` on.
    pub(super) fn silent(&mut self, since: f64, until: f64) {
        let since = since.max(self.confirmed.free_at);
        let known_until = self.presumed.as_ref().unwrap_or(&self.confirmed).known_until;
        if until > since.max(known_until) {
            self.presumed.get_or_insert_with(|| self.confirmed.clone()).pass(until, since);
        }
    }
}

/// The filter, and the observations since its last tick.
#[derive(Debug, Clone)]
struct Ledger {
    filter: RateFilter,
    /// Time up to which all deliveries are known.
    known_until: f64,
    /// Time when the last known packet had left.
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
            self.seconds += (MIN_SERVICE_SHARE * expected - (left - start)).max(0.0);
        }
        self.free_at = self.free_at.max(left);
    }

    fn pass(&mut self, until: f64, busy_from: f64) {
        // After a long silence, earlier ticks do not matter.
        const MAX_TICKS: f64 = 500.0;
        if until - self.known_until > MAX_TICKS * TICK {
            self.known_until = until - MAX_TICKS * TICK;
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

    /// A busy path of 125,000 bytes per second, with feedback until 4 s.
    fn busy() -> BusyTime {
        let mut busy = BusyTime::new(RateFilter::new(125_000.0, 0.5, 0.55, Default::default()));
        for packet in 0..400 {
            let left = f64::from(packet + 1) * 0.01;
            busy.departed(1_250.0, left - 0.01, left, false);
        }
        busy
    }

    #[test]
    fn late_feedback_undoes_the_effect_of_silence() {
        let mut path = busy();
        let before = path.filter().mean_rate();
        for until in 1..=10 {
            path.silent(4.0, 4.0 + 0.02 * f64::from(until));
        }
        let silent = path.filter().mean_rate();
        assert!(silent < 0.7 * before, "{silent} of {before}");
        // The feedback was late: the path had worked as before.
        for packet in 0..20 {
            let left = 4.0 + f64::from(packet + 1) * 0.01;
            path.departed(1_250.0, left - 0.01, left, false);
        }
        let after = path.filter().mean_rate();
        assert!((after / before - 1.0).abs() < 0.05, "{after} of {before}");
    }

    #[test]
    fn real_pause_of_the_path_lowers_the_rate() {
        let mut path = busy();
        let before = path.filter().mean_rate();
        path.silent(4.0, 4.5);
        path.departed(1_250.0, 4.0, 4.5, false);
        let after = path.filter().mean_rate();
        assert!(after < 0.7 * before, "{after} of {before}");
    }
}
