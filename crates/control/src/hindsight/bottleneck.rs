//! A known bottleneck: what the trace lets through, and what waits before it.

use std::sync::Arc;
use std::time::Duration;

use lockstep_units::{ByteCount, Timestamp};

use crate::known_path::{KnownCapacity, KnownPath, KnownQueue};

/// Of what a queue holds at most, the share that is filled: datagrams differ in size, and what is dropped costs a frame.
const QUEUE_SHARE: f64 = 0.75;
/// A queue that drops by the time that packets wait is kept below this share of the time at which it begins to.
const TARGET_SHARE: f64 = 0.5;
/// The bottleneck must have something to serve at its next opportunity, and something more behind it.
const LEAST_PACKETS: u64 = 3;

/// The way ahead and what is on it.
#[derive(Debug)]
pub(crate) struct Bottleneck {
    capacity: Arc<dyn KnownCapacity>,
    /// Where the trace is when its clock starts, and when that is on the sender's clock.
    offset: Duration,
    start: Timestamp,
    queue: KnownQueue,
    loss: f64,
    at: Timestamp,
    /// Bytes that wait at `at`.
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

    /// What can pass after `from` and up to and with `to`.
    pub(crate) fn carried(&self, from: Timestamp, to: Timestamp) -> ByteCount {
        self.capacity.bytes_between(self.on_trace(from), self.on_trace(to))
    }

    /// The share of packets lost at `now`.
    pub(super) fn loss(&self, now: Timestamp) -> f64 {
        1.0 - (1.0 - self.loss) * (1.0 - self.capacity.loss_at(self.on_trace(now)))
    }

    /// What waits at `now`.
    pub(crate) fn backlog(&self, now: Timestamp) -> ByteCount {
        self.backlog.saturating_sub(self.carried(self.at, now))
    }

    /// A datagram of `size` on the link was given to it.
    pub(crate) fn take(&mut self, now: Timestamp, size: ByteCount) {
        self.datagram += 0.05 * (size.as_f64() - self.datagram);
        let waiting = self.backlog(now) + size;
        // What a full queue drops does not wait.
        let KnownQueue { packets, bytes, .. } = self.queue;
        let packets = packets.map(|packets| ByteCount::new(((packets + 1) as f64 * self.datagram) as u64));
        let most = [packets, bytes].into_iter().flatten().min();
        self.backlog = most.map_or(waiting, |most| waiting.min(most.max(size)));
        self.at = now;
    }

    /// What may wait before the link at `now` without being dropped, where datagrams have `size`; none if nothing ever is.
    fn room(&self, now: Timestamp, size: ByteCount) -> Option<ByteCount> {
        let KnownQueue { packets, bytes, .. } = self.queue;
        // Two of a long queue may wait whatever their size; of one that holds fewer, those that it holds.
        let held = [packets, bytes.map(|bytes| (bytes.get() / size.get().max(1)) as usize)].into_iter().flatten().min();
        let least = ByteCount::new(size.get().saturating_mul(held.unwrap_or(2).clamp(1, 2) as u64));
        let packets = packets.map(|packets| packets as f64 * self.datagram);
        let memory = [packets, bytes.map(|bytes| bytes.as_f64())].into_iter().flatten().reduce(f64::min);
        let memory = memory.map(|memory| ByteCount::new((QUEUE_SHARE * memory) as u64).max(least));
        let Some(target) = self.queue.target else { return memory };
        let in_time = self.carried(now, now + target.mul_f64(TARGET_SHARE));
        let in_time = in_time.max(ByteCount::new((LEAST_PACKETS as f64 * self.datagram) as u64));
        Some(memory.map_or(in_time, |memory| memory.min(in_time)))
    }

    /// After a datagram of `size` that leaves at `now`, how much of what waits has to pass before the next one.
    pub(super) fn over_after(&self, now: Timestamp, size: ByteCount) -> ByteCount {
        let Some(room) = self.room(now, size) else { return ByteCount::ZERO };
        (self.backlog(now) + size + size).saturating_sub(room)
    }
}
