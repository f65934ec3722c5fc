//! A call without pixels and bytes: the ends, the transport, the controllers, the menus, the links and the scores of a
//! real call, with a model in the codec's place ([`crate::Modelled`]) and datagrams that are never written.
//! Four orders of magnitude faster than real time, for training and for sweeps.

use std::sync::Arc;
use std::time::Duration;

use lockstep_call::{
    ConventionalEncoder, EncodeWork, FINEST_USEFUL_QUANTIZER, FrameEncoder, FunctionalEncoder, MenuMode, ReceivingEnd,
    SendingEnd, Tuning, announced,
};
use lockstep_control::{Controller, Estimator};
use lockstep_media::{FrameRate, Source, SourceError, VideoFormat};
pub use lockstep_transport::FeedbackInterval;
use lockstep_transport::wire::FRAGMENT_PAYLOAD;
use lockstep_transport::{ReceiverConfig, SenderConfig};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use crate::activity::Activity;
use crate::call_flow::{CallFlow, CallFlowOptions};
use crate::encode_time::JobTimes;
use crate::full_throttle::{Filling, FullThrottle};
use crate::modelled_clip::{ClipCurves, ModelledClip, ModelledPicture};
use crate::modelled_codec::Modelled;
use crate::padded::{Padded, Padding};

/// Both ends of a modelled call.
pub type ModelledCall = CallFlow<Modelled>;

/// Which codec the model stands in for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelledCodec {
    /// Frames that fit the budget of their moment, coded from any state that the receiver holds.
    Functional(MenuMode),
    /// One quantizer a frame, decided before coding by a rate control that takes the target over once a second; lost
    /// fragments are sent again, and a key frame follows where that fails.
    Conventional,
    /// The same, its frames padded.
    Padded(Padding),
    /// No video, but a source that always fills up what the controller's target allows.
    FullThrottle(Filling),
}

/// What a modelled call is told.
#[derive(Debug, Clone)]
pub struct ModelledSetting {
    /// Pictures a second.
    pub frame_rate: FrameRate,
    /// The most bytes of a frame in one fragment.
    pub payload: ByteCount,
    /// Time that jobs of encoding take.
    pub job_times: JobTimes,
    /// Time to decode a frame.
    pub decode_time: Duration,
    /// The codec.
    pub codec: ModelledCodec,
    /// The bit rate beyond which pictures gain nothing; none for no such bound.
    pub ceiling: Option<Bitrate>,
    /// How often the receiver acknowledges.
    pub feedback: FeedbackInterval,
    /// When pictures are captured.
    pub activity: Activity,
    /// How much of the call is scored, from its start on: until its stop, if that is earlier.
    pub length: Duration,
    /// The tuned constants of the sending end; the controller has its own.
    pub tuning: Tuning,
}

impl ModelledCodec {
    /// An encoder of pictures with `curves` that come every `interval`.
    #[must_use]
    pub fn encoder(
        self,
        curves: Arc<ClipCurves>,
        interval: Duration,
        tuning: &Tuning,
    ) -> Box<dyn FrameEncoder<Modelled>> {
        match self {
            Self::Functional(menu) => Box::new(FunctionalEncoder::new(curves, menu, tuning)),
            Self::Conventional => Box::new(ConventionalEncoder::new(curves, interval)),
            Self::Padded(padding) => Box::new(Padded::new(curves, interval, padding)),
            Self::FullThrottle(filling) => Box::new(FullThrottle::new(interval, filling)),
        }
    }

    /// The finest quantizer that it uses.
    #[must_use]
    pub fn finest_quantizer(self) -> u8 {
        match self {
            Self::Functional(_) => FINEST_USEFUL_QUANTIZER,
            Self::Conventional | Self::Padded(_) | Self::FullThrottle(_) => 0,
        }
    }

    /// What is done until there is something to send.
    #[must_use]
    pub fn first_work(self) -> EncodeWork {
        match self {
            Self::Functional(menu) => menu.first_work(),
            Self::Conventional | Self::Padded(_) | Self::FullThrottle(_) => EncodeWork::OneFrame,
        }
    }
}

impl ModelledSetting {
    /// Thirty pictures a second from zero on without end, fragments and feedback as real calls have them.
    #[must_use]
    pub fn new() -> Self {
        Self {
            frame_rate: FrameRate::default(),
            payload: ByteCount::new(FRAGMENT_PAYLOAD as u64),
            job_times: JobTimes::default(),
            decode_time: Duration::from_millis(3),
            codec: ModelledCodec::Functional(MenuMode::default()),
            ceiling: None,
            feedback: FeedbackInterval::default(),
            activity: Activity::between(Timestamp::ZERO, Timestamp::MAX),
            length: Duration::MAX,
            tuning: Tuning::default(),
        }
    }

    /// Time between two pictures.
    #[must_use]
    pub fn frame_interval(&self) -> Duration {
        self.frame_rate.time_of(1)
    }

    /// A call that has not begun, of pictures of `clip`.
    #[must_use]
    pub fn call(
        &self,
        controller: Box<dyn Controller>,
        estimator: Box<dyn Estimator>,
        clip: ModelledClip,
    ) -> ModelledCall {
        let curves = Arc::clone(clip.curves());
        let source = ModelledSource::new(clip, self.frame_rate);
        let format = Source::<ModelledPicture>::format(&source);
        let interval = self.frame_interval();
        let encoder = self.codec.encoder(curves, interval, &self.tuning);
        let payload = usize::try_from(self.payload.get()).unwrap_or(usize::MAX);
        let transport = SenderConfig { payload, feedback: self.feedback, ..SenderConfig::new(1, announced(&format)) };
        let receiver = ReceiverConfig { feedback: self.feedback, ..ReceiverConfig::default() };
        let setting = CallFlowOptions {
            activity: self.activity.clone(),
            length: self.length.min(self.activity.end().saturating_since(self.activity.start())),
            ends_with_source: false,
            job_times: self.job_times,
            decode_time: self.decode_time,
        };
        let sender = SendingEnd::new(transport, controller, encoder, &self.tuning).with_max_bitrate(self.ceiling);
        CallFlow::new(sender, ReceivingEnd::new(receiver, estimator), Box::new(source), setting)
    }
}

impl Default for ModelledSetting {
    fn default() -> Self {
        Self::new()
    }
}

/// A clip of pictures without pixels at a frame rate.
pub struct ModelledSource {
    clip: ModelledClip,
    format: VideoFormat,
}

impl ModelledSource {
    /// The pictures of `clip`, without end.
    #[must_use]
    pub fn new(clip: ModelledClip, frame_rate: FrameRate) -> Self {
        let (width, height) = clip.curves().picture_size();
        Self { clip, format: VideoFormat { width, height, frame_rate } }
    }
}

impl Source<ModelledPicture> for ModelledSource {
    fn format(&self) -> VideoFormat {
        self.format
    }

    fn next(&mut self) -> Result<Option<ModelledPicture>, SourceError> {
        Ok(Some(self.clip.next_picture()))
    }
}
