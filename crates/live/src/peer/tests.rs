use std::cmp::Reverse;
use std::collections::BinaryHeap;

use lockstep_call::{
    Candidate, CodecTraits, FrameEncoder, FrameRequest, FrameStart, FunctionalEncoder, Menu, MenuMode, Preset, Tuning,
};
use lockstep_control::{
    Algorithm, ControllerSetup, EstimatorKind, Failure, FailureReason, FlowGroup, Latency, RateBounds,
};
use lockstep_transport::{CodecId, ReceiverConfig, Recovery, SenderConfig, StateId, VideoFormat};
use lockstep_units::{Bitrate, ByteCount};
use lockstep_vp8::Parameters;

use super::*;
use lockstep_session::messages::Delivery;

const WAY: Duration = Duration::from_millis(20);
const INTERVAL: Duration = Duration::from_millis(33);

fn picture(side: usize, luma: u8) -> Picture {
    let mut samples = vec![luma; side * side * 3 / 2];
    samples.iter_mut().enumerate().for_each(|(place, sample)| *sample = sample.wrapping_add((place % 7) as u8));
    Picture::from_i420(side, side, samples).expect("a picture")
}

fn sending_end() -> SendingEnd {
    stream(7, None)
}

/// An encoder that fails with its first picture.
#[derive(Default)]
struct FailingEncoder(Failure);

impl FrameEncoder for FailingEncoder {
    fn codec(&self) -> CodecTraits {
        CodecTraits::new(CodecId::VP8)
    }

    fn check(&self) -> Result<(), FailureReason> {
        self.0.check()
    }

    fn recovery(&self) -> Recovery {
        Recovery::FromHeldState
    }

    fn begin(&mut self, _request: &FrameRequest<'_>) -> Option<FrameStart> {
        self.0.set("no memory".into());
        None
    }

    fn choose(&self, _menu: &Menu, _budget: ByteCount, _anyway: bool) -> Option<usize> {
        None
    }

    fn commit(&mut self, _menu: Menu, _choice: Option<usize>) -> Option<(StateId, Candidate)> {
        None
    }

    fn forget(&mut self, _state: StateId) {}

    fn held_states(&self) -> usize {
        1
    }
}

/// The end of a stream, optionally in a group with a priority.
fn stream(connection: u32, group: Option<(&FlowGroup, f64)>) -> SendingEnd {
    let encoder = FunctionalEncoder::new(Parameters::default(), MenuMode::default(), &Tuning::default());
    stream_of(Box::new(encoder), connection, group)
}

/// The end of a stream with this encoder.
fn stream_of(encoder: Box<dyn FrameEncoder>, connection: u32, group: Option<(&FlowGroup, f64)>) -> SendingEnd {
    let algorithm = Algorithm::default();
    let format = VideoFormat { width: 64, height: 64, frame_rate_numerator: 30, frame_rate_denominator: 1 };
    let estimator = algorithm.estimator_kind().number();
    let config = SenderConfig { estimator, ..SenderConfig::new(connection, format) };
    let setup = ControllerSetup::new(ByteCount::new(config.payload as u64), INTERVAL);
    let controller = algorithm.controller(&setup).expect("it needs no path");
    let controller = match group {
        Some((group, priority)) => group.join(controller, &setup, priority, setup.bounds.max),
        None => controller,
    };
    // An automatic preset would follow the time that this machine takes.
    SendingEnd::new(config, controller, encoder, &Tuning::default()).with_preset(Preset::REAL_TIME, Latency::default())
}

fn receiving_end() -> ReceivingEnd {
    ReceivingEnd::with_estimators(ReceiverConfig::default(), |number| {
        Some(EstimatorKind::from_number(number)?.make(RateBounds::default()))
    })
}

/// A peer that sends these streams; they have names.
fn sending_streams(sending: Vec<SendingEnd>) -> PeerConfig {
    let names = ["front", "rear"].map(|name| name.parse().expect("a name")).to_vec();
    PeerConfig { sending, names, ..PeerConfig::sending_nothing() }
}

