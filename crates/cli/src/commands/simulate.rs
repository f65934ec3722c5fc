//! `lockstep simulate`.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;

use lockstep_configuration::{
    CallSettings, Observers, PEOPLE, PersonTrace, RoomSettings, SimulateArguments, Simulated, value_of,
};
use lockstep_control::Controllers;
use lockstep_measure::SharedSessionMeter;
use lockstep_runner::output_file;
use lockstep_runner::session_log::SessionLog;
use lockstep_runner::session_log::arguments::SessionArguments;
use lockstep_runner::{simulate, simulate_room};
use lockstep_sound::SoundSink;
use lockstep_units::Timestamp;

use crate::commands::output::OutputArguments;
use crate::decisions::DecisionsArgument;
use crate::sound_file::SoundFile;

/// Label of the session in the opposite direction.
const OPPOSITE: &str = "opposite";

/// Arguments of a call of several people.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Room")]
pub struct RoomArguments {
    /// Simulate a call of 2 to 6 people, in which everyone sends to everyone directly. All flows from a person share an
    /// uplink, the forward link. All flows to a person share a downlink, the reverse link.
    #[arg(
        long,
        value_parser = clap::value_parser!(u8).range(i64::from(*PEOPLE.start())..=i64::from(*PEOPLE.end())),
        conflicts_with_all = [
            "two_way", "estimator", "vmaf", "bound", "frames", "audio_output", "decisions", "folder"
        ],
    )]
    people: Option<u8>,
    /// Uplink of one person, such as `3=lte.up`, instead of --trace; may be repeated. A trace may have loss and delay.
    #[arg(long, value_name = "PERSON=TRACE", value_parser = value_of::<PersonTrace>(), requires = "people")]
    trace_of: Vec<PersonTrace>,
    /// Downlink of one person, instead of --reverse; may be repeated.
    #[arg(long, value_name = "PERSON=TRACE", value_parser = value_of::<PersonTrace>(), requires = "people")]
    reverse_of: Vec<PersonTrace>,
}

/// Arguments of `lockstep simulate`.
#[derive(Debug, Clone, Args)]
pub struct SimulateCommand {
    #[command(flatten)]
    simulation: SimulateArguments,
    #[command(flatten)]
    room: RoomArguments,
    #[command(flatten)]
    output: OutputArguments,
    /// WAV file for the received sound; requires --audio.
    #[arg(long, value_name = "FILE", help_heading = "Outputs")]
    audio_output: Option<PathBuf>,
    #[command(flatten)]
    decisions: DecisionsArgument,
    #[command(flatten)]
    session: SessionArguments,
}

/// `lockstep simulate --people`.
fn run_room(command: &SimulateCommand, call: CallSettings, people: u8) -> Result<()> {
    let RoomArguments { trace_of, reverse_of, .. } = &command.room;
    let room = RoomSettings::new(call, people, trace_of, reverse_of)?;
    command.output.check(&[], &room.inputs())?;
    command.output.write_room(room.call.length.as_f64(), &simulate_room(&room)?)
}

/// `lockstep simulate`.
pub fn run(command: &SimulateCommand, controllers: &Controllers) -> Result<()> {
    let settings = command.simulation.settings_with(controllers)?;
    if let Some(people) = command.room.people {
        return run_room(command, settings, people);
    }
    let audio_output = command.audio_output.as_deref();
    if audio_output.is_some() && (settings.audio.is_none() || settings.modelled) {
        bail!("--audio-output requires --audio and a call with the real codec; a modelled call has no audible sound");
    }
    command.output.check(&[("--audio-output", audio_output), command.decisions.output()], &settings.inputs())?;
    let output = command.output.open()?;
    let decisions = command.decisions.log();
    decisions.open_whole()?;
    let audio_output = audio_output.map(SoundFile::create).transpose()?;
    let sound = audio_output.clone().map(|file| Box::new(file) as Box<dyn SoundSink>);
    let kind = if settings.modelled { "modelled" } else { "simulate" };
    let name = serde_json::to_string(&settings.record())?;
    let logs = [false, true].map(|is_opposite| {
        let name = if is_opposite { format!("{name} {OPPOSITE}") } else { name.clone() };
        let is_there = settings.two_way || !is_opposite;
        let log = if is_there { command.session.open(kind, "both", Some(&name))? } else { None };
        Ok::<_, anyhow::Error>(log.map(|log| (log, SharedSessionMeter::new(Timestamp::ZERO))))
    });
    let [log, opposite] = logs;
    let (log, opposite) = (log?, opposite?);
    let meter = |log: &Option<(SessionLog, SharedSessionMeter)>| log.as_ref().map(|(_, meter)| meter.clone());
    let observers = Observers {
        frames: output.observer(),
        sound,
        session: meter(&log),
        opposite_session: meter(&opposite),
        decisions: decisions.recorder(),
    };
    let Simulated { report } = simulate(&settings, observers)?;
    for (is_opposite, log) in [(false, log), (true, opposite)] {
        let Some((mut log, meter)) = log else { continue };
        log.description().simulated(&settings)?;
        if is_opposite {
            log.description().seed = i64::try_from(settings.link.seed.wrapping_add(1)).ok();
        }
        if settings.two_way {
            let direction = if is_opposite { OPPOSITE } else { "first" };
            log.description().labels.insert("direction".to_owned(), direction.to_owned());
        }
        log.finish(&mut meter.lock(), report.scores.scored_seconds as u64)?;
    }
    audio_output.map_or(Ok(()), SoundFile::complete)?;
    output_file::all([output.write(settings.length.as_f64(), &report), decisions.finish()])
}
