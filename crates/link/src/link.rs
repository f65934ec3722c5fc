//! The link: a packet enters at one time and leaves at a later time, or is dropped.
//!
//! [`Link::send`] accepts a packet, [`Link::poll`] returns arrivals, and [`Link::poll_timeout`] is the time of the next
//! call.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use lockstep_units::random::happens;
use lockstep_units::{Bitrate, ByteCount, Timestamp};
use rand_pcg::Pcg64;

use crate::config::{ConfigError, LinkConfig, LossPlace};
use crate::loss::{Delays, Losses};
use crate::queue::{Queue, QueueDiscipline, Queued};
use crate::random::{Purpose, generator};
use crate::service::Service;
use crate::statistics::{DropReason, LinkStatistics, Tally};
use crate::trace::{Conditions, nanos};

/// Result of [`Link::send`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// The packet was accepted. It may still be lost.
    Queued,
    /// The packet was dropped.
    Dropped(DropReason),
}

/// A packet that left the link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivered<T> {
    /// Time of arrival. The call of [`Link::poll`] may be later.
    pub at: Timestamp,
    /// Time at which the packet entered the link.
    pub sent_at: Timestamp,
    /// Size, as given by the sender.
    pub size: ByteCount,
    /// Time from entering the link to the start of service at the bottleneck.
    pub queueing_delay: Duration,
    /// Time of service at the bottleneck, including an outage during it.
    pub service_time: Duration,
    /// Whether this is a copy that the link made.
    pub duplicate: bool,
    /// Whether the queue marked the packet instead of dropping it (ECN).
    pub congestion_experienced: bool,
    /// The packet.
    pub packet: T,
}

/// A packet after the bottleneck. The order is reversed for the heap: the earliest is the greatest.
#[derive(Debug, Clone)]
struct Flight<T> {
    delivered: Delivered<T>,
    /// Order in which packets left the bottleneck; it breaks ties.
    order: u64,
}

impl<T> Flight<T> {
    fn key(&self) -> (Timestamp, u64) {
        (self.delivered.at, self.order)
    }
}

impl<T> PartialEq for Flight<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<T> Eq for Flight<T> {}

impl<T> PartialOrd for Flight<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Flight<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

/// State of the bottleneck.
#[derive(Debug, Clone, Copy)]
enum Bottleneck {
    /// The queue is empty.
    Idle,
    /// A packet is in service until this time.
    Busy(Timestamp),
    /// The next packet leaves the queue at this time.
    Waiting(Timestamp),
}

/// One direction of a path, without a clock. Each call has the time as an argument, and additional calls change no
/// result.
///
/// Time does not go back: an earlier time than in a previous call counts as the previous one. If a packet enters at the
/// time at which another leaves the bottleneck, the other leaves first.
///
/// The cost of a packet is logarithmic in the length of the trace, and in the number of reordered packets. Idle time
/// costs nothing.
#[derive(Debug, Clone)]
pub struct Link<T> {
    config: LinkConfig,
    /// Time at which the trace begins, without the configured offset.
    origin: Timestamp,
    trace_offset: u64,
    now: Timestamp,
    queue: Queue<T>,
    service: Service,
    bottleneck: Bottleneck,
    losses: Losses,
    delays: Delays,
    reordering: Pcg64,
    duplication: Pcg64,
    /// Packets that arrive in the order in which they left the bottleneck.
    ordered: VecDeque<Flight<T>>,
    /// Packets that others may overtake.
    late: BinaryHeap<Flight<T>>,
    /// Whether the link only has a queue, a bottleneck and a fixed delay: no loss, duplication or variable delay.
    is_plain: bool,
    /// Number of packets that left the bottleneck.
    order: u64,
    /// Earliest time of arrival of the next packet in `ordered`.
    floor: Timestamp,
    under_way: Tally,
    statistics: LinkStatistics,
}

impl<T: Clone> Link<T> {
    /// A link whose clock starts at zero. Equal configurations, seeds and calls give equal results.
    ///
    /// # Errors
    /// [`ConfigError`] for an invalid configuration.
    pub fn new(config: LinkConfig, seed: u64) -> Result<Self, ConfigError> {
        Self::starting_at(config, seed, Timestamp::ZERO)
    }

