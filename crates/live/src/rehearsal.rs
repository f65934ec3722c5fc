//! Rehearsals: whole calls in virtual time, including QUIC.
//!
//! Two ends communicate over two simulated links. Each has the exchange, the connection and the halves of a live call.
//! The work of threads, devices and sockets happens here at once, in one thread. A plan decides what happens: links
//! fail, and ends change their address, stop, are killed and restart.

mod garbage;
mod meeting;
mod nat;
mod page;
mod reconnection;
mod soak;
mod stand_in;
mod survival;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::BytesMut;
use lockstep_call::{
    DecodeOutcome, Display, FunctionalEncoder, LipSync, Menu, MenuMode, Playback, ReceivingEnd, SendingEnd, SerialMenu,
    SoundPacketSource, SoundPlayer, Tuning,
};
use lockstep_control::{Algorithm, ControllerSetup, EstimatorKind, RateBounds};
use lockstep_link::{Link, LinkConfig, Trace};
use lockstep_media::{Source, SourceError, SourceOptions, open_source};
use lockstep_sim::ModelledVoice;
use lockstep_socket::{Admission, Clock, Incoming, Origin};
use lockstep_sound::{Decode, FRAME_DURATION, FRAME_SAMPLES, Frame, FrameNumbering, MIN_BITRATE, SoundFailure};
use lockstep_transport::{ReceiverConfig, SenderConfig};
use lockstep_units::{Bitrate, ByteCount, Timestamp};
use lockstep_vp8::{Parameters, Picture};

use crate::capture::ATTEMPT_INTERVAL;
use crate::connection::Connection;
use crate::following::{Following, Named};
use crate::gate::Gate;
use crate::identity::Identity;
use crate::rendezvous::{Limits, Rendezvous};
use crate::{END_LIMIT, Ended, LiveError, SILENT_END_LIMIT};
use lockstep_session::control::CallKind;
use lockstep_session::ticket::Ticket;
use lockstep_session::{Carrier, Ends, Exchange, TimeLimits, reason};
use meeting::{Meet, SERVER};

/// Duration of jobs in virtual time.
const ENCODING: Duration = Duration::from_millis(5);
const DECODING: Duration = Duration::from_millis(2);
/// Bytes per 20 ms of continuous sound.
const SPOKEN: usize = 80;
/// Bytes of IP and UDP headers.
const HEADERS: usize = 28;
/// Bytes of datagrams that the system buffers for a stopped process.
const SOCKET_BUFFER: usize = 200_000;

/// Decoder that returns silence.
struct Deaf;

impl Decode for Deaf {
    type Payload = Vec<u8>;

    fn is_silence(payload: &Vec<u8>) -> bool {
        payload.is_empty()
    }

    fn decode(&mut self, _: &Vec<u8>) -> Option<Frame> {
        Some([0; FRAME_SAMPLES])
    }

    fn recover(&mut self, next: &Vec<u8>) -> Option<Frame> {
        (!next.is_empty()).then_some([0; FRAME_SAMPLES])
    }

    fn conceal(&mut self) -> Frame {
        [0; FRAME_SAMPLES]
    }
}

/// A device that may be unplugged.
#[derive(Debug, Clone, Default)]
struct Plug {
    is_out: Arc<AtomicBool>,
}

impl Plug {
    fn set(&self, is_out: bool) {
        self.is_out.store(is_out, Ordering::Relaxed);
    }

    fn check(&self) -> Result<(), SoundFailure> {
        let is_out = self.is_out.load(Ordering::Relaxed);
        if is_out { Err(SoundFailure("it is unplugged".to_owned())) } else { Ok(()) }
    }

    /// A microphone at this plug.
    fn microphone(&self) -> Following<Self> {
        let plug = self.clone();
        let open = move || plug.check().map(|()| plug.clone());
        Following::new(open, "the other end hears silence", Arc::new(|_: &str| ())).expect("it is plugged in")
    }
}

impl Named for Plug {
    fn name(&self) -> &str {
        "microphone"
    }
}

/// A camera that may be unplugged.
struct Camera {
    source: Box<dyn Source>,
    plug: Plug,
}

impl Camera {
    fn next(&mut self) -> Result<Option<Picture>, SourceError> {
        let failed = |failure: SoundFailure| SourceError::Camera { device: "/dev/video0".into(), reason: failure.0 };
        self.plug.check().map_err(failed)?;
        self.source.next()
    }
}

