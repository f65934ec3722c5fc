//! Modelled calls: simulated calls without pixels and bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};

use lockstep_control::{Controller, ControllerSetup, Gcc, GccSettings};
use lockstep_hosted::EstimatorHost;
use lockstep_media::{VideoFormat, source_format};
use lockstep_sim::modelled::{ModelledCodec, ModelledSource};
use lockstep_sim::{BoundedCall, ClipCurves, CodecModel, Modelled, ModelledClip, QoeBound, StopReason, modelled_sound};
use lockstep_transport::FeedbackInterval;
use lockstep_transport::wire::FRAGMENT_PAYLOAD;
use lockstep_units::{ByteCount, Timestamp};

use crate::run::{Coding, Progress, run};
use crate::{CallSettings, CodecKind, ControlSettings, Observers, Simulated, SimulationStatus, SoundName};

/// Virtual time between two counts of [`simulate_gcc`].
pub const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);

impl ControlSettings {
    /// Kind of codec that the model replaces.
    ///
    /// # Errors
    /// If the codec has no model.
    pub(crate) fn modelled_codec(&self) -> Result<ModelledCodec> {
        if let Some(versions) = self.salsify_versions() {
            return Ok(ModelledCodec::Salsify(versions));
        }
        Ok(match self.codec {
            CodecKind::Functional => ModelledCodec::Functional(self.menu),
            CodecKind::Conventional => ModelledCodec::Conventional,
            CodecKind::Av1 => bail!("codec av1: it has no model; simulate the call with pixels"),
        })
    }
}

impl CallSettings {
    /// Modelled clip, and the format of its pictures.
    fn modelled_clip(&self, model: &CodecModel) -> Result<(VideoFormat, ModelledClip)> {
        let format = source_format(self.clip.as_str(), &self.source_options())?;
        let seed = self.link.seed;
        let curves = Arc::new(ClipCurves::new(model.drawn(seed), format.width, format.height));
        Ok((format, ModelledClip::new(curves, format.frame_interval(), seed)))
    }

    /// Upper bound on QoE_d of the modelled call with any controller; `None` without pictures.
    ///
    /// # Errors
    /// If the clip or the trace cannot be opened, or the link is invalid.
    pub fn qoe_bound(&self, model: &CodecModel) -> Result<Option<QoeBound>> {
        let (format, clip) = self.modelled_clip(model)?;
        let codec = self.control.modelled_codec()?;
        let (link, _) = self.link.links::<()>()?;
        let (job_times, _) = self.job_times(format.width * format.height);
        let call = BoundedCall {
            link: link.config().clone(),
            clip,
            frame_rate: format.frame_rate,
            length: self.length.get(),
            payload: ByteCount::new(FRAGMENT_PAYLOAD as u64),
            encode_time: job_times.of(codec.first_work(), self.control.preset.first_level()),
            decode_time: self.decode_time.get(),
            finest: codec.finest_quantizer(),
            // With sound, a newer picture may replace one that waits for its sound.
            shows_all: self.audio.is_none(),
        };
        Ok(call.bound())
    }

    /// Coding of the clip of `model` that the seed selects, in the size and frame rate of these settings' clip.
    pub(crate) fn modelled_coding(&self, model: &CodecModel, codec: ModelledCodec) -> Result<Coding<Modelled>> {
        let (format, clip) = self.modelled_clip(model)?;
        let encoder = codec.encoder(Arc::clone(clip.curves()), format.frame_interval(), &self.control.tuning.tuning());
        let source = Box::new(ModelledSource::new(clip, format.frame_rate));
        let feedback = self.feedback();
        self.audio.as_ref().map_or(Ok(()), SoundName::check)?;
        let sound = self.audio.as_ref().map(|_| modelled_sound(self.link.seed, self.lip_sync()));
        Ok(Coding { source, encoder, first_work: codec.first_work(), controller: None, feedback, sound })
    }
}

/// Runs the call of `settings` with a codec model: the clip of `model` that the seed selects, in the size and frame
/// rate of the settings' clip.
///
/// # Errors
/// If the clip or the trace cannot be opened, the link is invalid, or the estimator fails.
pub fn simulate_modelled(settings: &CallSettings, model: &CodecModel) -> Result<Simulated> {
    simulate_modelled_with(settings, model, None, Observers::default(), |_| Ok(()))
}

/// Runs the same call with the estimator of `host`, if given, instead of that of `settings`.
///
/// `observers` observe it, except for its sound. `progress` is called twice per second of virtual time, and may end the
/// call.
///
/// # Errors
/// As [`simulate_modelled`]; if the estimator or `progress` fails, their error as [`SimulationError::Stopped`](lockstep_sim::SimulationError).
pub fn simulate_modelled_with(
    settings: &CallSettings,
    model: &CodecModel,
    host: Option<Box<dyn EstimatorHost>>,
    observers: Observers,
    mut progress: impl FnMut(&SimulationStatus) -> Result<(), StopReason>,
) -> Result<Simulated> {
    simulate_modelled_reporting(settings, model, host, observers, &mut progress)
}

pub(crate) fn simulate_modelled_reporting(
    settings: &CallSettings,
    model: &CodecModel,
    host: Option<Box<dyn EstimatorHost>>,
    observers: Observers,
    progress: &mut Progress<'_>,
) -> Result<Simulated> {
    let codec = settings.control.modelled_codec()?;
    let mut coding = |settings: &CallSettings| settings.modelled_coding(model, codec);
    let mut simulated = run(settings, &mut coding, host, observers, progress)?;
    if settings.bound {
        let bound = settings.qoe_bound(model)?;
        simulated.report.scores.qoe_d_bound = bound.map(|bound| bound.qoe_d);
        simulated.report.scores.qoe_d_schedule = bound.and_then(|bound| bound.schedule);
    }
    Ok(simulated)
}

/// Call of a study of Google Congestion Control: the codec, the active parts of the control, and the feedback interval.
#[derive(Debug, Clone, Copy)]
pub struct GccCall {
    /// Codec of the sender.
    pub source: ModelledCodec,
    /// Active parts of the control.
    pub gcc: GccSettings,
    /// Interval of acknowledgements.
    pub feedback: FeedbackInterval,
}

/// Runs the call of `settings` with those of `call`, and counts updates of GCC's delay-based estimate.
///
/// The counts ([`Gcc::counting_delay_samples`]) are those at the end of every [`PROGRESS_INTERVAL`].
///
/// # Errors
/// As [`simulate_modelled`].
pub fn simulate_gcc(settings: &CallSettings, call: &GccCall) -> Result<(Simulated, Vec<u64>)> {
    let model = CodecModel::built_in()?;
    let samples = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&samples);
    let mut coding = |settings: &CallSettings| {
        let gcc = call.gcc;
        let counted = Arc::clone(&counted);
        let controller = move |setup: &ControllerSetup| -> Box<dyn Controller> {
            Box::new(Gcc::with(setup, gcc).counting_delay_samples(counted))
        };
        let video = settings.modelled_coding(&model, call.source)?;
        Ok(Coding { controller: Some(Box::new(controller)), feedback: call.feedback, ..video })
    };
    let mut counts = Vec::new();
    let mut next = Timestamp::ZERO + PROGRESS_INTERVAL;
    let mut progress = |status: &SimulationStatus| {
        while status.now >= next {
            counts.push(samples.load(Ordering::Relaxed));
            next += PROGRESS_INTERVAL;
        }
        Ok(())
    };
    let simulated = run(settings, &mut coding, None, Observers::default(), &mut progress)?;
    Ok((simulated, counts))
}
