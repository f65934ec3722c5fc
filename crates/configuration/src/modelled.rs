//! The same calls without pixels and bytes.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};

use lockstep_alphartc::EstimatorHost;
use lockstep_call::{
    CallObserver, CallReport, ClipCurves, CodecModel, DRAIN, FinishedCall, ModelledEncoder, VideoDelayFloor,
};
use lockstep_control::{KnownPath, RateBounds};
use lockstep_media::{SourceOptions, source_format};
use lockstep_sim::modelled::{FeedbackInterval, ModelledCall, ModelledCodec, ModelledSetting};
use lockstep_sim::{Network, SimulationError, StopReason};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use crate::estimator::CallEstimator;
use crate::{CodecArgument, FRAGMENT_PAYLOAD, SimulateArguments, Simulated, SimulationStatus, counters};

/// Virtual time between two reports of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);

impl From<CodecArgument> for ModelledCodec {
    fn from(codec: CodecArgument) -> Self {
        match codec {
            CodecArgument::Functional => Self::Functional,
            CodecArgument::Conventional => Self::Conventional,
        }
    }
}

/// Runs the call that `arguments` describes with a model in the place of the codec: the first clip of `model`, in the
/// size and at the frame rate of the clip of `arguments`. As the real transport does, the receiver reports every
/// fragment.
///
/// # Errors
/// If clip, trace or link cannot be had, or if the estimator fails.
pub fn simulate_modelled(arguments: &SimulateArguments, model: &CodecModel) -> Result<Simulated> {
    simulate_modelled_with(arguments, model, None, None, |_| Ok(()))
}

/// The same with the estimator that lives at `host`, if one is given, instead of that which `arguments` name; and heard by
/// `observer`. `progress` hears of the call every [`PROGRESS_INTERVAL`], and may end it.
///
/// # Errors
/// As [`simulate_modelled`]; if the estimator or `progress` fails, their error as [`SimulationError::Stopped`].
pub fn simulate_modelled_with(
    arguments: &SimulateArguments,
    model: &CodecModel,
    host: Option<Box<dyn EstimatorHost>>,
    observer: Option<Box<dyn CallObserver>>,
    progress: impl FnMut(&SimulationStatus) -> Result<(), StopReason>,
) -> Result<Simulated> {
    run(arguments, model, arguments.control.codec.into(), host, observer, progress)
}

/// The same with a source that always sends what the controller's target allows, instead of video. Its quality means
/// nothing.
///
/// # Errors
/// As [`simulate_modelled`].
pub fn simulate_full_throttle(arguments: &SimulateArguments) -> Result<Simulated> {
    run(arguments, &CodecModel::built_in()?, ModelledCodec::FullThrottle, None, None, |_| Ok(()))
}

fn run(
    arguments: &SimulateArguments,
    model: &CodecModel,
    codec: ModelledCodec,
    host: Option<Box<dyn EstimatorHost>>,
    observer: Option<Box<dyn CallObserver>>,
    mut progress: impl FnMut(&SimulationStatus) -> Result<(), StopReason>,
) -> Result<Simulated> {
    let (arguments, CallEstimator { estimator, failure }) = arguments.with_estimator(host)?;
    arguments.link.check_for(&arguments.control)?;
    let options = SourceOptions { seed: arguments.link.seed, ..SourceOptions::default() };
    let format = source_format(&arguments.clip, &options)?;
    let clip = model.clips.first().context("the codec model has no clip")?;
    let curves = Arc::new(ClipCurves::new(clip, format.width, format.height));
    let length = Duration::from_secs_f64(arguments.seconds);
    let end = Timestamp::ZERO + length + DRAIN;
    let setting = ModelledSetting {
        frame_interval: format.frame_interval(),
        payload: ByteCount::new(FRAGMENT_PAYLOAD as u64),
        encode_time: Duration::from_secs_f64(arguments.encode_ms / 1e3),
        decode_time: Duration::from_secs_f64(arguments.decode_ms / 1e3),
        codec,
        feedback: FeedbackInterval::EveryFragment,
        ceiling: arguments.control.max_bitrate.ceiling(&format),
        stop: end,
        length,
        recording: true,
        ..ModelledSetting::new()
    };
    let path = KnownPath { trace: arguments.link.forward_trace()?, start: Timestamp::ZERO };
    let control =
        arguments.control.setting(setting.payload, setting.frame_interval, Some(path), RateBounds::default())?;
    let algorithm = arguments.control.algorithm();
    let encoder = ModelledEncoder::new(curves, setting.frame_interval, arguments.link.seed);
    let (forward, reverse) = arguments.link.links()?;
    let first_job_time = setting.encode_time.mul_f64(codec.first_job_share());
    let floor =
        VideoDelayFloor::new(forward.config(), Timestamp::ZERO).with_coding(first_job_time, setting.decode_time);
    let call = ModelledCall::new(&setting, algorithm.controller(&control)?, estimator, encoder);
    let mut call = call.compared_with(floor);
    if let Some(observer) = observer {
        call = call.observed_by(observer);
    }
    let mut network = Network::new(vec![call], forward, reverse);
    while network.now() < end {
        network.run_until(end.min(network.now() + PROGRESS_INTERVAL));
        let now = network.now();
        let target = network.flows().first().map_or(Bitrate::ZERO, |call| call.allowance(now).target);
        let go_on = failure.check().and_then(|()| progress(&SimulationStatus { now, target, quantizer: None }));
        go_on.map_err(SimulationError::Stopped)?;
    }

    let (mut calls, links) = network.into_parts();
    let call = calls.pop().context("the call is gone")?;
    let capacity = |from, to| links.first().map_or(ByteCount::ZERO, |link| link.capacity_between(from, to));
    let FinishedCall { mut scores, series, .. } = call.finish(capacity).context("the call kept no log")?;
    if arguments.vmaf {
        scores = scores.with_vmaf(Err("a modelled call has no pictures".to_owned()));
    }
    let statistics = |link: usize| links.get(link).map_or_else(Default::default, |link| counters(link.statistics()));
    let report = CallReport {
        lockstep: env!("CARGO_PKG_VERSION").to_owned(),
        kind: "modelled".to_owned(),
        seed: arguments.link.seed,
        config: arguments,
        scores,
        counters: [("link".to_owned(), statistics(0)), ("reverse_link".to_owned(), statistics(1))].into(),
        series,
    };
    Ok(Simulated { report })
}
