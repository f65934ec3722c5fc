//! The property that decides whether AV1 slots can be Lockstep's states, where libaom and dav1d are installed.
//!
//! A sender codes two candidates of every picture, each into a separate slot, and sends one. Frames are lost. Feedback
//! is late. After a loss, the sender codes from an acknowledged slot. The receiver gives dav1d exactly the frames that
//! arrived and whose slots it holds. Every picture must be the encoder's.

use std::fmt;
use std::process::Command;

use lockstep_av1::{
    CodedFrame, Coding, Decoder, DecoderLibrary, Encoder, EncoderLibrary, EncoderSettings, FrameHeader, FrameKind,
    SLOTS, Tools,
};
use lockstep_units::random::{happens, mix};
use lockstep_vp8::{DEFAULT_PIXEL_LIMIT, Picture};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;

const WIDTH: usize = 160;
const HEIGHT: usize = 96;

fn libraries() -> Option<(EncoderLibrary, DecoderLibrary)> {
    let skip = |error: &lockstep_av1::Av1Error| eprintln!("skipped: {error}");
    Some((EncoderLibrary::open().inspect_err(skip).ok()?, DecoderLibrary::open().inspect_err(skip).ok()?))
}

/// A moving pattern, a square that moves otherwise, noise, and another scene after every 250 pictures.
fn picture(seed: u64, time: usize) -> Picture {
    let scene = mix(seed, (time / 250) as u64);
    let (dx, dy) = ((scene % 7) as usize, (scene >> 8) as usize % 5);
    let at = ((time * 3) % (WIDTH - 32), (time * 2) % (HEIGHT - 32));
    let sample = |plane: u64, x: usize, y: usize, scale: usize| {
        let (left, top) = ((x + time * dx / 2) * scale, (y + time * dy / 2) * scale);
        let texture = (left * 5 % 64) + (top * 3 % 48) + ((left / 16) ^ (top / 16)) % 2 * 40;
        let inside = (at.0..at.0 + 32).contains(&(x * scale)) && (at.1..at.1 + 32).contains(&(y * scale));
        let base = if inside { 200 - (x * scale - at.0) * 3 } else { 40 + texture };
        let noise = mix(scene ^ plane << 60 ^ (time as u64) << 32, (y * WIDTH + x) as u64) % 9;
        (base + noise as usize).min(255) as u8
    };
    let mut samples = Vec::with_capacity(Picture::i420_length(WIDTH, HEIGHT));
    for (plane, scale) in [(0, 1), (1, 2), (2, 2)] {
        for y in 0..HEIGHT / scale {
            samples.extend((0..WIDTH / scale).map(|x| sample(plane, x, y, scale)));
        }
    }
    Picture::from_i420(WIDTH, HEIGHT, samples).unwrap()
}

/// Fate of a sent frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Decoded,
    Lost,
    /// It arrived, but the receiver lacks a slot that it reads.
    Undecodable,
}

/// A sent frame.
struct Sent {
    /// Slots that it reads, and the frames in them at the sender.
    reads: Vec<(u8, usize)>,
    writes: u8,
    fate: Fate,
    /// Picture at which the sender learns the fate.
    known_at: usize,
    /// Whether the sender knows that the receiver cannot decode it.
    doomed: bool,
}

/// The sender's knowledge of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    /// A candidate that was thrown away.
    Scratch,
    /// A sent frame whose fate is unknown, or that the receiver cannot decode.
    Sent(usize),
    /// A frame that the receiver has decoded. No later frame has written the slot.
    Acknowledged(usize),
}

impl Slot {
    fn frame(self) -> Option<usize> {
        match self {
            Self::Scratch => None,
            Self::Sent(frame) | Self::Acknowledged(frame) => Some(frame),
        }
    }
}

/// Counts of a run without a failure.
#[derive(Debug, Default)]
struct Counts {
    decoded: usize,
    lost: usize,
    undecodable: usize,
    recoveries: usize,
    /// Frames with two references.
    second_references: usize,
    /// Largest number of frames between a recovery and its base.
    farthest_base: usize,
    /// Frames whose header names, among the unused references, a slot that differs between the two ends.
    differing_slots_named: usize,
}

