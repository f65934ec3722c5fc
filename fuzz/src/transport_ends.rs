//! Drives a sender and a receiver with arbitrary calls and datagrams: delivered, damaged or forged.

use std::collections::BTreeSet;
use std::time::Duration;

use arbitrary::{Result, Unstructured};
use lockstep_transport::wire::{Acknowledgement, CodecId, Data, Hello, HelloReply, ReceivedFragment, Sound};
use lockstep_transport::{
    Datagram, Estimate, OutgoingFrame, Parity, Receiver, ReceiverConfig, ReceiverEvent, Sender, SenderConfig,
    SenderEvent, SoundPacket, StateId, VideoFormat,
};
use lockstep_units::{Bitrate, Timestamp};

use crate::memory::bounded;

/// Limit on calls per input.
const CALLS: usize = 400;
/// Limit on datagrams in flight in each direction.
const KEPT: usize = 64;
/// Memory for the receiver's window, full frames, the sender's queue and the datagrams in flight.
const MEMORY: usize = 48 << 20;
/// Connection number of both ends.
const CONNECTION: u32 = 7;
const FORMAT: VideoFormat = VideoFormat { width: 64, height: 48, frame_rate_numerator: 30, frame_rate_denominator: 1 };

struct World {
    now: Timestamp,
    sender: Sender,
    sender_bound: usize,
    receiver: Receiver,
    receiver_bound: usize,
    forward: Vec<Vec<u8>>,
    backward: Vec<Vec<u8>>,
    /// Fragments that were sent. Plausible acknowledgements refer to these.
    sent: Vec<Data>,
    /// Number of the newest frame of sound that was sent.
    sounds: u32,
    /// Frames delivered to the owner and not decided yet.
    handed: Vec<(u32, StateId)>,
    /// States that the sender's owner must keep, according to events.
    encoder: BTreeSet<StateId>,
    /// States that the receiver's owner must keep, according to events.
    decoder: BTreeSet<StateId>,
}

/// One of 64 states, so that names collide.
fn state(u: &mut Unstructured) -> Result<StateId> {
    Ok(StateId(u64::from(u.arbitrary::<u8>()? % 64)))
}

/// A number near `near`, rarely any number.
fn near(u: &mut Unstructured, near: u32) -> Result<u32> {
    let step: u8 = u.arbitrary()?;
    if step == 255 { u.arbitrary() } else { Ok(near.wrapping_add(u32::from(step)).wrapping_sub(32)) }
}

fn moment(u: &mut Unstructured, now: Timestamp) -> Result<Timestamp> {
    let step: u8 = u.arbitrary()?;
    if step == 255 {
        return Ok(Timestamp::from_micros(u.arbitrary::<u64>()? & 0x3f_ffff_ffff_ffff));
    }
    Ok(now - Duration::from_millis(u64::from(step)))
}

fn pick<T: Clone>(u: &mut Unstructured, from: &[T]) -> Result<Option<T>> {
    let index = usize::from(u.arbitrary::<u8>()?);
    Ok(if from.is_empty() { None } else { Some(from[from.len() - 1 - index % from.len()].clone()) })
}

fn keep(list: &mut Vec<Vec<u8>>, datagram: Vec<u8>) {
    if list.len() == KEPT {
        list.remove(0);
    }
    list.push(datagram);
}

fn encoded(datagram: &Datagram) -> Vec<u8> {
    let mut bytes = Vec::new();
    datagram.encode(&mut bytes);
    bytes
}

/// The datagram, possibly with one byte changed or its end cut off.
fn damaged(u: &mut Unstructured, mut datagram: Vec<u8>) -> Result<Vec<u8>> {
    let (how, at, value): (u8, u16, u8) = u.arbitrary()?;
    let at = usize::from(at) % datagram.len().max(1);
    match how % 8 {
        0 if !datagram.is_empty() => datagram[at] ^= value,
        1 => datagram.truncate(at),
        _ => {}
    }
    Ok(datagram)
}

