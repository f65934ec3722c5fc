//! Session that stands in for a page, and a listener, over a path without loss in virtual time.

use bytes::Bytes;
use lockstep_session::control::{CloseReason, Message, Messages};
use lockstep_session::messages;
use lockstep_session::{CarrierEvent, Loss};

use super::*;
use crate::{PageData, PageSession, PageSessions, TicketRefusal};

const MS: Duration = Duration::from_millis(1);
/// First close code for a refused ticket.
const REFUSALS: u32 = 1 << 16;

/// A listener and a session on one machine.
struct Pair {
    now: Timestamp,
    origin: Origin,
    identity: Identity,
    listener: Connection,
    session: PageSession,
    events: Vec<CarrierEvent<Bytes>>,
    arrived: Vec<PageData>,
}

impl Pair {
    fn new() -> Self {
        let origin = Clock::start().origin();
        let identity = Identity::for_browsers().expect("there are random numbers");
        let listener = Connection::listening(&identity, CallKind::TwoWay, None, origin, Timestamp::ZERO);
        let sessions = PageSessions::new(&identity, address(2)).expect("a key");
        let session = sessions.open(origin.instant(Timestamp::ZERO)).expect("it dials");
        let listener = listener.expect("it listens");
        Self { now: Timestamp::ZERO, origin, identity, listener, session, events: Vec::new(), arrived: Vec::new() }
    }

    /// A pair whose page has joined.
    fn joined() -> Self {
        let mut pair = Self::new();
        let secret = pair.identity.secret();
        pair.send(PageData::Control(Message::Join { secret, kind: CallKind::TwoWay }.to_bytes().into()));
        pair.run_for(100 * MS);
        assert!(pair.listener.is_open(), "{:?}", pair.events);
        pair.take();
        assert_eq!(pair.control(), [Message::Welcome]);
        pair
    }

    fn send(&mut self, data: PageData) {
        self.session.send(self.origin.instant(self.now), data);
    }

    fn run_for(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            let at = self.origin.instant(self.now);
            let mut buffer = Vec::new();
            self.session.handle_timeout(at);
            while self.session.poll_transmit(at, &mut buffer) {
                let datagram = BytesMut::from(&buffer[..]);
                let incoming = Incoming { at: self.now, from: address(1), to: None, datagram };
                self.listener.handle_datagram(incoming);
            }
            self.listener.handle_timeout(self.now);
            self.events.extend(std::iter::from_fn(|| self.listener.poll()));
            buffer.clear();
            while self.listener.poll_transmit(self.now, &mut buffer).is_some() {
                self.session.handle_datagram(at, &std::mem::take(&mut buffer));
            }
            self.now += MS;
        }
    }

    /// The page's WebSocket takes everything.
    fn take(&mut self) {
        self.arrived.extend(std::iter::from_fn(|| self.session.poll()));
    }

    fn control(&self) -> Vec<Message> {
        let mut messages = Messages::default();
        for data in &self.arrived {
            if let PageData::Control(bytes) = data {
                messages.extend(bytes);
            }
        }
        std::iter::from_fn(|| messages.poll().expect("well-formed")).collect()
    }

    fn datagrams(&self) -> Vec<Bytes> {
        let each = self.arrived.iter().filter_map(|data| match data {
            PageData::Datagram(bytes) if bytes[0] == 0x41 => Some(bytes.clone()),
            _ => None,
        });
        each.collect()
    }

    fn loss(&self) -> Option<&Loss> {
        self.events.iter().find_map(|event| if let CarrierEvent::Lost(loss) = event { Some(loss) } else { None })
    }
}

#[test]
fn data_passes_through_a_session_in_both_directions() {
    let mut pair = Pair::joined();
    pair.send(PageData::Datagram(vec![0x40; 1_100].into()));
    pair.send(PageData::Messages(messages::reliable(pair.now, &[7; 60_000]).into()));
    pair.listener.send(vec![0x41; 1_100]);
    let message = messages::Message::reliable(vec![8; 60_000]);
    pair.listener.send_message(pair.now, &message).expect("there is room");
    for _ in 0..20 {
        pair.run_for(10 * MS);
        pair.take();
    }
    let is_datagram =
        |event: &CarrierEvent<Bytes>| matches!(event, CarrierEvent::Datagram(_, bytes) if bytes[..] == [0x40; 1_100]);
    assert!(pair.events.iter().any(is_datagram));
    let is_message =
        |event: &CarrierEvent<Bytes>| matches!(event, CarrierEvent::Message { payload, .. } if *payload == [7; 60_000]);
    assert!(pair.events.iter().any(is_message) && pair.session.has_room());
    assert_eq!(pair.datagrams(), [[0x41; 1_100].to_vec()]);
    let mut reader = messages::ReliableReader::default();
    for data in &pair.arrived {
        if let PageData::Messages(bytes) = data {
            reader.extend(bytes);
        }
    }
    assert!(matches!(reader.poll(), Ok(Some((_, payload))) if payload == [8; 60_000]));
}

#[test]
fn full_page_loses_the_oldest_datagrams() {
    let mut pair = Pair::joined();
    for number in 0..=255 {
        pair.listener.send([vec![0x41, number], vec![0; 1_000]].concat());
        pair.run_for(MS);
    }
    pair.take();
    let numbers: Vec<u8> = pair.datagrams().iter().map(|datagram| datagram[1]).collect();
    assert!(numbers.len() * 1_000 <= PageSessions::MAX_WAITING_BYTES && numbers.len() > 50, "{}", numbers.len());
    assert!(numbers.iter().rev().copied().eq((0..=255).rev().take(numbers.len())), "{numbers:?}");
}

#[test]
fn session_with_a_wrong_ticket_is_closed_with_the_reason() {
    let mut pair = Pair::new();
    pair.send(PageData::Control(Message::Join { secret: [0; 16], kind: CallKind::TwoWay }.to_bytes().into()));
    pair.run_for(100 * MS);
    pair.take();
    assert_eq!(pair.arrived, [PageData::Closed(REFUSALS + TicketRefusal::Wrong.number())]);
    assert!(!pair.listener.is_joined());
}

#[test]
fn end_of_either_side_reaches_the_other_with_its_code() {
    let mut pair = Pair::joined();
    pair.send(PageData::Closed(CloseReason::Failed.number().into()));
    pair.run_for(100 * MS);
    assert_eq!(pair.loss(), Some(&Loss::Closed(CloseReason::Failed)));
    assert!(pair.session.is_over());

    let mut pair = Pair::joined();
    pair.listener.close(pair.now, CloseReason::Done, Duration::from_secs(3));
    pair.run_for(100 * MS);
    pair.take();
    assert_eq!(pair.control().last(), Some(&Message::Close(CloseReason::Done)));
    assert_eq!(pair.arrived.last(), Some(&PageData::Closed(CloseReason::Done.number().into())));
}

#[test]
fn session_without_a_listener_ends() {
    let mut pair = Pair::new();
    for second in 0..30 {
        let at = pair.origin.instant(Timestamp::from_millis(1_000 * second));
        pair.session.handle_timeout(at);
        while pair.session.poll_transmit(at, &mut Vec::new()) {}
    }
    assert!(pair.session.is_over());
    let mut pair = Pair::new();
    pair.send(PageData::Closed(0));
    assert!(pair.session.is_over());
}