/// A peer that accepts this number of streams.
fn receiving(streams: usize) -> PeerConfig {
    let receiving = (0..streams).map(|_| receiving_end()).collect();
    PeerConfig { receiving, ..PeerConfig::receiving(receiving_end()) }
}

/// A datagram in flight: arrival time, number, destination peer, bytes.
type Transit = (Timestamp, u64, usize, Vec<u8>);

/// Two peers in virtual time; the one-way delay is [`WAY`], and every `loss`-th datagram is lost.
struct World {
    now: Timestamp,
    peers: [Peer; 2],
    transit: BinaryHeap<Reverse<Transit>>,
    sent: u64,
    loss: u64,
    /// Bytes per second that the forward link carries, and when it is free again; 0 means no limit.
    rate: u64,
    free_at: Timestamp,
    frames: Vec<ReceivedFrame>,
    events: [Vec<CallEvent>; 2],
}

const ADDRESSES: [([u8; 4], u16); 2] = [([192, 0, 2, 1], 1_000), ([192, 0, 2, 2], 2_000)];

impl World {
    /// Peer 0 sends pictures to peer 1, which listens.
    fn new(loss: u64, stale_after: Option<Duration>) -> Self {
        Self::with(vec![sending_end()], loss, stale_after)
    }

    fn with(sending: Vec<SendingEnd>, loss: u64, stale_after: Option<Duration>) -> Self {
        let identity = Identity::new().expect("there are random numbers");
        Self::of([&identity, &identity], sending, loss, stale_after)
    }

    /// The joiner has the ticket of the first identity, and the listener is the second.
    fn of(identities: [&Identity; 2], sending: Vec<SendingEnd>, loss: u64, stale_after: Option<Duration>) -> Self {
        let now = Timestamp::from_millis(5);
        let [named, identity] = identities;
        let ticket = Peer::ticket(named, &[ADDRESSES[1].into()], &[]);
        let receiving = PeerConfig { stale_after, ..receiving(sending.len()) };
        let listener = Peer::listen(identity, &[], receiving, now).expect("it listens");
        let joiner = Peer::join(ticket, sending_streams(sending), now).expect("it joins");
        let (transit, frames) = (BinaryHeap::new(), Vec::new());
        Self {
            now,
            peers: [joiner, listener],
            transit,
            sent: 0,
            loss,
            rate: 0,
            free_at: now,
            frames,
            events: [Vec::new(), Vec::new()],
        }
    }

    /// Drains the outputs of both peers; returns the earliest timeout.
    fn poll(&mut self) -> Timestamp {
        let mut next = Timestamp::MAX;
        for place in 0..2 {
            loop {
                match self.peers[place].poll_output(self.now) {
                    Output::Transmit { to, bytes } => {
                        let other = ADDRESSES.iter().position(|&address| SocketAddr::from(address) == to);
                        self.sent += 1;
                        if self.loss == 0 || !self.sent.is_multiple_of(self.loss) {
                            let other = other.expect("an address of the test");
                            let mut left = self.now;
                            if place == 0 && self.rate > 0 {
                                let queue = self.free_at.saturating_since(self.now);
                                if queue > Duration::from_millis(300) {
                                    continue;
                                }
                                let time = Duration::from_micros((bytes.len() as u64 + 28) * 1_000_000 / self.rate);
                                self.free_at = self.free_at.max(self.now) + time;
                                left = self.free_at;
                            }
                            self.transit.push(Reverse((left + WAY, self.sent, other, bytes)));
                        }
                    }
                    Output::Frame(frame) => self.frames.push(frame),
                    Output::Sound(_) => {}
                    Output::Event(event) => self.events[place].push(event),
                    Output::Timeout(at) => {
                        next = next.min(at);
                        break;
                    }
                }
            }
        }
        next
    }

