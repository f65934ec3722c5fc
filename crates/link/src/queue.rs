//! The queue before the bottleneck. A further discipline (CoDel, PIE) is a file with an implementation of
//! [`QueueDiscipline`], a variant of [`QueueConfig`] and one of `Queue`.

use std::collections::VecDeque;

use lockstep_units::{ByteCount, Timestamp};
use serde::{Deserialize, Serialize};

/// A packet that waits.
#[derive(Debug, Clone)]
pub struct Queued<T> {
    /// When it was given to the link.
    pub sent_at: Timestamp,
    /// Its size, as its sender gave it.
    pub size: ByteCount,
    /// The packet.
    pub packet: T,
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
}

impl<T> Queue<T> {
    pub(crate) fn new(config: QueueConfig) -> Self {
        match config {
            QueueConfig::DropTail { packets, bytes } => Self::DropTail(DropTail {
                waiting: VecDeque::new(),
                bytes: ByteCount::ZERO,
                packet_limit: packets.unwrap_or(usize::MAX),
                byte_limit: bytes.unwrap_or(ByteCount::new(u64::MAX)),
            }),
        }
    }

    fn discipline(&self) -> &dyn QueueDiscipline<T> {
        match self {
            Self::DropTail(queue) => queue,
        }
    }
}

impl<T> QueueDiscipline<T> for Queue<T> {
    fn enqueue(&mut self, packet: Queued<T>) -> Result<(), Queued<T>> {
        match self {
            Self::DropTail(queue) => queue.enqueue(packet),
        }
    }

    fn dequeue(&mut self, now: Timestamp, dropped: &mut dyn FnMut(Queued<T>)) -> Option<Queued<T>> {
        match self {
            Self::DropTail(queue) => queue.dequeue(now, dropped),
        }
    }

    fn packets(&self) -> usize {
        self.discipline().packets()
    }

    fn bytes(&self) -> ByteCount {
        self.discipline().bytes()
    }
}

/// First in, first out, up to a limit.
#[derive(Debug, Clone)]
pub(crate) struct DropTail<T> {
    waiting: VecDeque<Queued<T>>,
    bytes: ByteCount,
    packet_limit: usize,
    byte_limit: ByteCount,
}

impl<T> QueueDiscipline<T> for DropTail<T> {
    fn enqueue(&mut self, packet: Queued<T>) -> Result<(), Queued<T>> {
        let bytes = self.bytes + packet.size;
        if self.waiting.len() >= self.packet_limit || bytes > self.byte_limit {
            return Err(packet);
        }
        self.bytes = bytes;
        self.waiting.push_back(packet);
        Ok(())
    }

    fn dequeue(&mut self, _now: Timestamp, _dropped: &mut dyn FnMut(Queued<T>)) -> Option<Queued<T>> {
        let packet = self.waiting.pop_front()?;
        self.bytes -= packet.size;
        Some(packet)
    }

    fn packets(&self) -> usize {
        self.waiting.len()
    }

    fn bytes(&self) -> ByteCount {
        self.bytes
    }
}
