//! Page of a browser in virtual time: a minimal WebTransport client, and what a listener does with pages.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, ConnectionError, DatagramEvent, Dir, Endpoint, EndpointConfig, Event, ReadError, StreamId, VarInt,
};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg32;
use web_transport_proto::{Capsule, ConnectRequest, ConnectResponse, Frame, Settings, StreamUni};

use super::*;
use crate::identity::{HTTP3, client};
use lockstep_session::CarrierEvent;
use lockstep_session::Loss;
use lockstep_session::control::{CloseReason, Message, Messages};
use lockstep_session::messages::{self, Delivery, ReliableReader};
use lockstep_session::probe::{answered, challenge, is_keep_alive, keep_alive};
use lockstep_session::ticket::Secret;

/// One-way delay.
const WAY: Duration = Duration::from_millis(20);
const PAGE: u8 = 1;
const LISTENS: u8 = 2;

/// A page that speaks WebTransport, as a browser does.
struct Page {
    endpoint: Endpoint,
    handle: quinn_proto::ConnectionHandle,
    quic: quinn_proto::Connection,
    streams: BTreeMap<StreamId, Vec<u8>>,
    ended: BTreeSet<StreamId>,
    request: Option<StreamId>,
    control: Option<StreamId>,
    messages: Option<StreamId>,
    datagrams: Vec<(Timestamp, Bytes)>,
    is_connected: bool,
    lost: Option<ConnectionError>,
}

