//! Makes the links and the ends of a call from its settings.

use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use lockstep_av1::{Av1, Av1Parameters, EitherArena, OneOf, Vp8OrAv1};
use lockstep_call::{
    Codec, ConventionalEncoder, FrameEncoder, FunctionalEncoder, MenuMode, PictureCodec, ReceivingEnd, SalsifyEncoder,
    SendingEnd, announced,
};
use lockstep_control::recording::{Header, Recorded, Recorder};
use lockstep_control::{Algorithm, Controller, ControllerSetup, EstimatorKind, FlowGroup, KnownPath, RateBounds};
use lockstep_link::Link;
use lockstep_media::VideoFormat;
use lockstep_transport::wire::FRAGMENT_PAYLOAD;
use lockstep_transport::{FeedbackInterval, ReceiverConfig, SenderConfig};
use lockstep_units::ByteCount;
use lockstep_vp8::{Arena, FrameKind, Parameters};

use crate::{CodecKind, ControlSettings, LinkSettings, MaxBitrate, ModelFile, sender_model_hash};

impl LinkSettings {
    /// Forward and reverse link, for packets of any type.
    ///
    /// # Errors
    /// If the configuration of a link is invalid.
    pub fn links<P: Clone>(&self) -> Result<(Link<P>, Link<P>)> {
        let [forward, reverse] = self.configs().map(|(config, seed)| Link::new(config, seed).context("the link"));
        Ok((forward?, reverse?))
    }
}

impl ControlSettings {
    /// Setup of the controller for frames every `frame_interval`, in fragments of up to `payload` bytes.
    pub(crate) fn setup(
        &self,
        payload: ByteCount,
        frame_interval: Duration,
        path: Option<KnownPath>,
        bounds: RateBounds,
    ) -> ControllerSetup {
        let latency = self.controller.latency().unwrap_or_default();
        let most = match self.max_bitrate {
            MaxBitrate::At(rate) => rate.max(bounds.min),
            MaxBitrate::Auto | MaxBitrate::Unlimited => bounds.max,
        };
        let bounds = RateBounds { max: most, initial: bounds.initial.min(most), ..bounds };
        let model = self.model.as_ref().map(|model| Arc::clone(model.model()));
        let tuning = self.tuning.tuning().control;
        ControllerSetup { path, bounds, latency, model, tuning, ..ControllerSetup::new(payload, frame_interval) }
    }

    /// Algorithm with `max_bitrate` applied to a fixed rate.
    ///
    /// Other bounds do not apply to a fixed rate, because it serves as a reference.
    pub(crate) fn bounded_algorithm(&self) -> Algorithm {
        match (self.controller.algorithm(), self.max_bitrate) {
            (Algorithm::Fixed(rate), MaxBitrate::At(most)) => Algorithm::Fixed((*rate).min(most)),
            (algorithm, _) => algorithm.clone(),
        }
    }

    /// Controller of a sending end, simulated or live, with `setup`. A `recorder` records its inputs and answers.
    ///
    /// # Errors
    /// If the controller requires a known path and has none, or its recording would require one.
    pub(crate) fn controller(
        &self,
        setup: &ControllerSetup,
        recorder: Option<Box<dyn Recorder>>,
    ) -> Result<Box<dyn Controller>> {
        let algorithm = self.bounded_algorithm();
        let controller = algorithm.controller(setup)?;
        // A controller in another process may have failed to start.
        setup.failure.check().map_err(anyhow::Error::from_boxed)?;
        let Some(recorder) = recorder else { return Ok(controller) };
        let model = sender_model_hash(&algorithm, self.model.as_ref());
        let header = Header::new(algorithm, setup, model).context("its decisions cannot be recorded")?;
        Ok(Box::new(Recorded::new(controller, &header, recorder)))
    }