    /// Runs until `end`.
    fn run_until(&mut self, end: Timestamp) {
        while self.now < end {
            let timeout = self.poll();
            let arrival = self.transit.peek().map_or(Timestamp::MAX, |Reverse((at, ..))| *at);
            self.now = timeout.min(arrival).min(end).max(self.now + Duration::from_micros(1));
            let mut arrived = [false; 2];
            while let Some(Reverse((at, ..))) = self.transit.peek()
                && *at <= self.now
            {
                let Some(Reverse((_, _, to, bytes))) = self.transit.pop() else { break };
                arrived[to] = true;
                let from = SocketAddr::from(ADDRESSES[1 - to]);
                self.peers[to].handle_input(self.now, Input::Datagram { from, bytes: &bytes });
            }
            (0..2).for_each(|place| self.peers[place].handle_input(self.now, Input::Timeout));
        }
        self.poll();
    }

    /// Sends pictures for `length`.
    fn film(&mut self, length: Duration, side: usize) {
        let end = self.now + length;
        let mut luma = 0;
        while self.now < end {
            self.peers[0].send_frame(self.now, 0, self.now, picture(side, luma));
            luma = luma.wrapping_add(3);
            self.run_until(self.now + INTERVAL);
        }
    }

    fn messages(&self, place: usize) -> Vec<(Delivery, Vec<u8>)> {
        let messages = self.events[place].iter().filter_map(|event| match event {
            CallEvent::Message(message) => Some((message.delivery, message.payload.clone())),
            _ => None,
        });
        messages.collect()
    }

    fn count(&self, place: usize, is_meant: impl Fn(&CallEvent) -> bool) -> usize {
        self.events[place].iter().filter(|event| is_meant(event)).count()
    }
}

#[test]
fn native_joiner_accepts_the_certificate_of_its_ticket_only() {
    let [identity, other] = [(); 2].map(|()| Identity::for_browsers().expect("there are random numbers"));
    let raw = Identity::new().expect("there are random numbers");
    let joins = |named: &Identity, listens: &Identity| {
        let mut world = World::of([named, listens], vec![sending_end()], 0, None);
        world.run_until(Timestamp::from_millis(300));
        world.film(Duration::from_secs(1), 64);
        assert_eq!(world.count(0, |event| *event == CallEvent::Joined) > 0, !world.frames.is_empty());
        !world.frames.is_empty()
    };
    assert!(joins(&identity, &identity));
    for (named, listens) in [(&identity, &other), (&raw, &identity), (&identity, &raw)] {
        assert!(!joins(named, listens));
    }
}

#[test]
fn pictures_arrive_with_their_age_until_the_call_is_closed() {
    let mut world = World::new(0, None);
    world.run_until(Timestamp::from_millis(300));
    world.film(Duration::from_secs(3), 64);
    assert!(world.frames.len() >= 80, "{}", world.frames.len());
    let ages: Vec<u128> = world.frames.iter().skip(30).filter_map(|frame| Some(frame.age?.as_millis())).collect();
    assert!(ages.iter().all(|age| (20..40).contains(age)), "{ages:?}");
    assert_eq!(world.count(0, |event| *event == CallEvent::Joined), 1);
    assert!(world.count(1, |event| matches!(event, CallEvent::Quality(_))) >= 2);
    world.peers[0].close(world.now);
    world.run_until(world.now + Duration::from_secs(1));
    assert_eq!(world.events[0].last(), Some(&CallEvent::Ended(Ended::Stopped)));
    assert_eq!(world.events[1].last(), Some(&CallEvent::Ended(Ended::ByPeer)));
    assert!(world.peers.iter().all(Peer::is_over));
}

#[test]
fn failed_encoder_ends_the_call_with_its_reason() {
    let mut world = World::with(vec![stream_of(Box::<FailingEncoder>::default(), 7, None)], 0, None);
    world.run_until(Timestamp::from_millis(300));
    world.film(Duration::from_secs(1), 64);
    let ends = [0, 1].map(|place| match world.events[place].last() {
        Some(CallEvent::Failed(error)) => error.to_string(),
        other => panic!("peer {place}: {other:?}"),
    });
    assert_eq!(ends, ["the encoder failed: no memory".to_owned(), LiveError::PeerFailed.to_string()]);
}

