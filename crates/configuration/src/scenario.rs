//! Runs a scenario whose calls have the options of the command line.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Serialize;

use lockstep_av1::{EitherArena, Vp8OrAv1};
use lockstep_call::ReceivingEnd;
use lockstep_control::{Controller, ControllerSetup, Failure, FlowGroup, KnownPath, RateBounds};
use lockstep_link::QueueConfig;
use lockstep_measure::SharedSessionMeter;
use lockstep_media::{FrameRate, SourceOptions, VideoFormat, open_source, source_format};
use lockstep_sim::modelled::ModelledSetting;
use lockstep_sim::scenario::{FlowKind, Scenario, ScenarioError, ScenarioFlow, ScenarioReport};
use lockstep_sim::{
    Activity, AnyFlow, CallFlow, CallFlowOptions, ClipCurves, ClipModel, CodecModel, EncodeTime, ModelledClip,
};
use lockstep_transport::ReceiverConfig;
use lockstep_transport::wire::FRAGMENT_PAYLOAD;
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use crate::{ControlArguments, ControlSettings, QueueKind, Seconds, value_of};

/// Picture size of modelled calls; their frame rate is that of [`ModelledSetting`].
const MODELLED_SIZE: (usize, usize) = (640, 360);
/// Virtual time for decoding a picture.
const DECODE_TIME: Duration = Duration::from_millis(3);

/// Arguments of a scenario run.
#[derive(Debug, Clone, Args, Serialize)]
pub struct ScenarioArguments {
    /// Options of the controller.
    #[command(flatten)]
    #[serde(flatten)]
    pub control: ControlArguments,
    /// Encode real pictures of this clip, such as `generated:640x360`, with another seed for each call. Without it, a
    /// codec model replaces the codec and is a thousand times faster.
    #[arg(long)]
    pub clip: Option<String>,
    /// Queue discipline of the scenario's links. The default is that of the scenario.
    #[arg(long, value_parser = value_of::<QueueKind>())]
    pub queue: Option<QueueKind>,
    /// Run with ECN: queues mark packets instead of dropping them. TCP responds, and media whose controller responds to
    /// marks (gcc, nada, scream). Drop-tail queues cannot mark and are replaced by CoDel.
    #[arg(long)]
    pub ecn: bool,
    /// Run only the first seconds of the scenario.
    #[arg(long, value_parser = value_of::<Seconds>())]
    pub seconds: Option<Seconds>,
    /// Seed of all randomness in the run.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl ScenarioArguments {
    /// Queue of a link whose scenario specifies `queue`.
    fn over(&self, queue: QueueConfig) -> QueueConfig {
        match self.queue {
            None => queue,
            Some(discipline) if queue.marks() => discipline.over(queue).with_ecn(),
            Some(discipline) => discipline.over(queue),
        }
    }
}

/// Session log of one call of a scenario.
#[derive(Debug)]
pub struct ScenarioSession {
    /// Name of the call in the scenario.
    pub flow: String,
    /// Rows of its session log, from the start of the call.
    pub meter: SharedSessionMeter,
    /// Length of the call, whole seconds.
    pub seconds: u64,
    /// Format of its pictures.
    pub format: VideoFormat,
}

/// Runs `scenario` with `arguments` and their `control`. If `logged`, it also returns session logs of the calls.
///
/// `progress` receives the virtual time and the length of the run.
///
/// # Errors
/// If the scenario cannot run, the clip cannot be opened, or the controller fails.
pub fn run_scenario(
    scenario: Scenario,
    arguments: &ScenarioArguments,
    control: &ControlSettings,
    model: &CodecModel,
    logged: bool,
    mut progress: impl FnMut(Timestamp, Duration),
) -> Result<(ScenarioReport, Vec<ScenarioSession>)> {
    run_reporting(scenario, arguments, control, model, logged, &mut progress)
}

