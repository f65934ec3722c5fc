//! The emulator: a link between two real processes, as a UDP relay.
//!
//! The sender sends to the relay's address; the relay forwards to the receiver through one link and carries what comes
//! back through another. The link is the simulator's.

use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use lockstep_call::{SeriesRecorder, carried};
use lockstep_link::{Delivered, Link, LinkStatistics};
use lockstep_units::{ByteCount, Timestamp};

use crate::LiveError;
use crate::clock::Clock;
use crate::datagrams::{Incoming, Reader};
use crate::peers::{Peers, is_loss};

const EVENT_QUEUE: usize = 4096;
const LONGEST_WAIT: Duration = Duration::from_millis(50);
const STATUS_INTERVAL: Duration = Duration::from_millis(200);

/// What a relay is told.
pub struct RelayOptions {
    /// Where the receiver listens: every address that its name stands for. All are tried until one answers.
    pub receivers: Vec<SocketAddr>,
    /// From the sender to the receiver. Its trace begins when the relay first hears from the sender.
    pub forward: Link<Vec<u8>>,
    /// From the receiver to the sender.
    pub reverse: Link<Vec<u8>>,
    /// Stop this long after the first datagram; none means never.
    pub length: Option<Duration>,
    /// How much of the call is scored, from the first datagram on.
    pub scored: Duration,
}

/// What a relay tells its caller a few times a second.
#[derive(Debug, Clone)]
pub struct RelayStatus {
    /// Time since the first datagram.
    pub elapsed: Duration,
    /// The forward link's counters.
    pub forward: LinkStatistics,
    /// Whether something is on its way that will come out of either link.
    pub under_way: bool,
}

/// What a relay saw.
#[derive(Debug)]
pub struct Relay {
    /// When the first datagram came, where the forward trace begins.
    pub started_at: Option<Timestamp>,
    /// Rates and delays of the forward link.
    pub series: SeriesRecorder,
    /// The forward link's counters.
    pub forward: LinkStatistics,
    /// The reverse link's counters.
    pub reverse: LinkStatistics,
}

enum Event {
    FromSender(Incoming),
    FromReceiver(Incoming),
}

/// Sends what the link lets out, as a network would: a failed send is a lost datagram.
fn deliver(socket: &UdpSocket, to: SocketAddr, datagram: &[u8]) -> Result<(), LiveError> {
    match socket.send_to(datagram, to) {
        Err(error) if !is_loss(&error) => Err(LiveError::Socket(error)),
        _ => Ok(()),
    }
}

impl Relay {
    /// Relays between whoever sends to `listen` and the receiver until the time is up or `keep_going` says no.
    ///
    /// # Errors
    /// If a socket fails.
    pub fn run(
        listen: &UdpSocket,
        options: RelayOptions,
        mut keep_going: impl FnMut(&RelayStatus) -> bool,
    ) -> Result<Self, LiveError> {
        let RelayOptions { receivers, mut forward, mut reverse, length, scored } = options;
        let clock = Clock::start();
        let (events, incoming) = mpsc::sync_channel(EVENT_QUEUE);
        let mut from_sender = Reader::spawn(listen, clock, events.clone(), Event::FromSender)?;
        let mut receiver = Peers::connect(&receivers, clock, &events, Event::FromReceiver)?;

        let mut sender: Option<SocketAddr> = None;
        let mut started_at: Option<Timestamp> = None;
        let mut series = SeriesRecorder::new(Timestamp::ZERO, scored);
        let mut next_status = Timestamp::ZERO;
        // The links' clock starts with the first datagram, so that the trace begins with the call.
        let since = |start: Option<Timestamp>, at: Timestamp| {
            Timestamp::ZERO + start.map_or(Duration::ZERO, |start| at.saturating_since(start))
        };
        loop {
            let now = since(started_at, clock.now());
            while let Some(delivered) = forward.poll(now) {
                let Delivered { at, sent_at, queueing_delay, .. } = delivered;
                series.received(at, sent_at, carried(ByteCount::of(&delivered.packet)), queueing_delay);
                receiver.transmit(&delivered.packet)?;
            }
            while let Some(delivered) = reverse.poll(now) {
                if let Some(sender) = sender {
                    deliver(listen, sender, &delivered.packet)?;
                }
            }
            let wall = clock.now();
            if wall >= next_status {
                next_status = wall + STATUS_INTERVAL;
                from_sender.check()?;
                receiver.check()?;
                let elapsed = now.saturating_since(Timestamp::ZERO);
                let under_way = forward.poll_timeout().or(reverse.poll_timeout()).is_some();
                if !keep_going(&RelayStatus { elapsed, forward: *forward.statistics(), under_way }) {
                    break;
                }
            }
            if length.is_some_and(|length| now >= Timestamp::ZERO + length) {
                break;
            }
            let due = [forward.poll_timeout(), reverse.poll_timeout()].into_iter().flatten().min();
            let wait = due.map_or(LONGEST_WAIT, |due| due.saturating_since(now)).min(LONGEST_WAIT);
            match incoming.recv_timeout(wait) {
                Ok(Event::FromSender(Incoming { at, from, datagram })) => {
                    started_at.get_or_insert(at);
                    sender = Some(from);
                    let at = since(started_at, at).max(now);
                    series.sent(at, carried(ByteCount::of(&datagram)));
                    let _ = forward.send(at, carried(ByteCount::of(&datagram)), datagram);
                }
                Ok(Event::FromReceiver(Incoming { at, from, datagram })) => {
                    if receiver.includes(from) {
                        receiver.choose(from);
                        let at = since(started_at, at).max(now);
                        let _ = reverse.send(at, carried(ByteCount::of(&datagram)), datagram);
                    }
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
        }
        Ok(Self { started_at, series, forward: *forward.statistics(), reverse: *reverse.statistics() })
    }
}
