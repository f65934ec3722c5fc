//! The two links of an emulator, by the clock of this machine: what both kinds of emulator are made of, the one that carries
//! UDP datagrams between sockets and the one that carries IP packets between network namespaces.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::BytesMut;
use lockstep_call::Distribution;
use lockstep_link::{Delivered, DropReason, Link, LinkConfig, LinkStatistics, QueueConfig, Trace};
use lockstep_socket::Clock;
use lockstep_units::{Bitrate, ByteCount, Timestamp};
use serde::Serialize;

use crate::error::EmulatorError;

/// The most bytes that both links hold together: what comes beyond is dropped, however long their queues and delays are.
const MOST_HELD: ByteCount = ByteCount::new(256 << 20);
/// The capacity of a link that is open: it limits nothing.
const AMPLE: Bitrate = Bitrate::from_bps(1_000_000_000);
/// The queue of a link that is open, packets.
const OPEN_QUEUE: usize = 10_000;
/// The longest wait, so that whoever waits looks now and then whether it shall end.
const LONGEST_WAIT: Duration = Duration::from_millis(50);
const STATUS_INTERVAL: Duration = Duration::from_millis(200);

/// Which way a packet goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the near side to the far one.
    Forward,
    /// From the far side to the near one.
    Reverse,
}

impl Direction {
    /// Both, each at its index.
    pub const BOTH: [Self; 2] = [Self::Forward, Self::Reverse];

    /// Its word in logs.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Reverse => "reverse",
        }
    }
}

/// When the traces of an emulator begin.
///
/// Before that the path is open: packets pass with the links' propagation delay and nothing else, so that programs find each
/// other at no cost of the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// When the near side sends its first packet.
    FirstPacket,
    /// At once.
    Now,
    /// At this moment of the system's clock, since the Unix epoch; at once if it has passed.
    At(Timestamp),
    /// When the caller says so, see [`Go::Start`].
    Told,
}

/// What an emulator is to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Go {
    /// Go on.
    On,
    /// Begin the traces now, if they have not begun; and go on.
    Start,
    /// End.
    Stop,
}

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fate {
    /// It came out.
    Delivered {
        /// How long it waited until the bottleneck began to serve it.
        queueing_delay: Duration,
        /// How much later it was handed over than the link said.
        late: Duration,
        /// Whether the queue marked it (ECN).
        marked: bool,
    },
    /// The link dropped it; none where it does not say why.
    Dropped(Option<DropReason>),
    /// The emulator held as much as it may hold.
    Overflow,
    /// The far end of the link did not take it.
    Refused,
}

impl Fate {
    /// Its word in logs.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Delivered { .. } => "delivered",
            Self::Dropped(Some(DropReason::Queue)) => "queue",
            Self::Dropped(Some(DropReason::RandomLoss)) => "random_loss",
            Self::Dropped(Some(DropReason::BurstLoss)) => "burst_loss",
            Self::Dropped(Some(DropReason::OnOffLoss)) => "on_off_loss",
            Self::Dropped(Some(DropReason::ScheduledLoss)) => "scheduled_loss",
            Self::Dropped(Some(DropReason::TraceLoss)) => "trace_loss",
            Self::Dropped(_) => "dropped",
            Self::Overflow => "overflow",
            Self::Refused => "refused",
        }
    }
}

/// A packet whose way through an emulator is at its end. Times are since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketRecord {
    /// Which way it went.
    pub direction: Direction,
    /// Its size, as the link counted it.
    pub size: ByteCount,
    /// When it came in.
    pub in_at: Timestamp,
    /// When it came out, or when it was found to be dropped.
    pub out_at: Timestamp,
    /// What became of it.
    pub fate: Fate,
}

/// Hears of each packet of an emulator.
pub type PacketLog = Box<dyn FnMut(&PacketRecord) + Send>;

/// A packet in a link.
#[derive(Debug, Clone)]
pub struct Carried {
    bytes: BytesMut,
    /// Copies that the link makes share it.
    trail: Option<Arc<Trail>>,
}

impl Carried {
    /// The packet.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// What a log wants to know of a packet that a link holds: links forget those that they drop.
#[derive(Debug)]
struct Trail {
    direction: Direction,
    size: ByteCount,
    in_at: Timestamp,
    came_out: AtomicBool,
    gone: Gone,
}

impl Drop for Trail {
    fn drop(&mut self) {
        if !self.came_out.load(Ordering::Relaxed) {
            let mut gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
            gone.push((self.direction, self.size, self.in_at));
        }
    }
}

/// Packets that a link dropped: which way they went, their sizes, when they came in.
type Gone = Arc<Mutex<Vec<(Direction, ByteCount, Timestamp)>>>;

/// How late an emulator handed packets over: after the moment at which the link let them out.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Lateness {
    /// Packets handed over.
    pub packets: u64,
    /// The median, milliseconds.
    pub p50_ms: Option<f64>,
    /// The 99th percentile, milliseconds.
    pub p99_ms: Option<f64>,
    /// The most, milliseconds.
    pub max_ms: Option<f64>,
}

