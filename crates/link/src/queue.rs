//! The queue before the bottleneck.
//!
//! A new discipline needs a file with an implementation of [`QueueDiscipline`], a variant of [`QueueConfig`] and one of
//! `Queue`.

mod codel;
mod drop_tail;
mod pie;

use std::time::Duration;

use lockstep_units::quantity::milliseconds;
use lockstep_units::{ByteCount, Timestamp};
use serde::{Deserialize, Serialize};

use codel::CoDel;
use drop_tail::DropTail;
use pie::Pie;

/// A packet in the queue.
#[derive(Debug, Clone)]
pub struct Queued<T> {
    /// Time at which the packet entered the link.
    pub sent_at: Timestamp,
    /// Size, as given by the sender.
    pub size: ByteCount,
    /// Whether the packet is ECN-capable (RFC 3168), so that it may be marked instead of dropped.
    pub ecn_capable: bool,
    /// Whether the packet is marked.
    pub congestion_experienced: bool,
    /// The packet.
    pub packet: T,
}

impl<T> Queued<T> {
    /// Marks the packet if it is ECN-capable. Returns whether it is.
    pub fn mark(&mut self) -> bool {
        self.congestion_experienced |= self.ecn_capable;
        self.ecn_capable
    }
}

/// A queue discipline: which packets wait, which are dropped, and which is next.
///
/// Calls are in the order of time. An arrival comes after a service that begins at the same time.
pub trait QueueDiscipline<T> {
    /// A packet arrives at `packet.sent_at`.
    ///
    /// # Errors
    /// The packet, if it is dropped.
    fn enqueue(&mut self, packet: Queued<T>) -> Result<(), Queued<T>>;

    /// Returns the next packet when the bottleneck is free at `now`; `None` if the queue is empty. Passes the packets
    /// that the discipline drops to `dropped`.
    fn dequeue(&mut self, now: Timestamp, dropped: &mut dyn FnMut(Queued<T>)) -> Option<Queued<T>>;

    /// Number of waiting packets.
    fn packets(&self) -> usize;

    /// Number of waiting bytes.
    fn bytes(&self) -> ByteCount;
}

/// Configuration of the queue discipline.
///
/// Limits count waiting packets, without the one in service. With rates, that is the packet that has begun to leave.
/// With delivery opportunities, it is a packet that has used a part of an opportunity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum QueueConfig {
    /// First in, first out. Packets beyond a limit are dropped. Without a limit, only the sender bounds the memory.
    DropTail {
        /// Largest number of waiting packets.
        #[serde(default)]
        packets: Option<usize>,
        /// Largest number of waiting bytes.
        #[serde(default)]
        bytes: Option<ByteCount>,
    },
    /// CoDel (RFC 8289): drops from the head, increasingly often, while packets wait longer than a target.
    #[serde(rename = "codel")]
    CoDel {
        /// Largest number of waiting packets.
        #[serde(default)]
        packets: Option<usize>,
        /// Largest number of waiting bytes.
        #[serde(default)]
        bytes: Option<ByteCount>,
        /// Acceptable standing queueing delay.
        #[serde(default = "codel::target", rename = "target_ms", with = "milliseconds")]
        target: Duration,
        /// Time above the target before the first drop: about the longest round-trip time.
        #[serde(default = "codel::interval", rename = "interval_ms", with = "milliseconds")]
        interval: Duration,
        /// Whether ECN-capable packets are marked instead of dropped (RFC 8289, section 1; RFC 3168).
        #[serde(default)]
        ecn: bool,
    },
    /// PIE (RFC 8033): drops arriving packets at random, with a probability that keeps the queueing delay near a
    /// target.
    Pie {
        /// Largest number of waiting packets.
        #[serde(default)]
        packets: Option<usize>,
        /// Largest number of waiting bytes.
        #[serde(default)]
        bytes: Option<ByteCount>,
        /// Target of the queueing delay.
        #[serde(default = "pie::target", rename = "target_ms", with = "milliseconds")]
        target: Duration,
        /// Whether ECN-capable packets are marked instead of dropped while the probability is below 0.1 (RFC 8033,
        /// section 5.1).
        #[serde(default)]
        ecn: bool,
    },
}

impl Default for QueueConfig {
    /// Drop-tail with 256 packets.
    fn default() -> Self {
        Self::drop_tail(256)
    }
}

impl QueueConfig {
    /// [`QueueConfig::DropTail`] with a limit in packets.
    #[must_use]
    pub const fn drop_tail(packets: usize) -> Self {
        Self::DropTail { packets: Some(packets), bytes: None }
    }

    /// [`QueueConfig::DropTail`] with a limit in bytes.
    #[must_use]
    pub const fn drop_tail_bytes(bytes: ByteCount) -> Self {
        Self::DropTail { packets: None, bytes: Some(bytes) }
    }

