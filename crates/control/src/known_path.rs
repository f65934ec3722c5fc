//! Known capacity of the forward path, for controllers and training. A simulator provides it.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use lockstep_units::{ByteCount, Timestamp};

/// Capacity of a bottleneck over time, on the clock of its trace.
pub trait KnownCapacity: Debug + Send + Sync {
    /// Bytes that the bottleneck delivers after `from`, up to and including `to`.
    fn bytes_between(&self, from: Timestamp, to: Timestamp) -> ByteCount;
    /// Share of packets lost at `at`, 0 to 1.
    fn loss_at(&self, at: Timestamp) -> f64;
}

/// The queue before a bottleneck.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KnownQueue {
    /// Maximum number of packets; none without a limit.
    pub packets: Option<usize>,
    /// Maximum number of bytes; none without a limit.
    pub bytes: Option<ByteCount>,
    /// Delay at which the queue starts to drop, for CoDel and PIE; none for other queues.
    pub target: Option<Duration>,
}

/// Known capacity, queue and loss of the forward path.
#[derive(Debug, Clone)]
pub struct KnownPath {
    /// The bottleneck's capacity.
    pub capacity: Arc<dyn KnownCapacity>,
    /// Position in the trace at the start of the link's clock.
    pub offset: Duration,
    /// Start of the link's clock on the sender's clock.
    pub start: Timestamp,
    /// The queue before the bottleneck.
    pub queue: KnownQueue,
    /// Mean share of packets lost (0 to 1), in addition to the losses by trace and queue.
    pub loss: f64,
}