impl World {
    fn new(u: &mut Unstructured) -> Result<Self> {
        let (retained, held, payload, window): (u8, u8, u16, u8) = u.arbitrary()?;
        let (agreed, small): (bool, bool) = u.arbitrary()?;
        let (sender_bound, receiver_bound) = (usize::from(retained % 40), usize::from(held % 40));
        let sender = SenderConfig {
            payload: usize::from(payload),
            retained_states: sender_bound,
            ..SenderConfig::new(CONNECTION, FORMAT)
        };
        let receiver = ReceiverConfig {
            connection: agreed.then_some(CONNECTION),
            window: u32::from(window),
            window_bytes: if small { 20_000 } else { 8 << 20 },
            retained_states: receiver_bound,
            repeated_fragments: usize::from(window) % 20,
            ..ReceiverConfig::default()
        };
        Ok(Self {
            now: Timestamp::from_millis(1_000),
            sender: Sender::new(sender),
            sender_bound: sender_bound.max(5),
            receiver: Receiver::new(receiver),
            receiver_bound: receiver_bound.max(4),
            forward: Vec::new(),
            backward: Vec::new(),
            sent: Vec::new(),
            sounds: 0,
            handed: Vec::new(),
            encoder: BTreeSet::new(),
            decoder: BTreeSet::new(),
        })
    }

    fn source(&mut self, held: bool) -> StateId {
        let source = if held { self.sender.next_held_source() } else { self.sender.next_source() };
        assert!(source == StateId::EMPTY || self.encoder.contains(&source), "the source {source} is held");
        source
    }

    fn send_frame(&mut self, u: &mut Unstructured) -> Result<()> {
        let (how, length): (u8, u16) = u.arbitrary()?;
        let source = match how % 8 {
            0 => state(u)?,
            1 => StateId::EMPTY,
            2 | 3 => self.source(true),
            _ => self.source(false),
        };
        let target = state(u)?;
        let frame = OutgoingFrame {
            source,
            target,
            captured: moment(u, self.now)?,
            key_frame: source == StateId::EMPTY,
            parity: u.int_in_range(0..=3)?,
            payload: vec![how; usize::from(length) % 5_000],
        };
        if self.sender.send_frame(self.now, frame).is_ok() {
            self.encoder.insert(target);
        }
        Ok(())
    }

    fn transmit(&mut self, most: usize) {
        for _ in 0..most {
            let Some(bytes) = self.sender.poll_transmit(self.now).map(|transmit| transmit.to_bytes()) else { break };
            if let Datagram::Data(data) = Datagram::decode(&bytes).expect("the sender's own datagram") {
                self.sent.push(Data { payload: Vec::new(), ..data });
            }
            keep(&mut self.forward, bytes);
        }
        for _ in 0..most {
            let Some(bytes) = self.receiver.poll_transmit(self.now).map(|transmit| transmit.to_bytes()) else { break };
            Datagram::decode(&bytes).expect("the receiver's own datagram");
            keep(&mut self.backward, bytes);
        }
    }

    fn made_up_data(&self, u: &mut Unstructured) -> Result<Datagram> {
        let last = self.sent.last();
        let sent_at = moment(u, self.now)?;
        let captured = moment(u, sent_at)?;
        let (sequence, frame) = (near(u, last.map_or(0, |d| d.sequence))?, near(u, last.map_or(0, |d| d.frame))?);
        let (fragment, more, length, flags): (u8, u8, u16, u8) = u.arbitrary()?;
        let wide = if flags & 1 == 1 { 256 } else { 1 };
        let place = u16::from(fragment) * wide;
        let fragments = place.saturating_add(1 + u16::from(more));
        // The upper half of the flags gives some frames parity.
        let parity = Parity { count: 1 + u16::from(flags >> 4), last: length % 1401 };
        let is_parity = flags & 4 == 4 && place < parity.count;
        Ok(Datagram::Data(Data {
            connection: CONNECTION,
            sequence,
            frame,
            fragment: if is_parity { fragments + place } else { place },
            fragments,
            parity: is_parity.then_some(parity),
            source: state(u)?,
            target: state(u)?,
            sent_at,
            captured: if flags & 2 == 0 { captured.min(sent_at) } else { captured },
            idle: u.arbitrary()?,
            keep_from: near(u, frame.saturating_sub(4))?,
            feedback_doublings: u.int_in_range(0..=3)?,
            anchor: near(u, frame.saturating_sub(2))?,
            key_frame: flags & 8 == 8,
            payload: vec![flags; usize::from(length) % 1401],
        }))
    }

