//! `lockstep simulate`.

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde::{Deserialize, Serialize};

use lockstep_call::CallReport;
use lockstep_media::{SourceOptions, open_source};
use lockstep_sim::{Simulation, SimulationOptions, SimulationResult};
use lockstep_units::Timestamp;

use crate::commands::counters;
use crate::commands::output::OutputArguments;
use crate::configuration::{ControlArguments, LinkArguments, milliseconds, seconds};
use crate::progress::Progress;

/// What `lockstep simulate` is told.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub struct SimulateArguments {
    /// The pictures: `generated`, `generated:640x360@25`, a y4m file, or anything else that ffmpeg reads.
    #[arg(long, default_value = "generated")]
    pub clip: String,
    #[command(flatten)]
    #[serde(flatten)]
    pub link: LinkArguments,
    #[command(flatten)]
    #[serde(flatten)]
    pub control: ControlArguments,
    /// Scored length of the call.
    #[arg(long, default_value_t = 60.0, value_parser = seconds)]
    pub seconds: f64,
    /// Virtual time that the candidates of one picture take.
    #[arg(long, default_value_t = 12.0, value_parser = milliseconds)]
    pub encode_ms: f64,
    /// Virtual time that decoding one frame takes.
    #[arg(long, default_value_t = 3.0, value_parser = milliseconds)]
    pub decode_ms: f64,
    #[command(flatten)]
    #[serde(skip)]
    pub output: OutputArguments,
}

/// Runs the simulation that `arguments` describes.
pub fn simulate(arguments: &SimulateArguments) -> Result<SimulationResult> {
    let source =
        open_source(&arguments.clip, &SourceOptions { seed: arguments.link.seed, ..SourceOptions::default() })?;
    let (forward, reverse) = arguments.link.links()?;
    let length = Duration::from_secs_f64(arguments.seconds);
    let options = SimulationOptions {
        length,
        encode_time: Duration::from_secs_f64(arguments.encode_ms / 1e3),
        decode_time: Duration::from_secs_f64(arguments.decode_ms / 1e3),
    };
    let format = source.format();
    let sender = arguments.control.sending_end(&format, arguments.link.seed as u32);
    let simulation = Simulation::new(sender, arguments.control.receiving_end(), source, forward, reverse, &options);
    let mut progress = Progress::new("simulate", length.as_millis() as u64);
    let result = simulation.run(|now, sender| {
        let status = sender.status(now);
        let quantizer = status.quantizer.map_or_else(|| "-".to_owned(), |quantizer| quantizer.to_string());
        let done = now.saturating_since(Timestamp::ZERO).as_millis() as u64;
        progress.update(done, &format!("{:.1} s   target {}   q {quantizer}", now.as_secs_f64(), status.target));
    })?;
    progress.finish();
    Ok(result)
}

/// The report of a finished simulation.
pub fn report(arguments: &SimulateArguments, result: &SimulationResult) -> CallReport<SimulateArguments> {
    CallReport {
        lockstep: env!("CARGO_PKG_VERSION").to_owned(),
        kind: "simulate".to_owned(),
        seed: arguments.link.seed,
        config: arguments.clone(),
        scores: result.scores.clone(),
        counters: [
            ("sender".to_owned(), counters(&result.sender.statistics())),
            ("receiver".to_owned(), counters(&result.receiver.statistics())),
            ("decoder".to_owned(), counters(&result.receiver.counts())),
            ("link".to_owned(), counters(&result.forward)),
            ("reverse_link".to_owned(), counters(&result.reverse)),
        ]
        .into(),
        series: result.series.clone(),
    }
}

/// `lockstep simulate`.
pub fn run(arguments: &SimulateArguments) -> Result<()> {
    let result = simulate(arguments)?;
    arguments.output.write(&report(arguments, &result), &result.records, Timestamp::ZERO)
}
