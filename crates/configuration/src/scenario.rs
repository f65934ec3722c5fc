//! The calls of a scenario, in the words of the command line.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Serialize;

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

use crate::{ControlSettings, ControlWords, QueueKind, Seconds, value_of};

/// Size of the pictures that a modelled codec has; they come at the rate of [`ModelledSetting`].
const MODELLED_SIZE: (usize, usize) = (640, 360);
/// Virtual time that decoding a picture takes.
const DECODE_TIME: Duration = Duration::from_millis(3);

/// What a run of a scenario is told.
#[derive(Debug, Clone, Args, Serialize)]
pub struct ScenarioArguments {
    /// Options of the controller.
    #[command(flatten)]
    #[serde(flatten)]
    pub control: ControlWords,
    /// Code real pictures: of this clip, such as `generated:640x360`, one seed for each call. Without it the codec is a
    /// model, which is a thousand times faster.
    #[arg(long)]
    pub clip: Option<String>,
    /// How the queues of the scenario's links drop packets.
    /// As the scenario has it if not given.
    #[arg(long, value_parser = value_of::<QueueKind>())]
    pub queue: Option<QueueKind>,
    /// Run it with ECN: its queues mark what they would drop; TCP, and media whose controller heeds marks (gcc, nada, scream),
    /// answer. Drop-tail queues, which have nothing to mark, become those of CoDel.
    #[arg(long)]
    pub ecn: bool,
    /// Run only so many seconds of it.
    #[arg(long, value_parser = value_of::<Seconds>())]
    pub seconds: Option<Seconds>,
    /// Seed of everything random in the run.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl ScenarioArguments {
    /// The queue of a link of a scenario, which has `queue`.
    fn over(&self, queue: QueueConfig) -> QueueConfig {
        match self.queue {
            None => queue,
            Some(discipline) if queue.marks() => discipline.over(queue).with_ecn(),
            Some(discipline) => discipline.over(queue),
        }
    }
}

/// What a session log says of one call of a scenario.
#[derive(Debug)]
pub struct ScenarioSession {
    /// The call's name in the scenario.
    pub flow: String,
    /// Its rows, from the moment at which it begins.
    pub meter: SharedSessionMeter,
    /// From its beginning to its end, whole seconds.
    pub seconds: u64,
    /// Its pictures.
    pub format: VideoFormat,
}

/// Runs `scenario` as `arguments` say, whose control is `control`; gives what session logs say of its calls, too, if
/// `logged`. `progress` hears of the virtual time and how long the run is.
///
/// # Errors
/// If the scenario cannot be run, the clip cannot be had, or the controller cannot be made or fails.
pub fn run_scenario(
    scenario: Scenario,
    arguments: &ScenarioArguments,
    control: &ControlSettings,
    model: &CodecModel,
    logged: bool,
    mut progress: impl FnMut(Timestamp, Duration),
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

/// The calls of `scenario`, in its order.
fn media_flows(
    scenario: &Scenario,
    arguments: &ScenarioArguments,
    control: &ControlSettings,
    model: &CodecModel,
    failure: &Failure,
) -> Result<Vec<AnyFlow>> {
    let rates = scenario.media;
    let bounds = RateBounds { initial: rates.initial_bps, least: rates.least_bps, most: rates.most_bps };
    let path = known_path(scenario);
    let groups = Groups::of(scenario);
    let media = scenario.media_flows().zip(1u64..);
    // All calls show the same clip, each from elsewhere on, since their shares are compared: the first one, which needs more
    // bits than the links have, as RFC 8867's source (section 4.3) sends at whatever rate it is told.
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

/// What a path will carry is known to media that has it alone, but for its audio.
fn known_path(scenario: &Scenario) -> Option<KnownPath> {
    let mut others = scenario.flows.iter().filter(|flow| !matches!(flow.kind, FlowKind::Audio { .. }));
    let (Some(flow), None) = (others.next(), others.next()) else { return None };
    let [link] = flow.forward[..] else { return None };
    let link = scenario.links.get(link).filter(|link| link.config.medium.is_none())?;
    Some(lockstep_sim::known_path(&link.config, Timestamp::ZERO))
}

/// The media of a scenario whose priorities differ, by their ways: those of one way are coupled.
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
            Some((_, group)) => group.join(controller, setup, flow.priority, setup.bounds.most),
            None => controller,
        }
    }
}

/// What media sends at most, whoever controls it: the scenario's highest rate, or less where pictures gain nothing by it.
fn ceiling(control: &ControlSettings, format: &VideoFormat, bounds: RateBounds) -> Bitrate {
    control
        .max_bitrate
        .ceiling(format, &control.tuning.tuning().control.ceiling)
        .map_or(bounds.most, |ceiling| ceiling.min(bounds.most))
}

/// What only the scenario knows of a call.
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
) -> Result<AnyFlow> {
    let source = open_source(clip, &SourceOptions { seed, ..SourceOptions::default() })?;
    let format = source.format();
    let setup = control.setup_for(&format, path, bounds);
    let setup = ControllerSetup { seed, failure, ..setup };
    let sender = control.sending_end_of(&format, seed as u32, &setup, None)?;
    let sender = sender.with_max_bitrate(Some(ceiling(control, &format, bounds)));
    let length = activity.end().saturating_since(activity.start());
    let job_times = EncodeTime::built_in()?.job_times(control.preset, format.width * format.height);
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
