//! Runs a call in virtual time, and builds its report.

use anyhow::{Result, bail};
use std::collections::BTreeMap;

use lockstep_av1::{EitherArena, Vp8OrAv1};
use lockstep_call::{
    CallSound, Codec, EncodeWork, FrameEncoder, PictureCodec, ReceivingEnd, SendingEnd, SoundPlayer, Voice,
};
use lockstep_control::recording::Recorder;
use lockstep_control::{Controller, ControllerSetup, Failure, KnownPath, Latency, RateBounds};
use lockstep_hosted::EstimatorHost;
use lockstep_measure::{CallReport, FrameObserver, SharedSessionMeter, VideoDelayFloor};
use lockstep_media::{Source, SourceOptions, VideoFormat, VmafMeter, open_source};
use lockstep_sim::{CallPacket, SharedLink, Simulation, SimulationError, SimulationOptions, StopReason, known_path};
use lockstep_sound::{SoundDecoder, SoundSink};
use lockstep_transport::{FeedbackInterval, ReceiverConfig};
use lockstep_units::{Bitrate, Timestamp};
use lockstep_vp8::DEFAULT_PIXEL_LIMIT;

use crate::estimator::CallEstimator;
use crate::options::CodecKind;
use crate::{CallSettings, counters};

/// Status of a running simulation.
#[derive(Debug, Clone, Copy)]
pub struct SimulationStatus {
    /// Virtual time.
    pub now: Timestamp,
    /// The controller's target.
    pub target: Bitrate,
    /// Quantizer index of the newest frame.
    pub quantizer: Option<u8>,
}

/// A finished simulation.
#[derive(Debug)]
pub struct Simulated {
    /// Scores, counters and series.
    pub report: CallReport<CallSettings>,
}

/// Observers of a running call.
#[derive(Default)]
pub struct Observers {
    /// Observer of frames.
    pub frames: Option<Box<dyn FrameObserver>>,
    /// Sink of its sound; a modelled call has no samples.
    pub sound: Option<Box<dyn SoundSink>>,
    /// Session meter, from [`Timestamp::ZERO`] on; of a two-way call, that of the first direction.
    pub session: Option<SharedSessionMeter>,
    /// Session meter of the opposite direction, if the call has one.
    pub opposite_session: Option<SharedSessionMeter>,
    /// Recorder of the controller's inputs and answers; of a two-way call, those of the first direction.
    pub decisions: Option<Box<dyn Recorder>>,
}

impl Observers {
    /// Observers that only contain one of frames.
    #[must_use]
    pub fn of_frames(observer: Box<dyn FrameObserver>) -> Self {
        Self { frames: Some(observer), ..Self::default() }
    }
}

/// Parts of a call that depend on its codec.
pub(crate) struct Coding<C: Codec> {
    /// Video source.
    pub source: Box<dyn Source<C::Picture>>,
    /// Encoder.
    pub encoder: Box<dyn FrameEncoder<C>>,
    /// Work of the encoder until it has a frame to send.
    pub first_work: EncodeWork,
    /// Factory of another controller than that of the settings.
    pub controller: Option<Box<MakeController>>,
    /// Interval of acknowledgements.
    pub feedback: FeedbackInterval,
    /// Sound, if any.
    pub sound: Option<CallSound<C::Payload>>,
}

type MakeController = dyn FnOnce(&ControllerSetup) -> Box<dyn Controller>;

/// Factory of the codings of calls.
///
/// Factories and progress are trait objects, so that calls are compiled once for each codec, and in this crate.
pub(crate) type MakeCoding<'a, C> = dyn FnMut(&CallSettings) -> Result<Coding<C>> + 'a;

/// Receives the status of a running simulation, and may end it.
pub(crate) type Progress<'a> = dyn FnMut(&SimulationStatus) -> Result<(), StopReason> + 'a;

impl CallSettings {
    /// Options of the video source.
    pub(crate) fn source_options(&self) -> SourceOptions {
        SourceOptions { seed: self.link.seed, ..SourceOptions::default() }
    }

    /// Interval of acknowledgements.
    pub(crate) fn feedback(&self) -> FeedbackInterval {
        FeedbackInterval::aggregated(self.feedback.get())
    }

    /// Whether pictures and sound wait for each other; not with low latency.
    pub(crate) fn lip_sync(&self) -> bool {
        self.control.controller.latency() != Some(Latency::Low)
    }

    /// Sound that plays into `sink`, if these settings have any.
    pub(crate) fn sound(&self, sink: Option<Box<dyn SoundSink>>) -> Result<Option<CallSound<Vec<u8>>>> {
        let Some(name) = &self.audio else { return Ok(None) };
        let playback = Box::new(SoundPlayer::new(SoundDecoder::new()?, sink));
        let lip_sync = self.lip_sync();
        Ok(Some(CallSound { voice: Box::new(Voice::new(name.open()?)?), playback, lip_sync }))
    }

