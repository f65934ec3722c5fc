//! `lockstep simulate`.

use anyhow::Result;
use clap::Args;

use lockstep_call::CallObserver;
use lockstep_units::Timestamp;

use crate::commands::output::OutputArguments;
use crate::configuration::{CallSettings, SimulateWords, Simulated};
use crate::progress::Progress;

/// What `lockstep simulate` is told.
#[derive(Debug, Clone, Args)]
pub struct SimulateCommand {
    #[command(flatten)]
    simulation: SimulateWords,
    #[command(flatten)]
    output: OutputArguments,
}

/// Runs the simulation that `settings` describe, heard by `observer`, and shows how it goes.
pub fn simulate(settings: &CallSettings, observer: Option<Box<dyn CallObserver>>) -> Result<Simulated> {
    let mut progress = Progress::new("simulate", settings.length.get().as_millis() as u64);
    let simulated = crate::configuration::simulate_with(settings, None, observer, |status| {
        let quantizer = status.quantizer.map_or_else(|| "-".to_owned(), |quantizer| quantizer.to_string());
        let done = status.now.saturating_since(Timestamp::ZERO).as_millis() as u64;
        let seconds = status.now.as_secs_f64();
        progress.update(done, &format!("{seconds:.1} s   target {}   q {quantizer}", status.target));
        Ok(())
    })?;
    progress.finish();
    Ok(simulated)
}

/// `lockstep simulate`.
pub fn run(command: &SimulateCommand) -> Result<()> {
    let settings = command.simulation.settings()?;
    command.output.check(None, &settings.inputs())?;
    let output = command.output.open()?;
    let Simulated { report } = simulate(&settings, output.observer())?;
    output.write(settings.length.as_f64(), &report)
}
