//! The queue before the bottleneck. A further discipline is a file with an implementation of [`QueueDiscipline`], a
//! variant of [`QueueConfig`] and one of `Queue`.

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

/// A packet that waits.
#[derive(Debug, Clone)]
pub struct Queued<T> {
    /// When it was given to the link.
    pub sent_at: Timestamp,
    /// Its size, as its sender gave it.
    pub size: ByteCount,
    /// Whether its ends take part in explicit congestion notification (RFC 3168), so that it may be marked instead of
    /// dropped.
    pub ecn_capable: bool,
    /// Whether it is marked.
    pub congestion_experienced: bool,
    /// The packet.
    pub packet: T,
}

impl<T> Queued<T> {
    /// Marks it, if its ends understand that; whether they do.
    pub fn mark(&mut self) -> bool {
        self.congestion_experienced |= self.ecn_capable;
        self.ecn_capable
    }
}

/// Which packets wait, which are dropped, and which is served next.
///
/// Calls come in order of time. Arrivals at a moment come after services that begin at that moment.
pub trait QueueDiscipline<T> {
    /// A packet arrives at `packet.sent_at`. It waits, or comes back and is dropped.
    ///
    /// # Errors
    /// The packet, if it is to be dropped.
    fn enqueue(&mut self, packet: Queued<T>) -> Result<(), Queued<T>>;

    /// The bottleneck is free at `now`: the packet to serve. Packets that the discipline drops on the way go to
    /// `dropped`. None if the queue is empty.
    fn dequeue(&mut self, now: Timestamp, dropped: &mut dyn FnMut(Queued<T>)) -> Option<Queued<T>>;

    /// How many packets wait.
    fn packets(&self) -> usize;

    /// How many bytes wait.
    fn bytes(&self) -> ByteCount;
}

/// Which discipline a queue has.
///
/// Limits count the packets that wait, without the one that is being served: on a link of rates that is the one that
/// has begun to leave, on one of delivery opportunities one that has used a part of an opportunity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum QueueConfig {
    /// First in, first out. What would take the queue above a limit is dropped. Without any limit, memory is bounded by
    /// the sender alone.
    DropTail {
        /// The most packets that wait.
        #[serde(default)]
        packets: Option<usize>,
        /// The most bytes that wait.
        #[serde(default)]
        bytes: Option<ByteCount>,
    },
    /// Drops from the head, ever more often, while packets wait longer than a target (CoDel, RFC 8289). The limits are
    /// those of the memory behind it.
    #[serde(rename = "codel")]
    CoDel {
        /// The most packets that wait.
        #[serde(default)]
        packets: Option<usize>,
        /// The most bytes that wait.
        #[serde(default)]
        bytes: Option<ByteCount>,
        /// The wait that is acceptable for good.
        #[serde(default = "codel::target", rename = "target_ms", with = "milliseconds")]
        target: Duration,
        /// How long waits may be longer before packets are dropped: about the longest round-trip time.
        #[serde(default = "codel::interval", rename = "interval_ms", with = "milliseconds")]
        interval: Duration,
        /// Whether packets that are ECN-capable are marked where they would be dropped (RFC 8289, section 1; how, RFC
        /// 3168).
        #[serde(default)]
        ecn: bool,
    },
    /// Drops arriving packets at random, with a probability that is controlled such that packets wait for about a
    /// target (PIE, RFC 8033). The limits are those of the memory behind it.
    Pie {
        /// The most packets that wait.
        #[serde(default)]
        packets: Option<usize>,
        /// The most bytes that wait.
        #[serde(default)]
        bytes: Option<ByteCount>,
        /// The wait that is aimed at.
        #[serde(default = "pie::target", rename = "target_ms", with = "milliseconds")]
        target: Duration,
        /// Whether packets that are ECN-capable are marked where they would be dropped, while the probability is below
        /// a tenth (RFC 8033, section 5.1).
        #[serde(default)]
        ecn: bool,
    },
}

impl Default for QueueConfig {
    /// 256 packets.
    fn default() -> Self {
        Self::drop_tail(256)
    }
}

impl QueueConfig {
    /// [`QueueConfig::DropTail`] of so many packets.
    #[must_use]
    pub const fn drop_tail(packets: usize) -> Self {
        Self::DropTail { packets: Some(packets), bytes: None }
    }

    /// [`QueueConfig::DropTail`] of so many bytes.
    #[must_use]
    pub const fn drop_tail_bytes(bytes: ByteCount) -> Self {
        Self::DropTail { packets: None, bytes: Some(bytes) }
    }

    /// [`QueueConfig::CoDel`] with RFC 8289's target of 5 ms and interval of 100 ms, in the memory of `self`.
    #[must_use]
    pub fn with_codel(self) -> Self {
        let (packets, bytes) = self.limits();
        Self::CoDel { packets, bytes, target: codel::target(), interval: codel::interval(), ecn: false }
    }

    /// [`QueueConfig::Pie`] with RFC 8033's target of 15 ms, in the memory of `self`.
    #[must_use]
    pub fn with_pie(self) -> Self {
        let (packets, bytes) = self.limits();
        Self::Pie { packets, bytes, target: pie::target(), ecn: false }
    }

    /// The same, but ECN-capable packets are marked where they would be dropped. Drop-tail has no such place: it drops
    /// when there is no room, and a mark makes none.
    #[must_use]
    pub fn with_ecn(mut self) -> Self {
        if let Self::CoDel { ecn, .. } | Self::Pie { ecn, .. } = &mut self {
            *ecn = true;
        }
        self
    }

    /// Whether it marks packets that are ECN-capable.
    #[must_use]
    pub const fn marks(&self) -> bool {
        matches!(self, Self::CoDel { ecn: true, .. } | Self::Pie { ecn: true, .. })
    }

    /// The most packets and the most bytes that wait.
    #[must_use]
    pub const fn limits(&self) -> (Option<usize>, Option<ByteCount>) {
        match *self {
            Self::DropTail { packets, bytes }
            | Self::CoDel { packets, bytes, .. }
            | Self::Pie { packets, bytes, .. } => (packets, bytes),
        }
    }

    /// The times in it, by name.
    pub(crate) fn times(&self) -> [(&'static str, Duration); 2] {
        let (target, interval) = match *self {
            Self::DropTail { .. } => (Duration::ZERO, Duration::ZERO),
            Self::CoDel { target, interval, .. } => (target, interval),
            Self::Pie { target, .. } => (target, Duration::ZERO),
        };
        [("queue.target", target), ("queue.interval", interval)]
    }

    /// A queue that never drops, as mahimahi's is without options.
    #[must_use]
    pub const fn unlimited() -> Self {
        Self::DropTail { packets: None, bytes: None }
    }
}

/// One of the disciplines.
#[derive(Debug, Clone)]
pub(crate) enum Queue<T> {
    DropTail(DropTail<T>),
    CoDel(CoDel<T>),
    Pie(Box<Pie<T>>),
}

impl<T> Queue<T> {
    /// Whether a packet of `size` is given on as it came, should it be taken out at the moment at which it is put in:
    /// only where nothing waits, and no discipline looks at what comes and goes.
    pub(crate) fn passes(&self, size: ByteCount) -> bool {
        match self {
            Self::DropTail(queue) => queue.passes(size),
            Self::CoDel(_) | Self::Pie(_) => false,
        }
    }

    /// An empty queue on a link of `seed` that begins at `origin`.
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
    /// The packet at the head.
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
