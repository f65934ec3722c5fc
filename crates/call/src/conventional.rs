//! Conventional codec as a [`FrameEncoder`]: "today's systems" in the published comparisons.
//!
//! It uses the same VP8 as the functional codec, but does not access its state. Each frame follows the last coded one
//! or is a key frame. A rate control chooses the quantizer before coding, from a target bit rate. There is no budget,
//! and every frame is sent. After a loss it relies on retransmission. If that fails, it codes a key frame, as after a
//! picture loss indication (RFC 4585, section 6.3.1).

use std::time::Duration;

use lockstep_control::FailureReason;
use lockstep_transport::{Recovery, StateId};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use crate::codec::{Candidate, CodecTraits, FunctionalCodec, Vp8};
use crate::encoder::{EncodeJob, EncodeWork, FrameEncoder, FrameRequest, FrameStart, Menu};
use crate::quantizer_choice::{FINEST, QuantizerChoice};
use crate::rate_control::{FrameTarget, RateControl};

/// Minimum time between key frames after losses (WebRTC's `EncoderRtcpFeedback`, `kMinKeyframeSendIntervalMs`).
pub const KEY_FRAME_INTERVAL: Duration = Duration::from_millis(300);
/// Longest pacer delay; pictures are dropped above it (WebRTC's pacer, `kMaxExpectedQueueLength`).
pub const MAX_PACER_DELAY: Duration = Duration::from_secs(2);
/// Maximum number of interframes between key frames (WebRTC: `kf_max_dist`, from `keyFrameInterval`).
const MAX_INTER_FRAMES: u32 = 3_000;

/// VP8 with an opaque state and a target bit rate.
#[derive(Debug)]
pub struct ConventionalEncoder<C: FunctionalCodec = Vp8> {
    parameters: C::Parameters,
    rate_control: RateControl,
    quantizers: Option<QuantizerChoice>,
    frame_interval: Duration,
    /// Target size of the frame that is being coded.
    wanted: Option<FrameTarget>,
    last: Option<(StateId, C::State)>,
    /// Start of the coding of the present frame.
    begun_at: Option<Timestamp>,
    key_frame_at: Option<Timestamp>,
    inter_frames: u32,
    arena: C::Arena,
}

impl<C: FunctionalCodec> ConventionalEncoder<C> {
    /// An encoder for pictures every `frame_interval`. It chooses the quantizer of `parameters` for each frame.
    #[must_use]
    pub fn new(parameters: C::Parameters, frame_interval: Duration) -> Self {
        Self {
            parameters,
            rate_control: RateControl::new(frame_interval),
            quantizers: None,
            frame_interval,
            wanted: None,
            last: None,
            begun_at: None,
            key_frame_at: None,
            inter_frames: 0,
            arena: C::Arena::default(),
        }
    }

    /// Codes in the memory of `arena`, and with what else it provides, such as threads.
    #[must_use]
    pub fn with_arena(self, arena: C::Arena) -> Self {
        Self { arena, ..self }
    }
}

impl<C: FunctionalCodec> ConventionalEncoder<C> {
    /// Whether the coded frame is far too large because of a scene cut.
    fn overshoots(&self, menu: &Menu<C>) -> bool {
        let Some(frame) = menu.candidates.first().filter(|frame| !frame.key_frame) else { return false };
        self.quantizers.as_ref().zip(self.wanted).is_some_and(|(quantizers, wanted)| {
            let interval = self.frame_interval.as_secs_f64();
            quantizers.overshoots(frame.quantizer, frame.size().as_f64(), wanted.inter, interval)
        })
    }
}

impl<C: FunctionalCodec> FrameEncoder<C> for ConventionalEncoder<C> {
    fn codec(&self) -> CodecTraits {
        C::traits(&self.parameters)
    }

    fn check(&self) -> Result<(), FailureReason> {
        C::check(&self.parameters)
    }

    fn recovery(&self) -> Recovery {
        Recovery::Retransmit
    }

    fn begin(&mut self, request: &FrameRequest<'_, C>) -> Option<FrameStart<C>> {
        let FrameRequest { now, picture, source: offered, target, pacer_delay, .. } = *request;
        if pacer_delay > MAX_PACER_DELAY {
            return None;
        }
        // A state other than the last is useless to a conventional codec.
        let last = self.last.as_ref().filter(|(name, _)| *name == offered && self.inter_frames < MAX_INTER_FRAMES);
        let (source, state) = last.map_or((StateId::EMPTY, C::State::default()), Clone::clone);
        let must_be_key = source == StateId::EMPTY;
        if must_be_key && self.key_frame_at.is_some_and(|at| now < at + KEY_FRAME_INTERVAL) {
            return None;
        }
        let sizes = self.rate_control.begin(now, target, must_be_key)?;
        let samples = C::luma_samples(&self.parameters, picture);
        let quantizers = self.quantizers.get_or_insert_with(|| QuantizerChoice::new(samples));
        let finest = C::traits(&self.parameters).efforts.of_equal_error(request.effort, FINEST);
        let inter = quantizers.quantizer(false, sizes.inter, finest, sizes.fullness);
        let key = quantizers.quantizer(true, sizes.key, finest, sizes.fullness);
        self.wanted = Some(sizes);
        self.begun_at = Some(now);
        let (arena, picture, mut parameters) = (self.arena.clone(), picture.clone(), self.parameters.clone());
        C::set_effort(&mut parameters, request.effort);
        let job = EncodeJob::new(EncodeWork::OneFrame, move |runner| {
            let analysis = C::analyse(&arena, &state, &picture, &parameters);
            let quantizer = if C::is_key_frame(&analysis) { key } else { inter };
            Menu::new(runner.run(&analysis, &[quantizer])).ready_for(ByteCount::new(u64::MAX))
        });
        Some(FrameStart { source, job })
    }

