//! The emulator: a link between two real processes, which carries UDP datagrams of any kind.
//!
//! One side sends to the emulator's address; the emulator forwards to the far side through one link and carries what comes
//! back through another. The link is the simulator's.

use std::net::SocketAddr;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;

use bytes::BytesMut;
use lockstep_call::{SeriesRecorder, on_the_link};
use lockstep_link::{Delivered, Link, LinkStatistics};
use lockstep_units::{ByteCount, Timestamp};

use crate::LiveError;
use crate::clock::Clock;
use crate::datagrams::{Incoming, Reader};
use crate::sockets::Sockets;

const EVENT_QUEUE: usize = 4096;
const LONGEST_WAIT: Duration = Duration::from_millis(50);
const STATUS_INTERVAL: Duration = Duration::from_millis(200);

/// What an emulator is told.
pub struct EmulatorOptions {
    /// Where the far side listens: every address that its name or its ticket stands for. All are tried until one answers.
    pub to: Vec<SocketAddr>,
    /// To the far side. Its trace begins when the emulator first hears from the near one.
    pub forward: Link<BytesMut>,
    /// From the far side.
    pub reverse: Link<BytesMut>,
    /// Stop this long after the first datagram; none means never.
    pub length: Option<Duration>,
    /// How much of the call is scored, from the first datagram on.
    pub scored: Duration,
    /// When, after the first datagram, a side changes its network.
    pub moves: Vec<(Duration, Move)>,
    /// The largest IP packet that passes, bytes, headers of IP and UDP included; larger ones are lost. None for any size.
    pub mtu: Option<u64>,
}

/// Which side changes its network: the other side finds it at another port of the emulator's from then on, and nobody at the
/// old one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Move {
    /// The side that sends to the emulator: whoever joins.
    Near,
    /// The side that the emulator sends to: whoever listens.
    Far,
}

/// What an emulator tells its caller a few times a second.
#[derive(Debug, Clone)]
pub struct EmulatorStatus {
    /// Time since the first datagram.
    pub elapsed: Duration,
    /// The forward link's counters.
    pub forward: LinkStatistics,
    /// Whether something is on its way that will come out of either link.
    pub under_way: bool,
}

/// The address where the near side finds an emulator.
#[derive(Debug)]
pub struct EmulatorSocket(Sockets);

impl EmulatorSocket {
    /// Binds `address`; the unspecified address of IPv6 takes IPv4 along.
    ///
    /// # Errors
    /// If it cannot be bound.
    pub fn bind(address: SocketAddr) -> Result<Self, LiveError> {
        Ok(Self(Sockets::bind(address)?))
    }

    /// The addresses at which it can be reached.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn addresses(&self) -> Result<Vec<SocketAddr>, LiveError> {
        self.0.addresses()
    }
}

/// What an emulator saw.
#[derive(Debug)]
pub struct Emulator {
    /// When the first datagram came, where the forward trace begins; since the Unix epoch.
    pub started_at: Option<Timestamp>,
    /// Rates and delays of the forward link.
    pub series: SeriesRecorder,
    /// The forward link's counters.
    pub forward: LinkStatistics,
    /// The reverse link's counters.
    pub reverse: LinkStatistics,
}

enum Event {
    FromNear(Incoming),
    FromFar(Incoming),
}

/// The sockets of one side.
struct Side {
    sockets: Sockets,
    readers: Vec<Reader>,
    wrap: fn(Incoming) -> Event,
}

impl Side {
    fn new(
        sockets: Sockets,
        clock: Clock,
        events: &SyncSender<Event>,
        wrap: fn(Incoming) -> Event,
    ) -> Result<Self, LiveError> {
        let readers = sockets.read(clock, events, None, wrap)?;
        Ok(Self { sockets, readers, wrap })
    }

    /// Other ports, and nobody at the old ones.
    fn rebind(&mut self, clock: Clock, events: &SyncSender<Event>) -> Result<(), LiveError> {
        *self = Self::new(Sockets::any()?, clock, events, self.wrap)?;
        Ok(())
    }

    fn check(&mut self) -> Result<(), LiveError> {
        self.readers.iter_mut().try_for_each(Reader::check)
    }
}

/// An emulator while it runs.
struct Running {
    events: SyncSender<Event>,
    incoming: Receiver<Event>,
    near: Side,
    far: Side,
    /// Where the near side is, once it was heard.
    near_at: Option<SocketAddr>,
    /// Where the far side may be: one address once it was heard.
    far_at: Vec<SocketAddr>,
    forward: Link<BytesMut>,
    reverse: Link<BytesMut>,
    mtu: ByteCount,
    started_at: Option<Timestamp>,
    series: SeriesRecorder,
}

