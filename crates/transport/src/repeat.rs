//! Repetition of a datagram with exponential backoff.

use std::time::Duration;

use lockstep_units::Timestamp;

/// Schedule of the copies.
#[derive(Debug, Clone)]
pub(crate) struct Repeat {
    next: Option<Timestamp>,
    interval: Duration,
    longest: Duration,
    remaining: Option<u32>,
}

impl Repeat {
    /// Schedules copies from `start` on. The interval doubles with each copy, up to `longest`. Ends after `copies`, or
    /// with [`Self::stop`] if `copies` is `None`.
    pub(crate) fn from(start: Timestamp, interval: Duration, longest: Duration, copies: Option<u32>) -> Self {
        Self { next: Some(start), interval, longest, remaining: copies }
    }

    pub(crate) fn stop(&mut self) {
        self.next = None;
    }

    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.next
    }

    /// Returns whether a copy is due, and schedules the next one.
    pub(crate) fn take(&mut self, now: Timestamp) -> bool {
        if self.next.is_none_or(|next| next > now) {
            return false;
        }
        self.remaining = self.remaining.map(|copies| copies.saturating_sub(1));
        self.next = (self.remaining != Some(0)).then(|| now + self.interval.max(Duration::from_millis(1)));
        self.interval = self.interval.saturating_mul(2).min(self.longest);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_doubles_until_copies_end() {
        let mut repeat = Repeat::from(Timestamp::ZERO, Duration::from_millis(10), Duration::from_millis(20), Some(4));
        let mut at = Vec::new();
        while let Some(next) = repeat.next() {
            assert!(repeat.take(next));
            at.push(next.as_micros() / 1000);
        }
        assert_eq!(at, [0, 10, 30, 50]);
        assert!(!repeat.take(Timestamp::MAX));
    }
}