#[test]
fn reliable_messages_arrive_in_order_over_loss() {
    let mut world = World::new(10, None);
    assert_eq!(world.peers[0].send_message(world.now, &Message::reliable("early")), Err(MessageError::NotConnected));
    world.run_until(Timestamp::from_millis(2_000));
    let long = vec![9; 60_000];
    let payloads: Vec<Vec<u8>> = vec![b"one".to_vec(), long, b"two".to_vec()];
    for payload in &payloads {
        let now = world.now;
        world.peers[1].send_message(now, &Message::reliable(payload.clone())).expect("connected");
    }
    world.film(Duration::from_secs(4), 64);
    let received = world.messages(0);
    assert_eq!(received, payloads.into_iter().map(|payload| (Delivery::Reliable, payload)).collect::<Vec<_>>());
}

#[test]
fn latest_messages_are_prompt_and_never_repeated() {
    let mut world = World::new(5, None);
    world.run_until(Timestamp::from_millis(2_000));
    for number in 0..100u8 {
        let now = world.now;
        world.peers[1].send_message(now, &Message::latest(3, vec![number])).expect("connected");
        world.run_until(now + Duration::from_millis(20));
    }
    world.run_until(world.now + Duration::from_secs(1));
    let numbers: Vec<u8> = world.messages(0).into_iter().map(|(_, payload)| payload[0]).collect();
    assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
    assert!((60..100).contains(&numbers.len()), "some are lost: {}", numbers.len());
    let delays = world.events[0].iter().filter_map(|event| match event {
        CallEvent::Message(message) => Some(message.delay),
        _ => None,
    });
    let longest = delays.max().expect("some arrived");
    assert!(longest <= Duration::from_millis(25), "{longest:?}");
}

#[test]
fn message_beyond_its_limit_is_refused() {
    let mut world = World::new(0, None);
    world.run_until(Timestamp::from_millis(500));
    let now = world.now;
    let refused = world.peers[0].send_message(now, &Message::latest(0, vec![0; 1_001]));
    assert_eq!(refused, Err(MessageError::TooLong { length: 1_001, limit: 1_000 }));
}

#[test]
fn silent_sender_makes_video_stale_and_fresh_again() {
    let mut world = World::new(0, Some(Duration::from_millis(200)));
    world.run_until(Timestamp::from_millis(150));
    world.film(Duration::from_secs(1), 64);
    assert_eq!(world.count(1, |event| matches!(event, CallEvent::Stale { .. })), 0);
    world.run_until(world.now + Duration::from_millis(400));
    let stale: Vec<Duration> = world.events[1]
        .iter()
        .filter_map(|event| if let CallEvent::Stale { age, .. } = event { Some(*age) } else { None })
        .collect();
    assert_eq!(stale.len(), 1);
    assert!(stale[0] >= Duration::from_millis(200) && stale[0] < Duration::from_millis(260), "{stale:?}");
    world.film(Duration::from_millis(300), 64);
    assert_eq!(world.count(1, |event| matches!(event, CallEvent::Fresh { .. })), 1);
}

#[test]
fn outage_is_an_interruption_that_ends() {
    let mut world = World::new(0, None);
    world.run_until(Timestamp::from_millis(300));
    world.film(Duration::from_secs(1), 64);
    world.loss = 1;
    world.film(Duration::from_secs(3), 64);
    assert_eq!(world.count(1, |event| *event == CallEvent::Interrupted), 1);
    world.loss = 0;
    let before = world.frames.len();
    world.film(Duration::from_secs(1), 64);
    assert_eq!(world.count(1, |event| *event == CallEvent::Resumed), 1);
    assert!(world.frames.len() > before + 10);
}

#[test]
fn picture_of_another_size_is_shown_in_mid_call() {
    let mut world = World::new(0, None);
    world.run_until(Timestamp::from_millis(300));
    world.film(Duration::from_secs(1), 64);
    world.film(Duration::from_secs(1), 128);
    let sides: Vec<usize> = world.frames.iter().map(|frame| frame.picture.width()).collect();
    let larger = sides.iter().filter(|&&side| side == 128).count();
    assert!(larger >= 20, "{sides:?}");
    world.film(Duration::from_secs(1), 32);
    assert_eq!(world.frames.last().map(|frame| frame.picture.width()), Some(32));
}