impl Page {
    fn new(identity: &Identity, origin: Origin) -> Self {
        let mut tls = client(&identity.key()).expect("a key");
        tls.alpn_protocols = vec![HTTP3.to_vec()];
        let config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).expect("TLS 1.3")));
        let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, true, None);
        let now = origin.instant(Timestamp::ZERO);
        let (handle, quic) = endpoint.connect(now, config, address(LISTENS), "192.0.2.2").expect("it dials");
        Self {
            endpoint,
            handle,
            quic,
            streams: BTreeMap::new(),
            ended: BTreeSet::new(),
            request: None,
            control: None,
            messages: None,
            datagrams: Vec::new(),
            is_connected: false,
            lost: None,
        }
    }

    fn open(&mut self, dir: Dir, bytes: &[u8]) -> StreamId {
        let stream = self.quic.streams().open(dir).expect("the listener allows it");
        self.streams.insert(stream, Vec::new());
        self.write(stream, bytes);
        stream
    }

    fn write(&mut self, stream: StreamId, bytes: &[u8]) {
        assert_eq!(self.quic.send_stream(stream).write(bytes), Ok(bytes.len()));
    }

    fn connect(&mut self, path: &str) {
        let (mut settings, mut bytes) = (Settings::default(), Vec::new());
        settings.enable_webtransport(1);
        settings.encode(&mut bytes);
        self.open(Dir::Uni, &bytes);
        for kind in [StreamUni::QPACK_ENCODER, StreamUni::QPACK_DECODER] {
            let mut bytes = Vec::new();
            kind.encode(&mut bytes);
            self.open(Dir::Uni, &bytes);
        }
        let url: url::Url = format!("https://192.0.2.2:4600{path}").parse().expect("a link");
        let mut bytes = Vec::new();
        ConnectRequest::new(url).encode(&mut bytes).expect("it is short");
        self.request = Some(self.open(Dir::Bi, &bytes));
    }

    fn open_data(&mut self) -> StreamId {
        let request = self.request.expect("it has connected");
        let mut bytes = Vec::new();
        Frame::WEBTRANSPORT.encode(&mut bytes);
        web_transport_proto::VarInt::from_u64(VarInt::from(request).into_inner()).expect("small").encode(&mut bytes);
        self.open(Dir::Bi, &bytes)
    }

    fn join(&mut self, secret: Secret, kind: CallKind) {
        self.connect("/lockstep");
        let control = self.open_data();
        self.control = Some(control);
        self.write(control, &Message::Join { secret, kind }.to_bytes());
        self.messages = Some(self.open_data());
    }

    fn send(&mut self, payload: &[u8]) {
        let datagram = [&[0][..], payload].concat();
        self.quic.datagrams().send(datagram.into(), true).expect("it fits");
    }

    fn received(&self, stream: Option<StreamId>) -> &[u8] {
        &self.streams[&stream.expect("it is open")]
    }

    fn control_messages(&self) -> Vec<Message> {
        let mut messages = Messages::default();
        messages.extend(self.received(self.control));
        std::iter::from_fn(|| messages.poll().expect("well-formed")).collect()
    }

    /// Status of the answer, and the code with which the listener closed the session.
    fn session(&self) -> (Option<u16>, Option<u32>) {
        let mut rest = self.received(self.request);
        let status = match ConnectResponse::decode(&mut rest) {
            Ok(response) => Some(response.status.as_u16()),
            Err(web_transport_proto::ConnectError::WrongStatus(status)) => status.map(|status| status.as_u16()),
            Err(_) => None,
        };
        let Ok((Frame::DATA, mut data)) = Frame::read(&mut rest) else { return (status, None) };
        match Capsule::decode(&mut data) {
            Ok(Capsule::CloseWebTransportSession { code, .. }) => (status, Some(code)),
            _ => (status, None),
        }
    }

    fn handle_datagram(&mut self, at: std::time::Instant, datagram: BytesMut) {
        let handled = self.endpoint.handle(at, address(LISTENS), None, None, datagram, &mut Vec::new());
        if let Some(DatagramEvent::ConnectionEvent(_, event)) = handled {
            self.quic.handle_event(event);
        }
    }

    fn step(&mut self, at: std::time::Instant, now: Timestamp) {
        if self.quic.poll_timeout().is_some_and(|due| due <= at) {
            self.quic.handle_timeout(at);
        }
        while let Some(event) = self.quic.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.quic.handle_event(event);
            }
        }
        while let Some(event) = self.quic.poll() {
            match event {
                Event::Connected => self.is_connected = true,
                Event::ConnectionLost { reason } => self.lost = Some(reason),
                _ => {}
            }
        }
        while let Some(stream) = self.quic.streams().accept(Dir::Uni) {
            self.streams.insert(stream, Vec::new());
        }
        assert_eq!(self.quic.streams().accept(Dir::Bi), None, "a browser loses streams of the listener");
        let own = |stream: &StreamId| stream.dir() == Dir::Uni && stream.initiator() == quinn_proto::Side::Client;
        for (stream, received) in self.streams.iter_mut().filter(|(stream, _)| !own(stream)) {
            let mut receiving = self.quic.recv_stream(*stream);
            let Ok(mut chunks) = receiving.read(true) else { continue };
            loop {
                match chunks.next(usize::MAX) {
                    Ok(Some(chunk)) => received.extend(&chunk.bytes),
                    Err(ReadError::Blocked) => break,
                    Ok(None) | Err(ReadError::Reset(_)) => {
                        self.ended.insert(*stream);
                        break;
                    }
                }
            }
            let _ = chunks.finalize().should_transmit();
        }
        while let Some(datagram) = self.quic.datagrams().recv() {
            assert_eq!(datagram[0], 0, "the session's number");
            self.datagrams.push((now, datagram.slice(1..)));
        }
    }
}

/// A listener and a page, over a path with loss.
struct Visit {
    now: Timestamp,
    origin: Origin,
    identity: Identity,
    listener: Connection,
    gate: Gate,
    page: Page,
    transit: Vec<(Timestamp, u8, Vec<u8>)>,
    loss: f64,
    random: Pcg32,
    events: Vec<CarrierEvent<Bytes>>,
    keeps_alive: bool,
    kept_at: Timestamp,
}