/// Speech of both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Talk {
    /// Nobody has a microphone.
    Mute,
    /// Both ends speak without a pause.
    Always,
    /// Speech and silence alternate; silence is not sent.
    ByTurns(u64),
}

/// One end of a call.
struct End {
    gate: Gate,
    exchange: Exchange<Connection>,
    sending: SendingEnd,
    receiving: ReceivingEnd,
    /// How far its clock is ahead of the world's.
    ahead: Duration,
    address: SocketAddr,
    camera: Camera,
    microphone: Following<Plug>,
    /// Where the microphone is plugged in.
    microphone_plug: Plug,
    /// Session time as [`Following`] sees it.
    origin: Origin,
    interval: Duration,
    next_capture: Option<Timestamp>,
    encoding: Option<(Timestamp, Menu)>,
    decoding: Option<(Timestamp, DecodeOutcome)>,
    talk: Talk,
    voice: ModelledVoice,
    numbering: FrameNumbering,
    speaks_at: Option<Timestamp>,
    plays_at: Option<Timestamp>,
    playing: SoundPlayer<Deaf>,
    sync: LipSync,
    ending: Option<(Timestamp, Result<Ended, LiveError>)>,
    over: Option<(Timestamp, Result<Ended, LiveError>)>,
    /// Datagrams that arrived while the end is stopped.
    stopped: Option<Vec<Incoming>>,
    /// Display and playout times on this end's clock, each with the capture time on the other end's clock.
    shown: Vec<(Timestamp, Timestamp)>,
    played: Vec<(Timestamp, Timestamp)>,
}

/// Configuration of both ends of a rehearsal.
#[derive(Debug, Clone, Copy)]
struct Cast {
    /// The clip that both ends send.
    pictures: &'static str,
    talk: Talk,
    time_limits: TimeLimits,
}

impl Default for Cast {
    fn default() -> Self {
        let time_limits =
            TimeLimits { wait_limit: Some(Duration::from_secs(30)), idle_limit: Some(Duration::from_secs(30)) };
        Self { pictures: "generated:64x48@30", talk: Talk::Always, time_limits }
    }
}

impl End {
    fn new(connection: Connection, cast: Cast, now: Timestamp, ahead: Duration, address: SocketAddr) -> Self {
        let source = open_source(cast.pictures, &SourceOptions::default()).expect("it is generated");
        let interval = source.format().frame_interval();
        let format = lockstep_call::announced(&source.format());
        let algorithm = Algorithm::default();
        let estimator = algorithm.estimator_kind().number();
        let config = SenderConfig { estimator, ..SenderConfig::new(7, format) };
        let setup = ControllerSetup::new(ByteCount::new(config.payload as u64), interval);
        let controller = algorithm.controller(&setup).expect("it needs no path");
        let encoder = Box::new(FunctionalEncoder::new(Parameters::default(), MenuMode::default(), &Tuning::default()));
        let receiving = ReceivingEnd::with_estimators(ReceiverConfig::default(), |number| {
            Some(EstimatorKind::from_number(number)?.make(RateBounds::default()))
        });
        let talks = cast.talk != Talk::Mute;
        let microphone_plug = Plug::default();
        Self {
            gate: connection.gate(),
            exchange: Exchange::new(connection, cast.time_limits, now),
            sending: SendingEnd::new(config, controller, encoder, &Tuning::default()),
            receiving,
            ahead,
            address,
            camera: Camera { source, plug: Plug::default() },
            microphone: microphone_plug.microphone(),
            microphone_plug,
            origin: Clock::start().origin(),
            interval,
            next_capture: Some(now),
            encoding: None,
            decoding: None,
            talk: cast.talk,
            voice: ModelledVoice::new(if let Talk::ByTurns(seed) = cast.talk { seed } else { 0 }),
            numbering: FrameNumbering::default(),
            speaks_at: talks.then_some(now + FRAME_DURATION),
            plays_at: talks.then_some(now + FRAME_DURATION / 2),
            playing: SoundPlayer::new(Deaf, None),
            sync: LipSync::new(talks),
            ending: None,
            over: None,
            stopped: None,
            shown: Vec::new(),
            played: Vec::new(),
        }
    }

    fn is_over(&self) -> bool {
        self.over.is_some()
    }