fn run_reporting(
    scenario: Scenario,
    arguments: &ScenarioArguments,
    control: &ControlSettings,
    model: &CodecModel,
    logged: bool,
    progress: &mut dyn FnMut(Timestamp, Duration),
) -> Result<(ScenarioReport, Vec<ScenarioSession>)> {
    let scenario = match arguments.seconds {
        Some(seconds) => scenario.shortened(seconds.get()),
        None => scenario,
    };
    let scenario = scenario.with_queues(|queue| arguments.over(queue));
    let mut scenario = if arguments.ecn { scenario.with_ecn() } else { scenario };
    for flow in scenario.flows.iter_mut().filter(|flow| flow.kind == FlowKind::Media) {
        flow.ecn &= control.controller.algorithm().responds_to_marks();
    }
    let length = scenario.duration();
    let failure = Failure::default();
    let mut media = media_flows(&scenario, arguments, control, model, &failure)?;
    let mut sessions = Vec::new();
    if logged {
        let (width, height) = MODELLED_SIZE;
        let modelled = VideoFormat { width, height, frame_rate: FrameRate::default() };
        let format = match &arguments.clip {
            Some(clip) => source_format(clip, &SourceOptions::default())?,
            None => modelled,
        };
        for ((flow, activity), call) in scenario.media_flows().zip(&mut media) {
            let activity = activity.until(Timestamp::ZERO + length);
            let meter = SharedSessionMeter::new(activity.start());
            call.observe(Box::new(meter.clone()));
            let seconds = activity.end().saturating_since(activity.start()).as_secs();
            sessions.push(ScenarioSession { flow: flow.name.clone(), meter, seconds, format });
        }
    }
    let meters: Vec<SharedSessionMeter> = sessions.iter().map(|session| session.meter.clone()).collect();
    let report = scenario.run_metered(media, &meters, arguments.seed, |now| {
        progress(now, length);
        failure.check()
    })?;
    failure.check().map_err(ScenarioError::Stopped)?;
    Ok((report, sessions))
}

/// Calls of `scenario`, in its order.
fn media_flows(
    scenario: &Scenario,
    arguments: &ScenarioArguments,
    control: &ControlSettings,
    model: &CodecModel,
    failure: &Failure,
) -> Result<Vec<AnyFlow<Vp8OrAv1>>> {
    let rates = scenario.media;
    let bounds = RateBounds { initial: rates.initial_bps, min: rates.least_bps, max: rates.most_bps };
    let path = known_path(scenario);
    let groups = Groups::of(scenario);
    let media = scenario.media_flows().zip(1u64..);
    // All calls show the same clip from different positions, because their shares are compared.
    //
    // It is the first clip, which requires more bits than the links carry: RFC 8867's source sends at any target
    // (section 4.3).
    let clip = model.clips.first().context("the codec model has no clip")?;
    let calls = media.map(|((flow, activity), number)| {
        let seed = arguments.seed.wrapping_mul(1_000_003).wrapping_add(number);
        let place = CallPlace { bounds, path: path.clone(), seed, failure: failure.clone() };
        match &arguments.clip {
            Some(_) if groups.any() => {
                bail!("scenario {}: priorities are for modelled calls; leave out --clip", scenario.name)
            }
            Some(named) => real_call(named, control, activity, place),
            None => {
                let coupled = |controller, setup: &ControllerSetup| groups.couple(flow, controller, setup);
                modelled_call(clip, control, &activity, place, coupled)
            }
        }
    });
    calls.collect()
}

/// The path is known only to media that has it alone, except for its audio.
fn known_path(scenario: &Scenario) -> Option<KnownPath> {
    let mut others = scenario.flows.iter().filter(|flow| !matches!(flow.kind, FlowKind::Audio { .. }));
    let (Some(flow), None) = (others.next(), others.next()) else { return None };
    let [link] = flow.forward[..] else { return None };
    let link = scenario.links.get(link).filter(|link| link.config.medium.is_none())?;
    Some(lockstep_sim::known_path(&link.config, Timestamp::ZERO))
}

/// Flow groups of a scenario with different priorities: media on the same path is coupled.
struct Groups(Vec<(Vec<usize>, FlowGroup)>);

