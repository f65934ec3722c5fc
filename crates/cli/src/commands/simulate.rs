//! `lockstep simulate`.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;

use lockstep_configuration::{Observers, SimulateArguments, Simulated};
use lockstep_control::Controllers;
use lockstep_measure::SharedSessionMeter;
use lockstep_runner::output_file;
use lockstep_runner::session_log::SessionLog;
use lockstep_runner::session_log::arguments::SessionArguments;
use lockstep_runner::simulate;
use lockstep_sound::SoundSink;
use lockstep_units::Timestamp;

use crate::commands::output::OutputArguments;
use crate::decisions::DecisionsArgument;
use crate::sound_file::SoundFile;

/// Label of the session in the opposite direction.
const OPPOSITE: &str = "opposite";

/// Arguments of `lockstep simulate`.
#[derive(Debug, Clone, Args)]
pub struct SimulateCommand {
    #[command(flatten)]
    simulation: SimulateArguments,
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

/// `lockstep simulate`.
pub fn run(command: &SimulateCommand, controllers: &Controllers) -> Result<()> {
    let settings = command.simulation.settings_with(controllers)?;
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
