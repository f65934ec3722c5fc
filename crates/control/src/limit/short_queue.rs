//! Short-queue limit: bytes in the pacer count if the bottleneck queue is shorter than a frame.

use super::{Budget, Limit, LimitedBy};
use crate::PathView;

/// Fragments leave only as fast as a short queue has room, so frames wait in the pacer. Controllers do not see this
/// wait. A frame gets at most the bytes that the pacer drains soon.
#[derive(Debug, Clone, Copy)]
pub struct ShortQueueLimit;

impl Limit for ShortQueueLimit {
    fn kind(&self) -> LimitedBy {
        LimitedBy::ShortQueue
    }

    fn limit(&self, path: &PathView<'_>, budget: Budget) -> Budget {
        let Some(queue) = path.bottleneck_queue else { return budget };
        let queued = budget.in_flight.queued;
        let limited = Budget { target: budget.target.min(queue.max_target(queued)), ..budget };
        queue.room(queued).map_or(limited, |room| limited.capped(room))
    }
}
