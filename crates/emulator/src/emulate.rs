//! The UDP emulator: carries datagrams of any kind between two real processes over an emulated link.
//!
//! The near side sends to the emulator's address. The emulator forwards datagrams to the far side through one link, and
//! returns the answers through another. The links are those of the simulator.

use std::net::SocketAddr;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;

use bytes::BytesMut;
use lockstep_link::{Delivered, Link, LinkStatistics};
use lockstep_measure::SeriesRecorder;
use lockstep_socket::{Clock, Incoming, Reader, Sockets};
use lockstep_transport::udp_size_on_link;
use lockstep_units::{ByteCount, Timestamp};

use crate::emulated_path::{
    Direction, EmulatedPath, EmulationResult, EmulatorStatus, Ends, Lateness, Meter, NextAction, PacketInLink,
    PacketLog, Start,
};
use crate::error::EmulatorError;

const EVENT_QUEUE: usize = 4096;

/// Options of an emulator.
pub struct EmulatorOptions {
    /// Addresses of the far side, all that its name or ticket resolves to. The emulator tries all until one answers.
    pub to: Vec<SocketAddr>,
    /// Link to the far side. Its trace begins with the first datagram of the near side.
    pub forward: Link<PacketInLink>,
    /// Link from the far side.
    pub reverse: Link<PacketInLink>,
    /// Duration after the first datagram. None means endless.
    pub length: Option<Duration>,
    /// Scored duration, from the first datagram on.
    pub scored: Duration,
    /// Network changes of a side, with times after the first datagram.
    pub moves: Vec<(Duration, Move)>,
    /// Receives a record of each datagram.
    pub log: Option<PacketLog>,
    /// Maximum size of an IP packet, bytes, headers of IP and UDP included. Larger packets are lost. None for any size.
    pub mtu: Option<u64>,
}

/// Side that changes its network. The other side then finds it at another port of the emulator, and the old port is
/// closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Move {
    /// The side that sends to the emulator: the joiner.
    Near,
    /// The side that the emulator sends to: the listener.
    Far,
}

/// Bound socket of an emulator for the near side.
#[derive(Debug)]
pub struct EmulatorSocket(Sockets);

impl EmulatorSocket {
    /// Binds `address`. The unspecified IPv6 address includes IPv4.
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub fn bind(address: SocketAddr) -> Result<Self, EmulatorError> {
        Ok(Self(Sockets::bind(address)?))
    }

    /// The addresses of the socket.
    ///
    /// # Errors
    /// If the system call fails.
    pub fn addresses(&self) -> Result<Vec<SocketAddr>, EmulatorError> {
        Ok(self.0.addresses()?)
    }
}

/// Results of an emulator.
#[derive(Debug)]
pub struct Emulator {
    /// Arrival of the first datagram, at which the forward trace begins, since the Unix epoch.
    pub started_at: Option<Timestamp>,
    /// Rates and delays of the forward link.
    pub series: SeriesRecorder,
    /// The forward link's counters.
    pub forward: LinkStatistics,
    /// The reverse link's counters.
    pub reverse: LinkStatistics,
    /// Lateness of forwarded datagrams.
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

    /// Moves the side to other ports and closes the old ones.
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
    /// Address of the near side, known after its first datagram.
    near_at: Option<SocketAddr>,
    /// Possible addresses of the far side. One remains after its first datagram.
    far_at: Vec<SocketAddr>,
    mtu: ByteCount,
    /// Moves, latest first.
    moves: Vec<(Duration, Move)>,
}

/// Rates and delays of the forward link, which is scored.
struct ForwardSeries(SeriesRecorder);

impl Meter for ForwardSeries {
    fn sent(&mut self, direction: Direction, at: Timestamp, size: ByteCount) {
        if direction == Direction::Forward {
            self.0.sent(at, size);
        }
    }

    fn received(&mut self, direction: Direction, delivered: &Delivered<PacketInLink>) {
        if direction == Direction::Forward {
            let &Delivered { at, sent_at, size, queueing_delay, .. } = delivered;
            self.0.received(at, sent_at, size, queueing_delay);
        }
    }
}

impl Emulator {
    /// Carries datagrams between `near` and the far side until the duration ends or `keep_going` returns false.
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
        let go = |status: &EmulatorStatus| if keep_going(status) { NextAction::On } else { NextAction::Stop };
        path.run(&mut sides, length, go, || false)?;
        let (EmulationResult { started_at, forward, reverse, lateness, .. }, ForwardSeries(series)) = path.finish();
        Ok(Self { started_at, series, forward, reverse, lateness })
    }
}

impl Sides {
    /// Whether the path passes the datagram. A larger one is lost before the link.
    fn fits(&self, datagram: &[u8]) -> bool {
        udp_size_on_link(ByteCount::of(datagram)) <= self.mtu
    }
}

impl Ends for Sides {
    fn size(&self, packet: &[u8]) -> ByteCount {
        udp_size_on_link(ByteCount::of(packet))
    }

    fn is_ecn_capable(&self, _: &[u8]) -> bool {
        false // Sockets can neither read nor set ECN marks.
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
        // Each side knows the other by the socket towards itself, so the opposite sockets are rebound.
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
