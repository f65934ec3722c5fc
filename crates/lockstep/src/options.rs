//! Options of the two ends of a call, from which the ends are created.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;

use lockstep_call::{
    Codec, External, ExternalEncoder, FrameEncoder, FunctionalEncoder, MenuMode, PictureDecoder, PictureEncoder,
    Preset, ReceivingEnd, SendingEnd, Tuning, Vp8, announced,
};
use lockstep_control::{
    Algorithm, Controller, ControllerSetup, Estimator, EstimatorKind, FlowGroup, GracePeriod, Latency, RateBounds,
};
use lockstep_media::VideoFormat;
use lockstep_transport::{CodecId, ReceiverConfig, SenderConfig};
use lockstep_units::{Bitrate, ByteCount};
use lockstep_vp8::{Arena, DEFAULT_PIXEL_LIMIT, FrameKind, Parameters};

use lockstep_live::LiveError;

use crate::streams::split;

type MakeController = Arc<dyn Fn(&ControllerSetup) -> Box<dyn Controller> + Send + Sync>;

/// Options of the sending end.
#[derive(Clone)]
pub struct SendOptions {
    format: VideoFormat,
    latency: Latency,
    max_bitrate: Option<Bitrate>,
    preset: Preset,
    threads: Option<usize>,
    controller: Option<MakeController>,
    group: Option<(FlowGroup, f64)>,
}

impl fmt::Debug for SendOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SendOptions")
            .field("format", &self.format)
            .field("latency", &self.latency)
            .field("max_bitrate", &self.max_bitrate)
            .finish_non_exhaustive()
    }
}

impl SendOptions {
    /// Options for pictures of this format, for a conversation.
    #[must_use]
    pub fn new(format: VideoFormat) -> Self {
        Self {
            format,
            latency: Latency::default(),
            max_bitrate: None,
            preset: Preset::default(),
            threads: None,
            controller: None,
            group: None,
        }
    }

    /// Sets the delay that the call tolerates for a better picture.
    #[must_use]
    pub fn latency(mut self, latency: Latency) -> Self {
        self.latency = latency;
        self
    }

    /// Sets a cap of the bit rate. By default it follows from the size and rate of the pictures.
    #[must_use]
    pub fn max_bitrate(mut self, cap: Bitrate) -> Self {
        self.max_bitrate = Some(cap);
        self
    }

    /// Shares one budget with the other streams of `group`, in proportion to `priority` (RFC 8699), which must be above
    /// zero. Every stream of such a call needs a group and a priority.
    #[must_use]
    pub fn priority(mut self, group: &FlowGroup, priority: f64) -> Self {
        self.group = Some((group.clone(), priority));
        self
    }

    /// Sets the effort of the encoder.
    #[must_use]
    pub fn preset(mut self, preset: Preset) -> Self {
        self.preset = preset;
        self
    }

    /// Codes each picture on up to `threads` threads, the one that runs its jobs among them. Pictures never depend on
    /// it. At most two threads are used, for 1,200 macroblocks (640x480) and more. An encoder of the application ignores
    /// this.
    ///
    /// By default, a [`Call`](crate::Call) uses the cores of the machine and a [`Peer`](crate::Peer) one thread.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// The same options on the cores of the machine, unless a number of threads is set.
    pub(crate) fn on_cores(self) -> Self {
        let cores = || available_parallelism().map_or(1, NonZero::get);
        Self { threads: Some(self.threads.unwrap_or_else(cores)), ..self }
    }

    /// Replaces Lockstep's controller by one of the application. It receives the estimate of Salsify's receiver: the
    /// mean interval between arriving packets.
    #[must_use]
    pub fn controller(
        mut self,
        make: impl Fn(&ControllerSetup) -> Box<dyn Controller> + Send + Sync + 'static,
    ) -> Self {
        self.controller = Some(Arc::new(make));
        self
    }

    /// The same options for pictures of another format.
    #[must_use]
    pub fn with_format(self, format: VideoFormat) -> Self {
        Self { format, ..self }
    }

    /// Format of the pictures.
    #[must_use]
    pub fn format(&self) -> VideoFormat {
        self.format
    }

    /// Options for several streams, which share one budget and one cap in proportion to these priorities. A single
    /// stream keeps these options.
    pub(crate) fn shared(&self, priorities: &[f64]) -> Vec<Self> {
        if priorities.len() < 2 {
            return priorities.iter().map(|_| self.clone()).collect();
        }
        let group = FlowGroup::new();
        let caps = self.max_bitrate.map(|cap| split(cap, priorities));
        let each = priorities.iter().enumerate().map(|(stream, &priority)| Self {
            max_bitrate: caps.as_ref().map(|caps| caps[stream]),
            ..self.clone().priority(&group, priority)
        });
        each.collect()
    }

