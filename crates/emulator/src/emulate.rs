//! The emulator of UDP: a link between two real processes, which carries datagrams of any kind.
//!
//! One side sends to the emulator's address; the emulator forwards to the far side through one link and carries what comes
//! back through another. The link is the simulator's.

use std::net::SocketAddr;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;

use bytes::BytesMut;
use lockstep_link::{Delivered, Link, LinkStatistics};
use lockstep_measure::SeriesRecorder;
use lockstep_socket::{Clock, Incoming, Reader, Sockets};
use lockstep_transport::on_the_link;
use lockstep_units::{ByteCount, Timestamp};

use crate::emulated_path::{
    Carriage, Carried, Direction, EmulatedPath, EmulatorStatus, Ends, Go, Lateness, Meter, PacketLog, Start,
};
use crate::error::EmulatorError;

const EVENT_QUEUE: usize = 4096;

/// What an emulator is told.
pub struct EmulatorOptions {
    /// Where the far side listens: every address that its name or its ticket stands for. All are tried until one answers.
    pub to: Vec<SocketAddr>,
    /// To the far side. Its trace begins when the emulator first hears from the near one.
    pub forward: Link<Carried>,
    /// From the far side.
    pub reverse: Link<Carried>,
    /// Stop this long after the first datagram; none means never.
    pub length: Option<Duration>,
    /// How much of the call is scored, from the first datagram on.
    pub scored: Duration,
    /// When, after the first datagram, a side changes its network.
    pub moves: Vec<(Duration, Move)>,
    /// Hears of each datagram.
    pub log: Option<PacketLog>,
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

/// The address where the near side finds an emulator.
#[derive(Debug)]
pub struct EmulatorSocket(Sockets);

impl EmulatorSocket {
    /// Binds `address`; the unspecified address of IPv6 takes IPv4 along.
    ///
    /// # Errors
    /// If it cannot be bound.
    pub fn bind(address: SocketAddr) -> Result<Self, EmulatorError> {
        Ok(Self(Sockets::bind(address)?))
    }

    /// The addresses at which it can be reached.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn addresses(&self) -> Result<Vec<SocketAddr>, EmulatorError> {
        Ok(self.0.addresses()?)
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
    /// How late datagrams were sent on.
    pub lateness: Lateness,
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
    ) -> Result<Self, EmulatorError> {
        let readers = sockets.read(clock, events, None::<&()>, wrap)?;
        Ok(Self { sockets, readers, wrap })
    }

    /// Other ports, and nobody at the old ones.
    fn rebind(&mut self, clock: Clock, events: &SyncSender<Event>) -> Result<(), EmulatorError> {
        *self = Self::new(Sockets::any()?, clock, events, self.wrap)?;
        Ok(())
    }

    fn check(&mut self) -> Result<(), EmulatorError> {
        Ok(self.readers.iter_mut().try_for_each(Reader::check)?)
    }
}

/// Both sides of an emulator.
struct Sides {
    clock: Clock,
    events: SyncSender<Event>,
    incoming: Receiver<Event>,
    near: Side,
    far: Side,
    /// Where the near side is, once it was heard.
    near_at: Option<SocketAddr>,
    /// Where the far side may be: one address once it was heard.
    far_at: Vec<SocketAddr>,
    mtu: ByteCount,
    /// The latest first.
    moves: Vec<(Duration, Move)>,
}

/// What is scored of a call: the forward link.
struct ForwardSeries(SeriesRecorder);

impl Meter for ForwardSeries {
    fn sent(&mut self, direction: Direction, at: Timestamp, size: ByteCount) {
        if direction == Direction::Forward {
            self.0.sent(at, size);
        }
    }