impl Emulator {
    /// Carries datagrams between whoever sends to `near` and the far side until the time is up or `keep_going` says no.
    ///
    /// # Errors
    /// If a socket fails.
    pub fn run(
        near: EmulatorSocket,
        options: EmulatorOptions,
        mut keep_going: impl FnMut(&EmulatorStatus) -> bool,
    ) -> Result<Self, LiveError> {
        let EmulatorOptions { to, forward, reverse, length, scored, mut moves, mtu } = options;
        let clock = Clock::start();
        let (events, incoming) = mpsc::sync_channel(EVENT_QUEUE);
        let mut running = Running {
            near: Side::new(near.0, clock, &events, Event::FromNear)?,
            far: Side::new(Sockets::any()?, clock, &events, Event::FromFar)?,
            events,
            incoming,
            near_at: None,
            far_at: to,
            forward,
            reverse,
            mtu: mtu.map_or(ByteCount::new(u64::MAX), ByteCount::new),
            started_at: None,
            series: SeriesRecorder::new(Timestamp::ZERO, scored),
        };
        moves.sort_unstable();
        moves.reverse();
        let mut next_status = Timestamp::ZERO;
        loop {
            let now = running.since_start(clock.now());
            running.deliver(now)?;
            let elapsed = now.saturating_since(Timestamp::ZERO);
            if let Some((_, side)) = moves.pop_if(|(at, _)| *at <= elapsed && running.started_at.is_some()) {
                // Each side knows the other by the socket that is towards itself.
                match side {
                    Move::Near => running.far.rebind(clock, &running.events)?,
                    Move::Far => running.near.rebind(clock, &running.events)?,
                }
            }
            let wall = clock.now();
            if wall >= next_status {
                next_status = wall + STATUS_INTERVAL;
                running.near.check()?;
                running.far.check()?;
                let under_way = running.due().is_some();
                if !keep_going(&EmulatorStatus { elapsed, forward: *running.forward.statistics(), under_way }) {
                    break;
                }
            }
            if length.is_some_and(|length| elapsed >= length) {
                break;
            }
            running.wait(now);
        }
        let Running { started_at, series, forward, reverse, .. } = running;
        let started_at = started_at.map(|at| clock.epoch() + at.saturating_since(Timestamp::ZERO));
        Ok(Self { started_at, series, forward: *forward.statistics(), reverse: *reverse.statistics() })
    }
}

impl Running {
    /// The links' clock: it starts with the first datagram, so that the trace begins with the call.
    fn since_start(&self, at: Timestamp) -> Timestamp {
        Timestamp::ZERO + self.started_at.map_or(Duration::ZERO, |start| at.saturating_since(start))
    }

    /// When something comes out of a link next.
    fn due(&self) -> Option<Timestamp> {
        Timestamp::earliest([self.forward.poll_timeout(), self.reverse.poll_timeout()])
    }

    /// Sends what has come out of the links.
    fn deliver(&mut self, now: Timestamp) -> Result<(), LiveError> {
        while let Some(delivered) = self.forward.poll(now) {
            let Delivered { at, sent_at, queueing_delay, .. } = delivered;
            self.series.received(at, sent_at, on_the_link(ByteCount::of(&delivered.packet)), queueing_delay);
            self.far_at.iter().try_for_each(|&to| self.far.sockets.send(&delivered.packet, to))?;
        }
        while let Some(delivered) = self.reverse.poll(now) {
            if let Some(to) = self.near_at {
                self.near.sockets.send(&delivered.packet, to)?;
            }
        }
        Ok(())
    }

    /// Waits for a datagram, at most until something is to be sent.
    fn wait(&mut self, now: Timestamp) {
        let wait = self.due().map_or(LONGEST_WAIT, |due| due.saturating_since(now)).min(LONGEST_WAIT);
        match self.incoming.recv_timeout(wait) {
            Ok(Event::FromNear(Incoming { at, from, datagram })) => {
                self.started_at.get_or_insert(at);
                self.near_at = Some(from);
                let (at, size) = (self.since_start(at).max(now), on_the_link(ByteCount::of(&datagram)));
                self.series.sent(at, size);
                if size <= self.mtu {
                    let _ = self.forward.send(at, size, datagram);
                }
            }
            Ok(Event::FromFar(Incoming { at, from, datagram })) => {
                if self.far_at.contains(&from) {
                    self.far_at = vec![from];
                    let (at, size) = (self.since_start(at).max(now), on_the_link(ByteCount::of(&datagram)));
                    if size <= self.mtu {
                        let _ = self.reverse.send(at, size, datagram);
                    }
                }
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
    }
}