/// The first frame that dav1d decodes differently, or not at all.
struct Failure {
    frame: usize,
    header: FrameHeader,
    what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "frame {}: {}: {:?}", self.frame, self.what, self.header)
    }
}

struct Simulation {
    encoder: Encoder,
    decoder: Decoder,
    random: Pcg64,
    seed: u64,
    slots: [Slot; SLOTS as usize],
    /// Frame in each slot of the receiver.
    held: [usize; SLOTS as usize],
    sent: Vec<Sent>,
    /// Number of frames whose fate the sender knows.
    known: usize,
    /// Frame that the sender builds on.
    head: usize,
    /// Whether losses come in a burst at present.
    burst: bool,
    /// Age of feedback, in pictures.
    delay: usize,
    /// Temporal units that dav1d decoded, and hashes of their pictures.
    received: Vec<(Vec<u8>, u64)>,
    counts: Counts,
    /// Speeds of candidates.
    speeds: &'static [u8],
}

impl Simulation {
    fn new(encoder: Encoder, decoder: Decoder, speeds: &'static [u8], seed: u64) -> Self {
        Self {
            encoder,
            decoder,
            random: Pcg64::seed_from_u64(seed),
            seed,
            slots: [Slot::Acknowledged(0); SLOTS as usize],
            held: [0; SLOTS as usize],
            sent: Vec::new(),
            known: 1,
            head: 0,
            burst: false,
            delay: 3,
            received: Vec::new(),
            counts: Counts::default(),
            speeds,
        }
    }

    fn slot_of(&self, frame: usize) -> Option<u8> {
        (0..SLOTS).find(|&slot| self.slots[usize::from(slot)].frame() == Some(frame))
    }

    fn acknowledged(&self) -> Vec<u8> {
        (0..SLOTS).filter(|&slot| matches!(self.slots[usize::from(slot)], Slot::Acknowledged(_))).collect()
    }

    fn any(&mut self, slots: &[u8]) -> u8 {
        slots[self.random.random_range(0..slots.len())]
    }

    /// The sender learns the fates of frames that are old enough.
    fn feed_back(&mut self, time: usize) {
        while self.known < self.sent.len() && self.sent[self.known].known_at <= time {
            let frame = self.known;
            self.known += 1;
            if self.sent[frame].fate == Fate::Decoded {
                if let Some(slot) = self.slot_of(frame) {
                    self.slots[usize::from(slot)] = Slot::Acknowledged(frame);
                }
                continue;
            }
            self.sent[frame].doomed = true;
            for later in frame + 1..self.sent.len() {
                self.sent[later].doomed |= self.sent[later].reads.iter().any(|&(_, base)| self.sent[base].doomed);
            }
        }
    }

    /// Two slots that candidates may write: neither the base nor the newest acknowledged frame is in them.
    fn free_slots(&mut self, base: u8) -> [u8; 2] {
        let newest = |slot: &u8| {
            matches!(self.slots[usize::from(*slot)], Slot::Acknowledged(frame)
            if !self.acknowledged().iter().any(|&other| self.slots[usize::from(other)].frame() > Some(frame)))
        };
        let kept: Vec<u8> = (0..SLOTS).filter(newest).take(1).chain([base]).collect();
        let mut free: Vec<u8> = (0..SLOTS).filter(|slot| !kept.contains(slot)).collect();
        // Slots without value come first; otherwise random ones, so that acknowledged frames of any age stay.
        let value = |slot: &u8| match self.slots[usize::from(*slot)] {
            Slot::Scratch => 0,
            Slot::Sent(frame) if self.sent[frame].doomed => 0,
            _ => 1,
        };
        let mut order: Vec<(u8, u64, u8)> =
            free.iter().map(|slot| (value(slot), self.random.random::<u64>(), *slot)).collect();
        order.sort_unstable();
        free.clear();
        free.extend(order.iter().map(|&(_, _, slot)| slot));
        [free[0], free[1]]
    }

