//! The two links of an emulator, driven by the clock of this machine. Both emulators use them: the UDP emulator and the
//! emulator between network namespaces.

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

/// Maximum number of bytes in both links. Further packets are dropped, whatever the queues and delays.
const MAX_QUEUED_BYTES: ByteCount = ByteCount::new(256 << 20);
/// Capacity of an open link, which limits nothing.
const AMPLE: Bitrate = Bitrate::from_bps(1_000_000_000);
/// Queue of an open link, packets.
const OPEN_QUEUE: usize = 10_000;
/// Maximum wait, so that the emulator regularly checks whether to stop.
const MAX_WAIT: Duration = Duration::from_millis(50);
const STATUS_INTERVAL: Duration = Duration::from_millis(200);

/// Direction of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the near side to the far side.
    Forward,
    /// From the far side to the near side.
    Reverse,
}

impl Direction {
    /// Both directions, each at its index.
    pub const BOTH: [Self; 2] = [Self::Forward, Self::Reverse];

    /// Name of the direction in logs.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Reverse => "reverse",
        }
    }
}

/// Start of the traces of an emulator.
///
/// Before it, the path is open: packets have only the propagation delay of the links. So programs can connect without
/// using up the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// With the first packet of the near side.
    FirstPacket,
    /// Immediately.
    Now,
    /// At this time since the Unix epoch, or immediately if it has passed.
    At(Timestamp),
    /// On request of the caller, see [`NextAction::Start`].
    Signal,
}

/// Next action of an emulator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextAction {
    /// Continue.
    On,
    /// Begin the traces, if they have not begun, and continue.
    Start,
    /// Stop.
    Stop,
}

/// Fate of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fate {
    /// The packet left the link.
    Delivered {
        /// Time until the bottleneck began to serve the packet.
        queueing_delay: Duration,
        /// Delay of the hand-over after the time that the link gave.
        late: Duration,
        /// Whether the queue marked the packet (ECN).
        marked: bool,
    },
    /// The link dropped the packet. None if the reason is unknown.
    Dropped(Option<DropReason>),
    /// The emulator reached its memory limit.
    Overflow,
    /// The receiving side refused the packet.
    Refused,
}

impl Fate {
    /// Name of the fate in logs.
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

/// Record of a packet that left an emulator. Times are since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketRecord {
    /// Direction of the packet.
    pub direction: Direction,
    /// Size of the packet on the link.
    pub size: ByteCount,
    /// Time of arrival at the emulator.
    pub in_at: Timestamp,
    /// Time of delivery, or of the detection of the drop.
    pub out_at: Timestamp,
    /// Fate of the packet.
    pub fate: Fate,
}

/// Callback for each packet of an emulator.
pub type PacketLog = Box<dyn FnMut(&PacketRecord) + Send>;

/// A packet in a link.
#[derive(Debug, Clone)]
pub struct PacketInLink {
    bytes: BytesMut,
    /// Log data. Copies that the link makes share it.
    trail: Option<Arc<Trail>>,
}

impl PacketInLink {
    /// Bytes of the packet.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Log data of a packet in a link. Links drop packets without a notice, so its destructor reports the drop.
#[derive(Debug)]
struct Trail {
    direction: Direction,
    size: ByteCount,
    in_at: Timestamp,
    came_out: AtomicBool,
    drops: Drops,
}

impl Drop for Trail {
    fn drop(&mut self) {
        if !self.came_out.load(Ordering::Relaxed) {
            let mut drops = self.drops.lock().unwrap_or_else(PoisonError::into_inner);
            drops.push((self.direction, self.size, self.in_at));
        }
    }
}

/// Packets that a link dropped: direction, size and arrival time.
type Drops = Arc<Mutex<Vec<(Direction, ByteCount, Timestamp)>>>;

/// Lateness of delivered packets: the delay after the time that the link gave.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Lateness {
    /// Delivered packets.
    pub packets: u64,
    /// Median, milliseconds.
    pub p50_ms: Option<f64>,
    /// 99th percentile, milliseconds.
    pub p99_ms: Option<f64>,
    /// Maximum, milliseconds.
    pub max_ms: Option<f64>,
}

/// Status that an emulator reports a few times per second.
#[derive(Debug, Clone)]
pub struct EmulatorStatus {
    /// Time since the start of the traces. Zero before it.
    pub elapsed: Duration,
    /// Start of the traces, since the Unix epoch.
    pub started_at: Option<Timestamp>,
    /// The forward link's counters.
    pub forward: LinkStatistics,
    /// The reverse link's counters.
    pub reverse: LinkStatistics,
    /// Whether a link still holds a packet that it will deliver.
    pub under_way: bool,
}