impl Groups {
    fn of(scenario: &Scenario) -> Self {
        let mut groups: Vec<(Vec<usize>, FlowGroup)> = Vec::new();
        let media = || scenario.media_flows().map(|(flow, _)| flow);
        if let Some(first) = media().next()
            && media().any(|flow| flow.priority != first.priority)
        {
            for flow in media() {
                if groups.iter().all(|(way, _)| *way != flow.forward) {
                    groups.push((flow.forward.clone(), FlowGroup::new()));
                }
            }
        }
        Self(groups)
    }

    fn any(&self) -> bool {
        !self.0.is_empty()
    }

    fn couple(
        &self,
        flow: &ScenarioFlow,
        controller: Box<dyn Controller>,
        setup: &ControllerSetup,
    ) -> Box<dyn Controller> {
        match self.0.iter().find(|(way, _)| *way == flow.forward) {
            Some((_, group)) => group.join(controller, setup, flow.priority, setup.bounds.max),
            None => controller,
        }
    }
}

/// Maximum rate of media with any controller: that of the scenario, or less where pictures gain nothing by more.
fn ceiling(control: &ControlSettings, format: &VideoFormat, bounds: RateBounds) -> Bitrate {
    control
        .max_bitrate
        .ceiling(format, &control.tuning.tuning().control.ceiling)
        .map_or(bounds.max, |ceiling| ceiling.min(bounds.max))
}

/// Data of a call that only the scenario provides.
struct CallPlace {
    bounds: RateBounds,
    path: Option<KnownPath>,
    seed: u64,
    failure: Failure,
}

fn real_call(
    clip: &str,
    control: &ControlSettings,
    activity: Activity,
    CallPlace { bounds, path, seed, failure }: CallPlace,
) -> Result<AnyFlow<Vp8OrAv1>> {
    let source = open_source(clip, &SourceOptions { seed, ..SourceOptions::default() })?;
    let format = source.format();
    let setup = control.setup_for(&format, path, bounds);
    let setup = ControllerSetup { seed, failure, ..setup };
    let sender = control.sending_end_of(&format, seed as u32, &setup, None, EitherArena::default())?;
    let sender = sender.with_max_bitrate(Some(ceiling(control, &format, bounds)));
    let length = activity.end().saturating_since(activity.start());
    let job_times = control.measured_times(&EncodeTime::built_in()?, format.width * format.height);
    let setting = CallFlowOptions { activity, length, ends_with_source: false, job_times, decode_time: DECODE_TIME };
    let receiver = ReceivingEnd::new(ReceiverConfig::default(), control.estimator(bounds)?);
    let call = CallFlow::new(sender, receiver, source, setting);
    Ok(AnyFlow::Call(Box::new(call)))
}

fn modelled_call(
    clip: &ClipModel,
    control: &ControlSettings,
    activity: &Activity,
    CallPlace { bounds, path, seed, failure }: CallPlace,
    coupled: impl FnOnce(Box<dyn Controller>, &ControllerSetup) -> Box<dyn Controller>,
) -> Result<AnyFlow<Vp8OrAv1>> {
    let curves = Arc::new(ClipCurves::new(clip, MODELLED_SIZE.0, MODELLED_SIZE.1));
    let pixels = MODELLED_SIZE.0 * MODELLED_SIZE.1;
    let job_times = EncodeTime::built_in()?.job_times(pixels);
    let frame_rate = FrameRate::default();
    let format = VideoFormat { width: MODELLED_SIZE.0, height: MODELLED_SIZE.1, frame_rate };
    let setting = ModelledSetting {
        payload: ByteCount::new(FRAGMENT_PAYLOAD as u64),
        job_times,
        decode_time: DECODE_TIME,
        codec: control.modelled_codec()?,
        ceiling: Some(ceiling(control, &format, bounds)),
        activity: activity.clone(),
        tuning: control.tuning.tuning(),
        ..ModelledSetting::new()
    };
    let controller_setup = control.setup(setting.payload, setting.frame_interval(), path, bounds);
    let controller_setup = ControllerSetup { seed, failure, ..controller_setup };
    let clip = ModelledClip::new(curves, setting.frame_interval(), seed);
    let (controller, estimator) = (control.controller(&controller_setup, None)?, control.estimator(bounds)?);
    Ok(AnyFlow::Modelled(Box::new(setting.call(coupled(controller, &controller_setup), estimator, clip))))
}