    fn made_up_acknowledgement(&self, u: &mut Unstructured) -> Result<Datagram> {
        let newest = pick(u, &self.sent)?;
        let highest = newest.as_ref().map_or(0, |data| data.sequence);
        let (numbers, count, catalogued, refused): (u8, u8, u8, u8) = u.arbitrary()?;
        let mut fragments = Vec::new();
        for _ in 0..count % 16 {
            let Some(data) = pick(u, &self.sent)? else { break };
            let (frame, fragment) = (data.frame, data.fragment);
            let (arrived_at, congestion_experienced) = (moment(u, self.now)?, count & 0x40 != 0);
            fragments.push(ReceivedFragment { frame, fragment, arrived_at, congestion_experienced });
        }
        let mut catalogue = Vec::new();
        for _ in 0..catalogued % 16 {
            let Some(data) = pick(u, &self.sent)? else { break };
            catalogue.push(data.frame);
        }
        let mut undecodable = Vec::new();
        for _ in 0..refused % 4 {
            undecodable.push(pick(u, &self.sent)?.map_or(0, |data| data.frame));
        }
        Ok(Datagram::Acknowledgement(Box::new(Acknowledgement {
            connection: CONNECTION,
            sequence: u32::from(numbers),
            sent_at: self.now,
            highest,
            echo: newest.map_or(Timestamp::ZERO, |data| data.sent_at),
            hold: Duration::from_micros(u.arbitrary::<u16>()?.into()),
            received: near(u, highest)?.min(self.sent.len() as u32),
            estimate: Estimate::default(),
            fragments,
            catalogue,
            refused: undecodable,
        })))
    }

    fn judge(&mut self, u: &mut Unstructured) -> Result<()> {
        let how: u8 = u.arbitrary()?;
        let (frame, target) = match pick(u, &self.handed)? {
            Some(handed) if how & 7 > 0 => handed,
            _ => (near(u, 32)?, state(u)?),
        };
        let known = self.handed.iter().any(|&(handed, _)| handed == frame);
        self.handed.retain(|&(handed, _)| handed != frame);
        match how / 8 % 4 {
            0 => self.receiver.frame_failed(frame),
            1 => {
                let other = state(u)?;
                self.receiver.frame_decoded(frame, other);
                if known && self.receiver.holds(other) && other != StateId::EMPTY {
                    self.decoder.insert(other);
                }
            }
            _ => {
                // Every owner holds the empty state and never releases it.
                if known && target != StateId::EMPTY {
                    self.decoder.insert(target);
                }
                self.receiver.frame_decoded(frame, target);
            }
        }
        Ok(())
    }

