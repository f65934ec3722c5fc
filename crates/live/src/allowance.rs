//! Token bucket: limits how much may happen per second, and how much at once after a pause.

use lockstep_units::Timestamp;

/// Token bucket. The caller passes the rate each time, because the rate may change.
#[derive(Debug, Clone)]
pub(crate) struct Allowance {
    left: f64,
    at: Timestamp,
}

impl Allowance {
    /// A full bucket of `most` tokens.
    pub(crate) fn new(most: f64) -> Self {
        Self { left: most, at: Timestamp::ZERO }
    }

    /// Refills the bucket at `rate` tokens per second up to `most`, then takes `amount` if the bucket holds it. Returns
    /// whether it did; otherwise nothing is taken.
    pub(crate) fn take(&mut self, now: Timestamp, rate: f64, most: f64, amount: f64) -> bool {
        self.left = (self.left + rate * now.saturating_since(self.at).as_secs_f64()).min(most);
        self.at = self.at.max(now);
        let allowed = self.left >= amount;
        self.left -= if allowed { amount } else { 0.0 };
        allowed
    }

    /// Time of the newest call of [`Self::take`].
    pub(crate) fn last_asked(&self) -> Timestamp {
        self.at
    }
}
