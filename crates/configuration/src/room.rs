//! Runs a call of several people in virtual time, and builds its report.

use std::num::ParseIntError;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use lockstep_call::Codec;
use lockstep_control::Failure;
use lockstep_link::{Link, LinkConfig};
use lockstep_measure::{CallReport, FinishedCall, FrameObserver, PersonFlowReport, RoomReport, VideoDelayFloor};
use lockstep_media::source_format;
use lockstep_sim::{
    Access, CallFlow, CallResult, CodecModel, PersonFlow, RoomSimulation, SimulationError, SimulationOptions,
    StopReason,
};
use lockstep_units::Timestamp;

use crate::counters;
use crate::options::{OptionError, OptionValue, TraceName};
use crate::run::{CallParts, MakeCoding, Progress, SimulationStatus, end_counters, kind};
use crate::settings::{CallSettings, LinkSettings, NamedTrace};

/// Possible numbers of people in a room.
pub const PEOPLE: RangeInclusive<u8> = 2..=6;

/// Trace of the uplink or of the downlink of one person, such as `3=lte.up`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersonTrace {
    /// Number of the person, from 1.
    pub person: usize,
    /// The trace.
    pub trace: TraceName,
}

impl OptionValue for PersonTrace {
    fn from_word(word: &str) -> Result<Self, String> {
        let wrong = || format!("`{word}` is not like 3=lte.up: the number of a person and a trace");
        let (person, trace) = word.split_once('=').ok_or_else(wrong)?;
        let person = person.parse().map_err(|_: ParseIntError| wrong())?;
        Ok(Self { person, trace: TraceName::from_word(trace)? })
    }

    fn to_value(&self) -> serde_json::Value {
        serde_json::Value::from(format!("{}={}", self.person, self.trace))
    }
}

/// Settings of a call of several people, in which everyone sends to everyone directly.
///
/// Each person has an uplink, the forward link of `access`, and a downlink, its reverse link. The uplink has the
/// propagation delay and the jitter of the path.
#[derive(Debug, Clone)]
pub struct RoomSettings {
    /// Settings of all calls, except for their links.
    pub call: CallSettings,
    /// Links of each person, with a seed for their losses and for the pictures of the person.
    pub access: Vec<LinkSettings>,
}

impl RoomSettings {
    /// A room of `people` with the links of `call`, except for the traces of the persons in `uplinks` and `downlinks`.
    ///
    /// # Errors
    /// If the number of people is not in [`PEOPLE`], or a person or a trace does not exist. Also if `call`
    /// has an option that is for calls of two.
    pub fn new(call: CallSettings, people: u8, uplinks: &[PersonTrace], downlinks: &[PersonTrace]) -> Result<Self> {
        if !PEOPLE.contains(&people) {
            bail!("people: expected {} to {}, found {people}", PEOPLE.start(), PEOPLE.end());
        }
        let for_two = [
            ("two_way", call.two_way),
            ("estimator", call.estimator.is_some()),
            ("vmaf", call.vmaf),
            ("bound", call.bound),
        ];
        if let Some((name, _)) = for_two.into_iter().find(|&(_, given)| given) {
            return Err(OptionError::Contradiction { name, other: "people" }.into());
        }
        // A person's links have two seeds.
        let link =
            |person| LinkSettings { seed: call.link.seed.wrapping_add(2 * u64::from(person)), ..call.link.clone() };
        let mut access: Vec<LinkSettings> = (0..people).map(link).collect();
        let traces = uplinks.iter().map(|given| (given, false)).chain(downlinks.iter().map(|given| (given, true)));
        for (PersonTrace { person, trace }, is_downlink) in traces {
            let links = person.checked_sub(1).and_then(|person| access.get_mut(person));
            let links = links.with_context(|| format!("trace of person {person}: there are persons 1 to {people}"))?;
            let trace = NamedTrace::open(trace)?;
            if is_downlink {
                links.reverse = Some(trace);
            } else {
                links.trace = trace;
            }
        }
        Ok(Self { call, access })
    }

    /// Files that the calls read.
    #[must_use]
    pub fn inputs(&self) -> Vec<&Path> {
        self.call.inputs().into_iter().chain(self.access.iter().flat_map(LinkSettings::inputs)).collect()
    }

    /// Settings of the calls that `person`, numbered from 0, sends.
    fn of(&self, person: usize) -> CallSettings {
        CallSettings { link: self.access[person].clone(), ..self.call.clone() }
    }
}