#[test]
fn cap_of_the_bit_rate_takes_effect_in_mid_call() {
    let mut world = World::new(0, None);
    world.run_until(Timestamp::from_millis(300));
    world.film(Duration::from_secs(2), 64);
    let cap = Bitrate::from_kbps(40);
    world.peers[0].sending_end(0).expect("it sends").set_max_bitrate(Some(cap));
    world.film(Duration::from_secs(3), 64);
    let now = world.now;
    let target = world.peers[0].sending_end(0).expect("it sends").status(now).target;
    assert!(target <= cap, "{target:?}");
}

/// Faint noise, whose frames fit every budget of these tests. Full noise has a minimum size above the share of a
/// stream.
fn noise(side: usize, seed: u32) -> Picture {
    let mut state = seed;
    let samples = (0..side * side * 3 / 2).map(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        112 + (state >> 27) as u8
    });
    Picture::from_i420(side, side, samples.collect()).expect("a picture")
}

#[test]
fn streams_share_one_path_by_their_priorities() {
    let group = FlowGroup::new();
    let ends = vec![stream(7, Some((&group, 3.0))), stream(8, Some((&group, 1.0)))];
    let mut world = World::with(ends, 0, Some(Duration::from_millis(800)));
    world.rate = 50_000;
    world.run_until(Timestamp::from_millis(300));
    let bytes =
        |world: &mut World, stream| world.peers[0].sending_end(stream).expect("it sends").statistics().payload_bytes;
    let mut before = [0; 2];
    for number in 0..360 {
        for stream in 0..2 {
            world.peers[0].send_frame(world.now, stream, world.now, noise(64, number * 2 + stream as u32));
        }
        world.run_until(world.now + INTERVAL);
        if number == 120 {
            before = [bytes(&mut world, 0), bytes(&mut world, 1)];
        }
    }
    let [first, second] = [0, 1].map(|stream| bytes(&mut world, stream) - before[stream]);
    let ratio = first as f64 / second as f64;
    assert!((1.8..5.0).contains(&ratio), "{first} and {second} bytes");
    let carried = (first + second) as f64 / (240.0 * INTERVAL.as_secs_f64() * 50_000.0);
    assert!(carried > 0.5, "the path is used: {carried}");
    for stream in 0..2 {
        let frames: Vec<_> = world.frames.iter().filter(|frame| frame.stream == stream).collect();
        assert!(frames.len() > 100, "stream {stream}: {}", frames.len());
        let late = frames[frames.len() / 2..].iter().filter(|frame| frame.age > Some(Duration::from_millis(400)));
        assert!(late.count() <= frames.len() / 20, "stream {stream} is late");
    }
}

#[test]
fn camera_that_breaks_makes_only_its_stream_stale() {
    let group = FlowGroup::new();
    let ends = vec![stream(7, Some((&group, 1.0))), stream(8, Some((&group, 1.0)))];
    let mut world = World::with(ends, 0, Some(Duration::from_millis(300)));
    world.run_until(Timestamp::from_millis(150));
    for number in 0..60u8 {
        world.peers[0].send_frame(world.now, 0, world.now, picture(64, number));
        if number < 30 {
            world.peers[0].send_frame(world.now, 1, world.now, picture(48, number));
        }
        world.run_until(world.now + INTERVAL);
    }
    let stale: Vec<usize> = world.events[1]
        .iter()
        .filter_map(|event| if let CallEvent::Stale { stream, .. } = event { Some(*stream) } else { None })
        .collect();
    assert_eq!(stale, [1]);
}

/// Two streams of equal priority.
fn pair() -> Vec<SendingEnd> {
    let group = FlowGroup::new();
    [7, 8].map(|connection| stream(connection, Some((&group, 1.0)))).into()
}

