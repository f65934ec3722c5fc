//! A simulated call between a sender and a receiver, in virtual time.
//!
//! Two pipes lose, delay, reorder and duplicate datagrams, at random with a seed. The codec is simulated: a frame
//! decodes into its target state if the decoder holds its source state.
#![allow(dead_code)]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use lockstep_transport::{
    Datagram, FragmentsInFlight, OutgoingFrame, Receiver, ReceiverConfig, ReceiverEvent, Recovery, Sender,
    SenderConfig, SenderEvent, StateId, VideoFormat,
};
use lockstep_units::Timestamp;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;

pub const CONNECTION: u32 = 0xc0ffee;
pub const FORMAT: VideoFormat =
    VideoFormat { width: 1280, height: 720, frame_rate_numerator: 30, frame_rate_denominator: 1 };

pub fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

pub fn at(milliseconds: u64) -> Timestamp {
    Timestamp::from_millis(milliseconds)
}

/// Content of a frame by its number.
fn content(frame: u64, length: usize) -> Vec<u8> {
    (0..length as u64).map(|at| (at * at + frame * 31 + at / 7) as u8).collect()
}

/// One direction of the path.
pub struct Pipe {
    pub delay: Duration,
    /// Upper bound of the random additional delay of each datagram.
    pub jitter: Duration,
    pub loss: f64,
    pub duplication: f64,
    /// Interval in which all datagrams are lost.
    pub outage: Option<(Timestamp, Timestamp)>,
    /// Interval in which no datagram arrives; those due in it arrive at its end.
    pub pause: Option<(Timestamp, Timestamp)>,
    /// Which data datagrams are lost, by frame and fragment.
    pub lose: fn(u32, u16) -> bool,
    /// Number of copies of such a datagram that are lost, the first ones.
    pub lose_copies: u32,
    /// Which sound packets are lost, by frame.
    pub lose_sound: fn(u32) -> bool,
    copies: BTreeMap<(u32, u16), u32>,
    random: Pcg64,
    under_way: BTreeMap<(Timestamp, u64), Vec<u8>>,
    put: u64,
    /// The last datagrams that arrived.
    seen: VecDeque<Vec<u8>>,
}

impl Pipe {
    fn new(seed: u64) -> Self {
        Self {
            delay: ms(50),
            jitter: Duration::ZERO,
            loss: 0.0,
            duplication: 0.0,
            outage: None,
            pause: None,
            lose: |_, _| false,
            lose_copies: u32::MAX,
            lose_sound: |_| false,
            copies: BTreeMap::new(),
            random: Pcg64::seed_from_u64(seed),
            under_way: BTreeMap::new(),
            put: 0,
            seen: VecDeque::new(),
        }
    }

    fn put(&mut self, now: Timestamp, bytes: Vec<u8>) {
        let dark = self.outage.is_some_and(|(from, to)| (from..to).contains(&now));
        let chosen = match Datagram::decode(&bytes) {
            Ok(Datagram::Data(data)) => {
                let copies = self.copies.entry((data.frame, data.fragment)).or_default();
                *copies += 1;
                *copies <= self.lose_copies && (self.lose)(data.frame, data.fragment)
            }
            Ok(Datagram::Sound(sound)) => (self.lose_sound)(sound.frame),
            _ => false,
        };
        let copies = if self.random.random_bool(self.duplication) { 2 } else { 1 };
        for _ in 0..copies {
            let lost = self.random.random_bool(self.loss);
            let extra = self.random.random_range(0..=self.jitter.as_micros() as u64);
            self.put += 1;
            if !(lost || dark || chosen) {
                let arrival = now + self.delay + Duration::from_micros(extra);
                let paused = self.pause.filter(|&(from, to)| (from..to).contains(&arrival));
                let arrival = paused.map_or(arrival, |(_, to)| to);
                self.under_way.insert((arrival, self.put), bytes.clone());
            }
        }
    }

    fn next(&self) -> Option<Timestamp> {
        self.under_way.keys().next().map(|&(arrival, _)| arrival)
    }

    fn take(&mut self, now: Timestamp) -> Option<Vec<u8>> {
        if self.next()? > now {
            return None;
        }
        let (_, bytes) = self.under_way.pop_first()?;
        self.seen.push_back(bytes.clone());
        if self.seen.len() > 30 {
            self.seen.pop_front();
        }
        Some(bytes)
    }

