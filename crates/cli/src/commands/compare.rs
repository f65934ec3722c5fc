//! `lockstep compare`: the same call in virtual and in real time, side by side.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;

use lockstep_call::{CallObserver, Distribution, LoggedFrame, Scores};
use lockstep_units::Timestamp;

use crate::commands::call::{CallArguments, call};
use crate::commands::output::OutputArguments;
use crate::commands::simulate::simulate;
use crate::configuration::{ControlArguments, EstimatorArguments, LinkArguments, SimulateArguments, seconds};
use crate::output_file::{self, write_json};
use crate::progress::warn_of_early_end;

/// What `lockstep compare` is told.
#[derive(Debug, Clone, Args)]
pub struct CompareArguments {
    /// The pictures, as for `lockstep call`.
    #[arg(long, default_value = "generated:640x360@30")]
    clip: String,
    #[command(flatten)]
    link: LinkArguments,
    #[command(flatten)]
    control: ControlArguments,
    /// Scored length of each of the two calls.
    #[arg(long, default_value_t = 20.0, value_parser = seconds)]
    seconds: f64,
    /// Where the numbers go, as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// One figure of both calls.
#[derive(Debug, Serialize)]
struct Row {
    figure: &'static str,
    live: f64,
    simulated: f64,
    /// Simulated over live, less one.
    difference: f64,
}

/// How long the steps of a live call took, milliseconds.
struct StepTimes {
    encode: Distribution,
    decode: Distribution,
}

impl CallObserver for StepTimes {
    fn frame(&mut self, frame: &LoggedFrame) {
        let record = &frame.record;
        let milliseconds =
            |from: Option<Timestamp>, to: Option<Timestamp>| Some(to?.saturating_since(from?).as_secs_f64() * 1e3);
        if let Some(time) = milliseconds(record.encode_started_at, record.sent_at) {
            self.encode.add(time);
        }
        if let Some(time) = milliseconds(record.completed_at, record.displayed_at) {
            self.decode.add(time);
        }
    }
}

impl StepTimes {
    /// The medians of coding and of decoding.
    fn medians(&mut self) -> (f64, f64) {
        (self.encode.quantile(0.5).unwrap_or(0.0), self.decode.quantile(0.5).unwrap_or(0.0))
    }
}

fn row(figure: &'static str, live: f64, simulated: f64) -> Row {
    Row { figure, live, simulated, difference: simulated / live - 1.0 }
}

fn rows(live: &Scores, simulated: &Scores) -> Result<Vec<Row>> {
    let delay = |scores: &Scores| scores.video_delay_ms.context("no frame was shown");
    let quality = |scores: &Scores| scores.ssim_db.context("no frame was shown");
    let (live_delay, simulated_delay) = (delay(live)?, delay(simulated)?);
    Ok(vec![
        row("video delay, mean (ms)", live_delay.mean, simulated_delay.mean),
        row("video delay, p95 (ms)", live_delay.p95, simulated_delay.p95),
        row("throughput (kb/s)", live.throughput_bps as f64 * 1e-3, simulated.throughput_bps as f64 * 1e-3),
        row("SSIM, mean (dB)", quality(live)?.mean, quality(simulated)?.mean),
        row("frames sent", live.frames.sent as f64, simulated.frames.sent as f64),
    ])
}

/// `lockstep compare`.
pub fn run(arguments: &CompareArguments) -> Result<()> {
    let mut inputs = arguments.link.inputs();
    inputs.push(Path::new(&arguments.clip));
    output_file::check(&[("--json", arguments.json.as_deref())], &inputs)?;
    let (link, control) = (arguments.link.clone(), arguments.control.clone());
    let times = Arc::new(Mutex::new(StepTimes {
        encode: Distribution::of_milliseconds(),
        decode: Distribution::of_milliseconds(),
    }));
    let arguments_of_call = CallArguments {
        clip: arguments.clip.clone(),
        link: link.clone(),
        control: control.clone(),
        seconds: arguments.seconds,
        sink: "none".to_owned(),
        output: OutputArguments::default(),
    };
    let live = call(&arguments_of_call, Some(Box::new(times.clone())))?;
    // Virtual time knows nothing of this machine's speed; it is told what the live call measured.
    let (encode_ms, decode_ms) = times.lock().map(|mut times| times.medians()).unwrap_or_default();
    let simulation = SimulateArguments {
        clip: arguments.clip.clone(),
        link,
        control,
        seconds: arguments.seconds,
        encode_ms,
        decode_ms,
        vmaf: false,
        estimator: EstimatorArguments::default(),
        modelled: false,
    };
    let simulated = simulate(&simulation, None)?;
    let rows = rows(&live.scores, &simulated.report.scores)?;
    warn_of_early_end(arguments.seconds, &live.scores);
    say!("coding took {encode_ms:.1} ms a picture, decoding {decode_ms:.1} ms\n");
    say!("{:<24}{:>12}{:>12}{:>12}", "", "live", "simulated", "difference");
    for Row { figure, live, simulated, difference } in &rows {
        say!("{figure:<24}{live:>12.2}{simulated:>12.2}{:>10.1} %", 100.0 * difference);
    }
    if let Some(path) = &arguments.json {
        write_json(path, &rows)?;
    }
    Ok(())
}