    /// Coding with pixels and the codec of these settings; the sound plays into `sink`.
    pub(crate) fn coding(&self, sink: Option<Box<dyn SoundSink>>) -> Result<Coding<Vp8OrAv1>> {
        if self.control.codec == CodecKind::Av1 && !self.encode_time.model.has_av1() {
            bail!("codec av1: the encode times contain none of AV1; `lockstep bench encode-time` measures them");
        }
        self.coding_by(
            |format| self.control.encoder(format.frame_interval(), EitherArena::default()),
            self.control.first_work(),
            sink,
        )
    }

    /// Coding with pixels and the encoder that `encoder` makes for their format; the sound plays into `sink`.
    pub(crate) fn coding_by<C: PictureCodec>(
        &self,
        encoder: impl FnOnce(&VideoFormat) -> Result<Box<dyn FrameEncoder<C>>>,
        first_work: EncodeWork,
        sink: Option<Box<dyn SoundSink>>,
    ) -> Result<Coding<C>> {
        let source = open_source(self.clip.as_str(), &self.source_options())?;
        let encoder = encoder(&source.format())?;
        let feedback = self.feedback();
        Ok(Coding { source, encoder, first_work, controller: None, feedback, sound: self.sound(sink)? })
    }
}

/// Ends, video source and sound of one of several calls.
pub(crate) struct CallParts<C: Codec> {
    pub sender: SendingEnd<C>,
    pub receiver: ReceivingEnd<C>,
    pub source: Box<dyn Source<C::Picture>>,
    pub first_work: EncodeWork,
    pub sound: Option<CallSound<C::Payload>>,
}

/// Counters of both ends of a call with pixels and those of its controller, by name.
pub(crate) fn end_counters<C: Codec>(
    sender: &SendingEnd<C>,
    receiver: &ReceivingEnd<C>,
) -> impl Iterator<Item = (String, BTreeMap<String, u64>)> + use<C> {
    let ends = C::HAS_PIXELS.then(|| {
        [
            ("sender", counters(&sender.statistics())),
            ("receiver", counters(&receiver.statistics())),
            ("decoder", counters(&receiver.counts())),
        ]
    });
    let decisions: BTreeMap<String, u64> =
        sender.controller_counters().into_iter().map(|(name, count)| (name.to_owned(), count)).collect();
    let decisions = (!decisions.is_empty()).then_some(("controller", decisions));
    let counted = ends.into_iter().flatten().chain(decisions);
    counted.map(|(name, counts)| (name.to_owned(), counts))
}

/// Kind of a simulated call in reports.
pub(crate) fn kind<C: Codec>() -> String {
    if C::HAS_PIXELS { "simulate" } else { "modelled" }.to_owned()
}

impl SimulationStatus {
    /// Status of the sending end `sender`.
    pub(crate) fn of<C: Codec>(now: Timestamp, sender: &SendingEnd<C>) -> Self {
        let status = sender.status(now);
        Self { now, target: status.target, quantizer: status.quantizer }
    }
}

impl CallSettings {
    /// Factory of the call's controller: `other`, or that of the settings, recorded by `recorder`.
    fn controller(
        &self,
        other: Option<Box<MakeController>>,
        recorder: Option<Box<dyn Recorder>>,
    ) -> impl FnOnce(&ControllerSetup) -> Result<Box<dyn Controller>> {
        move |setup| match other {
            Some(make) => Ok(make(setup)),
            None => self.control.controller(setup, recorder),
        }
    }

    /// Both ends of a call over `path`.
    fn ends<C: Codec>(
        &self,
        encoder: Box<dyn FrameEncoder<C>>,
        controller: impl FnOnce(&ControllerSetup) -> Result<Box<dyn Controller>>,
        format: &VideoFormat,
        path: Option<KnownPath>,
        CallEstimator { estimator, failure }: CallEstimator,
        feedback: FeedbackInterval,
    ) -> Result<(SendingEnd<C>, ReceivingEnd<C>)> {
        let control = &self.control;
        let setup = control.setup_for(format, path, RateBounds::default());
        let setup = ControllerSetup { seed: self.link.seed, failure, ..setup };
        let sender = control.sending_end_with(encoder, controller(&setup)?, format, self.link.seed as u32, feedback);
        // Both ends belong to this process, so a clip of any size is decoded.
        let limit = DEFAULT_PIXEL_LIMIT.max(format.width * format.height);
        let receiver = ReceivingEnd::new(ReceiverConfig { feedback, ..ReceiverConfig::default() }, estimator);
        Ok((sender, receiver.with_pixel_limit(limit)))
    }

