//! The same calls without pixels and bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};

use lockstep_alphartc::EstimatorHost;
use lockstep_call::{
    CallObserver, CallReport, ClipCurves, CodecModel, DRAIN, FinishedCall, ModelledClip, VideoDelayFloor,
};
use lockstep_control::{Controller, Gcc, GccSettings, KnownPath, RateBounds};
use lockstep_media::{SourceOptions, source_format};
use lockstep_sim::modelled::{FeedbackInterval, ModelledCodec, ModelledSetting};
use lockstep_sim::{Activity, Network, SimulationError, StopReason};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use crate::ends::FRAGMENT_PAYLOAD;
use crate::estimator::CallEstimator;
use crate::{CallSettings, CodecKind, ControlSettings, Simulated, SimulationStatus, counters};

/// Virtual time between two reports of progress.
pub const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);

impl ControlSettings {
    /// What the model stands in for.
    pub(crate) fn modelled_codec(&self) -> ModelledCodec {
        match self.codec {
            CodecKind::Functional => ModelledCodec::Functional(self.menu),
            CodecKind::Conventional => ModelledCodec::Conventional,
        }
    }
}

/// Runs the call that `settings` describe with a model in the place of the codec: the first clip of `model`, in the
/// size and at the frame rate of the clip of `settings`. As the real transport does, the receiver reports every
/// fragment.
///
/// # Errors
/// If clip, trace or link cannot be had, or if the estimator fails.
pub fn simulate_modelled(settings: &CallSettings, model: &CodecModel) -> Result<Simulated> {
    simulate_modelled_with(settings, model, None, None, |_| Ok(()))
}

/// The same with the estimator that lives at `host`, if one is given, instead of that which `settings` name; and heard by
/// `observer`. `progress` hears of the call every [`PROGRESS_INTERVAL`], and may end it.
///
/// # Errors
/// As [`simulate_modelled`]; if the estimator or `progress` fails, their error as [`SimulationError::Stopped`].
pub fn simulate_modelled_with(
    settings: &CallSettings,
    model: &CodecModel,
    host: Option<Box<dyn EstimatorHost>>,
    observer: Option<Box<dyn CallObserver>>,
    progress: impl FnMut(&SimulationStatus) -> Result<(), StopReason>,
) -> Result<Simulated> {
    let codec = settings.control.modelled_codec();
    let machine = Machine { codec, feedback: FeedbackInterval::EveryFragment, gcc: None };
    run(settings, model, machine, host, observer, progress)
}

/// A call of a study under Google Congestion Control: what sends, which parts of the control are at work, and how often
/// the receiver reports.
#[derive(Debug, Clone, Copy)]
pub struct GccCall {
    /// What sends.
    pub source: ModelledCodec,
    /// The parts of the control.
    pub gcc: GccSettings,
    /// How often the receiver reports.
    pub feedback: FeedbackInterval,
}

/// Such a call, otherwise as `settings` describe it; and how often GCC's estimate from delays had been brought up to date
/// ([`Gcc::counting_delay_samples`]) at the end of every [`PROGRESS_INTERVAL`].
///
/// # Errors
/// As [`simulate_modelled`].
pub fn simulate_gcc(settings: &CallSettings, call: &GccCall) -> Result<(Simulated, Vec<u64>)> {
    let samples = Arc::new(AtomicU64::new(0));
    let mut counts = Vec::new();
    let machine = Machine { codec: call.source, feedback: call.feedback, gcc: Some((call.gcc, Arc::clone(&samples))) };
    let simulated = run(settings, &CodecModel::built_in()?, machine, None, None, |_| {
        counts.push(samples.load(Ordering::Relaxed));
        Ok(())
    })?;
    Ok((simulated, counts))
}

/// What a call is made of, beyond what its settings say.
struct Machine {
    codec: ModelledCodec,
    feedback: FeedbackInterval,
    /// In the place of the controller that the settings name.
    gcc: Option<(GccSettings, Arc<AtomicU64>)>,
}