/// Ends of the links, which provide and receive packets.
pub(crate) trait Ends {
    /// Size of `packet` on its link.
    fn size(&self, packet: &[u8]) -> ByteCount;

    /// Whether the endpoints of `packet` support ECN.
    fn is_ecn_capable(&self, packet: &[u8]) -> bool;

    /// Delivers a packet, with an ECN mark if `marked`. Returns whether the side accepted it.
    fn send(&mut self, direction: Direction, packet: &mut BytesMut, marked: bool) -> Result<bool, EmulatorError>;

    /// Waits for packets, at most `most`. Passes on those that arrived, with their arrival times instead of their read
    /// times.
    fn wait(
        &mut self,
        clock: &Clock,
        most: Duration,
        came: &mut dyn FnMut(Direction, Timestamp, BytesMut),
    ) -> Result<(), EmulatorError>;

    /// Called before each wait with the time since the start of the traces.
    fn tick(&mut self, elapsed: Option<Duration>) -> Result<(), EmulatorError>;

    /// Called a few times per second.
    fn check(&mut self) -> Result<(), EmulatorError>;
}

/// Receiver of sizes and delays, on the links' clock.
pub(crate) trait Meter {
    /// A packet entered a link.
    fn sent(&mut self, direction: Direction, at: Timestamp, size: ByteCount);

    /// A packet left a link.
    fn received(&mut self, direction: Direction, delivered: &Delivered<PacketInLink>);
}

/// Both links of a running emulator.
pub(crate) struct EmulatedPath<M> {
    clock: Clock,
    start: Start,
    /// Start of the traces on `clock`.
    started_at: Option<Timestamp>,
    links: [Link<PacketInLink>; 2],
    /// Links used before the start of the traces. Their clock is `clock`.
    open: [Link<PacketInLink>; 2],
    pub meter: M,
    log: Option<PacketLog>,
    drops: Drops,
    /// Number of drops reported to the log, by direction and reason.
    reported: [[u64; REASONS.len()]; 2],
    lateness: Distribution,
    overflow: u64,
    refused: u64,
}

