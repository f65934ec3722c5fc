//! `lockstep compare`: the same call in virtual and in real time, side by side.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use lockstep_call::{FrameRecord, Scores, quantile};

use crate::commands::call::{CallArguments, call};
use crate::commands::output::OutputArguments;
use crate::commands::simulate::simulate;
use crate::configuration::{ControlArguments, EstimatorArguments, LinkArguments, SimulateArguments, seconds};
use crate::interruption::Interruption;
use crate::progress::write_json;

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
    /// None where nothing was shown.
    live: Option<f64>,
    simulated: Option<f64>,
    /// Simulated over live, less one.
    difference: Option<f64>,
}

/// The median time of a step in the log, milliseconds.
fn median_ms(records: &[FrameRecord], step: impl Fn(&FrameRecord) -> Option<std::time::Duration>) -> f64 {
    let mut times: Vec<f64> = records.iter().filter_map(step).map(|time| time.as_secs_f64() * 1e3).collect();
    times.sort_unstable_by(f64::total_cmp);
    quantile(&times, 0.5).unwrap_or(0.0)
}

fn rows(live: &Scores, simulated: &Scores) -> Vec<Row> {
    let row = |figure, value: &dyn Fn(&Scores) -> Option<f64>| {
        let (live, simulated) = (value(live), value(simulated));
        let ratio = live.zip(simulated).map(|(live, simulated)| simulated / live);
        let difference = ratio.filter(|ratio| ratio.is_finite()).map(|ratio| ratio - 1.0);
        Row { figure, live, simulated, difference }
    };
    vec![
        row("video delay, mean (ms)", &|scores| Some(scores.video_delay_ms?.mean)),
        row("video delay, p95 (ms)", &|scores| Some(scores.video_delay_ms?.p95)),
        row("throughput (kb/s)", &|scores| Some(scores.throughput_bps as f64 * 1e-3)),
        row("SSIM, mean (dB)", &|scores| Some(scores.ssim_db?.mean)),
        row("frames sent", &|scores| Some(scores.frames.sent as f64)),
    ]
}

/// `lockstep compare`.
pub fn run(arguments: &CompareArguments) -> Result<()> {
    let (link, control) = (arguments.link.clone(), arguments.control.clone());
    let live_arguments = CallArguments {
        clip: arguments.clip.clone(),
        link: link.clone(),
        control: control.clone(),
        seconds: arguments.seconds,
        sink: "none".to_owned(),
        output: OutputArguments::default(),
    };
    let interruption = Interruption::watch()?;
    let live = call(&live_arguments, &interruption)?;
    // A call that failed or was cut short is no measure for a simulated one.
    if let Some(problem) = live.problem {
        return Err(problem);
    }
    drop(interruption);
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
    let rows = rows(&live.report.scores, &simulated.report.scores);
    let shown = |value: &Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
    let percent = |value: f64| format!("{:.1} %", 100.0 * value);
    say!("coding took {encode_ms:.1} ms a picture, decoding {decode_ms:.1} ms\n");
    say!("{:<24}{:>12}{:>12}{:>12}", "", "live", "simulated", "difference");
    for Row { figure, live, simulated, difference } in &rows {
        let difference = difference.map_or_else(|| "-".to_owned(), percent);
        say!("{figure:<24}{:>12}{:>12}{difference:>12}", shown(live), shown(simulated));
    }
    if let Some(path) = &arguments.json {
        write_json(path, &rows)?;
    }
    Ok(())
}