/// Runs the room of `room`. `observer` makes the observers of the frames of each direction.
///
/// `progress` is called once per frame interval, or twice per second of modelled calls. It may end the room.
///
/// # Errors
/// If the clip cannot be opened, a link is invalid, or the controller must know its path. Also if the source or
/// `progress` fails.
pub fn simulate_room(
    room: &RoomSettings,
    mut observer: impl FnMut(PersonFlow) -> Option<Box<dyn FrameObserver>>,
    mut progress: impl FnMut(&SimulationStatus) -> Result<(), StopReason>,
) -> Result<RoomReport<CallSettings>> {
    simulate_reporting(room, &mut observer, &mut progress)
}

/// Makes the observer of the frames of a direction.
type MakeObserver<'a> = dyn FnMut(PersonFlow) -> Option<Box<dyn FrameObserver>> + 'a;

fn simulate_reporting(
    room: &RoomSettings,
    observer: &mut MakeObserver<'_>,
    progress: &mut Progress<'_>,
) -> Result<RoomReport<CallSettings>> {
    if room.call.modelled {
        let model = CodecModel::built_in()?;
        let codec = room.call.control.modelled_codec()?;
        run(room, &mut |settings| settings.modelled_coding(&model, codec), observer, progress)
    } else {
        run(room, &mut |settings| settings.coding(None), observer, progress)
    }
}

fn run<C: Codec>(
    room: &RoomSettings,
    coding: &mut MakeCoding<'_, C>,
    observer: &mut MakeObserver<'_>,
    progress: &mut Progress<'_>,
) -> Result<RoomReport<CallSettings>> {
    let settings = &room.call;
    let format = source_format(settings.clip.as_str(), &settings.source_options())?;
    let (job_times, coding_times) = settings.job_times(format.width * format.height);
    let decode_time = settings.decode_time.get();
    let options = SimulationOptions { length: settings.length.get(), job_times, decode_time };
    let failure = Failure::default();
    let access = room.access.iter().map(|links| {
        // The path between two people has the delay and the jitter once.
        let [(uplink, seed), (downlink, downlink_seed)] = links.configs();
        let downlink = LinkConfig { delay: Duration::ZERO, jitter: None, ..downlink };
        Ok(Access { uplink: Link::new(uplink, seed)?, downlink: Link::new(downlink, downlink_seed)? })
    });
    let access = access.collect::<Result<Vec<Access<C>>>>().context("the link")?;
    let simulation = RoomSimulation::new(access, |flow| {
        let settings = room.of(flow.from);
        let CallParts { sender, receiver, source, first_work, sound } = settings.call_parts(coding, None, &failure)?;
        let mut call = CallFlow::new(sender, receiver, source, options.call());
        let [(uplink, _), _] = settings.link.configs();
        let floor = VideoDelayFloor::new(&uplink, Timestamp::ZERO);
        call.compare_with(
            floor.with_coding(job_times.of(first_work, settings.control.preset.first_level()), decode_time),
        );
        if let Some(sound) = sound {
            call.add_sound(sound);
        }
        if let Some(observer) = observer(flow) {
            call.observe(observer);
        }
        anyhow::Ok(call)
    })?;
    let finished = simulation.run(options.length, format.frame_interval(), |now, sender| {
        failure.check()?;
        progress(&SimulationStatus::of(now, sender))
    })?;
    failure.check().map_err(SimulationError::Stopped)?;
    let calls = finished.calls.into_iter().map(|(flow, result)| {
        let CallResult { call: FinishedCall { scores, series, .. }, sound, sender, receiver } = result;
        let config = room.of(flow.from);
        let call = CallReport {
            coding_times: Some(coding_times.clone()),
            lockstep: env!("CARGO_PKG_VERSION").to_owned(),
            kind: kind::<C>(),
            seed: config.link.seed,
            config,
            scores,
            sound,
            opposite: None,
            counters: end_counters(&sender, &receiver).collect(),
            series,
        };
        PersonFlowReport { from: flow.from + 1, to: flow.to + 1, call }
    });
    let links = finished.access.iter().zip(1..).flat_map(|([uplink, downlink], person)| {
        [(format!("uplink_{person}"), counters(uplink)), (format!("downlink_{person}"), counters(downlink))]
    });
    Ok(RoomReport {
        lockstep: env!("CARGO_PKG_VERSION").to_owned(),
        kind: "room".to_owned(),
        seed: settings.link.seed,
        people: room.access.len(),
        calls: calls.collect(),
        counters: links.collect(),
    })
}