/// Results of an emulator.
#[derive(Debug, Clone, PartialEq)]
pub struct EmulationResult {
    /// Start of the traces, since the Unix epoch.
    pub started_at: Option<Timestamp>,
    /// Counters of the forward link since the start of the traces.
    pub forward: LinkStatistics,
    /// Counters of the reverse link.
    pub reverse: LinkStatistics,
    /// Packets in both directions before the start of the traces.
    pub before_start: u64,
    /// Lateness of delivered packets.
    pub lateness: Lateness,
    /// Packets dropped at the memory limit.
    pub overflow: u64,
    /// Packets that the receiving side refused.
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

/// An open link with the initial delay of `like`.
fn open_link(like: &LinkConfig) -> Result<Link<PacketInLink>, EmulatorError> {
    let at_start = like.trace.conditions_at(Timestamp::ZERO + like.trace_offset);
    let mut config = LinkConfig::new(Trace::constant(AMPLE));
    config.delay = like.delay.saturating_add(at_start.delay).min(lockstep_units::quantity::MAX_PERIOD);
    config.queue = QueueConfig::drop_tail(OPEN_QUEUE);
    Link::new(config, 0).map_err(|error| EmulatorError::Link(error.to_string()))
}

impl<M: Meter> EmulatedPath<M> {
    pub fn new(
        clock: Clock,
        start: Start,
        links: [Link<PacketInLink>; 2],
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
            drops: Drops::default(),
            reported: Default::default(),
            lateness: Distribution::of_milliseconds(),
            overflow: 0,
            refused: 0,
        })
    }

    fn since_epoch(&self, at: Timestamp) -> Timestamp {
        self.clock.epoch() + at.saturating_since(Timestamp::ZERO)
    }

    /// Time on the links' clock, which is zero until the traces begin.
    fn since_start(&self, at: Timestamp) -> Timestamp {
        Timestamp::ZERO + self.started_at.map_or(Duration::ZERO, |start| at.saturating_since(start))
    }

    /// Time on the driver's clock for the time `at` on the links' clock.
    fn moment(&self, at: Timestamp) -> Timestamp {
        self.started_at.unwrap_or(Timestamp::ZERO) + at.saturating_since(Timestamp::ZERO)
    }

    fn begin(&mut self, at: Timestamp) {
        self.started_at.get_or_insert(at);
    }

    /// Time since the start of the traces at `now`. Starts the traces if they are due.
    fn elapsed(&mut self, now: Timestamp) -> Option<Duration> {
        if let (Start::At(moment), None) = (self.start, self.started_at) {
            let moment = Timestamp::ZERO + moment.saturating_since(self.clock.epoch());
            if moment <= now {
                self.begin(moment);
            }
        }
        self.started_at.map(|start| now.saturating_since(start))
    }

    /// Time of the next event, on the driver's clock.
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

    /// Reports the drops of the links up to `now` to the log.
    fn report_drops(&mut self, now: Timestamp) {
        let Some(log) = &mut self.log else { return };
        let dropped = std::mem::take(&mut *self.drops.lock().unwrap_or_else(PoisonError::into_inner));
        for (direction, size, in_at) in dropped {
            let link = direction as usize;
            let happened = drops(self.links[link].statistics());
            // The links count drops by reason only. Drops between two calls get the reasons in order.
            let reason = (0..REASONS.len()).find(|&reason| self.reported[link][reason] < happened[reason]);
            if let Some(reason) = reason {
                self.reported[link][reason] += 1;
            }
            let fate = Fate::Dropped(reason.map(|reason| REASONS[reason]));
            let out_at = self.clock.epoch() + now.saturating_since(Timestamp::ZERO);
            log(&PacketRecord { direction, size, in_at, out_at, fate });
        }
    }

    fn log_packet(&mut self, direction: Direction, size: ByteCount, in_at: Timestamp, out_at: Timestamp, fate: Fate) {
        let (in_at, out_at) = (self.since_epoch(in_at), self.since_epoch(out_at));
        if let Some(log) = &mut self.log {
            log(&PacketRecord { direction, size, in_at, out_at, fate });
        }
    }

    /// Passes a packet that arrived at `at` to its link.
    fn offer(&mut self, ends: &impl Ends, direction: Direction, at: Timestamp, bytes: BytesMut) {
        if self.start == Start::FirstPacket && direction == Direction::Forward {
            self.begin(at);
        }
        let (size, ecn_capable) = (ends.size(&bytes), ends.is_ecn_capable(&bytes));
        if self.held() + size > MAX_QUEUED_BYTES {
            self.overflow += 1;
            self.log_packet(direction, size, at, at, Fate::Overflow);
            return;
        }
        let trail = self.log.is_some().then(|| {
            let in_at = self.since_epoch(at);
            Arc::new(Trail { direction, size, in_at, came_out: AtomicBool::new(false), drops: self.drops.clone() })
        });
        let carried = PacketInLink { bytes, trail };
        let index = direction as usize;
        // The counters of the link and `drops` record a drop.
        let _ = if self.started_at.is_some() {
            let at = self.since_start(at);
            self.meter.sent(direction, at, size);
            let link = &mut self.links[index];
            if ecn_capable { link.send_ecn_capable(at, size, carried) } else { link.send(at, size, carried) }
        } else {
            self.open[index].send(at, size, carried)
        };
        self.report_drops(at);
    }

    /// Delivers the packets that left the links.
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
        self.report_drops(now);
        Ok(())
    }

    fn hand_over(
        &mut self,
        ends: &mut impl Ends,
        direction: Direction,
        delivered: Delivered<PacketInLink>,
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

    /// Carries packets between the ends until `length` after the start, or until `go` returns [`NextAction::Stop`].
    pub fn run(
        &mut self,
        ends: &mut impl Ends,
        length: Option<Duration>,
        mut go: impl FnMut(&EmulatorStatus) -> NextAction,
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
                    NextAction::On => {}
                    NextAction::Start => self.begin(now),
                    NextAction::Stop => return Ok(()),
                }
            }
            if length.is_some_and(|length| elapsed.is_some_and(|elapsed| elapsed >= length)) {
                return Ok(());
            }
            let wait = self.due().map_or(MAX_WAIT, |due| self.clock.until(due)).min(MAX_WAIT);
            ends.wait(&self.clock, wait, &mut |direction, at, packet| arrived.push((direction, at, packet)))?;
            for (direction, at, packet) in arrived.drain(..) {
                self.offer(ends, direction, at, packet);
            }
        }
    }

    pub fn finish(mut self) -> (EmulationResult, M) {
        let milliseconds = |value: Option<f64>| value.map(|value| (value * 1e3).round() / 1e3);
        let lateness = Lateness {
            packets: self.lateness.count(),
            p50_ms: milliseconds(self.lateness.quantile(0.5)),
            p99_ms: milliseconds(self.lateness.quantile(0.99)),
            max_ms: milliseconds(self.lateness.quantile(1.0)),
        };
        let emulation = EmulationResult {
            started_at: self.started_at.map(|at| self.since_epoch(at)),
            forward: *self.links[0].statistics(),
            reverse: *self.links[1].statistics(),
            before_start: self.open.iter().map(|link| link.statistics().delivered.packets).sum(),
            lateness,
            overflow: self.overflow,
            refused: self.refused,
        };
        (emulation, self.meter)
    }
}