impl Visit {
    fn new(loss: f64, seed: u64) -> Self {
        let origin = Clock::start().origin();
        let identity = Identity::for_browsers().expect("there are random numbers");
        let listener = Connection::listening(&identity, CallKind::TwoWay, None, origin, Timestamp::ZERO);
        let listener = listener.expect("it listens");
        let page = Page::new(&identity, origin);
        Self {
            now: Timestamp::ZERO,
            origin,
            gate: listener.gate(),
            identity,
            listener,
            page,
            transit: Vec::new(),
            loss,
            random: Pcg32::seed_from_u64(seed),
            events: Vec::new(),
            keeps_alive: true,
            kept_at: Timestamp::ZERO,
        }
    }

    /// A visit whose page has joined.
    fn joined(loss: f64, seed: u64) -> Self {
        let mut visit = Self::new(loss, seed);
        visit.wait();
        visit.page.join(visit.identity.secret(), CallKind::TwoWay);
        visit.run_for(Duration::from_secs(2));
        assert!(visit.listener.is_open(), "{:?} {:?}", visit.page.lost, visit.events);
        assert_eq!(visit.page.session(), (Some(200), None));
        assert_eq!(visit.page.control_messages(), [Message::Welcome]);
        visit
    }

    /// Runs until the page's browser is connected.
    fn wait(&mut self) {
        let limit = self.now + Duration::from_secs(20);
        while !self.page.is_connected && self.now < limit {
            self.run_for(10 * MS);
        }
        assert!(self.page.is_connected);
    }

    fn send(&mut self, to: u8, datagram: Vec<u8>) {
        if !self.random.random_bool(self.loss) {
            self.transit.push((self.now + WAY, to, datagram));
        }
    }

    fn poll(&mut self) {
        let at = self.origin.instant(self.now);
        self.listener.handle_timeout(self.now);
        self.page.step(at, self.now);
        self.events.extend(std::iter::from_fn(|| self.listener.poll()));
        if self.keeps_alive && self.listener.is_open() && self.now.saturating_since(self.kept_at) >= 200 * MS {
            self.page.send(&keep_alive());
            self.kept_at = self.now;
        }
        let mut buffer = Vec::new();
        while let Some(to) = self.listener.poll_transmit(self.now, &mut buffer) {
            assert_eq!(to, address(PAGE));
            self.send(PAGE, std::mem::take(&mut buffer));
        }
        while self.page.quic.poll_transmit(at, 1, &mut buffer).is_some() {
            self.send(LISTENS, std::mem::take(&mut buffer));
        }
    }

    fn run_for(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            self.poll();
            let page = self.page.quic.poll_timeout().map(|at| self.origin.moment(at));
            let arrives = self.transit.iter().map(|(at, ..)| *at).min();
            let kept = self.keeps_alive.then_some(self.kept_at + 200 * MS).filter(|&at| at > self.now);
            let next = Timestamp::earliest([self.listener.poll_timeout(), page, arrives, kept]);
            let Some(next) = next.filter(|&next| next <= until) else { break };
            self.now = self.now.max(next);
            let due = self.transit.iter().position(|(at, ..)| *at <= self.now);
            if let Some(due) = due {
                let (_, to, datagram) = self.transit.remove(due);
                let datagram = BytesMut::from(&datagram[..]);
                if to == PAGE {
                    self.page.handle_datagram(self.origin.instant(self.now), datagram);
                } else if self.gate.admits(self.now, address(PAGE), &datagram) {
                    let incoming = Incoming { at: self.now, from: address(PAGE), to: None, datagram };
                    self.listener.handle_datagram(incoming);
                }
            }
        }
        self.now = until;
    }

    fn loss(&self) -> Option<&Loss> {
        self.events.iter().find_map(|event| if let CarrierEvent::Lost(loss) = event { Some(loss) } else { None })
    }

    fn page_was_closed_with(&self, code: u32) -> bool {
        matches!(&self.page.lost, Some(ConnectionError::ApplicationClosed(close)) if close.error_code == code.into())
    }
}

const MS: Duration = Duration::from_millis(1);