    /// The next timeout of the end, on the world's clock.
    fn poll_timeout(&mut self) -> Option<Timestamp> {
        if self.is_over() || self.stopped.is_some() {
            return None;
        }
        let ends = Ends { sending: vec![&mut self.sending], receiving: vec![&mut self.receiving] };
        let exchange = self.exchange.poll_timeout(&ends);
        let jobs =
            Timestamp::earliest([self.encoding.as_ref().map(|(at, _)| *at), self.decoding.as_ref().map(|(at, _)| *at)]);
        let paces = Timestamp::earliest([self.next_capture, self.speaks_at, self.plays_at, self.sync.poll_timeout()]);
        let next = Timestamp::earliest([exchange, jobs, paces])?;
        Some(Timestamp::ZERO + next.saturating_since(Timestamp::ZERO + self.ahead))
    }

    fn handle_datagram(&mut self, incoming: Incoming) {
        if self.is_over() || !self.gate.admits(incoming.at, incoming.from, &incoming.datagram) {
            return;
        }
        if let Some(waiting) = &mut self.stopped {
            let bytes: usize = waiting.iter().map(|incoming| incoming.datagram.len()).sum();
            if bytes < SOCKET_BUFFER {
                waiting.push(incoming);
            }
            return;
        }
        self.exchange.connection.handle_datagram(incoming);
    }

    fn send_sound(&mut self, now: Timestamp) {
        let frame = self.numbering.begin();
        let is_there = self.microphone.attempt(self.origin.instant(now), |plug| plug.check()).is_some();
        let bytes = match self.talk {
            Talk::Mute => return,
            Talk::Always => {
                let most = self.sending.sound_allowance(now).bitrate;
                let narrow = most < MIN_BITRATE;
                Some(if narrow { most.bytes_in(FRAME_DURATION).get() as usize } else { SPOKEN })
            }
            Talk::ByTurns(_) => {
                let packet = self.voice.next_packet(now, &self.sending.sound_allowance(now)).expect("it cannot fail");
                packet.map(|packet| packet.payload.0 as usize)
            }
        };
        let bytes = bytes.filter(|&bytes| is_there && bytes > 0);
        if let Some(packet) = self.numbering.packet(frame, now, bytes.map(|bytes| vec![7; bytes])) {
            let _ = self.sending.send_sound(now, packet);
        }
    }

    fn show(&mut self, now: Timestamp) {
        if let Some(display) = self.receiving.poll_display() {
            self.sync.push(now, display);
            if let Some(delay) = self.sync.min_sound_delay() {
                self.playing.set_min_delay(delay);
            }
        }
        if let Some(Display { captured_at, .. }) = self.sync.poll(now) {
            self.shown.push((now, captured_at));
        }
    }

