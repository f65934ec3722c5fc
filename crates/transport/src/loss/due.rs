//! The timer of loss detection.

use lockstep_units::Timestamp;

use super::{Fate, LossDetection};

/// Time of the next loss without further acknowledgements; [`Timestamp::MAX`] for none.
#[derive(Debug, Clone, Copy)]
pub(super) struct Due(Timestamp);

impl LossDetection {
    /// Time at which [`Self::detect`] finds a loss without further acknowledgements.
    #[inline]
    pub(crate) fn timeout(&self) -> Option<Timestamp> {
        let due = match self.due.get() {
            Some(Due(due)) => due,
            None => self.find_due(),
        };
        (due < Timestamp::MAX).then_some(due)
    }

    fn find_due(&self) -> Timestamp {
        let deadline = |sequence| match self.fragments.get(sequence) {
            Some(Fate::InFlight(sent)) => self.deadline(sequence, sent),
            _ => Timestamp::MAX,
        };
        let mut due = Timestamp::MAX;
        if self.in_flight > 0 {
            due = deadline(self.oldest_tail);
            if self.oldest < self.oldest_tail {
                due = due.min(deadline(self.oldest));
            }
        }
        self.due.set(Some(Due(due)));
        due
    }
}