/// Films with two cameras for `length`.
fn film_both(world: &mut World, length: Duration) {
    let end = world.now + length;
    let mut luma = 0;
    while world.now < end {
        (0..2).for_each(|stream| world.peers[0].send_frame(world.now, stream, world.now, picture(64, luma)));
        luma = luma.wrapping_add(3);
        world.run_until(world.now + INTERVAL);
    }
}

#[test]
fn frames_and_quality_come_with_their_stream() {
    let mut world = World::with(pair(), 0, None);
    world.run_until(Timestamp::from_millis(150));
    film_both(&mut world, Duration::from_secs(2));
    let announced = |event: &CallEvent| matches!(event, CallEvent::StreamAnnounced { .. });
    assert_eq!(world.count(1, announced), 2);
    for (stream, name) in ["front", "rear"].into_iter().enumerate() {
        let named = world.frames.iter().filter(|frame| frame.stream == stream && &*frame.name == name);
        assert!(named.count() > 30, "{name}");
        for place in 0..2 {
            let quality = |event: &CallEvent| {
                matches!(event, CallEvent::Quality(quality) if quality.stream == stream
                    && (quality.sending.is_some(), quality.receiving.is_some()) == (place == 0, place == 1))
            };
            assert!(world.count(place, quality) >= 1, "{name} at {place}");
        }
    }
}

#[test]
fn streams_beyond_those_taken_refuse_the_call_at_both_ends() {
    let mut world = World::with(pair(), 0, None);
    let identity = Identity::new().expect("there are random numbers");
    let ticket = Peer::ticket(&identity, &[ADDRESSES[1].into()], &[]);
    let now = world.now;
    world.peers = [
        Peer::join(ticket, sending_streams(pair()), now).expect("it joins"),
        Peer::listen(&identity, &[], receiving(1), now).expect("it listens"),
    ];
    world.run_until(Timestamp::from_millis(500));
    let said = world.events.map(|events| match events.last() {
        Some(CallEvent::Failed(error)) => error.to_string(),
        other => format!("{other:?}"),
    });
    assert!(said[0].contains("takes fewer video streams"), "{}", said[0]);
    assert!(said[1].contains("more than the 1 video streams"), "{}", said[1]);
}

#[test]
fn both_streams_are_back_within_two_seconds_of_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let identity = Identity::standing(&folder.path().join("key")).expect("a key");
    let ticket = Peer::ticket(&identity, &[ADDRESSES[1].into()], &[]);
    let mut world = World::with(pair(), 0, None);
    let now = world.now;
    world.peers = [
        Peer::join(ticket.clone(), sending_streams(pair()), now).expect("it joins"),
        Peer::listen(&identity, &[], receiving(2), now).expect("it listens"),
    ];
    film_both(&mut world, Duration::from_secs(1));
    // The robot is killed and restarts at once. Both ends try again when a connection fails.
    let killed = world.now;
    world.peers[0] = Peer::join(ticket.clone(), sending_streams(pair()), killed).expect("it joins");
    world.frames.clear();
    while world.now < killed + Duration::from_secs(2) {
        film_both(&mut world, Duration::from_millis(250));
        let now = world.now;
        if world.peers[0].is_over() {
            world.peers[0] = Peer::join(ticket.clone(), sending_streams(pair()), now).expect("it joins");
        }
        if world.peers[1].is_over() {
            world.peers[1] = Peer::listen(&identity, &[], receiving(2), now).expect("it listens");
        }
    }
    for stream in 0..2 {
        let frames = world.frames.iter().filter(|frame| frame.stream == stream).count();
        assert!(frames > 5, "stream {stream}: {frames} frames, {:?}", world.events);
    }
}

#[test]
fn garbage_is_ignored() {
    let mut world = World::new(0, None);
    for length in 0..300 {
        let bytes: Vec<u8> = (0..length).map(|place| (place * 37 + length) as u8).collect();
        let now = world.now;
        for peer in &mut world.peers {
            peer.handle_input(now, Input::Datagram { from: ([203, 0, 113, 9], 9).into(), bytes: &bytes });
        }
    }
    world.run_until(Timestamp::from_millis(300));
    world.film(Duration::from_secs(1), 64);
    assert!(world.frames.len() > 20);
}