    /// Does the work of a live call's loop and of its threads.
    fn step(&mut self, now: Timestamp) {
        if self.is_over() || self.stopped.is_some() {
            return;
        }
        if self.ending.is_none()
            && let Some(result) = self.reason_to_end(now).transpose()
        {
            let silent = matches!(result, Err(LiveError::Silent { .. }));
            let limit = if silent { SILENT_END_LIMIT } else { END_LIMIT };
            self.exchange.connection.close(now, reason(&result), limit);
            self.ending = Some((now, result));
        }
        self.exchange.connection.handle_timeout(now);
        let mut ends = Ends { sending: vec![&mut self.sending], receiving: vec![&mut self.receiving] };
        self.exchange.handle_events(now, &mut ends);
        while let Some(packet) = self.receiving.poll_sound() {
            self.playing.insert(now, packet);
        }
        if self.sending.poll_timeout().is_some_and(|at| at <= now) {
            self.sending.handle_timeout(now);
        }
        if self.next_capture.is_some_and(|at| at <= now) {
            // A source's thread does the same: it opens a lost camera again, and does not make up for late pictures.
            let pause = match self.camera.next() {
                Ok(picture) => {
                    self.sending.capture(now, now, picture.expect("it has no end"));
                    self.interval
                }
                Err(_) => {
                    self.camera.source.rest();
                    ATTEMPT_INTERVAL
                }
            };
            self.next_capture = self.next_capture.map(|at| (at + pause).max(now));
        }
        if self.speaks_at.is_some_and(|at| at <= now) {
            self.send_sound(now);
            let least = Timestamp::ZERO + now.saturating_since(Timestamp::ZERO + FRAME_DURATION);
            self.speaks_at = self.speaks_at.map(|at| (at + FRAME_DURATION).max(least));
        }
        if self.plays_at.is_some_and(|at| at <= now) {
            self.playing.play(now).expect("it has no sink");
            let played = self.playing.playing_captured_at();
            self.sync.on_playback(now, played);
            if let Some(captured) = played {
                self.played.push((now, captured));
            }
            let least = Timestamp::ZERO + now.saturating_since(Timestamp::ZERO + FRAME_DURATION);
            self.plays_at = self.plays_at.map(|at| (at + FRAME_DURATION).max(least));
        }
        if let Some((_, menu)) = self.encoding.take_if(|(at, _)| *at <= now) {
            self.sending.encoded(now, menu);
            let _ = self.sending.poll_committed();
        }
        if let Some((_, outcome)) = self.decoding.take_if(|(at, _)| *at <= now) {
            self.receiving.decoded(now, outcome);
        }
        self.show(now);
        let open = self.ending.is_none() && self.exchange.is_attended(now);
        if open && let Some(job) = self.sending.poll_encode(now) {
            self.encoding = Some((now + ENCODING, job.run(&SerialMenu)));
        }
        if let Some(job) = self.receiving.poll_decode() {
            self.decoding = Some((now + DECODING, job.run()));
        }
        while self.sending.poll_record().is_some() {}
        if let Some((since, _)) = &self.ending {
            let late = now.saturating_since(*since) >= END_LIMIT;
            if late || self.exchange.connection.is_over() {
                self.over = self.ending.take().map(|(_, result)| (now, self.exchange.result_after_close(result)));
            }
        }
    }

    fn reason_to_end(&mut self, now: Timestamp) -> Result<Option<Ended>, LiveError> {
        if let Some(ended) = self.exchange.loss()? {
            return Ok(Some(ended));
        }
        self.exchange.silence(now)?;
        Ok(None)
    }

    /// The user ends the call.
    fn hang_up(&mut self, now: Timestamp) {
        self.exchange.connection.close(now, reason(&Ok(Ended::Stopped)), END_LIMIT);
        self.ending = Some((now, Ok(Ended::Stopped)));
    }
}

/// A datagram in flight.
#[derive(Debug, Clone)]
struct Transit {
    from: SocketAddr,
    to: SocketAddr,
    datagram: BytesMut,
}

/// Index of an end.
const JOINER: usize = 0;
const LISTENER: usize = 1;

/// The ends, and the links of each sender.
struct World {
    now: Timestamp,
    origin: Origin,
    identity: Identity,
    ticket: Ticket,
    meet: Meet,
    cast: Cast,
    ends: [End; 2],
    links: [Link<Transit>; 2],
    /// Whether the datagrams of an end are lost.
    cut: [bool; 2],
    /// Larger datagrams are lost (bytes without IP and UDP headers).
    largest: usize,
    moved: u8,
    bytes: [u64; 2],
    /// An attacker on the path, which sends copies and forgeries of the packets.
    forger: Option<garbage::Forger>,
    /// The routers in front of the ends.
    nats: [Option<nat::Nat>; 2],
    /// The rendezvous at [`SERVER`], and its link.
    server: Option<(Rendezvous, Link<Transit>)>,
    /// Whether only datagrams by the relay arrive.
    apart: bool,
    /// Datagrams that reached an end directly from the other end's address.
    came_direct: u64,
}

fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, last], 4600))
}

/// A link of 5 Mb/s with a delay of 20 ms.
fn usual_link() -> LinkConfig {
    LinkConfig { delay: Duration::from_millis(20), ..LinkConfig::new(Trace::constant(Bitrate::from_kbps(5_000))) }
}

impl World {
    fn new(cast: Cast, links: [LinkConfig; 2], seed: u64) -> Self {
        Self::meeting(cast, links, seed, Meet::default())
    }

