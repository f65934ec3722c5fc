//! Known bottleneck: the capacity of its trace and the bytes in its queue.

use std::sync::Arc;
use std::time::Duration;

use lockstep_units::{ByteCount, Timestamp};

use crate::known_path::{KnownCapacity, KnownPath, KnownQueue};

/// Share of the queue's capacity that may be filled. Datagrams differ in size, and a drop costs a frame.
const QUEUE_SHARE: f64 = 0.75;
/// Share of the target delay that the queue may reach if it drops by delay.
const TARGET_SHARE: f64 = 0.5;
/// Minimum number of packets in such a queue: one in service and more behind it.
const MIN_PACKETS: u64 = 3;

/// The bottleneck and its queue.
#[derive(Debug)]
pub(crate) struct Bottleneck {
    capacity: Arc<dyn KnownCapacity>,
    /// Offset in the trace at the start of its clock, and that start on the sender's clock.
    offset: Duration,
    start: Timestamp,
    queue: KnownQueue,
    loss: f64,
    at: Timestamp,
    /// Bytes in the queue at `at`.
    backlog: ByteCount,
    /// Mean size of a datagram on the link, bytes.
    datagram: f64,
}

impl Bottleneck {
    pub(crate) fn new(path: KnownPath, datagram: u64) -> Self {
        let KnownPath { capacity, offset, start, queue, loss } = path;
        Self {
            capacity,
            offset,
            start,
            queue,
            loss,
            at: Timestamp::ZERO,
            backlog: ByteCount::ZERO,
            datagram: datagram as f64,
        }
    }

    fn on_trace(&self, at: Timestamp) -> Timestamp {
        Timestamp::ZERO + at.saturating_since(self.start).saturating_add(self.offset)
    }

    /// Bytes that the link can deliver after `from`, up to and including `to`.
    pub(crate) fn carried(&self, from: Timestamp, to: Timestamp) -> ByteCount {
        self.capacity.bytes_between(self.on_trace(from), self.on_trace(to))
    }

    /// Share of packets lost at `now`.
    pub(super) fn loss(&self, now: Timestamp) -> f64 {
        1.0 - (1.0 - self.loss) * (1.0 - self.capacity.loss_at(self.on_trace(now)))
    }

    /// Bytes in the queue at `now`.
    pub(crate) fn backlog(&self, now: Timestamp) -> ByteCount {
        self.backlog.saturating_sub(self.carried(self.at, now))
    }

    /// Adds a datagram of `size` link bytes to the queue.
    pub(crate) fn take(&mut self, now: Timestamp, size: ByteCount) {
        self.datagram += 0.05 * (size.as_f64() - self.datagram);
        let waiting = self.backlog(now) + size;
        // A full queue drops the excess.
        let KnownQueue { packets, bytes, .. } = self.queue;
        let packets = packets.map(|packets| ByteCount::new(((packets + 1) as f64 * self.datagram) as u64));
        let most = [packets, bytes].into_iter().flatten().min();
        self.backlog = most.map_or(waiting, |most| waiting.min(most.max(size)));
        self.at = now;
    }

    /// Bytes that the queue holds at `now` without drops, for datagrams of `size`; none if it never drops.
    fn room(&self, now: Timestamp, size: ByteCount) -> Option<ByteCount> {
        let KnownQueue { packets, bytes, .. } = self.queue;
        // A long queue holds at least two datagrams of any size; a shorter one is limited by its capacity.
        let held = [packets, bytes.map(|bytes| (bytes.get() / size.get().max(1)) as usize)].into_iter().flatten().min();
        let least = ByteCount::new(size.get().saturating_mul(held.unwrap_or(2).clamp(1, 2) as u64));
        let packets = packets.map(|packets| packets as f64 * self.datagram);
        let memory = [packets, bytes.map(|bytes| bytes.as_f64())].into_iter().flatten().reduce(f64::min);
        let memory = memory.map(|memory| ByteCount::new((QUEUE_SHARE * memory) as u64).max(least));
        let Some(target) = self.queue.target else { return memory };
        let in_time = self.carried(now, now + target.mul_f64(TARGET_SHARE));
        let in_time = in_time.max(ByteCount::new((MIN_PACKETS as f64 * self.datagram) as u64));
        Some(memory.map_or(in_time, |memory| memory.min(in_time)))
    }

    /// Bytes that must leave the queue before the next datagram, after one of `size` that leaves at `now`.
    pub(super) fn over_after(&self, now: Timestamp, size: ByteCount) -> ByteCount {
        let Some(room) = self.room(now, size) else { return ByteCount::ZERO };
        (self.backlog(now) + size + size).saturating_sub(room)
    }
}
