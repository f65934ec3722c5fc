//! Losses that feedback confirms.

use std::collections::BTreeSet;

use lockstep_transport::{AcknowledgedFragment, LostFragment};
use lockstep_units::Timestamp;

/// Upper bound of unconfirmed losses; older ones are dropped.
const MAX_PENDING_LOSSES: usize = 16_384;

/// Filter of losses. The transport also declares losses during silence, as in an outage; WebRTC does so only after
/// feedback on later packets. Therefore a loss counts once a later fragment has arrived, unless the fragment itself
/// arrives.
#[derive(Debug, Clone, Default)]
pub(super) struct LossReports {
    /// Sending time, frame and fragment number.
    pending: BTreeSet<(Timestamp, u32, u16)>,
    newest_arrived: Option<Timestamp>,
}

impl LossReports {
    /// Adds fragments that were declared lost. Returns the number of losses that this confirms.
    pub(super) fn on_loss(&mut self, lost: &[LostFragment]) -> u64 {
        self.pending.extend(lost.iter().map(|fragment| (fragment.sent_at, fragment.frame, fragment.fragment)));
        while self.pending.len() > MAX_PENDING_LOSSES {
            self.pending.pop_first();
        }
        self.settle()
    }

    /// Adds arrived fragments. Returns the number of losses that this confirms.
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
    fn loss_counts_after_a_later_fragment_arrived() {
        let mut reports = LossReports::default();
        assert_eq!(reports.on_loss(&[lost(10, 1200), lost(20, 1200), lost(30, 1200)]), 0);
        assert_eq!(reports.on_acknowledged(&[acknowledged(25, 60, 1200)]), 2);
        assert_eq!(reports.on_acknowledged(&[acknowledged(40, 70, 1200)]), 1);
        assert_eq!(reports.on_loss(&[lost(35, 1200)]), 1);
    }

    #[test]
    fn late_fragment_is_not_a_loss() {
        let mut reports = LossReports::default();
        reports.on_loss(&[lost(10, 1200), lost(20, 1200)]);
        assert_eq!(reports.on_acknowledged(&[acknowledged(10, 900, 1200), acknowledged(20, 901, 1200)]), 0);
    }
}
