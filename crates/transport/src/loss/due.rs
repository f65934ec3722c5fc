//! When a fragment counts as lost if nothing is heard before.

use lockstep_units::Timestamp;

use super::{Fate, LossDetection};

/// When something is lost if nothing is heard before; the end of time for never.
#[derive(Debug, Clone, Copy)]
pub(super) struct Due(Timestamp);

impl LossDetection {
    /// When [`Self::detect`] will find something if nothing is heard before.
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
