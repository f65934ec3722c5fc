//! CoDel, controlled delay (RFC 8289).
//!
//! A queue is a standing one if all packets wait longer than a target for a whole interval. CoDel then drops packets
//! from the head until they wait less. The distance between drops falls with the square root of their number.

use std::time::Duration;

use lockstep_units::{ByteCount, Timestamp};

use crate::queue::drop_tail::DropTail;
use crate::queue::{QueueDiscipline, Queued};

/// Target: 5 ms, five to ten percent of the interval (RFC 8289, section 4.4).
pub(crate) fn target() -> Duration {
    Duration::from_millis(5)
}

/// Interval: 100 ms, for round-trip times of 10 ms to a second (RFC 8289, section 4.3).
pub(crate) fn interval() -> Duration {
    Duration::from_millis(100)
}

/// A queue of at most one full-size packet is never a standing queue (RFC 8289, section 5.4, `maxpacket`).
const MAX_PACKET_SIZE: ByteCount = ByteCount::new(1_500);

/// A dropping phase resumes the drop rate of the last one within this number of intervals (RFC 8289, section 5.5).
const MEMORY_INTERVALS: u32 = 16;

#[derive(Debug, Clone)]
pub(crate) struct CoDel<T> {
    memory: DropTail<T>,
    target: Duration,
    interval: Duration,
    /// Whether ECN-capable packets are marked instead of dropped.
    ecn: bool,
    /// Time at which the queue becomes a standing one, unless a packet waits less before. `None` while packets wait
    /// less.
    standing_from: Option<Timestamp>,
    dropping: bool,
    next_drop: Timestamp,
    /// Drops since the start of the dropping phase.
    count: u32,
    /// `count` at the start of the last dropping phase.
    first_count: u32,
}

impl<T> CoDel<T> {
    pub(crate) fn new(memory: DropTail<T>, target: Duration, interval: Duration, ecn: bool) -> Self {
        Self {
            memory,
            target,
            interval,
            ecn,
            standing_from: None,
            dropping: false,
            next_drop: Timestamp::ZERO,
            count: 0,
            first_count: 0,
        }
    }

    /// Head of the queue.
    pub(crate) fn front(&self) -> Option<&Queued<T>> {
        self.memory.front()
    }

    /// The next packet, and whether it may be dropped because of a standing queue.
    fn head(&mut self, now: Timestamp) -> Option<(Queued<T>, bool)> {
        let Some(packet) = self.memory.pop() else {
            self.standing_from = None;
            return None;
        };
        let waited = now.saturating_since(packet.sent_at);
        if waited < self.target || self.memory.bytes() <= MAX_PACKET_SIZE {
            self.standing_from = None;
            return Some((packet, false));
        }
        let from = *self.standing_from.get_or_insert(now + self.interval);
        Some((packet, now >= from))
    }

    /// Control law: the interval over the square root of the number of drops (RFC 8289, section 5.2).
    fn after(&self, drop: Timestamp) -> Timestamp {
        let nanoseconds = self.interval.as_nanos() as f64 / libm::sqrt(f64::from(self.count.max(1)));
        drop + Duration::from_nanos((nanoseconds as u64).max(1))
    }
}

impl<T> QueueDiscipline<T> for CoDel<T> {
    fn enqueue(&mut self, packet: Queued<T>) -> Result<(), Queued<T>> {
        self.memory.enqueue(packet)
    }

    fn dequeue(&mut self, now: Timestamp, dropped: &mut dyn FnMut(Queued<T>)) -> Option<Queued<T>> {
        let Some((mut packet, mut may_drop)) = self.head(now) else {
            self.dropping = false;
            return None;
        };
        if self.dropping {
            while may_drop && now >= self.next_drop {
                self.count = self.count.saturating_add(1);
                // The control law counts a mark as a drop, but the packet passes.
                if self.ecn && packet.mark() {
                    self.next_drop = self.after(self.next_drop);
                    return Some(packet);
                }
                dropped(packet);
                let Some(next) = self.head(now) else {
                    self.dropping = false;
                    return None;
                };
                (packet, may_drop) = next;
                if may_drop {
                    self.next_drop = self.after(self.next_drop);
                }
            }
            self.dropping = may_drop;
        } else if may_drop {
            let marked = self.ecn && packet.mark();
            // The drop rate of a recent phase is about right again.
            let found = self.count.saturating_sub(self.first_count);
            let recent = now.saturating_since(self.next_drop) < self.interval * MEMORY_INTERVALS;
            self.count = if found > 1 && recent { found } else { 1 };
            self.first_count = self.count;
            self.next_drop = self.after(now);
            self.dropping = true;
            if marked {
                return Some(packet);
            }
            dropped(packet);
            let Some((next, _)) = self.head(now) else {
                self.dropping = false;
                return None;
            };
            packet = next;
        }
        Some(packet)
    }

    fn packets(&self) -> usize {
        self.memory.packets()
    }

    fn bytes(&self) -> ByteCount {
        self.memory.bytes()
    }
}