    fn step(&mut self, time: usize) -> Result<(), Failure> {
        let now = picture(self.seed, time);
        if time == 0 {
            let frame = self.encoder.encode_key(&now, 40).unwrap();
            self.sent.push(Sent { reads: Vec::new(), writes: 0, fate: Fate::Decoded, known_at: 0, doomed: false });
            let picture = self.encoder.reconstruction().unwrap();
            return self.receive(0, &frame, &picture);
        }
        self.feed_back(time);
        let acknowledged = self.acknowledged();
        let recovers = self.sent[self.head].doomed || happens(&mut self.random, 0.05);
        let base = match self.slot_of(self.head).filter(|_| !recovers) {
            Some(slot) => slot,
            None => {
                let base = self.any(&acknowledged);
                self.counts.recoveries += 1;
                let frame = self.slots[usize::from(base)].frame().unwrap();
                self.counts.farthest_base = self.counts.farthest_base.max(time - frame);
                base
            }
        };
        let writes = self.free_slots(base);
        let second = self.any(&acknowledged);
        let usable = second != base && !writes.contains(&second) && happens(&mut self.random, 0.5);
        let second = usable.then_some(second);
        let kept = self.random.random_range(0..2);
        let mut frame = None;
        for (index, slot) in writes.into_iter().enumerate() {
            let speed = self.speeds[self.random.random_range(0..self.speeds.len())];
            self.encoder.set_speed(speed).unwrap();
            let quantizer = self.random.random_range(8..=60);
            let coding = Coding { base, second, writes: Some(slot), quantizer };
            let coded = self.encoder.encode(&now, &coding).unwrap();
            assert_eq!(self.encoder.last_quantizer().unwrap(), quantizer);
            assert_eq!(coded.header.written, 1 << slot, "frame {time}");
            if index == kept {
                frame = Some((coded, self.encoder.reconstruction().unwrap()));
            }
        }
        let (frame, picture) = frame.unwrap();
        let reads: Vec<(u8, usize)> = std::iter::once(base)
            .chain(second)
            .map(|slot| (slot, self.slots[usize::from(slot)].frame().unwrap()))
            .collect();
        self.slots[usize::from(writes[1 - kept])] = Slot::Scratch;
        self.slots[usize::from(writes[kept])] = Slot::Sent(time);
        self.head = time;
        self.counts.second_references += usize::from(second.is_some());
        // Losses come alone or in bursts of five on average; feedback is 1 to 12 pictures late.
        let change = if self.burst { 0.2 } else { 0.01 };
        self.burst ^= happens(&mut self.random, change);
        let lost = happens(&mut self.random, if self.burst { 0.7 } else { 0.03 });
        self.delay = (self.delay + self.random.random_range(0..3)).saturating_sub(1).clamp(1, 12);
        let known_at = time + self.delay;
        let held = reads.iter().all(|&(slot, frame)| self.held[usize::from(slot)] == frame);
        let fate = match (lost, held) {
            (true, _) => Fate::Lost,
            (false, true) => Fate::Decoded,
            (false, false) => Fate::Undecodable,
        };
        self.sent.push(Sent { reads, writes: writes[kept], fate, known_at, doomed: false });
        match fate {
            Fate::Decoded => self.receive(time, &frame, &picture),
            Fate::Lost => {
                self.counts.lost += 1;
                Ok(())
            }
            Fate::Undecodable => {
                self.counts.undecodable += 1;
                Ok(())
            }
        }
    }

    fn receive(&mut self, time: usize, frame: &CodedFrame, expected: &Picture) -> Result<(), Failure> {
        let failure = |what: String| Failure { frame: time, header: frame.header, what };
        if (frame.header.kind == FrameKind::Key) != (time == 0) {
            return Err(failure("a key frame".to_owned()));
        }
        let differs = |slot: &&u8| {
            self.slots.get(usize::from(**slot)).is_some_and(|sent| sent.frame() != Some(self.held[usize::from(**slot)]))
        };
        self.counts.differing_slots_named +=
            usize::from(time > 0 && frame.header.references.iter().any(|slot| differs(&slot)));
        let decoded = self.decoder.decode(&frame.data).map_err(|error| failure(error.to_string()))?;
        if decoded.hash() != expected.hash() {
            return Err(failure("another picture".to_owned()));
        }
        if time > 0 {
            self.held[usize::from(self.sent[time].writes)] = time;
        }
        self.counts.decoded += 1;
        self.received.push((frame.data.clone(), expected.hash()));
        Ok(())
    }
}