    pub fn seen(&self) -> &VecDeque<Vec<u8>> {
        &self.seen
    }
}

pub struct World {
    pub now: Timestamp,
    pub sender: Sender,
    pub receiver: Receiver,
    pub forward: Pipe,
    pub backward: Pipe,
    /// Size of each frame, bytes.
    pub frame_bytes: usize,
    /// Number of parity fragments of each frame.
    pub parity: u16,
    pub frame_interval: Duration,
    /// Time of the next capture; [`Timestamp::MAX`] for none.
    pub capture_at: Timestamp,
    /// States that the encoder holds.
    pub encoder: BTreeSet<StateId>,
    /// States that the decoder holds.
    pub decoder: BTreeSet<StateId>,
    /// Whether a frame is encoded from a held state, by number of the frame.
    pub from_held: Box<dyn Fn(u64) -> bool>,
    /// Source state of every sent frame.
    pub sources: BTreeMap<u32, StateId>,
    /// Frames whose source was not the target of the frame before.
    pub recovered: BTreeSet<u32>,
    /// Time at which each frame was decoded.
    pub decoded: BTreeMap<u32, Timestamp>,
    /// Frames in the order of decoding.
    pub order: Vec<u32>,
    pub sender_events: Vec<(Timestamp, SenderEvent)>,
    pub receiver_events: Vec<(Timestamp, ReceiverEvent)>,
    /// Transmissions of data datagrams: time, frame, fragment.
    pub transmitted: Vec<(Timestamp, u32, u16)>,
    pub timeouts: u64,
    last_target: StateId,
    frames: u64,
    /// Whether the codec can only continue from its last frame or code a key frame.
    opaque: bool,
}

impl World {
    pub fn new(seed: u64) -> Self {
        Self::with(seed, Recovery::FromHeldState)
    }

    /// A world whose sender repairs by `recovery`, with a codec for that.
    pub fn with(seed: u64, recovery: Recovery) -> Self {
        Self {
            now: Timestamp::ZERO,
            sender: Sender::new(SenderConfig { recovery, ..SenderConfig::new(CONNECTION, FORMAT) }),
            receiver: Receiver::new(ReceiverConfig::default()),
            forward: Pipe::new(seed),
            backward: Pipe::new(seed ^ 0x5eed),
            frame_bytes: 5_000,
            parity: 0,
            frame_interval: ms(33),
            capture_at: at(10),
            encoder: [StateId::EMPTY].into(),
            decoder: [StateId::EMPTY].into(),
            from_held: Box::new(|_| false),
            sources: BTreeMap::new(),
            recovered: BTreeSet::new(),
            decoded: BTreeMap::new(),
            order: Vec::new(),
            sender_events: Vec::new(),
            receiver_events: Vec::new(),
            transmitted: Vec::new(),
            timeouts: 0,
            last_target: StateId::EMPTY,
            frames: 0,
            opaque: recovery == Recovery::Retransmit,
        }
    }

    fn capture(&mut self) {
        let from_held = (self.from_held)(self.frames);
        let offered = if from_held { self.sender.next_held_source() } else { self.sender.next_source() };
        let source = if self.opaque && offered != self.last_target { StateId::EMPTY } else { offered };
        assert!(self.encoder.contains(&source), "{}: frame from a state that was released", self.now);
        self.frames += 1;
        let target = StateId(self.frames << 20 | 1);
        let frame = OutgoingFrame {
            source,
            target,
            captured: self.now,
            key_frame: source == StateId::EMPTY,
            parity: self.parity,
            payload: content(self.frames, self.frame_bytes),
        };
        let number = self.sender.send_frame(self.now, frame).expect("the source is known");
        self.encoder.insert(target);
        self.sources.insert(number, source);
        if source != self.last_target {
            self.recovered.insert(number);
            assert!(self.decoder.contains(&source), "{}: {source} is not held by the receiver", self.now);
        }
        self.last_target = target;
        self.capture_at += self.frame_interval;
    }