    /// A link whose trace and schedules start at `origin`, for drivers whose clock does not start at zero.
    ///
    /// # Errors
    /// [`ConfigError`] for an invalid configuration.
    pub fn starting_at(config: LinkConfig, seed: u64, origin: Timestamp) -> Result<Self, ConfigError> {
        config.validate()?;
        let losses = Losses::new(&config.loss, seed, origin);
        let is_plain = config.jitter.is_none()
            && config.reordering.is_none()
            && config.duplication <= 0.0
            && losses.are_none()
            && config.trace.condition_changes().is_empty();
        Ok(Self {
            is_plain,
            origin,
            trace_offset: nanos(config.trace_offset),
            now: origin,
            queue: Queue::new(config.queue, seed, origin),
            service: Service::new(config.trace.clone()),
            bottleneck: Bottleneck::Idle,
            losses,
            delays: Delays::new(config.jitter, seed),
            reordering: generator(seed, Purpose::Reordering),
            duplication: generator(seed, Purpose::Duplication),
            ordered: VecDeque::new(),
            late: BinaryHeap::new(),
            order: 0,
            floor: origin,
            under_way: Tally::default(),
            statistics: LinkStatistics::default(),
            config,
        })
    }

    /// Sends a packet that is not ECN-capable at `now`. [`LinkConfig`] describes the size.
    pub fn send(&mut self, now: Timestamp, size: ByteCount, packet: T) -> Verdict {
        self.offer(now, size, false, packet)
    }

    /// Sends an ECN-capable packet (RFC 3168), which the queue may mark.
    pub fn send_ecn_capable(&mut self, now: Timestamp, size: ByteCount, packet: T) -> Verdict {
        self.offer(now, size, true, packet)
    }

    fn offer(&mut self, now: Timestamp, size: ByteCount, ecn_capable: bool, packet: T) -> Verdict {
        self.advance(now);
        let now = self.now;
        self.statistics.sent += size;
        if self.config.loss.place == LossPlace::BeforeBottleneck {
            let conditions = self.conditions_at(now);
            if let Some(reason) = self.losses.decide(now, &conditions) {
                *self.statistics.dropped_for(reason) += size;
                return Verdict::Dropped(reason);
            }
        }
        let queued = Queued { sent_at: now, size, ecn_capable, congestion_experienced: false, packet };
        let begins = matches!(self.bottleneck, Bottleneck::Idle) && self.config.medium.is_none();
        if begins && self.queue.passes(size) {
            let start = self.service.first_start(self.trace_time(now));
            let start = self.moment(start);
            if start <= now && start < Timestamp::MAX {
                // The queue is empty and the packet would leave it at once, so it skips the queue.
                self.serve(queued, start);
                self.advance(now);
                return Verdict::Queued;
            }
            self.bottleneck = Bottleneck::Waiting(start);
        }
        if self.queue.enqueue(queued).is_err() {
            self.statistics.dropped_by_queue += size;
            return Verdict::Dropped(DropReason::Queue);
        }
        if matches!(self.bottleneck, Bottleneck::Idle) && self.config.medium.is_none() {
            let start = self.service.first_start(self.trace_time(now));
            self.bottleneck = Bottleneck::Waiting(self.moment(start));
            self.advance(now);
        }
        Verdict::Queued
    }

    /// Returns the next packet that has arrived by `now`, in the order of arrival.
    pub fn poll(&mut self, now: Timestamp) -> Option<Delivered<T>> {
        self.advance(now);
        if self.late.is_empty() {
            // The fast path of the code below, without reordered packets.
            let &Flight { delivered: Delivered { at, size, .. }, .. } = self.ordered.front()?;
            if at > self.now || at == Timestamp::MAX {
                return None;
            }
            self.came_out(size);
            let delivered = self.ordered.pop_front()?.delivered;
            if self.ordered.is_empty() {
                // An empty deque restarts at its first slot, which is in the cache.
                self.ordered.clear();
            }
            return Some(delivered);
        }
        let late = match (self.ordered.front(), self.late.peek()) {
            (Some(ordered), Some(late)) => late.key() < ordered.key(),
            (ordered, _) => ordered.is_none(),
        };
        let next = if late { self.late.peek() } else { self.ordered.front() };
        // Packets that never arrive have the time [`Timestamp::MAX`].
        next.filter(|flight| flight.delivered.at <= self.now && flight.delivered.at < Timestamp::MAX)?;
        let delivered = if late { self.late.pop() } else { self.ordered.pop_front() }?.delivered;
        if self.ordered.is_empty() {
            // An empty deque restarts at its first slot, which is in the cache.
            self.ordered.clear();
        }
        self.came_out(delivered.size);
        Some(delivered)
    }

