//! Modelled calls: calls without pixels and bytes, for training and sweeps.
//!
//! Ends, transport, controllers, menus, links and scores are those of a real call. A model replaces the codec
//! ([`crate::Modelled`]), and datagrams are not serialized. Modelled calls run thousands of times faster than real
//! time.

use std::sync::Arc;
use std::time::Duration;

use lockstep_call::{
    ConventionalEncoder, EncodeWork, FINEST_USEFUL_QUANTIZER, FrameEncoder, FunctionalEncoder, MenuMode, ReceivingEnd,
    SalsifyEncoder, SalsifyVersions, SendingEnd, Tuning, announced,
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

/// Codec that the model replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelledCodec {
    /// Functional codec: frames fit their budgets and can be coded from any state that the receiver holds.
    Functional(MenuMode),
    /// Salsify's encoder as published.
    Salsify(SalsifyVersions),
    /// Conventional codec: a rate control chooses one quantizer before coding and updates its target once per second.
    /// Lost fragments are sent again; a key frame follows if that fails.
    Conventional,
    /// Conventional codec with padded frames.
    Padded(Padding),
    /// Source that always fills the controller's target, instead of video.
    FullThrottle(Filling),
}

/// Settings of a modelled call.
#[derive(Debug, Clone)]
pub struct ModelledSetting {
    /// Frame rate.
    pub frame_rate: FrameRate,
    /// Largest payload of one fragment, bytes.
    pub payload: ByteCount,
    /// Encode times of jobs.
    pub job_times: JobTimes,
    /// Time to decode a frame.
    pub decode_time: Duration,
    /// Codec that the model replaces.
    pub codec: ModelledCodec,
    /// Bit rate beyond which quality does not improve; `None` for no limit.
    pub ceiling: Option<Bitrate>,
    /// Interval of acknowledgements.
    pub feedback: FeedbackInterval,
    /// Times at which pictures are captured.
    pub activity: Activity,
    /// Duration of the scored part, from the start of the activity. The part ends with the activity at the latest.
    pub length: Duration,
    /// Tuned constants of the sending end. The controller has separate ones.
    pub tuning: Tuning,
}

impl ModelledCodec {
    /// Encoder of pictures with `curves` at a frame interval of `interval`.
    #[must_use]
    pub fn encoder(
        self,
        curves: Arc<ClipCurves>,
        interval: Duration,
        tuning: &Tuning,
    ) -> Box<dyn FrameEncoder<Modelled>> {
        match self {
            Self::Functional(menu) => Box::new(FunctionalEncoder::new(curves, menu, tuning)),
            Self::Salsify(versions) => Box::new(SalsifyEncoder::new(curves, versions, interval)),
            Self::Conventional => Box::new(ConventionalEncoder::new(curves, interval)),
            Self::Padded(padding) => Box::new(Padded::new(curves, interval, padding)),
            Self::FullThrottle(filling) => Box::new(FullThrottle::new(interval, filling)),
        }
    }

    /// Finest quantizer that the codec uses.
    #[must_use]
    pub fn finest_quantizer(self) -> u8 {
        match self {
            Self::Functional(_) => FINEST_USEFUL_QUANTIZER,
            Self::Salsify(_) | Self::Conventional | Self::Padded(_) | Self::FullThrottle(_) => 0,
        }
    }

    /// Work that is done before the first frame of a picture can be sent.
    #[must_use]
    pub fn first_work(self) -> EncodeWork {
        match self {
            Self::Functional(menu) => menu.first_work(),
            Self::Salsify(versions) => versions.first_work(),
            Self::Conventional | Self::Padded(_) | Self::FullThrottle(_) => EncodeWork::OneFrame,
        }
    }
}

impl ModelledSetting {
    /// Default setting: 30 frames per second from time zero without end. Fragments and feedback are those of real
    /// calls.
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

    /// A call with the pictures of `clip` that has not started.
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

/// Source of pictures without pixels at a frame rate.
pub struct ModelledSource {
    clip: ModelledClip,
    format: VideoFormat,
}

impl ModelledSource {
    /// Endless source of the pictures of `clip`.
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