/// What an emulator tells its caller a few times a second.
#[derive(Debug, Clone)]
pub struct EmulatorStatus {
    /// Time since the traces began; zero before.
    pub elapsed: Duration,
    /// When they began, since the Unix epoch.
    pub started_at: Option<Timestamp>,
    /// The forward link's counters.
    pub forward: LinkStatistics,
    /// The reverse link's counters.
    pub reverse: LinkStatistics,
    /// Whether something is on its way that will come out of either link.
    pub under_way: bool,
}

/// The ends of the links: where packets come from and go to.
pub(crate) trait Ends {
    /// The size of `packet` that its link counts.
    fn size(&self, packet: &[u8]) -> ByteCount;

    /// Whether the ends of `packet` understand marks of congestion.
    fn is_ecn_capable(&self, packet: &[u8]) -> bool;

    /// Hands over a packet that has come out, marked if it is to be; says whether it was taken.
    fn send(&mut self, direction: Direction, packet: &mut BytesMut, marked: bool) -> Result<bool, EmulatorError>;

    /// Waits for packets, for `most` at most, and hands over those that came, with their times, not after they were read.
    fn wait(
        &mut self,
        clock: &Clock,
        most: Duration,
        came: &mut dyn FnMut(Direction, Timestamp, BytesMut),
    ) -> Result<(), EmulatorError>;

    /// Called before each wait, with the time since the traces began.
    fn tick(&mut self, elapsed: Option<Duration>) -> Result<(), EmulatorError>;

    /// Called a few times a second.
    fn check(&mut self) -> Result<(), EmulatorError>;
}

/// What hears of sizes and delays, on the links' clock.
pub(crate) trait Meter {
    /// A packet was given to a link.
    fn sent(&mut self, direction: Direction, at: Timestamp, size: ByteCount);

    /// A packet came out.
    fn received(&mut self, direction: Direction, delivered: &Delivered<Carried>);
}

/// Both links while they are driven.
pub(crate) struct EmulatedPath<M> {
    clock: Clock,
    start: Start,
    /// On `clock`.
    started_at: Option<Timestamp>,
    links: [Link<Carried>; 2],
    /// Those before the start. Their clock is `clock`.
    open: [Link<Carried>; 2],
    pub meter: M,
    log: Option<PacketLog>,
    gone: Gone,
    /// Which of the links' drops the log has been told of, by direction and reason.
    told: [[u64; REASONS.len()]; 2],
    lateness: Distribution,
    overflow: u64,
    refused: u64,
}

/// What an emulator has done.
#[derive(Debug, Clone, PartialEq)]
pub struct Carriage {
    /// When the traces began, since the Unix epoch.
    pub started_at: Option<Timestamp>,
    /// The forward link's counters, from the start of the traces on.
    pub forward: LinkStatistics,
    /// The reverse link's counters.
    pub reverse: LinkStatistics,
    /// Packets, both ways, that passed before.
    pub before_start: u64,
    /// How late packets were handed over.
    pub lateness: Lateness,
    /// Packets dropped because the emulator held as much as it may hold.
    pub overflow: u64,
    /// Packets that the side they went to did not take.
    pub refused: u64,
}

const REASONS: [DropReason; 6] = [
    DropReason::Queue,
    DropReason::RandomLoss,
    DropReason::BurstLoss,
    DropReason::OnOffLoss,
    DropReason::ScheduledLoss,
    DropReason::TraceLoss,
];

fn drops(statistics: &LinkStatistics) -> [u64; REASONS.len()] {
    let LinkStatistics { dropped_by_queue, random_loss, burst_loss, on_off_loss, scheduled_loss, trace_loss, .. } =
        statistics;
    [dropped_by_queue, random_loss, burst_loss, on_off_loss, scheduled_loss, trace_loss].map(|tally| tally.packets)
}

/// A link that lets through what one would carry, after the delay that it has at its start.
fn open_link(like: &LinkConfig) -> Result<Link<Carried>, EmulatorError> {
    let at_start = like.trace.conditions_at(Timestamp::ZERO + like.trace_offset);
    let mut config = LinkConfig::new(Trace::constant(AMPLE));
    config.delay = like.delay.saturating_add(at_start.delay).min(lockstep_units::quantity::MAXIMUM_PERIOD);
    config.queue = QueueConfig::drop_tail(OPEN_QUEUE);
    Link::new(config, 0).map_err(|error| EmulatorError::Link(error.to_string()))
}

