//! The calls of a scenario, in the words of the command line.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;

use lockstep_call::{ClipCurves, ClipModel, CodecModel, EncodeTime, ModelledClip};
use lockstep_control::{KnownPath, RateBounds};
use lockstep_media::{FrameRate, SourceOptions, VideoFormat, open_source};
use lockstep_sim::modelled::{FeedbackInterval, ModelledSetting};
use lockstep_sim::scenario::{Scenario, ScenarioReport};
use lockstep_sim::{Activity, AnyFlow, CallFlow, CallSetting};
use lockstep_units::{ByteCount, Timestamp};

use crate::ends::FRAGMENT_PAYLOAD;
use crate::{ControlSettings, ControlWords, QueueKind, Seconds, value_of};

/// Size of the pictures that a modelled codec has; they come at the rate of [`ModelledSetting`].
const MODELLED_SIZE: (usize, usize) = (640, 360);
/// Virtual time that decoding a picture takes.
const DECODE_TIME: Duration = Duration::from_millis(3);

/// What a run of a scenario is told.
#[derive(Debug, Clone, Args, Serialize)]
pub struct ScenarioArguments {
    #[command(flatten)]
    #[serde(flatten)]
    pub control: ControlWords,
    /// Code real pictures: of this clip, such as `generated:640x360`, one seed for each call. Without it the codec is a
    /// model, which is a thousand times faster.
    #[arg(long)]
    pub clip: Option<String>,
    /// How the queues of the scenario's links drop packets.
    #[arg(long, value_parser = value_of::<QueueKind>(), default_value = "droptail")]
    pub queue: QueueKind,
    /// Run only so many seconds of it.
    #[arg(long, value_parser = value_of::<Seconds>())]
    pub seconds: Option<Seconds>,
    /// Seed of everything random in the run.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// Runs `scenario` as `arguments` say. `progress` hears of the virtual time and how long the run is.
///
/// # Errors
/// If the scenario cannot be run, the clip cannot be had, or the controller cannot be made.
pub fn run_scenario(
    scenario: Scenario,
    arguments: &ScenarioArguments,
    model: &CodecModel,
    mut progress: impl FnMut(Timestamp, Duration),
) -> Result<ScenarioReport> {
    let scenario = match arguments.seconds {
        Some(seconds) => scenario.shortened(seconds.get()),
        None => scenario,
    };
    let scenario = scenario.with_queues(|queue| arguments.queue.over(queue));
    let length = scenario.duration();
    let media = media_flows(&scenario, arguments, model)?;
    Ok(scenario.run(media, arguments.seed, |now| progress(now, length))?)
}

/// The calls of `scenario`, in its order.
fn media_flows(scenario: &Scenario, arguments: &ScenarioArguments, model: &CodecModel) -> Result<Vec<AnyFlow>> {
    let rates = scenario.media;
    let bounds = RateBounds { initial: rates.initial_bps, least: rates.least_bps, most: rates.most_bps };
    // What a path will carry is known to one that has it alone.
    let path = match (&scenario.flows[..], &scenario.links[..]) {
        ([flow], links) if flow.forward.len() == 1 => {
            let link = flow.forward.first().and_then(|&link| links.get(link));
            link.map(|link| KnownPath { trace: link.config.trace.clone(), start: Timestamp::ZERO })
        }
        _ => None,
    };
    let media = scenario.media_flows().zip(1u64..);
    let control = arguments.control.settings()?;
    // All calls show the same clip, each from elsewhere on, since their shares are compared: the first one, which needs more
    // bits than the links have, as RFC 8867's source (section 4.3) sends at whatever rate it is told.
    let clip = model.clips.first().context("the codec model has no clip")?;
    let calls = media.map(|((_, activity), number)| {
        let seed = arguments.seed.wrapping_mul(1_000_003).wrapping_add(number);
        match &arguments.clip {
            Some(named) => real_call(named, &control, activity, bounds, path.clone(), seed),
            None => modelled_call(clip, &control, &activity, bounds, path.clone(), seed),
        }
    });
    calls.collect()
}

fn real_call(
    clip: &str,
    control: &ControlSettings,
    activity: Activity,
    bounds: RateBounds,
    path: Option<KnownPath>,
    seed: u64,
) -> Result<AnyFlow> {
    let source = open_source(clip, &SourceOptions { seed, ..SourceOptions::default() })?;
    let sender = control.sending_end_within(&source.format(), seed as u32, path, bounds)?;
    let length = activity.end().saturating_since(activity.start());
    let format = source.format();
    let job_times = EncodeTime::built_in()?.job_times(control.preset, format.width * format.height);
    let setting = CallSetting { activity, length, ends_with_source: false, job_times, decode_time: DECODE_TIME };
    let receiver = ControlSettings::receiving_end_with(control.controller.algorithm().estimator(bounds));
    let call = CallFlow::new(sender, receiver, source, setting);
    Ok(AnyFlow::Call(Box::new(call)))
}

fn modelled_call(
    clip: &ClipModel,
    control: &ControlSettings,
    activity: &Activity,
    bounds: RateBounds,
    path: Option<KnownPath>,
    seed: u64,
) -> Result<AnyFlow> {
    let curves = Arc::new(ClipCurves::new(clip, MODELLED_SIZE.0, MODELLED_SIZE.1));
    let pixels = MODELLED_SIZE.0 * MODELLED_SIZE.1;
    let job_times = EncodeTime::built_in()?.job_times(control.preset, pixels);
    let frame_rate = FrameRate::default();
    let format = VideoFormat { width: MODELLED_SIZE.0, height: MODELLED_SIZE.1, frame_rate };
    let setting = ModelledSetting {
        payload: ByteCount::new(FRAGMENT_PAYLOAD as u64),
        job_times,
        decode_time: DECODE_TIME,
        codec: control.modelled_codec(),
        ceiling: control.max_bitrate.ceiling(&format),
        feedback: FeedbackInterval::EveryFragment,
        activity: activity.clone(),
        ..ModelledSetting::new()
    };
    let control_setting = control.setting(setting.payload, setting.frame_interval(), path, bounds);
    let algorithm = control.controller.algorithm();
    let clip = ModelledClip::new(curves, setting.frame_interval(), seed);
    let (controller, estimator) = (algorithm.controller(&control_setting)?, algorithm.estimator(bounds));
    Ok(AnyFlow::Modelled(Box::new(setting.call(controller, estimator, clip))))
}
