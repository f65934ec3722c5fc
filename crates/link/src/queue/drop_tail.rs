//! Drop-tail: first in, first out.

use std::collections::VecDeque;

use lockstep_units::{ByteCount, Timestamp};

use crate::queue::{QueueDiscipline, Queued};

/// A queue with limits, first in, first out. The other disciplines use it as storage.
#[derive(Debug, Clone)]
pub(crate) struct DropTail<T> {
    waiting: VecDeque<Queued<T>>,
    bytes: ByteCount,
    packet_limit: usize,
    byte_limit: ByteCount,
}

impl<T> DropTail<T> {
    pub(crate) fn new(packets: Option<usize>, bytes: Option<ByteCount>) -> Self {
        Self {
            waiting: VecDeque::new(),
            bytes: ByteCount::ZERO,
            packet_limit: packets.unwrap_or(usize::MAX),
            byte_limit: bytes.unwrap_or(ByteCount::new(u64::MAX)),
        }
    }

    /// Whether the queue is empty and has room for a packet of `size`.
    pub(crate) fn passes(&self, size: ByteCount) -> bool {
        self.waiting.is_empty() && self.packet_limit > 0 && size <= self.byte_limit
    }

    /// Oldest packet.
    pub(crate) fn front(&self) -> Option<&Queued<T>> {
        self.waiting.front()
    }

    pub(crate) fn pop(&mut self) -> Option<Queued<T>> {
        let packet = self.waiting.pop_front()?;
        if self.waiting.is_empty() {
            // An empty deque restarts at its first slot, which is in the cache. This matters if a thousand calls take
            // turns.
            self.waiting.clear();
        }
        self.bytes -= packet.size;
        Some(packet)
    }
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
        self.pop()
    }

    fn packets(&self) -> usize {
        self.waiting.len()
    }

    fn bytes(&self) -> ByteCount {
        self.bytes
    }
}