    fn setup(&self, payload: usize) -> ControllerSetup {
        let setup = ControllerSetup::new(ByteCount::new(payload as u64), self.format.frame_interval());
        let most = self.max_bitrate.map_or(setup.bounds.max, |cap| cap.max(setup.bounds.min));
        let bounds = RateBounds { max: most, initial: setup.bounds.initial.min(most), ..setup.bounds };
        ControllerSetup { latency: self.latency, bounds, ..setup }
    }

    /// Creates the controller that these options choose.
    ///
    /// # Errors
    /// The default controller has no model in this build.
    pub(crate) fn make_controller(&self) -> Result<Box<dyn Controller>, LiveError> {
        let config = SenderConfig::new(0, announced(&self.format));
        let setup = self.setup(config.payload);
        let controller = match &self.controller {
            Some(make) => make(&setup),
            None => {
                Algorithm::default().controller(&setup).map_err(|error| LiveError::Controller(error.to_string()))?
            }
        };
        Ok(match &self.group {
            Some((group, priority)) => group.join(controller, &setup, *priority, setup.bounds.max),
            None => controller,
        })
    }

    fn transport(&self) -> SenderConfig {
        let connection = RandomState::new().build_hasher().finish() as u32;
        // Controllers of the application receive the estimate of Salsify's receiver.
        let kind = match &self.controller {
            Some(_) => Algorithm::Salsify(GracePeriod::None).estimator_kind(),
            None => Algorithm::default().estimator_kind(),
        };
        SenderConfig { estimator: kind.number(), ..SenderConfig::new(connection, announced(&self.format)) }
    }

    fn end_of<C: Codec>(&self, encoder: Box<dyn FrameEncoder<C>>) -> Result<SendingEnd<C>, LiveError> {
        let end = SendingEnd::new(self.transport(), self.make_controller()?, encoder, &Tuning::default());
        let mut end = end.with_preset(self.preset, self.latency);
        if let Some(cap) = self.max_bitrate {
            end.set_max_bitrate(Some(cap));
        }
        Ok(end)
    }

    /// Creates the sending end, for a [`Peer`](crate::Peer).
    ///
    /// # Errors
    /// The default controller has no model in this build.
    pub fn end(&self) -> Result<SendingEnd, LiveError> {
        let parameters = Parameters { frame_kind: FrameKind::Inter, ..Parameters::default() };
        let arena = Arena::with_threads(self.threads.unwrap_or(1));
        let encoder = FunctionalEncoder::<Vp8>::new(parameters, MenuMode::default(), &Tuning::default());
        self.end_of(Box::new(encoder.with_arena(arena)))
    }

    /// Creates the sending end with an encoder of the application, for a [`Peer`](crate::Peer)`<External>`. The other
    /// end requires the decoder with the same codec number.
    ///
    /// # Errors
    /// The default controller has no model in this build.
    pub fn external_end(
        &self,
        codec: CodecId,
        encoder: impl PictureEncoder + 'static,
    ) -> Result<SendingEnd<External>, LiveError> {
        self.end_of(Box::new(ExternalEncoder::new(codec, encoder)))
    }
}

/// Options of the receiving end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiveOptions {
    max_pixels: usize,
}

impl Default for ReceiveOptions {
    fn default() -> Self {
        Self { max_pixels: DEFAULT_PIXEL_LIMIT }
    }
}

impl ReceiveOptions {
    /// Sets the most pixels that a picture may have; the default admits 4K video. A call with larger pictures is
    /// refused.
    #[must_use]
    pub fn max_pixels(self, pixels: usize) -> Self {
        Self { max_pixels: pixels }
    }

    /// Creates the receiving end, for a [`Peer`](crate::Peer).
    #[must_use]
    pub fn end(self) -> ReceivingEnd {
        let end = ReceivingEnd::with_estimators(ReceiverConfig::default(), estimator);
        end.with_pixel_limit(self.max_pixels)
    }

    /// Creates the receiving end with a decoder of the application, for a [`Peer`](crate::Peer)`<External>`.
    #[must_use]
    pub fn external_end(self, codec: CodecId, decoder: impl PictureDecoder + 'static) -> ReceivingEnd<External> {
        let end = ReceivingEnd::with_estimators(ReceiverConfig::default(), estimator);
        end.decoding_with(codec, decoder).with_pixel_limit(self.max_pixels)
    }
}

/// The estimator with this number of the hello.
fn estimator(number: u16) -> Option<Box<dyn Estimator>> {
    EstimatorKind::from_number(number)?.with_model(RateBounds::default(), None).ok()
}
