//! `lockstep compare`: the same call in virtual and in real time, side by side.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;

use lockstep_call::{FrameRecord, Scores, quantile};

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

/// The median time of a step in the log, milliseconds.
fn median_ms(records: &[FrameRecord], step: impl Fn(&FrameRecord) -> Option<std::time::Duration>) -> f64 {
    let mut times: Vec<f64> = records.iter().filter_map(step).map(|time| time.as_secs_f64() * 1e3).collect();
    times.sort_unstable_by(f64::total_cmp);
    quantile(&times, 0.5).unwrap_or(0.0)
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
    let live = call(&CallArguments {
        clip: arguments.clip.clone(),
        link: link.clone(),
        control: control.clone(),
        seconds: arguments.seconds,
        sink: "none".to_owned(),
        output: OutputArguments::default(),
    })?;
    // Virtual time knows nothing of this machine's speed; it is told what the live call measured.
    let encode_ms =
        median_ms(&live.records, |record| Some(record.sent_at?.saturating_since(record.encode_started_at?)));
    let decode_ms =
        median_ms(&live.records, |record| Some(record.displayed_at?.saturating_since(record.completed_at?)));
    let simulated = simulate(&SimulateArguments {
        clip: arguments.clip.clone(),
        link,
        control,
        seconds: arguments.seconds,
        encode_ms,
        decode_ms,
        vmaf: false,
        estimator: EstimatorArguments::default(),
        modelled: false,
    })?;
    let rows = rows(&live.report.scores, &simulated.report.scores)?;
    warn_of_early_end(arguments.seconds, &live.report.scores);
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
