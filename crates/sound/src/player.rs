//! From packets to what is heard.

use std::collections::VecDeque;
use std::time::Duration;

use lockstep_units::Timestamp;

use crate::playout::{Pace, Playout, PlayoutBuffer, PlayoutStatistics};
use crate::stretch::{lengthen, shorten};
use crate::{FRAME_SAMPLES, Frame, SoundDecoder, duration_of, has_redundancy};

/// By how many samples Opus delays sound in coding: 6.5 ms (libopus, `OPUS_GET_LOOKAHEAD`, speech at 48 kHz).
pub const LOOK_AHEAD: usize = 312;
/// Delays kept for an owner that does not ask for them.
const MOST_DELAYS: usize = 64;
/// Decoded frames kept for an owner that does not ask for them. [`Player::play`] decodes two at most.
const MOST_DECODED: usize = 2;

/// A decoded frame before its pace was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoded {
    /// The capture time of its first sample, on the sender's clock; none if it was concealed.
    pub captured: Option<Timestamp>,
    /// Its samples.
    pub frame: Frame,
}

/// Makes a frame of what is in a packet, and of what is not.
pub trait Decode {
    /// What a packet carries.
    type Payload: Clone;

    /// Whether `payload` says that silence begins.
    fn is_silence(payload: &Self::Payload) -> bool;

    /// The frame of `payload`; none if it is damaged.
    fn decode(&mut self, payload: &Self::Payload) -> Option<Frame>;

    /// The frame before that of `next`; none if `next` has no copy of it.
    fn recover(&mut self, next: &Self::Payload) -> Option<Frame>;

    /// A frame in place of one of which nothing is known.
    fn conceal(&mut self) -> Frame;
}

impl Decode for SoundDecoder {
    type Payload = Vec<u8>;

    fn is_silence(payload: &Vec<u8>) -> bool {
        payload.is_empty()
    }

    fn decode(&mut self, payload: &Vec<u8>) -> Option<Frame> {
        SoundDecoder::decode(self, payload).ok()
    }

    fn recover(&mut self, next: &Vec<u8>) -> Option<Frame> {
        has_redundancy(next).then(|| SoundDecoder::recover(self, next).ok()).flatten()
    }

    fn conceal(&mut self) -> Frame {
        SoundDecoder::conceal(self).unwrap_or([0; FRAME_SAMPLES])
    }
}

/// What a [`Player`] counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct PlayerStatistics {
    /// Of packets and frames.
    pub playout: PlayoutStatistics,
    /// Lost frames made from the copy in the packet after them.
    pub recovered: u64,
    /// Packets that were damaged.
    pub undecodable: u64,
    /// Samples left out to play faster.
    pub shortened_samples: u64,
    /// Samples put in to play slower.
    pub lengthened_samples: u64,
}

impl PlayerStatistics {
    /// The share of what was to be heard, 0 to 1, that was made up: lost or late, with no copy that came in time.
    #[must_use]
    pub fn concealed_share(&self) -> f64 {
        let PlayoutStatistics { played, recoverable, concealed, .. } = self.playout;
        let heard = played + recoverable + concealed;
        let made_up = concealed + recoverable - self.recovered + self.undecodable;
        if heard == 0 { 0.0 } else { made_up as f64 / heard as f64 }
    }
}

/// Plays what arrives: whoever has the loudspeaker asks each 20 ms for the next 20 ms.
#[derive(Debug)]
pub struct Player<D: Decode = SoundDecoder> {
    decoder: D,
    buffer: PlayoutBuffer<D::Payload>,
    samples: VecDeque<i16>,
    /// The sample that ends [`Self::samples`] was captured then, sender's clock, and whether anything is heard.
    captured_until: Option<Timestamp>,
    delays: VecDeque<i64>,
    decoded: VecDeque<Decoded>,
    statistics: PlayerStatistics,
}

impl<D: Decode> Player<D> {
    /// A player to which nothing has come.
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

    /// The packet of frame `frame`, whose first sample was captured at `captured` on the sender's clock, came.
    pub fn insert(&mut self, now: Timestamp, frame: u32, captured: Timestamp, payload: D::Payload) {
        self.buffer.insert(now, frame, captured, payload);
    }

    /// The 20 ms that are to be heard from `now` on.
    pub fn play(&mut self, now: Timestamp) -> Frame {
        while self.samples.len() < FRAME_SAMPLES {
            let at = now + duration_of(self.samples.len());
            // By what has come until now, not until then.
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
        if self.delays.len() == MOST_DELAYS {
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
        if self.decoded.len() == MOST_DECODED {
            self.decoded.pop_front();
        }
        let look_ahead = duration_of(LOOK_AHEAD).as_nanos() as u64;
        let captured = captured.map(|at| Timestamp::from_nanos(at.as_nanos().saturating_sub(look_ahead)));
        self.decoded.push_back(Decoded { captured, frame: *frame });
    }

    /// The next frame that [`Self::play`] decoded since this was last called: sound as it was captured, without changes of its
    /// pace. Silence has none.
    pub fn poll_decoded(&mut self) -> Option<Decoded> {
        self.decoded.pop_front()
    }

    /// A frame more, that lasts as long as `samples` do.
    fn push(&mut self, samples: &[i16]) {
        self.captured_until = self.captured_until.map(|until| until + crate::FRAME_DURATION);
        self.samples.extend(samples);
    }

    /// When what is heard next, after the frame that [`Self::play`] gave last, was captured, sender's clock: what is to
    /// be seen with it. None in silence.
    #[must_use]
    pub fn heard(&self) -> Option<Timestamp> {
        let until = self.captured_until?;
        Some(Timestamp::from_nanos(until.as_nanos().saturating_sub(duration_of(self.samples.len()).as_nanos() as u64)))
    }

    /// From mouth to ear, of the next packet played since this was asked: nanoseconds from the sender's clock to this one.
    pub fn poll_delay(&mut self) -> Option<i64> {
        self.delays.pop_front()
    }

    /// Plays no frame earlier than `delay` after its capture, sender's clock to receiver's, nanoseconds, if that takes no
    /// more than 200 ms more than jitter does: pictures may be that late, and are to be seen with their sound.
    pub fn set_least_delay(&mut self, delay: i64) {
        self.buffer.set_least_delay(delay);
    }

    /// How long packets wait at the moment, the fastest of them.
    #[must_use]
    pub fn wait(&self) -> Duration {
        self.buffer.wait()
    }

    /// What was counted.
    #[must_use]
    pub fn statistics(&self) -> PlayerStatistics {
        PlayerStatistics { playout: self.buffer.statistics(), ..self.statistics }
    }
}
