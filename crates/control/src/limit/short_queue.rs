//! Where the bottleneck's queue is shorter than a frame, what waits in the pacer counts.

use super::{Budget, Limit, LimitedBy};
use crate::PathView;

/// Fragments leave no faster than they fit into a short queue, so frames wait in the pacer, where no controller sees them.
/// A frame gets no more than the pacer drains soon.
#[derive(Debug, Clone, Copy)]
pub struct ShortQueueLimit;

impl Limit for ShortQueueLimit {
    fn kind(&self) -> LimitedBy {
        LimitedBy::ShortQueue
    }

    fn limit(&self, path: &PathView<'_>, budget: Budget) -> Budget {
        let Some(queue) = path.bottleneck_queue else { return budget };
        let queued = budget.in_flight.queued;
        let limited = Budget { target: budget.target.min(queue.most_target(queued)), ..budget };
        queue.room(queued).map_or(limited, |room| limited.capped(room))
    }
}
