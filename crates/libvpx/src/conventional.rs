//! libvpx as a conventional codec in a call.
//!
//! [`LibvpxEncoder`] implements [`FrameEncoder`]. libvpx does its own rate control and chooses its quantizers and
//! references.

use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lockstep_call::{
    Candidate, CodecTraits, EncodeJob, EncodeWork, FrameEncoder, FrameRequest, FrameStart, KEY_FRAME_INTERVAL,
    MAX_PACER_DELAY, Menu, TARGET_INTERVAL,
};
use lockstep_transport::{CodecId, Recovery, StateId};
use lockstep_units::{Bitrate, ByteCount, Timestamp};
use lockstep_vp8::{Picture, State, decode};

use crate::{Effort, Encoder, EncoderSettings, Library, LibvpxError, RateControl};

/// libvpx's encoder and the state of a decoder that has decoded all its frames.
#[derive(Debug)]
struct Coder {
    encoder: Encoder,
    kbps: u32,
    state: State,
}

impl Coder {
    /// Codes a picture, and decodes the frame with Lockstep's decoder. Both decoders are bit-exact, so the frame leads
    /// to a named state.
    fn code(
        &mut self,
        picture: &Picture,
        time: u64,
        kbps: u32,
        must_be_key: bool,
    ) -> Result<Option<Candidate>, LibvpxError> {
        if kbps != self.kbps {
            self.encoder.set_target(kbps)?;
            self.kbps = kbps;
        }
        let Some(frame) = self.encoder.encode(picture, time, must_be_key)? else { return Ok(None) };
        let quantizer = self.encoder.last_quantizer()?;
        let (state, _) = decode(&self.state, &frame.data)?;
        self.state = state.clone();
        Ok(Some(Candidate { frame: frame.data, quantizer, key_frame: frame.key_frame, state, ssim: None }))
    }

    fn name(&self) -> StateId {
        StateId(self.state.id())
    }
}

/// libvpx's VP8 encoder, configured as WebRTC configures it.
///
/// It uses a constant bit rate and one thread, and takes over the target once a second. After a loss that
/// retransmission did not repair it makes a key frame. A picture that libvpx drops or refuses is not sent. The reason
/// of a refusal goes to the caller's channel.
#[derive(Debug)]
pub struct LibvpxEncoder {
    coder: Arc<Mutex<Coder>>,
    refusals: Sender<LibvpxError>,
    frame_interval: Duration,
    target: Option<(Timestamp, Bitrate)>,
    begun_at: Option<Timestamp>,
    key_frame_at: Option<Timestamp>,
}

impl LibvpxEncoder {
    /// Creates an encoder for pictures of this size and `frame_rate` (numerator, denominator).
    ///
    /// `refusals` receives an error for each picture that libvpx refuses, because a menu has no field for it.
    ///
    /// # Errors
    /// If libvpx rejects the settings or has an unsupported interface.
    pub fn new(
        library: &Library,
        (width, height): (usize, usize),
        frame_rate: (u32, u32),
        effort: Effort,
        refusals: Sender<LibvpxError>,
    ) -> Result<Self, LibvpxError> {
        let kbps = 300; // before the first target
        let rate_control = RateControl::Constant(kbps);
        let settings = EncoderSettings { width, height, frame_rate, effort, rate_control };
        let encoder = Encoder::new(library, &settings)?;
        let coder = Coder { encoder, kbps, state: State::default() };
        let frame_interval = Duration::from_secs(1) * frame_rate.1 / frame_rate.0.max(1);
        let coder = Arc::new(Mutex::new(coder));
        Ok(Self { coder, refusals, frame_interval, target: None, begun_at: None, key_frame_at: None })
    }
}

impl FrameEncoder for LibvpxEncoder {
    fn codec(&self) -> CodecTraits {
        CodecTraits::new(CodecId::VP8)
    }

    fn recovery(&self) -> Recovery {
        Recovery::Retransmit
    }

    fn begin(&mut self, request: &FrameRequest<'_>) -> Option<FrameStart> {
        let FrameRequest { now, picture, source: offered, target, pacer_delay, .. } = *request;
        if pacer_delay > MAX_PACER_DELAY {
            return None;
        }
        // The caller runs one job at a time, so this lock does not wait.
        let last = self.coder.lock().unwrap_or_else(PoisonError::into_inner).name();
        let must_be_key = offered == StateId::EMPTY || offered != last;
        if must_be_key && self.key_frame_at.is_some_and(|at| now < at + KEY_FRAME_INTERVAL) {
            return None;
        }
        if self.target.is_none_or(|(at, _)| now.saturating_since(at) >= TARGET_INTERVAL) {
            self.target = Some((now, target));
        }
        let kbps = u32::try_from(self.target?.1.as_bps() / 1_000).unwrap_or(u32::MAX);
        self.begun_at = Some(now);
        let time = now.saturating_since(Timestamp::ZERO).as_secs_f64() / self.frame_interval.as_secs_f64().max(1e-6);
        let (coder, refusals, picture) = (Arc::clone(&self.coder), self.refusals.clone(), picture.clone());
        let job = EncodeJob::new(EncodeWork::OneFrame, move |_| {
            let mut coder = coder.lock().unwrap_or_else(PoisonError::into_inner);
            let coded = coder.code(&picture, time.round() as u64, kbps, must_be_key).unwrap_or_else(|error| {
                // The picture is skipped even if the receiving end of the channel is gone.
                let _ = refusals.send(error);
                None
            });
            Menu::new(coded.into_iter().collect())
        });
        Some(FrameStart { source: if must_be_key { StateId::EMPTY } else { last }, job })
    }

    fn choose(&self, menu: &Menu, _budget: ByteCount, _anyway: bool) -> Option<usize> {
        (!menu.candidates.is_empty()).then_some(0)
    }

    fn commit(&mut self, mut menu: Menu, choice: Option<usize>) -> Option<(StateId, Candidate)> {
        let begun_at = self.begun_at.take();
        let frame = menu.candidates.swap_remove(choice?);
        if frame.key_frame {
            self.key_frame_at = begun_at;
        }
        Some((StateId(frame.state.id()), frame))
    }

    fn forget(&mut self, _state: StateId) {
        // libvpx keeps only its last state: a frame is coded from that state or is a key frame.
    }

    fn held_states(&self) -> usize {
        2
    }

    fn target(&self) -> Option<Bitrate> {
        self.target.map(|(_, target)| target)
    }
}