fn run(
    settings: &CallSettings,
    model: &CodecModel,
    Machine { codec, feedback, gcc }: Machine,
    host: Option<Box<dyn EstimatorHost>>,
    observer: Option<Box<dyn CallObserver>>,
    mut progress: impl FnMut(&SimulationStatus) -> Result<(), StopReason>,
) -> Result<Simulated> {
    let (settings, CallEstimator { estimator, failure }) = settings.with_estimator(host)?;
    let options = SourceOptions { seed: settings.link.seed, ..SourceOptions::default() };
    let format = source_format(settings.clip.as_str(), &options)?;
    let clip = model.drawn(settings.link.seed);
    let curves = Arc::new(ClipCurves::new(clip, format.width, format.height));
    let length = settings.length.get();
    let end = Timestamp::ZERO + length + DRAIN;
    let (job_times, coding_times) = settings.job_times(format.width * format.height);
    let setting = ModelledSetting {
        frame_rate: format.frame_rate,
        payload: ByteCount::new(FRAGMENT_PAYLOAD as u64),
        job_times,
        decode_time: settings.decode_time.get(),
        codec,
        feedback,
        ceiling: settings.control.max_bitrate.ceiling(&format),
        activity: Activity::between(Timestamp::ZERO, end),
        length,
    };
    let path = KnownPath { trace: settings.link.trace.trace().clone(), start: Timestamp::ZERO };
    let interval = setting.frame_interval();
    let control = settings.control.setting(setting.payload, interval, Some(path), RateBounds::default());
    let algorithm = settings.control.controller.algorithm();
    let clip = ModelledClip::new(curves, interval, settings.link.seed);
    let (forward, reverse) = settings.link.links()?;
    let first_job_time = job_times.of(codec.first_work());
    let floor =
        VideoDelayFloor::new(forward.config(), Timestamp::ZERO).with_coding(first_job_time, setting.decode_time);
    let controller: Box<dyn Controller> = match gcc {
        Some((gcc, samples)) => Box::new(Gcc::with(&control, gcc).counting_delay_samples(samples)),
        None => algorithm.controller(&control)?,
    };
    let mut call = setting.call(controller, estimator, clip);
    call.compare_with(floor);
    if let Some(observer) = observer {
        call.observe(observer);
    }
    let mut network = Network::new(vec![call], forward, reverse);
    while network.now() < end {
        network.run_until(end.min(network.now() + PROGRESS_INTERVAL));
        let now = network.now();
        let status = network.flows().first().map(|call| call.sender().status(now));
        let target = status.map_or(Bitrate::ZERO, |status| status.target);
        let quantizer = status.and_then(|status| status.quantizer);
        let go_on = failure.check().and_then(|()| progress(&SimulationStatus { now, target, quantizer }));
        go_on.map_err(SimulationError::Stopped)?;
    }

    let (mut calls, links) = network.into_parts();
    let call = calls.pop().context("the call is gone")?;
    let capacity = |from, to| links.first().map_or(ByteCount::ZERO, |link| link.capacity_between(from, to));
    let FinishedCall { mut scores, series, .. } = call.finish(capacity)?.call;
    if settings.vmaf {
        scores = scores.with_vmaf(Err("a modelled call has no pictures".to_owned()));
    }
    let statistics = |link: usize| links.get(link).map_or_else(Default::default, |link| counters(link.statistics()));
    let report = CallReport {
        coding_times: Some(coding_times),
        lockstep: env!("CARGO_PKG_VERSION").to_owned(),
        kind: "modelled".to_owned(),
        seed: settings.link.seed,
        config: settings,
        scores,
        counters: [("link".to_owned(), statistics(0)), ("reverse_link".to_owned(), statistics(1))].into(),
        series,
    };
    Ok(Simulated { report })
}