    fn call(&mut self, u: &mut Unstructured) -> Result<()> {
        match u.arbitrary::<u8>()? % 20 {
            0 => self.now += Duration::from_millis(u.arbitrary::<u8>()?.into()),
            1 => self.now += Duration::from_micros(u.arbitrary::<u16>()?.into()),
            2 | 3 => self.send_frame(u)?,
            4 => self.transmit(1),
            5 => self.transmit(KEPT),
            6 => {
                // Delivers all datagrams in flight unchanged.
                for bytes in std::mem::take(&mut self.forward) {
                    self.receiver.handle_datagram(self.now, Datagram::decode(&bytes), false);
                    self.settle();
                }
                for bytes in std::mem::take(&mut self.backward) {
                    self.sender.handle_datagram(self.now, Datagram::decode(&bytes));
                    self.settle();
                }
            }
            7 => {
                let Some(bytes) = pick(u, &self.forward)? else { return Ok(()) };
                let bytes = damaged(u, bytes)?;
                self.receiver.handle_datagram(self.now, Datagram::decode(&bytes), false);
            }
            8 => {
                let Some(bytes) = pick(u, &self.backward)? else { return Ok(()) };
                let bytes = damaged(u, bytes)?;
                self.sender.handle_datagram(self.now, Datagram::decode(&bytes));
            }
            9 => {
                _ = self.forward.pop();
                _ = self.backward.pop();
            }
            10 => {
                let datagram = self.made_up_data(u)?;
                self.receiver.handle_datagram(self.now, Datagram::decode(&encoded(&datagram)), false);
            }
            11 => {
                let datagram = self.made_up_acknowledgement(u)?;
                self.sender.handle_datagram(self.now, Datagram::decode(&encoded(&datagram)));
            }
            12 => {
                let length = usize::from(u.arbitrary::<u8>()?);
                let bytes = u.bytes(length.min(u.len()))?;
                self.receiver.handle_datagram(self.now, Datagram::decode(bytes), false);
                self.sender.handle_datagram(self.now, Datagram::decode(bytes));
            }
            13 => {
                let retained_states = u.arbitrary::<u8>()?.into();
                let codec = CodecId(u.arbitrary()?);
                let hello = Hello { connection: CONNECTION, format: FORMAT, estimator: retained_states, codec };
                self.receiver.handle_datagram(self.now, Datagram::decode(&encoded(&Datagram::Hello(hello))), false);
                let reply = Datagram::HelloReply(HelloReply { connection: CONNECTION, retained_states });
                self.sender.handle_datagram(self.now, Datagram::decode(&encoded(&reply)));
            }
            14 | 15 => self.judge(u)?,
            16 => {
                self.sender.handle_timeout(self.now);
            }
            17 => {
                let (frame, length): (u32, u16) = (near(u, self.sounds)?, u.arbitrary()?);
                let captured = moment(u, self.now)?;
                if u.arbitrary()? {
                    let packet = SoundPacket { frame, captured, payload: vec![0; usize::from(length) % 2_000] };
                    if self.sender.send_sound(self.now, packet).is_ok() {
                        self.sounds = frame;
                    }
                } else {
                    let sent_at = moment(u, self.now)?;
                    let sequence = near(u, self.sent.last().map_or(0, |data| data.sequence))?;
                    let age = Duration::from_micros(u.arbitrary::<u32>()?.into());
                    let payload = vec![0; usize::from(length) % 1_401];
                    let idle = u.arbitrary()?;
                    let further = vec![vec![7; usize::from(length) % 50]; u.int_in_range(0..=5)?];
                    let sound = Sound { connection: CONNECTION, sequence, frame, sent_at, age, idle, payload, further };
                    let bytes = encoded(&Datagram::Sound(sound));
                    self.receiver.handle_datagram(self.now, Datagram::decode(&bytes), false);
                }
            }
            18 => {
                self.sender.set_pace(Duration::from_micros(u.arbitrary::<u32>()?.into()), u.arbitrary()?);
                let capacity = Some(Bitrate::from_bps(u.arbitrary()?));
                let inter_arrival = Some(Duration::from_nanos(u.arbitrary()?));
                self.receiver.set_estimate(Estimate { inter_arrival, capacity });
            }
            _ => match u.arbitrary::<u8>()? {
                253.. => self.now = Timestamp::from_nanos(u.arbitrary()?).max(self.now),
                _ => _ = self.source(true),
            },
        }
        Ok(())
    }

    /// Handles all events like an owner, and checks the guarantees of both ends.
    fn settle(&mut self) {
        while let Some(event) = self.sender.poll_event() {
            if let SenderEvent::Release(state) = event {
                self.encoder.remove(&state);
            }
        }
        while let Some(event) = self.receiver.poll_event() {
            match event {
                ReceiverEvent::Frame { frame, source, target, .. } => {
                    let held = source == StateId::EMPTY || self.decoder.contains(&source);
                    assert!(held, "frame {frame} was delivered after the release of its source {source}");
                    self.handed.push((frame, target));
                }
                ReceiverEvent::Release(state) => _ = self.decoder.remove(&state),
                _ => {}
            }
        }
        assert!(self.sender.held_states() <= self.sender_bound, "{} states", self.sender.held_states());
        assert!(self.receiver.held_states() <= self.receiver_bound, "{} states", self.receiver.held_states());
        assert!(self.encoder.len() <= self.sender_bound, "the sender released too few states");
        assert!(self.decoder.len() <= self.receiver_bound, "the receiver released too few states");
        assert!(self.handed.len() <= 256, "{} frames wait for a decision", self.handed.len());
        let _ = (self.sender.poll_timeout(), self.receiver.poll_timeout(), self.sender.in_flight());
    }
}

fn calls(u: &mut Unstructured) -> Result<()> {
    let mut world = World::new(u)?;
    for _ in 0..CALLS {
        world.call(u)?;
        world.settle();
    }
    Ok(())
}

/// Input: eight bytes of configuration, then calls.
pub fn run(data: &[u8]) {
    // An input that ends early gives a shorter exchange.
    let _ = bounded(MEMORY, || calls(&mut Unstructured::new(data)));
}