#[test]
fn page_joins_and_exchanges_datagrams() {
    for (loss, seed) in [(0.0, 1), (0.1, 2), (0.1, 3)] {
        let mut visit = Visit::joined(loss, seed);
        for number in 0..50 {
            visit.page.send(&[0x40, number]);
            visit.listener.send(vec![0x41, number]);
            visit.run_for(10 * MS);
        }
        visit.run_for(100 * MS);
        let here =
            visit.events.iter().filter(|event| matches!(event, CarrierEvent::Datagram(_, bytes) if bytes[0] == 0x40));
        let there = visit.page.datagrams.iter().filter(|(_, bytes)| bytes[0] == 0x41);
        let counts = [here.count(), there.count()];
        assert!(if loss == 0.0 { counts == [50, 50] } else { counts.iter().all(|&count| count > 35) }, "{counts:?}");
    }
}

#[test]
fn largest_datagram_to_a_page_arrives_whole() {
    let mut visit = Visit::joined(0.0, 1);
    let largest = visit.listener.largest_datagram().expect("it has joined");
    visit.listener.send(vec![0x41; largest]);
    visit.run_for(100 * MS);
    assert!(visit.page.datagrams.iter().any(|(_, bytes)| bytes.len() == largest), "{largest}");
    let allowed = visit.page.quic.datagrams().max_size().expect("it has joined");
    assert!(largest >= 1_100 && largest < allowed + 100, "{largest} {allowed}");
}

#[test]
fn page_measures_its_round_trip_by_a_challenge() {
    let mut visit = Visit::joined(0.0, 1);
    visit.page.send(&challenge([9; 8]));
    let sent_at = visit.now;
    visit.run_for(100 * MS);
    let answer = visit.page.datagrams.iter().find(|(_, bytes)| answered(bytes) == Some([9; 8]));
    assert_eq!(answer.map(|(at, _)| at.saturating_since(sent_at)), Some(2 * WAY));
}

#[test]
fn messages_travel_both_ways_in_the_second_stream() {
    let mut visit = Visit::joined(0.1, 4);
    let stream = visit.page.messages.expect("it is open");
    visit.page.write(stream, &messages::reliable(visit.now, b"hello"));
    visit.listener.send_message(visit.now, &messages::Message::reliable(*b"welcome")).expect("it has joined");
    visit.listener.send_message(visit.now, &messages::Message::latest(3, *b"now")).expect("it has joined");
    visit.run_for(Duration::from_secs(2));
    let received = visit.events.iter().any(|event| {
        matches!(event, CarrierEvent::Message { delivery: Delivery::Reliable, payload, .. } if payload == b"hello")
    });
    assert!(received, "{:?}", visit.events);
    let mut reader = ReliableReader::default();
    reader.extend(visit.page.received(visit.page.messages));
    assert_eq!(reader.poll().map(|message| message.map(|(_, payload)| payload)), Ok(Some(b"welcome".to_vec())));
    assert!(visit.page.datagrams.iter().any(|(_, bytes)| bytes.ends_with(b"now")));
}

#[test]
fn messages_wait_until_the_page_opens_their_stream() {
    let mut visit = Visit::new(0.0, 1);
    visit.wait();
    visit.page.connect("/lockstep");
    let control = visit.page.open_data();
    visit.page.control = Some(control);
    let join = Message::Join { secret: visit.identity.secret(), kind: CallKind::TwoWay };
    visit.page.write(control, &join.to_bytes());
    visit.run_for(200 * MS);
    visit.listener.send_message(visit.now, &messages::Message::reliable(*b"early")).expect("it has joined");
    visit.run_for(200 * MS);
    visit.page.messages = Some(visit.page.open_data());
    visit.run_for(200 * MS);
    assert!(visit.page.received(visit.page.messages).ends_with(b"early"));
}

