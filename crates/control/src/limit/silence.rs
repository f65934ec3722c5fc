//! Nothing goes into silence but probes.

use lockstep_units::ByteCount;

use super::{Budget, Limit, LimitedBy};
use crate::PathView;

/// No frame while the path is silent; one packet until something that was sent after the silence is acknowledged. Waiting
/// frames would delay what follows the outage.
#[derive(Debug, Clone, Copy)]
pub struct SilenceLimit {
    /// Bytes of one packet.
    pub payload: ByteCount,
}

impl Limit for SilenceLimit {
    fn kind(&self) -> LimitedBy {
        LimitedBy::Silence
    }

    fn limit(&self, path: &PathView<'_>, budget: Budget) -> Budget {
        if path.is_silent {
            budget.capped(ByteCount::ZERO)
        } else if path.is_restarting {
            budget.capped(self.payload)
        } else {
            budget
        }
    }
}
