//! Turns received packets into sound to play.

use std::collections::VecDeque;
use std::time::Duration;

use lockstep_units::Timestamp;

use crate::playout::{Pace, Playout, PlayoutBuffer, PlayoutStatistics};
use crate::stretch::{lengthen, shorten};
use crate::{FRAME_SAMPLES, Frame, duration_of};

/// Delay of the Opus encoder in samples: 6.5 ms (libopus, `OPUS_GET_LOOKAHEAD`, speech at 48 kHz).
pub const LOOK_AHEAD: usize = 312;
/// Maximum number of delays kept for an owner that does not poll them.
const MAX_DELAYS: usize = 64;
/// Maximum number of decoded frames kept for an owner that does not poll them. [`Player::play`] decodes at most two.
const MAX_DECODED_FRAMES: usize = 2;

/// A decoded frame before its pace is changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoded {
    /// Capture time of its first sample on the sender's clock. None for a concealed frame.
    pub captured: Option<Timestamp>,
    /// Samples of the frame.
    pub frame: Frame,
}

/// Decoder that also makes frames for lost packets.
pub trait Decode {
    /// Content of a packet.
    type Payload: Clone;

    /// Whether `payload` announces silence.
    fn is_silence(payload: &Self::Payload) -> bool;

    /// Decodes `payload`. None if it is damaged.
    fn decode(&mut self, payload: &Self::Payload) -> Option<Frame>;

    /// Decodes the frame before that of `next`. None if `next` has no copy of it.
    fn recover(&mut self, next: &Self::Payload) -> Option<Frame>;

    /// Makes a frame for a lost one without a copy.
    fn conceal(&mut self) -> Frame;
}

/// Counters of a [`Player`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct PlayerStatistics {
    /// Counters of packets and frames.
    pub playout: PlayoutStatistics,
    /// Lost frames restored from the copy in the next packet.
    pub recovered: u64,
    /// Damaged packets.
    pub undecodable: u64,
    /// Samples removed to play faster.
    pub shortened_samples: u64,
    /// Samples inserted to play slower.
    pub lengthened_samples: u64,
}

impl PlayerStatistics {
    /// Concealed share of the sound, 0 to 1: lost or late frames for which no copy arrived in time.
    #[must_use]
    pub fn concealed_share(&self) -> f64 {
        let PlayoutStatistics { played, recoverable, concealed, .. } = self.playout;
        let total = played + recoverable + concealed;
        let made_up = concealed + recoverable - self.recovered + self.undecodable;
        if total == 0 { 0.0 } else { made_up as f64 / total as f64 }
    }
}

/// Plays received packets. The owner of the loudspeaker calls [`Player::play`] every 20 ms.
#[derive(Debug)]
pub struct Player<D: Decode> {
    decoder: D,
    buffer: PlayoutBuffer<D::Payload>,
    samples: VecDeque<i16>,
    /// Capture time of the last sample in [`Self::samples`] on the sender's clock, and whether it is sound.
    captured_until: Option<Timestamp>,
    delays: VecDeque<i64>,
    decoded: VecDeque<Decoded>,
    statistics: PlayerStatistics,
}

impl<D: Decode> Player<D> {
    /// A player without packets.
    #[must_use]
    pub fn new(decoder: D) -> Self {
        Self {
            decoder,
            buffer: PlayoutBuffer::default(),
            samples: VecDeque::new(),
            captured_until: None,
            delays: VecDeque::new(),
            decoded: VecDeque::new(),
            statistics: PlayerStatistics::default(),
        }
    }

    /// Inserts a packet of frame `frame`. `captured` is the capture time of its first sample on the sender's clock.
    pub fn insert(&mut self, now: Timestamp, frame: u32, captured: Timestamp, payload: D::Payload) {
        self.buffer.insert(now, frame, captured, payload);
    }

    /// The 20 ms to play from `now` on.
    pub fn play(&mut self, now: Timestamp) -> Frame {
        while self.samples.len() < FRAME_SAMPLES {
            let at = now + duration_of(self.samples.len());
            // The decision depends on the packets that arrived until now.
            match self.buffer.next(now) {
                Playout::Packet { payload, captured, pace } => self.play_packet(at, &payload, captured, pace),
                Playout::Recover { next } => {
                    let frame = self.decoder.recover(&next);
                    self.statistics.recovered += u64::from(frame.is_some());
                    let captured = self.captured_until.filter(|_| frame.is_some());
                    let frame = frame.unwrap_or_else(|| self.decoder.conceal());
                    self.keep(captured, &frame);
                    self.push(&frame);
                }
                Playout::Conceal => {
                    let frame = self.decoder.conceal();
                    self.keep(None, &frame);
                    self.push(&frame);
                }
                Playout::Silence => {
                    self.captured_until = None;
                    self.samples.extend([0; FRAME_SAMPLES]);
                }
            }
        }
        let mut frame = [0; FRAME_SAMPLES];
        frame.iter_mut().zip(self.samples.drain(..FRAME_SAMPLES)).for_each(|(to, from)| *to = from);
        frame
    }