impl<M: Meter> EmulatedPath<M> {
    pub fn new(
        clock: Clock,
        start: Start,
        links: [Link<Carried>; 2],
        meter: M,
        log: Option<PacketLog>,
    ) -> Result<Self, EmulatorError> {
        let open = [open_link(links[0].config())?, open_link(links[1].config())?];
        Ok(Self {
            clock,
            start,
            started_at: (start == Start::Now).then(|| clock.now()),
            links,
            open,
            meter,
            log,
            gone: Gone::default(),
            told: Default::default(),
            lateness: Distribution::of_milliseconds(),
            overflow: 0,
            refused: 0,
        })
    }

    fn since_epoch(&self, at: Timestamp) -> Timestamp {
        self.clock.epoch() + at.saturating_since(Timestamp::ZERO)
    }

    /// The links' clock: zero until the traces begin.
    fn since_start(&self, at: Timestamp) -> Timestamp {
        Timestamp::ZERO + self.started_at.map_or(Duration::ZERO, |start| at.saturating_since(start))
    }

    /// The moment of the driver's clock at which the links' clock is at `at`.
    fn moment(&self, at: Timestamp) -> Timestamp {
        self.started_at.unwrap_or(Timestamp::ZERO) + at.saturating_since(Timestamp::ZERO)
    }

    fn begin(&mut self, at: Timestamp) {
        self.started_at.get_or_insert(at);
    }

    /// The time since the traces began, at `now`; begins them where that is the moment.
    fn elapsed(&mut self, now: Timestamp) -> Option<Duration> {
        if let (Start::At(moment), None) = (self.start, self.started_at) {
            let moment = Timestamp::ZERO + moment.saturating_since(self.clock.epoch());
            if moment <= now {
                self.begin(moment);
            }
        }
        self.started_at.map(|start| now.saturating_since(start))
    }

    /// When there is something to do next, on the driver's clock.
    fn due(&self) -> Option<Timestamp> {
        let links = Timestamp::earliest(self.links.each_ref().map(Link::poll_timeout)).map(|at| self.moment(at));
        let open = Timestamp::earliest(self.open.each_ref().map(Link::poll_timeout));
        let start = match (self.start, self.started_at) {
            (Start::At(moment), None) => Some(Timestamp::ZERO + moment.saturating_since(self.clock.epoch())),
            _ => None,
        };
        Timestamp::earliest([links, open, start])
    }

    fn is_under_way(&self) -> bool {
        self.links.iter().chain(&self.open).any(|link| link.poll_timeout().is_some())
    }

    fn held(&self) -> ByteCount {
        let held = self.links.iter().chain(&self.open).map(|link| link.queued().bytes + link.under_way().bytes);
        held.fold(ByteCount::ZERO, |sum, bytes| sum + bytes)
    }

    /// Tells the log of what the links have dropped by `now`.
    fn tell_of_drops(&mut self, now: Timestamp) {
        let Some(log) = &mut self.log else { return };
        let gone = std::mem::take(&mut *self.gone.lock().unwrap_or_else(PoisonError::into_inner));
        for (direction, size, in_at) in gone {
            let link = direction as usize;
            let happened = drops(self.links[link].statistics());
            // Of those that were dropped between two looks it is known how many had which reason, and not which.
            let reason = (0..REASONS.len()).find(|&reason| self.told[link][reason] < happened[reason]);
            if let Some(reason) = reason {
                self.told[link][reason] += 1;
            }
            let fate = Fate::Dropped(reason.map(|reason| REASONS[reason]));
            let out_at = self.clock.epoch() + now.saturating_since(Timestamp::ZERO);
            log(&PacketRecord { direction, size, in_at, out_at, fate });
        }
    }

    fn tell(&mut self, direction: Direction, size: ByteCount, in_at: Timestamp, out_at: Timestamp, fate: Fate) {
        let (in_at, out_at) = (self.since_epoch(in_at), self.since_epoch(out_at));
        if let Some(log) = &mut self.log {
            log(&PacketRecord { direction, size, in_at, out_at, fate });
        }
    }

    /// Gives a packet that came at `at` to its link.
    fn offer(&mut self, ends: &impl Ends, direction: Direction, at: Timestamp, bytes: BytesMut) {
        if self.start == Start::FirstPacket && direction == Direction::Forward {
            self.begin(at);
        }
        let (size, ecn_capable) = (ends.size(&bytes), ends.is_ecn_capable(&bytes));
        if self.held() + size > MOST_HELD {
            self.overflow += 1;
            self.tell(direction, size, at, at, Fate::Overflow);
            return;
        }
        let trail = self.log.is_some().then(|| {
            let in_at = self.since_epoch(at);
            Arc::new(Trail { direction, size, in_at, came_out: AtomicBool::new(false), gone: self.gone.clone() })
        });
        let carried = Carried { bytes, trail };
        let index = direction as usize;
        // A drop is in the link's counters, and in what is gone.
        let _ = if self.started_at.is_some() {
            let at = self.since_start(at);
            self.meter.sent(direction, at, size);
            let link = &mut self.links[index];
            if ecn_capable { link.send_ecn_capable(at, size, carried) } else { link.send(at, size, carried) }
        } else {
            self.open[index].send(at, size, carried)
        };
        self.tell_of_drops(at);
    }