    /// Sending end for pictures of `format`, on a path that is known or not.
    ///
    /// # Errors
    /// If the controller must know the path.
    pub fn sending_end(
        &self,
        format: &VideoFormat,
        connection: u32,
        path: Option<KnownPath>,
    ) -> Result<SendingEnd<Vp8OrAv1>> {
        self.sending_end_within(format, connection, path, RateBounds::default())
    }

    /// The same end with other bounds for controllers that decide on a rate.
    ///
    /// # Errors
    /// As [`ControlSettings::sending_end`].
    pub fn sending_end_within(
        &self,
        format: &VideoFormat,
        connection: u32,
        path: Option<KnownPath>,
        bounds: RateBounds,
    ) -> Result<SendingEnd<Vp8OrAv1>> {
        let setup = self.setup_for(format, path, bounds);
        self.sending_end_of(format, connection, &setup, None, EitherArena::default())
    }

    /// Sending end of a live call; a `recorder` records the controller's inputs and answers.
    ///
    /// # Errors
    /// As [`ControlSettings::sending_end`], and for a program, because a live call cannot wait for its answers.
    pub fn recorded_sending_end(
        &self,
        format: &VideoFormat,
        connection: u32,
        recorder: Option<Box<dyn Recorder>>,
    ) -> Result<SendingEnd<Vp8OrAv1>> {
        self.sending_end_of(format, connection, &self.live_setup(format)?, recorder, self.live_arena())
    }

    /// The setup of a live call's controller. Refuses a program.
    fn live_setup(&self, format: &VideoFormat) -> Result<ControllerSetup> {
        if self.controller.program().is_some() {
            let controller = &self.controller;
            bail!("controller {controller}: programs decide in virtual time only; use it with `lockstep simulate`");
        }
        Ok(self.setup_for(format, None, RateBounds::default()))
    }

    /// Sending end of one of several streams of a live call, which share the budget of `group` by `priority`.
    ///
    /// # Errors
    /// As [`ControlSettings::recorded_sending_end`].
    pub fn stream_end(
        &self,
        format: &VideoFormat,
        connection: u32,
        group: &FlowGroup,
        priority: f64,
    ) -> Result<SendingEnd<Vp8OrAv1>> {
        let setup = self.live_setup(format)?;
        let controller = group.join(self.controller(&setup, None)?, &setup, priority, setup.bounds.max);
        let encoder = self.encoder(format.frame_interval(), self.live_arena())?;
        Ok(self.sending_end_with(encoder, controller, format, connection, self.live_feedback()))
    }

    pub(crate) fn sending_end_of(
        &self,
        format: &VideoFormat,
        connection: u32,
        setup: &ControllerSetup,
        recorder: Option<Box<dyn Recorder>>,
        arena: EitherArena,
    ) -> Result<SendingEnd<Vp8OrAv1>> {
        let encoder = self.encoder(format.frame_interval(), arena)?;
        let controller = self.controller(setup, recorder)?;
        Ok(self.sending_end_with(encoder, controller, format, connection, self.live_feedback()))
    }

    /// Parameters of the codec.
    fn parameters(&self) -> Result<OneOf<Parameters, Av1Parameters>> {
        Ok(match self.codec {
            // A key frame would discard scenes that may return, and this codec can start without one.
            CodecKind::Functional => OneOf::Vp8(Parameters { frame_kind: FrameKind::Inter, ..Parameters::default() }),
            CodecKind::Conventional => OneOf::Vp8(Parameters::default()),
            CodecKind::Av1 => {
                Av1::check_libraries().context("codec av1")?;
                OneOf::Av1(Av1Parameters::default())
            }
        })
    }

    /// Memory and threads of the encoder in a live call: all cores, unless the candidates of a menu use them.
    fn live_arena(&self) -> EitherArena {
        let cores = available_parallelism().map_or(1, NonZero::get);
        EitherArena::with_vp8(Arena::with_threads(if self.menu == MenuMode::Parallel { 1 } else { cores }))
    }

