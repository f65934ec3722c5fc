//! What the forward path will carry, for controllers and lessons that know it. A simulator provides it.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use lockstep_units::{ByteCount, Timestamp};

/// The capacity of a bottleneck over time, on the clock of its trace.
pub trait KnownCapacity: Debug + Send + Sync {
    /// Bytes that pass after `from` and up to and with `to`.
    fn bytes_between(&self, from: Timestamp, to: Timestamp) -> ByteCount;
    /// The share of packets lost at `at` (0-1).
    fn loss_at(&self, at: Timestamp) -> f64;
}

/// The queue before a bottleneck.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KnownQueue {
    /// The most packets in it; none without a limit.
    pub packets: Option<usize>,
    /// The most bytes in it; none without a limit.
    pub bytes: Option<ByteCount>,
    /// The delay at which a queue that drops by delay (CoDel, PIE) begins to drop; none for other queues.
    pub target: Option<Duration>,
}

/// What the forward path will carry.
#[derive(Debug, Clone)]
pub struct KnownPath {
    /// The bottleneck's capacity.
    pub capacity: Arc<dyn KnownCapacity>,
    /// Where its trace is when the link's clock starts.
    pub offset: Duration,
    /// When that is on the sender's clock.
    pub start: Timestamp,
    /// The queue before the bottleneck.
    pub queue: KnownQueue,
    /// The share of packets lost (0-1) beside those that trace and queue lose, in the long run.
    pub loss: f64,
}