#[test]
fn refused_page_gets_the_reason_in_its_session() {
    for (secret, kind, code) in [(Some([0; 16]), CallKind::TwoWay, 65_536), (None, CallKind::OneWay, 65_539)] {
        for (loss, seed) in [(0.0, 1), (0.2, 2), (0.2, 3)] {
            let mut visit = Visit::new(loss, seed);
            visit.wait();
            visit.page.join(secret.unwrap_or(visit.identity.secret()), kind);
            visit.run_for(Duration::from_secs(2));
            assert_eq!(visit.page.session(), (Some(200), Some(code)));
            // Chromium hides the code if QUIC closes at the same time.
            assert!(visit.page.lost.is_none(), "{:?}", visit.page.lost);
            visit.run_for(Duration::from_secs(3));
            // QUIC's own close is one packet, which may be lost.
            assert!(loss > 0.0 || visit.page_was_closed_with(code), "{:?}", visit.page.lost);
            assert!(!visit.listener.is_joined() && visit.events.is_empty());
        }
    }
}

#[test]
fn second_page_with_a_used_ticket_is_refused() {
    let mut visit = Visit::joined(0.0, 1);
    let mut second = Page::new(&visit.identity, visit.origin);
    std::mem::swap(&mut visit.page, &mut second);
    // The first page is gone; its link stays until the listener notices.
    visit.keeps_alive = false;
    visit.wait();
    visit.page.join(visit.identity.secret(), CallKind::TwoWay);
    visit.run_for(200 * MS);
    assert_eq!(visit.page.session(), (Some(200), Some(65_537)));
}

#[test]
fn listener_closes_the_session_and_leaves_quic_to_the_page() {
    for (reason, code, loss) in
        [(CloseReason::Done, 0, 0.0), (CloseReason::Failed, 1, 0.2), (CloseReason::Done, 0, 0.2)]
    {
        let mut visit = Visit::joined(loss, 7);
        visit.listener.close(visit.now, reason, Duration::from_secs(10));
        visit.run_for(Duration::from_secs(3));
        assert_eq!(visit.page.session().1, Some(code));
        assert!(visit.page.lost.is_none(), "the page closes: {:?}", visit.page.lost);
        assert!(visit.listener.is_over() && visit.listener.unconfirmed().is_none());
    }
}

#[test]
fn page_ends_the_call_by_its_session_its_stream_or_quic() {
    let capsule = |code| {
        let (mut capsule, mut bytes) = (Vec::new(), Vec::new());
        Capsule::CloseWebTransportSession { code, reason: "bye".to_owned() }.encode(&mut capsule);
        Frame::DATA.encode(&mut bytes);
        bytes.push(capsule.len() as u8);
        [bytes, capsule].concat()
    };
    for way in 0..5 {
        let mut visit = Visit::joined(0.0, 1);
        let (request, control) = (visit.page.request.expect("open"), visit.page.control.expect("open"));
        let expected = match way {
            0 => {
                visit.page.write(request, &capsule(1));
                CloseReason::Failed
            }
            1 => {
                visit.page.quic.send_stream(request).finish().expect("open");
                CloseReason::Done
            }
            2 => {
                visit.page.write(control, &Message::Close(CloseReason::Failed).to_bytes());
                CloseReason::Failed
            }
            3 => {
                visit.page.quic.send_stream(request).reset(0x10c_u32.into()).expect("open");
                CloseReason::Done
            }
            _ => {
                // A closed tab: the browser chooses the code, here WEBTRANSPORT_SESSION_GONE.
                let (at, code) = (visit.origin.instant(visit.now), VarInt::from_u32(0x170d_7b68));
                visit.page.quic.close(at, code, Bytes::new());
                CloseReason::Done
            }
        };
        visit.run_for(200 * MS);
        assert_eq!(visit.loss(), Some(&Loss::Closed(expected)), "{way}");
        assert!(visit.listener.is_over());
    }
}

#[test]
fn page_sees_a_datagram_in_time_however_much_it_sends() {
    let mut visit = Visit::joined(0.0, 1);
    let begun = visit.now;
    for _ in 0..500 {
        // The listener's QUIC acknowledges these, which the page cannot see.
        visit.page.send(&[0x40; 100]);
        visit.run_for(10 * MS);
    }
    let alive: Vec<Timestamp> = visit
        .page
        .datagrams
        .iter()
        .filter(|(at, bytes)| *at >= begun && is_keep_alive(bytes))
        .map(|(at, _)| *at)
        .collect();
    let longest = alive.windows(2).map(|pair| pair[1].saturating_since(pair[0])).max();
    assert!(longest.is_some_and(|longest| longest <= 205 * MS), "{longest:?}");
    assert!(alive.len() <= 26, "{}", alive.len());
}