    /// Drains the events and datagrams of both ends.
    fn drain(&mut self) {
        while let Some(event) = self.receiver.poll_event() {
            match &event {
                ReceiverEvent::Frame { frame, source, target, payload, .. } => {
                    assert!(self.decoder.contains(source), "{}: frame {frame} from a state not held", self.now);
                    assert_eq!(*payload, content(target.0 >> 20, self.frame_bytes), "frame {frame} differs");
                    self.decoder.insert(*target);
                    assert_eq!(self.decoded.insert(*frame, self.now), None, "frame {frame} handed out twice");
                    self.order.push(*frame);
                    self.receiver.frame_decoded(*frame, *target);
                }
                ReceiverEvent::Release(state) => {
                    assert!(*state != StateId::EMPTY && self.decoder.remove(state), "released {state} twice");
                }
                _ => {}
            }
            self.receiver_events.push((self.now, event));
        }
        while let Some(event) = self.sender.poll_event() {
            if let SenderEvent::Release(state) = &event {
                assert!(*state != StateId::EMPTY && self.encoder.remove(state), "released {state} twice");
            }
            self.sender_events.push((self.now, event));
        }
        while let Some(bytes) = self.sender.poll_transmit(self.now).map(|transmit| transmit.to_bytes()) {
            if let Ok(Datagram::Data(data)) = Datagram::decode(&bytes) {
                self.transmitted.push((self.now, data.frame, data.fragment));
            }
            self.forward.put(self.now, bytes);
        }
        while let Some(bytes) = self.receiver.poll_transmit(self.now).map(|transmit| transmit.to_bytes()) {
            self.backward.put(self.now, bytes);
        }
        assert_eq!(self.sender.held_states() + 1, self.encoder.len());
        assert_eq!(self.receiver.held_states() + 1, self.decoder.len());
        let most = if self.opaque { 1_024 } else { 32 };
        assert!(self.sender.held_states() <= most && self.receiver.held_states() <= 32);
    }

    /// Runs until `end`, inclusive.
    pub fn run(&mut self, end: Timestamp) {
        self.drain();
        let mut quiet = 0;
        loop {
            let timers = [self.sender.poll_timeout(), self.receiver.poll_timeout()];
            let arrivals = [self.forward.next(), self.backward.next()];
            let next = timers.into_iter().chain(arrivals).flatten().fold(self.capture_at, Timestamp::min);
            if next > end {
                self.now = end;
                return;
            }
            quiet = if next <= self.now { quiet + 1 } else { 0 };
            assert!(quiet < 2_000, "{}: a timer spins", self.now);
            self.now = self.now.max(next);
            if timers.into_iter().flatten().any(|timer| timer <= self.now) {
                self.timeouts += 1;
                self.sender.handle_timeout(self.now);
            }
            if let Some(bytes) = self.forward.take(self.now) {
                self.receiver.handle_datagram(self.now, Datagram::decode(&bytes), false);
            }
            if let Some(bytes) = self.backward.take(self.now) {
                self.sender.handle_datagram(self.now, Datagram::decode(&bytes));
            }
            if self.capture_at <= self.now {
                self.capture();
            }
            self.drain();
        }
    }

    /// Number of frames newer than the newest decoded one.
    pub fn unfinished(&self) -> usize {
        let newest = self.decoded.keys().next_back().copied().unwrap_or(0);
        self.sources.range(newest + 1..).count()
    }

    pub fn idle(&self) -> bool {
        self.sender.in_flight() == FragmentsInFlight::default() && self.sender.queued_fragments() == 0
    }

    /// Frames that the sender reported as lost.
    pub fn lost_frames(&self) -> Vec<u32> {
        self.frames_of(|event| if let SenderEvent::FrameLost(frame) = event { Some(*frame) } else { None })
    }

    /// Frames that the sender reported as refused.
    pub fn refused_frames(&self) -> Vec<u32> {
        self.frames_of(|event| if let SenderEvent::FrameRefused(frame) = event { Some(*frame) } else { None })
    }

    fn frames_of(&self, frame_of: impl Fn(&SenderEvent) -> Option<u32>) -> Vec<u32> {
        self.sender_events.iter().filter_map(|(_, event)| frame_of(event)).collect()
    }

    /// The first decoded frame after `frame`, and its time.
    pub fn next_decoded(&self, frame: u32) -> (u32, Timestamp) {
        let (&frame, &at) = self.decoded.range(frame + 1..).next().expect("some later frame is decoded");
        (frame, at)
    }
}