/// Simulates a call of `frames` pictures.
fn simulate(
    (encoder, decoder): &(EncoderLibrary, DecoderLibrary),
    speeds: &'static [u8],
    tools: Tools,
    frames: usize,
    seed: u64,
) -> Result<Simulation, Failure> {
    let settings = EncoderSettings { width: WIDTH, height: HEIGHT, tools, named_slots: true };
    let encoder = Encoder::new(encoder, &settings).unwrap();
    let mut simulation = Simulation::new(encoder, Decoder::new(decoder, DEFAULT_PIXEL_LIMIT).unwrap(), speeds, seed);
    for time in 0..frames {
        simulation.step(time)?;
    }
    Ok(simulation)
}

fn check(speeds: &'static [u8], frames: usize, seed: u64) {
    let Some(libraries) = libraries() else { return };
    let simulation = simulate(&libraries, speeds, Tools::default(), frames, seed);
    let counts = simulation.map_or_else(|failure| panic!("{failure}"), |simulation| simulation.counts);
    eprintln!("{counts:?}");
    assert_eq!(counts.decoded + counts.lost + counts.undecodable, frames);
    assert!(counts.recoveries > frames / 25 && counts.lost > frames / 30, "{counts:?}");
    // The simulation tests nothing if both ends hold the same frames in all slots.
    assert!(counts.differing_slots_named > counts.decoded / 2, "{counts:?}");
}

#[test]
fn pictures_are_equal_under_loss_and_menus() {
    check(&[9], 300, 51);
}

#[test]
#[ignore = "takes a minute"]
fn marathon_of_10_000_frames_has_equal_pictures() {
    check(&[9], 10_000, 51);
}

#[test]
#[ignore = "takes a minute"]
fn marathon_of_10_000_frames_at_top_speed_has_equal_pictures() {
    check(&[10], 10_000, 52);
}

#[test]
fn pictures_are_equal_if_the_speed_changes() {
    check(&[5, 6, 7, 10], 300, 53);
}

#[test]
#[ignore = "takes minutes"]
fn marathon_of_10_000_frames_at_many_speeds_has_equal_pictures() {
    check(&[5, 6, 7, 8, 9, 10], 10_000, 54);
}

/// What arrives is an AV1 stream: other decoders know nothing of losses.
#[test]
fn decoders_of_ffmpeg_decode_what_arrives() {
    let Some(libraries) = libraries() else { return };
    let simulation = simulate(&libraries, &[9], Tools::default(), 200, 7).unwrap_or_else(|failure| panic!("{failure}"));
    let stream: Vec<u8> = simulation.received.iter().flat_map(|(unit, _)| unit.clone()).collect();
    let path = std::env::temp_dir().join(format!("lockstep-av1-{}.obu", std::process::id()));
    std::fs::write(&path, stream).unwrap();
    for codec in ["libaom-av1", "libdav1d"] {
        let mut command = Command::new("ffmpeg");
        command.args(["-v", "error", "-threads", "1", "-c:v", codec, "-f", "obu", "-i"]).arg(&path);
        let output = command.args(["-fps_mode", "passthrough", "-f", "rawvideo", "-"]).output();
        let Ok(output) = output.inspect_err(|error| eprintln!("skipped: cannot run ffmpeg: {error}")) else { break };
        if String::from_utf8_lossy(&output.stderr).contains("Unknown decoder") {
            eprintln!("skipped: ffmpeg has no decoder {codec}");
            continue;
        }
        let pictures = output.stdout.chunks_exact(Picture::i420_length(WIDTH, HEIGHT));
        let hashes: Vec<u64> =
            pictures.map(|samples| Picture::from_i420(WIDTH, HEIGHT, samples.to_vec()).unwrap().hash()).collect();
        let expected: Vec<u64> = simulation.received.iter().map(|&(_, hash)| hash).collect();
        assert!(hashes == expected, "{codec}: {}", String::from_utf8_lossy(&output.stderr));
    }
    std::fs::remove_file(&path).unwrap();
}

