//! Silence limit: only probes are sent during an outage.

use lockstep_units::ByteCount;

use super::{Budget, Limit, LimitedBy};
use crate::PathView;

/// No frame during silence. Then one packet until data sent after the silence is acknowledged. Queued frames would
/// delay the data after the outage. A path that drops again has queued none, so it does not restart.
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