    fn came_out(&mut self, size: ByteCount) {
        self.under_way.packets -= 1;
        self.under_way.bytes -= size;
        self.statistics.delivered += size;
    }

    /// Lower bound of the next arrival, for the next call of [`Link::poll`]. `None` if nothing arrives before another
    /// packet is sent. A packet in the queue may still be lost, so the call may return none.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        let heads = [self.ordered.front(), self.late.peek()];
        let flying = Timestamp::earliest(heads.map(|head| head.map(|flight| flight.delivered.at)));
        let start = match self.bottleneck {
            Bottleneck::Waiting(start) => Some(start),
            Bottleneck::Busy(until) if self.queue.packets() > 0 => Some(until),
            Bottleneck::Busy(_) | Bottleneck::Idle => None,
        };
        // A queued packet arrives after the packets in flight, unless packets may be reordered.
        let queued =
            start.filter(|_| flying.is_none() || self.config.reorders()).map(|start| start + self.config.delay);
        Timestamp::earliest([flying, queued]).filter(|&at| at < Timestamp::MAX)
    }

    /// Counters of the link.
    #[must_use]
    pub fn statistics(&self) -> &LinkStatistics {
        &self.statistics
    }

    /// Packets in the queue, as of the last call with a time.
    #[must_use]
    pub fn queued(&self) -> Tally {
        Tally { packets: self.queue.packets() as u64, bytes: self.queue.bytes() }
    }

    /// Packets in service, packets in flight, and arrivals that were not polled.
    #[must_use]
    pub fn under_way(&self) -> Tally {
        self.under_way
    }

    /// Configuration of the link.
    #[must_use]
    pub fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// Capacity at `at` on the link's clock; see [`crate::Trace::capacity_at`].
    #[must_use]
    pub fn capacity_at(&self, at: Timestamp) -> Bitrate {
        self.config.trace.capacity_at(Timestamp::from_nanos(self.trace_time(at)))
    }

    /// Bytes that the bottleneck can pass after `from` up to and including `to`, on the link's clock. See
    /// [`crate::Trace::bytes_between`].
    #[must_use]
    pub fn capacity_between(&self, from: Timestamp, to: Timestamp) -> ByteCount {
        let moment = |at| Timestamp::from_nanos(self.trace_time(at));
        self.config.trace.bytes_between(moment(from), moment(to))
    }

    /// Time in the trace, nanoseconds, for a time on the link's clock.
    fn trace_time(&self, at: Timestamp) -> u64 {
        at.as_nanos().saturating_sub(self.origin.as_nanos()).saturating_add(self.trace_offset)
    }

    /// Time on the link's clock for a time in the trace; [`Timestamp::MAX`] for none.
    fn moment(&self, at: Option<u64>) -> Timestamp {
        at.map_or(Timestamp::MAX, |at| {
            Timestamp::from_nanos(self.origin.as_nanos().saturating_add(at.saturating_sub(self.trace_offset)))
        })
    }

    fn conditions_at(&self, at: Timestamp) -> Conditions {
        if self.service.trace().condition_changes().is_empty() {
            return Conditions::NONE;
        }
        self.service.trace().conditions_at(Timestamp::from_nanos(self.trace_time(at)))
    }

    /// Runs the bottleneck until `now`.
    #[inline]
    fn advance(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
        // The fast path: most calls have nothing to do.
        match self.bottleneck {
            Bottleneck::Busy(due) | Bottleneck::Waiting(due) if due <= self.now => self.work(),
            _ => {}
        }
    }

    fn work(&mut self) {
        loop {
            match self.bottleneck {
                Bottleneck::Busy(until) if until <= self.now && until < Timestamp::MAX => {
                    self.bottleneck = match self.queue.packets() {
                        0 => Bottleneck::Idle,
                        _ => {
                            let start = self.service.next_start(self.trace_time(until));
                            Bottleneck::Waiting(self.moment(start).max(until))
                        }
                    };
                }
                Bottleneck::Waiting(start) if start <= self.now && start < Timestamp::MAX => self.begin(start),
                _ => return,
            }
        }
    }

    /// Takes the next packet from the queue at `start`. Nothing interrupts its service, so its arrival is decided here.
    fn begin(&mut self, start: Timestamp) {
        let Some(queued) = self.dequeue(start) else {
            self.bottleneck = Bottleneck::Idle;
            return;
        };
        self.serve(queued, start);
    }

    /// Serves `queued` from `start` on.
    fn serve(&mut self, queued: Queued<T>, start: Timestamp) {
        let left = self.service.serve(self.trace_time(start), queued.size);
        let left = self.moment(left).max(start);
        self.bottleneck = Bottleneck::Busy(left);
        self.leave(queued, start, left);
    }

    fn dequeue(&mut self, now: Timestamp) -> Option<Queued<T>> {
        let dropped = &mut self.statistics.dropped_by_queue;
        self.queue.dequeue(now, &mut |packet| *dropped += packet.size)
    }

    /// A packet whose service began at `start` leaves the bottleneck at `left`.
    fn leave(&mut self, queued: Queued<T>, start: Timestamp, left: Timestamp) {
        let Queued { sent_at, size, congestion_experienced, packet, .. } = queued;
        let queueing_delay = start.saturating_since(sent_at);
        self.statistics.served += size;
        if congestion_experienced {
            self.statistics.marked += size;
        }
        self.statistics.total_queueing_delay = self.statistics.total_queueing_delay.saturating_add(queueing_delay);
        self.statistics.longest_queueing_delay = self.statistics.longest_queueing_delay.max(queueing_delay);
        if self.is_plain {
            let at = (left + self.config.delay).max(self.floor);
            self.floor = at;
            let service_time = left.saturating_since(start);
            let duplicate = false;
            let delivered = Delivered {
                at,
                sent_at,
                size,
                queueing_delay,
                service_time,
                duplicate,
                congestion_experienced,
                packet,
            };
            return self.fly(delivered, false);
        }
        let conditions = self.conditions_at(left);
        if self.config.loss.place == LossPlace::AfterBottleneck
            && let Some(reason) = self.losses.decide(left, &conditions)
        {
            *self.statistics.dropped_for(reason) += size;
            return;
        }
        let mut at = left + self.config.delay + self.delays.draw(&conditions);
        let mut late = self.config.jitter.is_some_and(|jitter| jitter.reorders);
        if !late {
            at = at.max(self.floor);
        }
        if let Some(reordering) = self.config.reordering
            && happens(&mut self.reordering, reordering.probability)
        {
            at += reordering.extra_delay;
            late = true;
        }
        if !late {
            self.floor = at;
        }
        let service_time = left.saturating_since(start);
        let duplicate = false;
        let delivered =
            Delivered { at, sent_at, size, queueing_delay, service_time, duplicate, congestion_experienced, packet };
        if self.config.duplication > 0.0 && happens(&mut self.duplication, self.config.duplication) {
            self.statistics.duplicated += size;
            let copy = Delivered { duplicate: true, ..delivered.clone() };
            self.fly(delivered, late);
            self.fly(copy, late);
        } else {
            self.fly(delivered, late);
        }
    }

    /// Size of the next packet for the shared medium ([`LinkConfig::medium`]); `None` if the queue is empty.
    #[must_use]
    pub fn head_size(&self) -> Option<ByteCount> {
        self.queue.front().map(|packet| packet.size)
    }

    /// Sends the head of the queue over the shared medium from `now` on. `airtime` is the duration for its size.
    /// Returns the end of the transmission, or `None` if the queue discipline dropped all packets.
    pub fn transmit(&mut self, now: Timestamp, airtime: impl FnOnce(ByteCount) -> Duration) -> Option<Timestamp> {
        self.advance(now);
        let queued = self.dequeue(now)?;
        let left = now + airtime(queued.size);
        self.leave(queued, now, left);
        Some(left)
    }

    /// Drops the head of the queue, which collided too often on the shared medium.
    pub fn give_up(&mut self, now: Timestamp) {
        self.advance(now);
        if let Some(queued) = self.dequeue(now) {
            self.statistics.collided += queued.size;
        }
    }

    fn fly(&mut self, delivered: Delivered<T>, late: bool) {
        self.under_way += delivered.size;
        let flight = Flight { delivered, order: self.order };
        self.order += 1;
        if late {
            self.late.push(flight);
        } else {
            self.ordered.push_back(flight);
        }
    }
}