    /// [`QueueConfig::CoDel`] with RFC 8289's target of 5 ms and interval of 100 ms, and the limits of `self`.
    #[must_use]
    pub fn with_codel(self) -> Self {
        let (packets, bytes) = self.limits();
        Self::CoDel { packets, bytes, target: codel::target(), interval: codel::interval(), ecn: false }
    }

    /// [`QueueConfig::Pie`] with RFC 8033's target of 15 ms, and the limits of `self`.
    #[must_use]
    pub fn with_pie(self) -> Self {
        let (packets, bytes) = self.limits();
        Self::Pie { packets, bytes, target: pie::target(), ecn: false }
    }

    /// The same, with marks instead of drops for ECN-capable packets. No effect on drop-tail: it drops for lack of
    /// room, and a mark makes no room.
    #[must_use]
    pub fn with_ecn(mut self) -> Self {
        if let Self::CoDel { ecn, .. } | Self::Pie { ecn, .. } = &mut self {
            *ecn = true;
        }
        self
    }

    /// Whether the queue marks ECN-capable packets.
    #[must_use]
    pub const fn marks(&self) -> bool {
        matches!(self, Self::CoDel { ecn: true, .. } | Self::Pie { ecn: true, .. })
    }

    /// Limits in packets and bytes.
    #[must_use]
    pub const fn limits(&self) -> (Option<usize>, Option<ByteCount>) {
        match *self {
            Self::DropTail { packets, bytes }
            | Self::CoDel { packets, bytes, .. }
            | Self::Pie { packets, bytes, .. } => (packets, bytes),
        }
    }

    /// Times of the configuration, by name.
    pub(crate) fn times(&self) -> [(&'static str, Duration); 2] {
        let (target, interval) = match *self {
            Self::DropTail { .. } => (Duration::ZERO, Duration::ZERO),
            Self::CoDel { target, interval, .. } => (target, interval),
            Self::Pie { target, .. } => (target, Duration::ZERO),
        };
        [("queue.target", target), ("queue.interval", interval)]
    }

    /// A queue that never drops, like mahimahi's default.
    #[must_use]
    pub const fn unlimited() -> Self {
        Self::DropTail { packets: None, bytes: None }
    }
}

/// A queue of any discipline.
#[derive(Debug, Clone)]
pub(crate) enum Queue<T> {
    DropTail(DropTail<T>),
    CoDel(CoDel<T>),
    Pie(Box<Pie<T>>),
}

impl<T> Queue<T> {
    /// Whether a packet of `size` that enters and leaves at the same time passes the queue unchanged. Only if the queue
    /// is empty and its discipline keeps no state.
    pub(crate) fn passes(&self, size: ByteCount) -> bool {
        match self {
            Self::DropTail(queue) => queue.passes(size),
            Self::CoDel(_) | Self::Pie(_) => false,
        }
    }

    /// An empty queue of a link with `seed` that starts at `origin`.
    pub(crate) fn new(config: QueueConfig, seed: u64, origin: Timestamp) -> Self {
        let (packets, bytes) = config.limits();
        let memory = DropTail::new(packets, bytes);
        match config {
            QueueConfig::DropTail { .. } => Self::DropTail(memory),
            QueueConfig::CoDel { target, interval, ecn, .. } => Self::CoDel(CoDel::new(memory, target, interval, ecn)),
            QueueConfig::Pie { target, ecn, .. } => Self::Pie(Box::new(Pie::new(memory, target, ecn, seed, origin))),
        }
    }
}

impl<T> Queue<T> {
    /// Head of the queue.
    pub(crate) fn front(&self) -> Option<&Queued<T>> {
        match self {
            Self::DropTail(queue) => queue.front(),
            Self::CoDel(queue) => queue.front(),
            Self::Pie(queue) => queue.front(),
        }
    }
}

impl<T> QueueDiscipline<T> for Queue<T> {
    fn enqueue(&mut self, packet: Queued<T>) -> Result<(), Queued<T>> {
        match self {
            Self::DropTail(queue) => queue.enqueue(packet),
            Self::CoDel(queue) => queue.enqueue(packet),
            Self::Pie(queue) => queue.enqueue(packet),
        }
    }

    fn dequeue(&mut self, now: Timestamp, dropped: &mut dyn FnMut(Queued<T>)) -> Option<Queued<T>> {
        match self {
            Self::DropTail(queue) => queue.dequeue(now, dropped),
            Self::CoDel(queue) => queue.dequeue(now, dropped),
            Self::Pie(queue) => queue.dequeue(now, dropped),
        }
    }

    fn packets(&self) -> usize {
        match self {
            Self::DropTail(queue) => queue.packets(),
            Self::CoDel(queue) => queue.packets(),
            Self::Pie(queue) => queue.packets(),
        }
    }

    fn bytes(&self) -> ByteCount {
        match self {
            Self::DropTail(queue) => queue.bytes(),
            Self::CoDel(queue) => queue.bytes(),
            Self::Pie(queue) => queue.bytes(),
        }
    }
}
