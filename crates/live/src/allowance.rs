//! How much of something may happen: so much a second, and what was not used for a while at once.

use lockstep_units::Timestamp;

/// What is left of an allowance. Its rate is said each time, because it may change.
#[derive(Debug, Clone)]
pub(crate) struct Allowance {
    left: f64,
    at: Timestamp,
}

impl Allowance {
    /// `most` may happen at once at first.
    pub(crate) fn new(most: f64) -> Self {
        Self { left: most, at: Timestamp::ZERO }
    }

    /// Takes `amount` of what has come together by `now` at `rate` a second, at most `most`; says whether there was so much,
    /// and takes nothing otherwise.
    pub(crate) fn take(&mut self, now: Timestamp, rate: f64, most: f64, amount: f64) -> bool {
        self.left = (self.left + rate * now.saturating_since(self.at).as_secs_f64()).min(most);
        self.at = self.at.max(now);
        let allowed = self.left >= amount;
        self.left -= if allowed { amount } else { 0.0 };
        allowed
    }

    /// When it was last asked.
    pub(crate) fn last_asked(&self) -> Timestamp {
        self.at
    }
}