    /// One of several calls, over `path` if its controller may know it.
    pub(crate) fn call_parts<C: Codec>(
        &self,
        coding: &mut MakeCoding<'_, C>,
        path: Option<KnownPath>,
        failure: &Failure,
    ) -> Result<CallParts<C>> {
        let (settings, estimator) = self.with_estimator(None)?;
        let estimator = CallEstimator { failure: failure.clone(), ..estimator };
        let Coding { source, encoder, first_work, controller, feedback, sound } = coding(&settings)?;
        let controller = settings.controller(controller, None);
        let (sender, receiver) = settings.ends(encoder, controller, &source.format(), path, estimator, feedback)?;
        Ok(CallParts { sender, receiver, source, first_work, sound })
    }

    /// Call of these settings with another seed, whose pictures go over `reverse`.
    fn opposite<C: Codec>(
        &self,
        coding: &mut MakeCoding<'_, C>,
        reverse: &SharedLink<CallPacket<C::Packet>>,
        failure: &Failure,
    ) -> Result<CallParts<C>> {
        let mut settings = self.clone();
        settings.link.seed = settings.link.seed.wrapping_add(1);
        settings.call_parts(coding, Some(known_path(reverse.config(), Timestamp::ZERO)), failure)
    }
}

/// Runs a call in virtual time with the codec of `coding`.
pub(crate) fn run<C: Codec>(
    settings: &CallSettings,
    coding: &mut MakeCoding<'_, C>,
    host: Option<Box<dyn EstimatorHost>>,
    observers: Observers,
    progress: &mut Progress<'_>,
) -> Result<Simulated> {
    let (settings, estimator) = settings.with_estimator(host)?;
    let failure = estimator.failure.clone();
    let seed = settings.link.seed;
    let Coding { source, encoder, first_work, controller, feedback, sound } = coding(&settings)?;
    let (forward, reverse) = settings.link.links()?;
    let format = source.format();
    let (job_times, coding_times) = settings.job_times(format.width * format.height);
    let options =
        SimulationOptions { length: settings.length.get(), job_times, decode_time: settings.decode_time.get() };
    let floor = VideoDelayFloor::new(forward.config(), Timestamp::ZERO)
        .with_coding(job_times.of(first_work, settings.control.preset.first_level()), options.decode_time);
    let path = known_path(forward.config(), Timestamp::ZERO);
    let opposite = settings.two_way.then(|| settings.opposite(coding, &reverse, &failure)).transpose()?;
    let Observers { frames, session, opposite_session, decisions, .. } = observers;
    let controller = settings.controller(controller, decisions);
    let (sender, receiver) = settings.ends(encoder, controller, &format, Some(path), estimator, feedback)?;
    let mut simulation = Simulation::new(sender, receiver, source, forward, reverse, &options).compared_with(floor);
    let observers: Vec<Box<dyn FrameObserver>> =
        frames.into_iter().chain(session.clone().map(|meter| Box::new(meter) as Box<dyn FrameObserver>)).collect();
    if !observers.is_empty() {
        simulation = simulation.observed_by(Box::new(observers));
    }
    if let Some(meter) = &session {
        simulation = simulation.metered_by(meter.clone());
    }
    if let Some(sound) = sound {
        simulation = simulation.with_sound(sound);
    }
    if let Some(CallParts { sender, receiver, source, sound, .. }) = opposite {
        simulation = simulation.with_opposite(sender, receiver, source, sound);
        if let Some(meter) = opposite_session {
            simulation = simulation.metered_backwards_by(meter);
        }
    }
    if settings.vmaf && C::HAS_PIXELS {
        simulation = simulation.measuring_vmaf(VmafMeter::start(format));
    }
    let result = simulation.run(|now, sender| {
        failure.check()?;
        progress(&SimulationStatus::of(now, sender))
    })?;
    failure.check().map_err(SimulationError::Stopped)?;
    if let Some(meter) = &session {
        meter.lock().carried(&result.series);
    }
    let scores = if settings.vmaf && !C::HAS_PIXELS {
        result.scores.with_vmaf(Err("a modelled call has no pictures".to_owned()))
    } else {
        result.scores
    };
    let links = [("link", counters(&result.forward)), ("reverse_link", counters(&result.reverse))];
    let links = links.map(|(name, counts)| (name.to_owned(), counts));
    let report = CallReport {
        coding_times: Some(coding_times),
        lockstep: env!("CARGO_PKG_VERSION").to_owned(),
        kind: kind::<C>(),
        seed,
        config: settings,
        scores,
        sound: result.sound,
        opposite: result.opposite,
        counters: links.into_iter().chain(end_counters(&result.sender, &result.receiver)).collect(),
        series: result.series,
    };
    Ok(Simulated { report })
}
