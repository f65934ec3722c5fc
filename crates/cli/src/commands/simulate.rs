//! `lockstep simulate`.

use std::time::Duration;

use anyhow::Result;
use clap::Args;

use lockstep_call::CallObserver;
use lockstep_units::Timestamp;

use crate::commands::output::OutputArguments;
use crate::configuration::{SimulateArguments, Simulated};
use crate::progress::Progress;

/// What `lockstep simulate` is told.
#[derive(Debug, Clone, Args)]
pub struct SimulateCommand {
    #[command(flatten)]
    simulation: SimulateArguments,
    #[command(flatten)]
    output: OutputArguments,
}

/// Runs the simulation that `arguments` describes, heard by `observer`, and shows how it goes.
pub fn simulate(arguments: &SimulateArguments, observer: Option<Box<dyn CallObserver>>) -> Result<Simulated> {
    let length = Duration::from_secs_f64(arguments.seconds);
    let mut progress = Progress::new("simulate", length.as_millis() as u64);
    let simulated = crate::configuration::simulate_with(arguments, None, observer, |status| {
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
    command.output.check(None, &command.simulation.inputs())?;
    let output = command.output.open()?;
    let Simulated { report } = simulate(&command.simulation, output.observer())?;
    output.write(command.simulation.seconds, &report)
}