    fn received(&mut self, direction: Direction, delivered: &Delivered<Carried>) {
        if direction == Direction::Forward {
            let &Delivered { at, sent_at, size, queueing_delay, .. } = delivered;
            self.0.received(at, sent_at, size, queueing_delay);
        }
    }
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
    ) -> Result<Self, EmulatorError> {
        let EmulatorOptions { to, forward, reverse, length, scored, mut moves, log, mtu } = options;
        let clock = Clock::start();
        let (events, incoming) = mpsc::sync_channel(EVENT_QUEUE);
        moves.sort_unstable();
        moves.reverse();
        let mut sides = Sides {
            clock,
            near: Side::new(near.0, clock, &events, Event::FromNear)?,
            far: Side::new(Sockets::any()?, clock, &events, Event::FromFar)?,
            events,
            incoming,
            near_at: None,
            far_at: to,
            moves,
            mtu: mtu.map_or(ByteCount::new(u64::MAX), ByteCount::new),
        };
        let series = ForwardSeries(SeriesRecorder::new(Timestamp::ZERO, scored));
        let mut path = EmulatedPath::new(clock, Start::FirstPacket, [forward, reverse], series, log)?;
        let go = |status: &EmulatorStatus| if keep_going(status) { Go::On } else { Go::Stop };
        path.run(&mut sides, length, go, || false)?;
        let (Carriage { started_at, forward, reverse, lateness, .. }, ForwardSeries(series)) = path.finish();
        Ok(Self { started_at, series, forward, reverse, lateness })
    }
}

impl Sides {
    /// Whether a datagram is no larger than what the path passes; others are lost before they are on the link.
    fn fits(&self, datagram: &[u8]) -> bool {
        on_the_link(ByteCount::of(datagram)) <= self.mtu
    }
}

impl Ends for Sides {
    fn size(&self, packet: &[u8]) -> ByteCount {
        on_the_link(ByteCount::of(packet))
    }

    fn is_ecn_capable(&self, _: &[u8]) -> bool {
        false // sockets neither show marks nor set them
    }

    fn send(&mut self, direction: Direction, packet: &mut BytesMut, _marked: bool) -> Result<bool, EmulatorError> {
        let now = self.clock.now();
        match direction {
            Direction::Forward => {
                self.far_at.iter().try_for_each(|&to| self.far.sockets.send(now, packet, to))?;
                Ok(true)
            }
            Direction::Reverse => match self.near_at {
                Some(to) => Ok(self.near.sockets.send(now, packet, to).map(|()| true)?),
                None => Ok(false),
            },
        }
    }

    fn wait(
        &mut self,
        _: &Clock,
        most: Duration,
        came: &mut dyn FnMut(Direction, Timestamp, BytesMut),
    ) -> Result<(), EmulatorError> {
        match self.incoming.recv_timeout(most) {
            Ok(Event::FromNear(incoming)) => {
                self.near.sockets.note(&incoming);
                let Incoming { at, from, datagram, .. } = incoming;
                self.near_at = Some(from);
                if self.fits(&datagram) {
                    came(Direction::Forward, at, datagram);
                }
            }
            Ok(Event::FromFar(incoming)) => {
                self.far.sockets.note(&incoming);
                let Incoming { at, from, datagram, .. } = incoming;
                if self.far_at.contains(&from) {
                    self.far_at = vec![from];
                    if self.fits(&datagram) {
                        came(Direction::Reverse, at, datagram);
                    }
                }
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        Ok(())
    }

    fn tick(&mut self, elapsed: Option<Duration>) -> Result<(), EmulatorError> {
        let Some(elapsed) = elapsed else { return Ok(()) };
        // Each side knows the other by the socket that is towards itself.
        match self.moves.pop_if(|(at, _)| *at <= elapsed) {
            Some((_, Move::Near)) => self.far.rebind(self.clock, &self.events),
            Some((_, Move::Far)) => self.near.rebind(self.clock, &self.events),
            None => Ok(()),
        }
    }

    fn check(&mut self) -> Result<(), EmulatorError> {
        self.near.check()?;
        self.far.check()
    }
}
