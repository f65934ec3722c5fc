//! Losses as the receiver's feedback would tell them.

use std::collections::BTreeSet;

use lockstep_transport::{AcknowledgedFragment, LostFragment};
use lockstep_units::Timestamp;

/// Losses beyond this number that nothing confirms are forgotten.
const MOST_PENDING: usize = 16_384;

/// The transport declares fragments lost when nothing is heard, too, as in an outage; in WebRTC only feedback on later
/// packets does that. A loss therefore counts once a later fragment has arrived, and not if the fragment itself does.
#[derive(Debug, Clone, Default)]
pub(super) struct LossReports {
    /// Time of transmission, frame and place in it.
    pending: BTreeSet<(Timestamp, u32, u16)>,
    newest_arrived: Option<Timestamp>,
}

impl LossReports {
    /// Fragments were declared lost. Returns how many losses that makes certain.
    pub(super) fn on_loss(&mut self, lost: &[LostFragment]) -> u64 {
        self.pending.extend(lost.iter().map(|fragment| (fragment.sent_at, fragment.frame, fragment.fragment)));
        while self.pending.len() > MOST_PENDING {
            self.pending.pop_first();
        }
        self.settle()
    }

    /// Fragments arrived. Returns how many losses that makes certain.
    pub(super) fn on_acknowledged(&mut self, acknowledged: &[AcknowledgedFragment]) -> u64 {
        for fragment in acknowledged {
            self.pending.remove(&(fragment.sent_at, fragment.frame, fragment.fragment));
            self.newest_arrived = self.newest_arrived.max(Some(fragment.sent_at));
        }
        self.settle()
    }

    fn settle(&mut self) -> u64 {
        let Some(newest) = self.newest_arrived else { return 0 };
        let still_pending = self.pending.split_off(&(newest, 0, 0));
        std::mem::replace(&mut self.pending, still_pending).len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{acknowledged, lost};
    use super::*;

    #[test]
    fn a_loss_counts_once_a_later_fragment_has_arrived() {
        let mut reports = LossReports::default();
        assert_eq!(reports.on_loss(&[lost(10, 1200), lost(20, 1200), lost(30, 1200)]), 0);
        assert_eq!(reports.on_acknowledged(&[acknowledged(25, 60, 1200)]), 2);
        assert_eq!(reports.on_acknowledged(&[acknowledged(40, 70, 1200)]), 1);
        assert_eq!(reports.on_loss(&[lost(35, 1200)]), 1);
    }

    #[test]
    fn what_was_only_late_is_no_loss() {
        let mut reports = LossReports::default();
        reports.on_loss(&[lost(10, 1200), lost(20, 1200)]);
        assert_eq!(reports.on_acknowledged(&[acknowledged(10, 900, 1200), acknowledged(20, 901, 1200)]), 0);
    }
}