    /// Encoder of pictures that arrive every `frame_interval`. It works in `arena`, unless it is Salsify's as published.
    ///
    /// # Errors
    /// If the codec's library is missing.
    pub(crate) fn encoder(
        &self,
        frame_interval: Duration,
        arena: EitherArena,
    ) -> Result<Box<dyn FrameEncoder<Vp8OrAv1>>> {
        let parameters = self.parameters()?;
        Ok(match (self.codec, self.salsify_versions()) {
            (CodecKind::Conventional, _) => {
                Box::new(ConventionalEncoder::new(parameters, frame_interval).with_arena(arena))
            }
            (CodecKind::Functional, Some(versions)) => {
                Box::new(SalsifyEncoder::new(parameters, versions, frame_interval))
            }
            _ => Box::new(FunctionalEncoder::new(parameters, self.menu, &self.tuning.tuning()).with_arena(arena)),
        })
    }

    /// Setup of a sending end's controller.
    pub(crate) fn setup_for(
        &self,
        format: &VideoFormat,
        path: Option<KnownPath>,
        bounds: RateBounds,
    ) -> ControllerSetup {
        self.setup(ByteCount::new(FRAGMENT_PAYLOAD as u64), format.frame_interval(), path, bounds)
    }

    /// Sending end with the given encoder and controller, for a receiver that acknowledges at `feedback`.
    pub(crate) fn sending_end_with<C: Codec>(
        &self,
        encoder: Box<dyn FrameEncoder<C>>,
        controller: Box<dyn Controller>,
        format: &VideoFormat,
        connection: u32,
        feedback: FeedbackInterval,
    ) -> SendingEnd<C> {
        let mut transport = SenderConfig { feedback, ..SenderConfig::new(connection, announced(format)) };
        transport.payload = FRAGMENT_PAYLOAD;
        transport.estimator = self.controller.algorithm().estimator_kind().number();
        let tuning = self.tuning.tuning();
        let ceiling = self.max_bitrate.ceiling(format, &tuning.control.ceiling);
        let latency = self.controller.latency().unwrap_or_default();
        let end = SendingEnd::new(transport, controller, encoder, &tuning)
            .with_max_bitrate(ceiling)
            .with_preset(self.preset, latency);
        if self.salsify_versions().is_some() { end.as_published() } else { end }
    }

    /// Checks that both ends of a live call for pictures of `format` can be made, before any of it runs.
    ///
    /// # Errors
    /// If the controller requires a known path, or has no model.
    ///
    /// Also if it is a program, because a live call cannot wait for its answers.
    pub fn check_live(&self, format: &VideoFormat) -> Result<()> {
        self.recorded_sending_end(format, 0, None)?;
        let model = self.model.as_ref().map(|file| Arc::clone(file.model()));
        self.controller.algorithm().estimator_kind().with_model(RateBounds::default(), model)?;
        Ok(())
    }

    /// Receiving end with the estimator that the sender requests; learned ones use their default models.
    pub fn receiving_end<C: PictureCodec>() -> ReceivingEnd<C> {
        Self::receiving_end_with(None)
    }

    /// The same end with `model` instead of the default model of its estimator.
    ///
    /// A call is refused if its estimator has no model, or one that does not fit.
    pub fn receiving_end_with<C: PictureCodec>(model: Option<&ModelFile>) -> ReceivingEnd<C> {
        let given = model.map(|file| (EstimatorKind::of_model(file.model()).ok(), Arc::clone(file.model())));
        ReceivingEnd::with_estimators(ReceiverConfig::default(), move |number| {
            let kind = EstimatorKind::from_number(number)?;
            let model = given
                .as_ref()
                .filter(|(of, _)| of.is_some_and(|of| kind.runs_model_of(of)))
                .map(|(_, model)| Arc::clone(model));
            kind.with_model(RateBounds::default(), model).ok()
        })
    }
}