    fn choose(&self, menu: &Menu<C>, _budget: ByteCount, _anyway: bool) -> Option<usize> {
        (!menu.candidates.is_empty() && !self.overshoots(menu)).then_some(0)
    }

    fn commit(&mut self, mut menu: Menu<C>, choice: Option<usize>) -> Option<(StateId, Candidate<C>)> {
        let Some(choice) = choice else {
            // The frame itself may be normal, if its source was lost after coding began.
            let overshoots = self.overshoots(&menu);
            if let Some((quantizers, wanted)) = self.quantizers.as_mut().zip(self.wanted.take()).filter(|_| overshoots)
            {
                quantizers.on_dropped(wanted.inter);
                self.rate_control.on_overshoot();
            }
            return None;
        };
        let begun_at = self.begun_at.take();
        let frame = menu.candidates.swap_remove(choice);
        if let Some(quantizers) = &mut self.quantizers {
            quantizers.learn(frame.key_frame, frame.quantizer, frame.size().as_f64());
        }
        self.rate_control.sent(frame.size());
        if frame.key_frame {
            self.key_frame_at = begun_at;
            self.inter_frames = 0;
        } else {
            self.inter_frames += 1;
        }
        let name = C::name(&frame.state);
        self.last = Some((name, frame.state.clone()));
        Some((name, frame))
    }

    fn forget(&mut self, state: StateId) {
        self.last.take_if(|(name, _)| *name == state);
    }

    fn held_states(&self) -> usize {
        1 + usize::from(self.last.is_some())
    }

    fn target(&self) -> Option<Bitrate> {
        self.rate_control.target()
    }
}

#[cfg(test)]
mod tests {
    use lockstep_vp8::{Parameters, Picture};

    use super::*;
    use crate::encoder::SerialMenu;

    const INTERVAL: Duration = Duration::from_millis(40);

    fn picture() -> Picture {
        let samples = (0..64 * 48 * 3 / 2u32).map(|index| (index * 7 % 64) as u8).collect();
        Picture::from_i420(64, 48, samples).expect("the number of samples matches the size")
    }

    fn request(frame: u64, picture: &Picture, source: StateId) -> FrameRequest<'_> {
        let now = Timestamp::ZERO + INTERVAL * frame as u32;
        FrameRequest::at_rate(now, picture, source, Bitrate::from_kbps(300))
    }

    /// Codes and sends a frame. Returns its target state, and whether it is a key frame.
    fn send(encoder: &mut ConventionalEncoder, request: &FrameRequest<'_>) -> Option<(StateId, bool)> {
        let menu = encoder.begin(request)?.job.run(&SerialMenu);
        let choice = encoder.choose(&menu, request.budget, false);
        encoder.commit(menu, choice).map(|(state, frame)| (state, frame.key_frame))
    }

    #[test]
    fn encoder_follows_its_last_frame_and_limits_key_frames() {
        let picture = picture();
        let mut encoder = ConventionalEncoder::new(Parameters::default(), INTERVAL);
        let (first, key) = send(&mut encoder, &request(0, &picture, StateId::EMPTY)).expect("a first frame");
        assert!(key);
        let (_, key) = send(&mut encoder, &request(1, &picture, first)).expect("a second");
        assert!(!key);
        let elsewhere = StateId(!first.0);
        assert_eq!(send(&mut encoder, &request(2, &picture, elsewhere)), None, "80 ms after a key frame");
        let third = send(&mut encoder, &request(8, &picture, elsewhere));
        assert!(third.is_some_and(|(_, key)| key), "320 ms after a key frame: {third:?}");
    }

    #[test]
    fn full_pacer_gets_no_more_frames() {
        let picture = picture();
        let mut encoder = ConventionalEncoder::new(Parameters::default(), INTERVAL);
        let stuck = |pacer_delay| FrameRequest { pacer_delay, ..request(0, &picture, StateId::EMPTY) };
        assert!(encoder.begin(&stuck(Duration::from_millis(2_001))).is_none());
        assert!(encoder.begin(&stuck(Duration::from_millis(1_999))).is_some());
    }
}