    /// Hands over what has come out.
    fn deliver(&mut self, ends: &mut impl Ends) -> Result<(), EmulatorError> {
        let now = self.clock.now();
        for direction in Direction::BOTH {
            let index = direction as usize;
            while let Some(delivered) = self.open[index].poll(now) {
                let due = delivered.at;
                self.hand_over(ends, direction, delivered, due)?;
            }
            if self.started_at.is_none() {
                continue;
            }
            let on_link = self.since_start(now);
            while let Some(delivered) = self.links[index].poll(on_link) {
                self.meter.received(direction, &delivered);
                let due = self.moment(delivered.at);
                self.hand_over(ends, direction, delivered, due)?;
            }
        }
        self.tell_of_drops(now);
        Ok(())
    }

    fn hand_over(
        &mut self,
        ends: &mut impl Ends,
        direction: Direction,
        delivered: Delivered<Carried>,
        due: Timestamp,
    ) -> Result<(), EmulatorError> {
        let Delivered { size, queueing_delay, congestion_experienced: marked, mut packet, .. } = delivered;
        let taken = ends.send(direction, &mut packet.bytes, marked)?;
        let now = self.clock.now();
        let late = now.saturating_since(due);
        self.lateness.add(late.as_secs_f64() * 1e3);
        self.refused += u64::from(!taken);
        if let (Some(trail), Some(log)) = (packet.trail, &mut self.log) {
            trail.came_out.store(true, Ordering::Relaxed);
            let fate = if taken { Fate::Delivered { queueing_delay, late, marked } } else { Fate::Refused };
            let out_at = self.clock.epoch() + now.saturating_since(Timestamp::ZERO);
            log(&PacketRecord { direction, size, in_at: trail.in_at, out_at, fate });
        }
        Ok(())
    }

    /// Carries packets between the ends until `length` after the start, or until `go` says to stop.
    pub fn run(
        &mut self,
        ends: &mut impl Ends,
        length: Option<Duration>,
        mut go: impl FnMut(&EmulatorStatus) -> Go,
        mut urgent: impl FnMut() -> bool,
    ) -> Result<(), EmulatorError> {
        let mut next_status = Timestamp::ZERO;
        let mut arrived = Vec::new();
        loop {
            self.deliver(ends)?;
            let now = self.clock.now();
            let elapsed = self.elapsed(now);
            ends.tick(elapsed)?;
            if now >= next_status || urgent() {
                next_status = now + STATUS_INTERVAL;
                ends.check()?;
                let status = EmulatorStatus {
                    elapsed: elapsed.unwrap_or_default(),
                    started_at: self.started_at.map(|at| self.since_epoch(at)),
                    forward: *self.links[0].statistics(),
                    reverse: *self.links[1].statistics(),
                    under_way: self.is_under_way(),
                };
                match go(&status) {
                    Go::On => {}
                    Go::Start => self.begin(now),
                    Go::Stop => return Ok(()),
                }
            }
            if length.is_some_and(|length| elapsed.is_some_and(|elapsed| elapsed >= length)) {
                return Ok(());
            }
            let wait = self.due().map_or(LONGEST_WAIT, |due| self.clock.until(due)).min(LONGEST_WAIT);
            ends.wait(&self.clock, wait, &mut |direction, at, packet| arrived.push((direction, at, packet)))?;
            for (direction, at, packet) in arrived.drain(..) {
                self.offer(ends, direction, at, packet);
            }
        }
    }

    pub fn finish(mut self) -> (Carriage, M) {
        let milliseconds = |value: Option<f64>| value.map(|value| (value * 1e3).round() / 1e3);
        let lateness = Lateness {
            packets: self.lateness.count(),
            p50_ms: milliseconds(self.lateness.quantile(0.5)),
            p99_ms: milliseconds(self.lateness.quantile(0.99)),
            max_ms: milliseconds(self.lateness.quantile(1.0)),
        };
        let carriage = Carriage {
            started_at: self.started_at.map(|at| self.since_epoch(at)),
            forward: *self.links[0].statistics(),
            reverse: *self.links[1].statistics(),
            before_start: self.open.iter().map(|link| link.statistics().delivered.packets).sum(),
            lateness,
            overflow: self.overflow,
            refused: self.refused,
        };
        (carriage, self.meter)
    }
}