    fn meeting(cast: Cast, links: [LinkConfig; 2], seed: u64, meet: Meet) -> Self {
        let origin = Clock::start().origin();
        let identity = Identity::new().expect("there are random numbers");
        let rendezvous = if meet.by_rendezvous { vec![SERVER] } else { Vec::new() };
        let (key, secret, addresses) = (identity.key(), identity.secret(), vec![address(2)]);
        let ticket = Ticket { key, secret, addresses, rendezvous, is_room: false };
        let now = Timestamp::ZERO;
        let listener = Self::listening(&identity, &ticket, meet, cast, origin, now);
        let joiner = Self::joining(&ticket, meet, cast, origin, now, address(1));
        let mut number = seed * 2;
        let links = links.map(|config| {
            number += 1;
            Link::new(config, number).expect("a link")
        });
        let server = meet.by_rendezvous.then(|| {
            let link = LinkConfig {
                delay: Duration::from_millis(10),
                ..LinkConfig::new(Trace::constant(Bitrate::from_kbps(1_000_000)))
            };
            (Rendezvous::with_key(Limits::default(), [1; 32]), Link::new(link, seed).expect("a link"))
        });
        let (cut, moved, bytes) = ([false; 2], 2, [0; 2]);
        let ends = [joiner, listener];
        Self {
            now,
            origin,
            identity,
            ticket,
            meet,
            cast,
            ends,
            links,
            cut,
            largest: usize::MAX,
            moved,
            bytes,
            forger: None,
            nats: [None, None],
            server,
            apart: false,
            came_direct: 0,
        }
    }

    /// The listener's clock started an hour earlier.
    const AHEAD: Duration = Duration::from_secs(3600);

    fn listening(identity: &Identity, ticket: &Ticket, meet: Meet, cast: Cast, origin: Origin, now: Timestamp) -> End {
        let now = now + Self::AHEAD;
        let mut connection = Connection::listening(identity, CallKind::TwoWay, None, origin, now).expect("it listens");
        let (secret, servers, own) = (ticket.secret, ticket.rendezvous.clone(), [address(2)]);
        connection.meet(&secret, servers, &own, meet.hidden, now).expect("there are random numbers");
        End::new(connection, cast, now, Self::AHEAD, address(2))
    }

    fn joining(ticket: &Ticket, meet: Meet, cast: Cast, origin: Origin, now: Timestamp, address: SocketAddr) -> End {
        let mut ticket = ticket.clone();
        if meet.hidden {
            ticket.addresses.clear();
        }
        let (secret, servers) = (ticket.secret, ticket.rendezvous.clone());
        let connection = Connection::joining(ticket, CallKind::TwoWay, None, origin, now);
        let mut connection = connection.expect("it dials");
        connection.meet(&secret, servers, &[address], meet.hidden, now).expect("there are random numbers");
        End::new(connection, cast, now, Duration::ZERO, address)
    }

    /// Kills an end and restarts it with the same ticket; the new process replaces the old one here.
    fn restart(&mut self, end: usize) {
        self.ends[end] = if end == LISTENER {
            Self::listening(&self.identity, &self.ticket, self.meet, self.cast, self.origin, self.now)
        } else {
            self.moved += 1;
            Self::joining(&self.ticket, self.meet, self.cast, self.origin, self.now, address(self.moved))
        };
    }

    /// Moves an end to a new address; nobody uses the old one.
    fn rebind(&mut self, end: usize) {
        self.moved = self.moved.wrapping_add(1).max(10);
        self.ends[end].address = address(self.moved);
    }

    /// Unplugs the camera and the microphone of an end, or plugs them in.
    fn unplug(&mut self, end: usize, [camera, microphone]: [bool; 2]) {
        self.ends[end].camera.plug.set(camera);
        self.ends[end].microphone_plug.set(microphone);
    }

    fn stop(&mut self, end: usize) {
        self.ends[end].stopped.get_or_insert_default();
    }

    fn resume(&mut self, end: usize) {
        let end = &mut self.ends[end];
        let at = self.now + end.ahead;
        for incoming in end.stopped.take().unwrap_or_default() {
            // A resumed process reads the datagrams that wait in its socket.
            end.handle_datagram(Incoming { at, ..incoming });
        }
    }

    fn next_event(&mut self) -> Option<Timestamp> {
        let links = self.links.iter().filter_map(Link::poll_timeout).min();
        let ends = self.ends.iter_mut().filter_map(End::poll_timeout).min();
        let server = self.server.as_ref();
        let server =
            server.and_then(|(server, link)| Timestamp::earliest([link.poll_timeout(), Some(server.poll_timeout())]));
        Timestamp::earliest([links, ends, server]).map(|at| at.max(self.now))
    }