#[test]
fn page_that_no_longer_runs_counts_as_silent() {
    let mut visit = Visit::joined(0.0, 1);
    visit.run_for(Duration::from_secs(5));
    let silence = visit.now.saturating_since(visit.listener.last_received());
    assert!(silence <= 300 * MS, "its datagrams show that it runs: {silence:?}");
    visit.keeps_alive = false;
    let since = visit.now;
    visit.run_for(Duration::from_secs(5));
    assert!(visit.listener.last_received() <= since + 2 * WAY, "its browser acknowledges datagrams still");
}

#[test]
fn other_paths_and_requests_are_not_served() {
    let mut visit = Visit::new(0.0, 1);
    visit.wait();
    visit.page.connect("/other");
    visit.run_for(200 * MS);
    assert_eq!(visit.page.session(), (Some(404), None));
    let control = visit.page.open_data();
    let join = Message::Join { secret: visit.identity.secret(), kind: CallKind::TwoWay };
    visit.page.write(control, &join.to_bytes());
    visit.run_for(200 * MS);
    assert!(!visit.listener.is_joined(), "there is no session");
    visit.run_for(Duration::from_secs(15));
    assert!(visit.page.lost.is_some() && visit.listener.links() == 0, "a stranger has ten seconds");
}

#[test]
fn streams_of_unknown_kinds_are_reset_and_harmless() {
    let mut visit = Visit::joined(0.0, 1);
    for round in 0..100_u8 {
        let unknown = visit.page.open(Dir::Uni, &[0x40, 0x54, 0]);
        let third = visit.page.open_data();
        visit.run_for(100 * MS);
        for stream in [unknown, third] {
            let stopped = visit.page.quic.send_stream(stream).stopped();
            assert!(!matches!(stopped, Ok(None)), "{round}: {stream:?} stays open");
            let _ = visit.page.quic.send_stream(stream).reset(0u32.into());
        }
        visit.run_for(100 * MS);
    }
    assert!(visit.listener.is_open());
}

/// Bytes of streams that a hostile page may open.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let start = prop_oneof![
        Just(vec![]),
        Just(vec![0]),
        Just(vec![0, 4]),
        Just(vec![1]),
        Just(vec![2]),
        Just(vec![0x40, 0x41, 0]),
        Just(vec![0x40, 0x41, 0, 0, 19, 1, 4, 2]),
    ];
    (start, vec(any::<u8>(), 0..600)).prop_map(|(start, rest)| [start, rest].concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn hostile_page_does_not_keep_others_from_joining(
        streams in vec((any::<bool>(), hostile()), 1..12), datagrams in vec(vec(any::<u8>(), 0..200), 0..5)
    ) {
        let mut visit = Visit::new(0.0, 1);
        visit.wait();
        for (bidirectional, bytes) in streams {
            let dir = if bidirectional { Dir::Bi } else { Dir::Uni };
            if let Some(stream) = visit.page.quic.streams().open(dir) {
                let _ = visit.page.quic.send_stream(stream).write(&bytes);
            }
            visit.run_for(50 * MS);
        }
        for datagram in datagrams {
            let _ = visit.page.quic.datagrams().send(datagram.into(), true);
        }
        visit.run_for(100 * MS);
        prop_assert!(!visit.listener.is_joined() && visit.listener.links() <= 1);
        visit.page = Page::new(&visit.identity, visit.origin);
        visit.wait();
        visit.page.join(visit.identity.secret(), CallKind::TwoWay);
        visit.run_for(200 * MS);
        prop_assert!(visit.listener.is_open());
    }
}