/// The smallest case that breaks the property: slots 2 to 7 have thrown-away candidates at the sender and the key frame
/// at the receiver. A frame that writes such a slot must name it, though it is not predicted from it. An order hint has
/// 7 bits, so a candidate 100 frames before counts as 28 frames after. Its motion vectors then predict those of the
/// frame.
#[test]
fn motion_vectors_of_a_written_slot_break_the_property() {
    let Some((encoder, decoder)) = libraries() else { return };
    for reference_vectors in [false, true] {
        let tools = Tools { order_hints: true, reference_vectors, error_resilient: false };
        let settings = EncoderSettings { width: WIDTH, height: HEIGHT, tools, named_slots: true };
        let mut encoder = Encoder::new(&encoder, &settings).unwrap();
        encoder.set_speed(9).unwrap();
        let mut decoder = Decoder::new(&decoder, DEFAULT_PIXEL_LIMIT).unwrap();
        decoder.decode(&encoder.encode_key(&picture(51, 0), 30).unwrap().data).unwrap();
        for slot in 2..SLOTS {
            let coding = Coding { base: 0, second: None, writes: Some(slot), quantizer: 40 };
            encoder.encode(&picture(51, slot.into()), &coding).unwrap();
        }
        let (mut base, mut first_difference) = (0, None);
        for time in 8..=110 {
            let writes = if time < 100 { time as u8 % 2 } else { 2 + (time as u8 - 100) % 6 };
            let coding = Coding { base, second: None, writes: Some(writes), quantizer: 30 };
            let frame = encoder.encode(&picture(51, time), &coding).unwrap();
            if decoder.decode(&frame.data).unwrap().hash() != encoder.reconstruction().unwrap().hash() {
                eprintln!("frame {time}: {:?}", frame.header);
                first_difference = Some(time);
                break;
            }
            base = writes;
        }
        let expected = if reference_vectors { 100..=105 } else { 0..=0 };
        assert!(expected.contains(&first_difference.unwrap_or(0)), "{first_difference:?}");
    }
}

/// A limit of libaom 3.6, not of the format: about every 75 frames its rate control also writes slot 0.
#[test]
fn internal_rate_control_writes_another_slot() {
    let Some((encoder, _)) = libraries() else { return };
    for named_slots in [false, true] {
        let settings = EncoderSettings { width: WIDTH, height: HEIGHT, tools: Tools::default(), named_slots };
        let mut encoder = Encoder::new(&encoder, &settings).unwrap();
        encoder.set_speed(9).unwrap();
        encoder.encode_key(&picture(1, 0), 50).unwrap();
        let mut others = Vec::new();
        for time in 1..=250 {
            let quantizer = 8 + mix(51, time as u64) as u8 % 50;
            let coding = Coding { base: 0, second: None, writes: Some(1), quantizer };
            let header = encoder.encode(&picture(51, time), &coding).unwrap().header;
            if header.written != 0b10 {
                others.push((time, header.written));
            }
        }
        eprintln!("named slots {named_slots}: {others:?}");
        assert_eq!(others.is_empty(), named_slots);
    }
}

/// Prints the first failure for each speed and set of tools.
#[test]
#[ignore = "prints a table for docs/lab"]
fn marathon_of_tools_that_read_other_slots() {
    let Some(libraries) = libraries() else { return };
    for speed in [&[6], &[7], &[8], &[9], &[10]] {
        for (order_hints, reference_vectors) in [(false, false), (true, false), (true, true)] {
            for error_resilient in [false, true] {
                let tools = Tools { order_hints, reference_vectors, error_resilient };
                match simulate(&libraries, speed, tools, 600, 51) {
                    Ok(simulation) => println!("speed {speed:?}, {tools:?}: equal: {:?}", simulation.counts),
                    Err(failure) => println!("speed {speed:?}, {tools:?}: {failure}"),
                }
            }
        }
    }
}