    fn transmit(&mut self, end: usize) {
        let from = &mut self.ends[end];
        if from.is_over() || from.stopped.is_some() {
            return;
        }
        let mut ends = Ends { sending: vec![&mut from.sending], receiving: vec![&mut from.receiving] };
        loop {
            let mut buffer = Vec::new();
            let Some(to) = from.exchange.poll_transmit(self.now + from.ahead, &mut ends, &mut buffer) else { break };
            self.bytes[end] += (buffer.len() + HEADERS) as u64;
            if self.cut[end] || buffer.len() > self.largest {
                continue;
            }
            let size = ByteCount::new((buffer.len() + HEADERS) as u64);
            let seen = self.nats[end].as_mut().map_or(from.address, |nat| nat.outbound(from.address, to));
            let transit = Transit { from: seen, to, datagram: BytesMut::from(&buffer[..]) };
            let _ = self.links[end].send(self.now, size, transit);
        }
    }

    /// Delivers a datagram to an end, if the end has its destination address.
    fn deliver(&mut self, to: usize, transit: Transit) {
        let Transit { from, to: reached, datagram } = transit;
        let inside = match &self.nats[to] {
            Some(nat) => nat.inbound(reached, from),
            None => Some(reached),
        };
        let end = &mut self.ends[to];
        if inside != Some(end.address) {
            return;
        }
        self.came_direct += u64::from(from != SERVER);
        let at = self.now + end.ahead;
        let forged = self.forger.as_mut().map(|forger| forger.forge(from, &datagram));
        end.handle_datagram(Incoming { at, from, to: None, datagram });
        for (from, datagram) in forged.into_iter().flatten() {
            end.handle_datagram(Incoming { at, from, to: None, datagram });
        }
    }

    fn run_until(&mut self, until: Timestamp) {
        while let Some(next) = self.next_event().filter(|&next| next <= until) {
            self.now = next;
            for from in [JOINER, LISTENER] {
                while let Some(delivered) = self.links[from].poll(self.now) {
                    // A link failure also loses the datagrams in flight.
                    if self.cut[from] {
                        continue;
                    }
                    let transit = delivered.packet;
                    if transit.to == SERVER {
                        if let Some((server, _)) = &mut self.server {
                            server.handle_datagram(self.now, transit.from, &transit.datagram);
                        }
                    } else if !self.apart {
                        self.deliver(1 - from, transit);
                    }
                }
            }
            self.serve();
            for end in [JOINER, LISTENER] {
                let at = self.now + self.ends[end].ahead;
                self.ends[end].step(at);
                self.transmit(end);
            }
        }
        self.now = until;
    }

    fn run_for(&mut self, time: Duration) {
        self.run_until(self.now + time);
    }

    /// Time from `since` until an end first displays pictures, and plays sound, captured after `since`; `None` if it
    /// did not yet.
    fn back(&self, end: usize, since: Timestamp) -> [Option<Duration>; 2] {
        let (here, there) = (&self.ends[end], &self.ends[1 - end]);
        let (from, captured) = (since + here.ahead, since + there.ahead);
        [&here.shown, &here.played].map(|moments| {
            let first = moments.iter().find(|&&(at, of)| at >= from && of >= captured);
            first.map(|&(at, _)| at.saturating_since(from))
        })
    }

    /// The longest time until pictures, and sound, return at either end.
    fn max_recovery(&self, since: Timestamp) -> (Duration, Duration) {
        let each = [JOINER, LISTENER].map(|end| self.back(end, since).map(|time| time.unwrap_or(Duration::MAX)));
        (each[0][0].max(each[1][0]), each[0][1].max(each[1][1]))
    }

    /// Clears the record of pictures and sound.
    fn forget(&mut self) {
        for end in &mut self.ends {
            end.shown.clear();
            end.played.clear();
        }
    }

    /// Time on the world's clock, and the text of the result, of an end whose call is over.
    fn ended(&self, end: usize) -> Option<(Timestamp, String)> {
        let end = &self.ends[end];
        let (at, result) = end.over.as_ref()?;
        let said = match result {
            Ok(ended) => format!("{ended:?}"),
            Err(error) => error.to_string(),
        };
        Some((Timestamp::ZERO + at.saturating_since(Timestamp::ZERO + end.ahead), said))
    }
}