    fn play_packet(&mut self, at: Timestamp, payload: &D::Payload, captured: Timestamp, pace: Pace) {
        if D::is_silence(payload) {
            self.buffer.begin_silence();
            self.captured_until = None;
            self.samples.extend([0; FRAME_SAMPLES]);
            return;
        }
        let decoded = self.decoder.decode(payload);
        let is_whole = decoded.is_some();
        let frame = decoded.unwrap_or_else(|| {
            self.statistics.undecodable += 1;
            self.decoder.conceal()
        });
        self.keep(is_whole.then_some(captured), &frame);
        if self.delays.len() == MAX_DELAYS {
            self.delays.pop_front();
        }
        let look_ahead = duration_of(LOOK_AHEAD).as_nanos() as i64;
        self.delays.push_back((at.as_nanos().wrapping_sub(captured.as_nanos()) as i64).saturating_add(look_ahead));
        self.captured_until = Some(captured);
        match pace {
            Pace::Keep => self.push(&frame),
            Pace::Shorten => {
                let shorter = shorten(&frame);
                let samples = shorter.as_deref().unwrap_or(&frame);
                self.statistics.shortened_samples += (FRAME_SAMPLES - samples.len()) as u64;
                self.push(samples);
            }
            Pace::Lengthen => {
                let longer = lengthen(&frame);
                let samples = longer.as_deref().unwrap_or(&frame);
                self.statistics.lengthened_samples += (samples.len() - FRAME_SAMPLES) as u64;
                self.push(samples);
            }
        }
    }

    /// Keeps a decoded frame of the packet captured at `captured`, for [`Self::poll_decoded`].
    fn keep(&mut self, captured: Option<Timestamp>, frame: &Frame) {
        if self.decoded.len() == MAX_DECODED_FRAMES {
            self.decoded.pop_front();
        }
        let look_ahead = duration_of(LOOK_AHEAD).as_nanos() as u64;
        let captured = captured.map(|at| Timestamp::from_nanos(at.as_nanos().saturating_sub(look_ahead)));
        self.decoded.push_back(Decoded { captured, frame: *frame });
    }

    /// The next frame that [`Self::play`] decoded since the last call, before its pace changed. Silence has no frame.
    pub fn poll_decoded(&mut self) -> Option<Decoded> {
        self.decoded.pop_front()
    }

    /// Appends `samples` to the sound to play, as one frame.
    fn push(&mut self, samples: &[i16]) {
        self.captured_until = self.captured_until.map(|until| until + crate::FRAME_DURATION);
        self.samples.extend(samples);
    }

    /// Capture time of the next sound after the last frame of [`Self::play`], on the sender's clock. Lip sync shows the
    /// picture of that time. None in silence.
    #[must_use]
    pub fn playing_captured_at(&self) -> Option<Timestamp> {
        let until = self.captured_until?;
        Some(Timestamp::from_nanos(until.as_nanos().saturating_sub(duration_of(self.samples.len()).as_nanos() as u64)))
    }

    /// Mouth-to-ear delay of the next packet played since the last call, nanoseconds, between the clocks of both peers.
    pub fn poll_delay(&mut self) -> Option<i64> {
        self.delays.pop_front()
    }

    /// Plays no frame earlier than `delay` after its capture, in nanoseconds between the two clocks. Lip sync uses it
    /// to delay sound for late pictures. The extra wait is at most 200 ms above that for jitter.
    pub fn set_min_delay(&mut self, delay: i64) {
        self.buffer.set_min_delay(delay);
    }

    /// Current wait of the fastest packets.
    #[must_use]
    pub fn wait(&self) -> Duration {
        self.buffer.wait()
    }

    /// Counters so far.
    #[must_use]
    pub fn statistics(&self) -> PlayerStatistics {
        PlayerStatistics { playout: self.buffer.statistics(), ..self.statistics }
    }
}
