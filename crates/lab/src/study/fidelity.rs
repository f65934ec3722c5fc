//! `lockstep study fidelity`: error of modelled calls against coded ones, and of calls in virtual time against live
//! ones. A modelled call differs from a coded one only in the codec (`lockstep_sim::modelled`). So the error is that of
//! the model. The model is fitted to the first pictures of the clip of the calls, fifteen seconds by default. The
//! generated clip changes its scene every eleven seconds. The rest of the clip is unseen.
//!
//! A model draws the pictures of its calls, and half a minute is only one draw. Scene changes and oscillations of the
//! controller dominate its tail. So each modelled score is the median of several draws. The table counts the cells
//! whose coded call is within the range of the draws.

use anyhow::Result;
use clap::Args;
use md5::{Digest, Md5};
use serde::{Deserialize, Serialize};

use lockstep_configuration::{
    CallArguments, CallSettings, CodecKind, NamedTrace, OptionValue, Simulated, TraceName, simulate, simulate_modelled,
};
use lockstep_control::Algorithm;
use lockstep_measure::Scores;
use lockstep_runner::progress::figure;

use super::{CommonArguments, TRIED_SECONDS, coded_seconds, write};
use crate::compare::{LiveAndSimulated, both_ways};
use crate::data::with_splits;
use crate::journal::Journal;
use crate::model::model_of;
use crate::sweep::contents::Contents;

/// Arguments of `lockstep study fidelity`, besides those of `lockstep simulate`.
#[derive(Args)]
pub(super) struct FidelityArguments {
    /// Traces; default: twelve generated ones.
    #[arg(long, num_args = 1..)]
    traces: Vec<String>,
    /// Number of cells, spread over the table, that also run live over the emulator, in real time.
    #[arg(long, default_value_t = 3)]
    live: usize,
    /// Pictures to fit the model to.
    #[arg(long, default_value_t = 450, value_parser = clap::value_parser!(u32).range(60..=20_000))]
    pictures: u32,
    /// Modelled calls per cell, with consecutive seeds.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    draws: u32,
    /// Run every call again, even those in the journal next to the JSON file. By default, an interrupted study resumes.
    #[arg(long)]
    fresh: bool,
    #[command(flatten)]
    common: CommonArguments,
}

/// The default traces: steady and stepping, cellular and noisy, slow and fast.
const TRACES: [&str; 12] = [
    "constant:300kbps",
    "constant:1mbps",
    "constant:5mbps",
    "poisson:600kbps,seed=11",
    "poisson:2mbps,seed=12",
    "cellular:mean=600kbps,seed=13",
    "cellular:mean=1.5mbps,seed=14",
    "cellular:mean=3mbps,seed=15",
    "cellular:mean=8mbps,seed=16",
    "cellular:mean=2mbps,outage=12s+1s,seed=17",
    "cellular:mean=4mbps,seed=18",
    "poisson:5mbps,seed=19",
];
/// Limit for the medians of relative errors of a model.
const MEDIAN: f64 = 0.10;
/// Limit for the relative error of p95.
const MAX_P95_ERROR: f64 = 0.30;
/// Limit for the error of SSIM, dB.
const MAX_SSIM_ERROR_DB: f64 = 0.5;

fn controllers() -> Result<Vec<Algorithm>> {
    ["salsify", "gcc", "nada", "scream", "bob-heuristic"].iter().map(|name| Ok(name.parse()?)).collect()
}

/// Compared scores of a call.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Figures {
    p50_ms: Option<f64>,
    p95_ms: Option<f64>,
    throughput_bps: f64,
    ssim_db: Option<f64>,
}

impl Figures {
    fn of(scores: &Scores) -> Self {
        Self {
            p50_ms: scores.video_delay_ms.map(|delay| delay.p50),
            p95_ms: scores.video_delay_ms.map(|delay| delay.p95),
            throughput_bps: scores.throughput_bps as f64,
            ssim_db: scores.ssim_db.map(|ssim| ssim.mean),
        }
    }

    /// Median of each score.
    fn median(draws: &[Self]) -> Self {
        let of = |figure: fn(&Self) -> Option<f64>| median(draws.iter().map(figure));
        Self {
            p50_ms: of(|figures| figures.p50_ms),
            p95_ms: of(|figures| figures.p95_ms),
            throughput_bps: of(|figures| Some(figures.throughput_bps)).unwrap_or(0.0),
            ssim_db: of(|figures| figures.ssim_db),
        }
    }
}

/// Results of one cell.
#[derive(Debug, Serialize, Deserialize)]
struct Found {
    coded: Figures,
    draws: Vec<Figures>,
}

/// Errors of the scores of one call against another: shares of the latter, and decibels.
#[derive(Debug, Clone, Copy, Serialize)]
struct Errors {
    p50: Option<f64>,
    p95: Option<f64>,
    throughput: Option<f64>,
    ssim_db: Option<f64>,
}

impl Errors {
    fn of(found: &Figures, truth: &Figures) -> Self {
        let share = |found: Option<f64>, truth: Option<f64>| {
            found.zip(truth).map(|(found, truth)| found / truth - 1.0).filter(|share| share.is_finite())
        };
        Self {
            p50: share(found.p50_ms, truth.p50_ms),
            p95: share(found.p95_ms, truth.p95_ms),
            throughput: share(Some(found.throughput_bps), Some(truth.throughput_bps)),
            ssim_db: found.ssim_db.zip(truth.ssim_db).map(|(found, truth)| found - truth),
        }
    }

    /// Largest error relative to its limit; 1 is the limit.
    fn badness(&self) -> f64 {
        let part = |error: Option<f64>, most: f64| error.map_or(f64::INFINITY, |error| error.abs() / most);
        part(self.p95, MAX_P95_ERROR).max(part(self.ssim_db, MAX_SSIM_ERROR_DB))
    }
}

/// One cell of the table: a trace, a codec and a controller.
#[derive(Debug, Serialize)]
struct Cell {
    trace: String,
    codec: CodecKind,
    controller: String,
    /// Scores with the codec.
    coded: Figures,
    /// Scores with the model: medians over the draws.
    modelled: Figures,
    /// Minimum and maximum p95 of the draws, ms.
    drawn_p95_ms: Option<(f64, f64)>,
    errors: Errors,
}

/// One cell that ran live.
#[derive(Debug, Serialize)]
struct LiveCell {
    trace: String,
    codec: CodecKind,
    controller: String,
    live: Figures,
    /// Scores with the codec in virtual time, with the coding times of the live call.
    simulated: Figures,
}

impl LiveCell {
    fn errors(&self) -> Errors {
        Errors::of(&self.simulated, &self.live)
    }
}

#[derive(Debug, Serialize)]
struct FidelityReport {
    clip: String,
    seconds: f64,
    cells: Vec<Cell>,
    live: Vec<LiveCell>,
    /// Medians of the absolute errors of the modelled calls.
    medians: Errors,
}

fn median(errors: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let mut known: Vec<f64> = errors.flatten().map(f64::abs).collect();
    known.sort_unstable_by(f64::total_cmp);
    lockstep_call::quantile(&known, 0.5)
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:+.0} %", 100.0 * share))
}

fn pair(one: Option<f64>, other: Option<f64>, digits: usize) -> String {
    format!("{} / {}", figure(one, digits), figure(other, digits))
}

/// One line of either table.
fn line(name: &str, found: &Figures, truth: &Figures, errors: &Errors) -> String {
    let kilobits = |figures: &Figures| Some(figures.throughput_bps * 1e-3);
    format!(
        "{name:<66}{:>14}{:>8}{:>14}{:>8}{:>14}{:>8}{:>15}{:>7}",
        pair(truth.p50_ms, found.p50_ms, 0),
        percent(errors.p50),
        pair(truth.p95_ms, found.p95_ms, 0),
        percent(errors.p95),
        pair(kilobits(truth), kilobits(found), 0),
        percent(errors.throughput),
        pair(truth.ssim_db, found.ssim_db, 1),
        errors.ssim_db.map_or_else(|| "-".to_owned(), |error| format!("{error:+.1}")),
    )
}

fn heading(what: &str) -> String {
    format!("{what:<66}{:>22}{:>22}{:>22}{:>22}", "p50 (ms)", "p95 (ms)", "kb/s", "SSIM (dB)")
}

fn name(trace: &str, codec: CodecKind, controller: &str) -> String {
    let short = trace.rsplit('/').next().unwrap_or(trace);
    format!("{short} {} {controller}", codec.to_word())
}

fn print(report: &FidelityReport) {
    print_line!("{}", heading("coded / modelled, worst first"));
    for Cell { trace, codec, controller, coded, modelled, errors, .. } in &report.cells {
        print_line!("{}", line(&name(trace, *codec, controller), modelled, coded, errors));
    }
    let Errors { p50, p95, throughput, ssim_db } = report.medians;
    print_line!(
        "\nmedian error of the model: p50 {}, p95 {}, throughput {}, SSIM {} dB",
        percent(p50),
        percent(p95),
        percent(throughput),
        figure(ssim_db, 2)
    );
    let count = |beyond: fn(&Errors) -> bool| report.cells.iter().filter(|cell| beyond(&cell.errors)).count();
    let late = count(|errors| errors.p95.is_none_or(|error| error.abs() > MAX_P95_ERROR));
    let unlike = count(|errors| errors.ssim_db.is_none_or(|error| error.abs() > MAX_SSIM_ERROR_DB));
    print_line!(
        "{late} of {} cells are off by more than {:.0} % in p95, {unlike} by more than {MAX_SSIM_ERROR_DB} dB",
        report.cells.len(),
        100.0 * MAX_P95_ERROR
    );
    let might_be = |cell: &&Cell| {
        cell.drawn_p95_ms.zip(cell.coded.p95_ms).is_some_and(|((least, most), p95)| (least..=most).contains(&p95))
    };
    print_line!(
        "{} coded calls have a p95 within those of the model's draws",
        report.cells.iter().filter(might_be).count()
    );
    let held = [p50, p95, throughput].into_iter().all(|error| error.is_some_and(|error| error <= MEDIAN));
    print_line!("the medians are {} {:.0} %", if held { "within" } else { "not all within" }, 100.0 * MEDIAN);
    if !report.live.is_empty() {
        print_line!("\n{}", heading("live / simulated"));
        for cell in &report.live {
            let LiveCell { trace, codec, controller, live, simulated } = cell;
            print_line!("{}", line(&name(trace, *codec, controller), simulated, live, &cell.errors()));
        }
    }
}

/// Computes keys of the journal.
struct Keys {
    program: String,
    contents: Contents,
}

impl Keys {
    fn new() -> Result<Self> {
        let mut contents = Contents::default();
        Ok(Self { program: contents.of_this_program()?, contents })
    }

    /// Key of the result `what` of `settings`. It includes this program and the content of the input files.
    fn of(&mut self, what: &str, settings: &CallSettings) -> Result<String> {
        let mut hash = Md5::new();
        hash.update(&self.program);
        hash.update(what);
        hash.update(serde_json::to_vec(settings)?);
        for path in settings.inputs().into_iter().filter(|path| path.is_file()) {
            hash.update(self.contents.of_file(path)?);
        }
        Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

/// Number of calls, and an estimate of their time. It runs the first cell's coded call for a moment; draws are fast in
/// comparison.
fn announcement(cells: usize, open: &[&CallSettings], draws: u32, live: usize) -> Result<String> {
    let length = open.first().map_or(0.0, |settings| settings.length.as_f64());
    let kept = cells - open.len();
    let what = format!("fidelity: {cells} cells ({kept} in the journal) of a coded call and {draws} modelled ones");
    let Some(first) = open.first().filter(|_| length > f64::from(TRIED_SECONDS)) else { return Ok(what) };
    let estimate = coded_seconds(first, open.len())? + live as f64 * length;
    Ok(format!("{what}, about {estimate:.0} s in all"))
}

/// Runs the study. `one_codec` restricts the table to the codec of the options.
pub(super) fn run(arguments: &FidelityArguments, one_codec: bool) -> Result<()> {
    let named = with_splits(&arguments.traces)?;
    let given = arguments.common.settings(CallArguments::default(), &named)?;
    let names: Vec<TraceName> = match &named[..] {
        [] => TRACES.into_iter().map(TraceName::from).collect(),
        traces => traces.iter().map(|trace| TraceName::from(trace.as_str())).collect(),
    };
    let traces = names.iter().map(NamedTrace::open).collect::<Result<Vec<_>>>()?;
    let seed = given.link.seed;
    let mut journal = Journal::of_output(arguments.common.json.as_deref(), arguments.fresh)?;
    let mut keys = Keys::new()?;
    let fitted = keys.of(&format!("model of {} pictures", arguments.pictures), &given)?;

    let both = [CodecKind::Functional, CodecKind::Conventional];
    let codecs = if one_codec { &[given.control.codec][..] } else { &both };
    let mut cells = Vec::new();
    for trace in &traces {
        for &codec in codecs {
            for controller in controllers()? {
                let mut settings = given.clone();
                settings.link.trace = trace.clone();
                settings.control.codec = codec;
                settings.control.controller = controller.into();
                let what = format!("{} draws of {} pictures", arguments.draws, arguments.pictures);
                cells.push((keys.of(&what, &settings)?, settings));
            }
        }
    }
    let open: Vec<&CallSettings> =
        cells.iter().filter(|(key, _)| journal.known::<Found>(key).is_none()).map(|(_, settings)| settings).collect();
    eprint_line!("{}", announcement(cells.len(), &open, arguments.draws, arguments.live)?);
    let model = journal.measured(&fitted, || model_of(given.clip.as_str(), arguments.pictures, seed))?;
    let found = journal.each("study fidelity", &cells, |settings| {
        let figures = |simulated: Simulated| Figures::of(&simulated.report.scores);
        let draw = |draw: u32| {
            let mut drawn = settings.clone();
            drawn.link.seed = seed.wrapping_add(u64::from(draw));
            Ok(figures(simulate_modelled(&drawn, &model)?))
        };
        let coded = figures(simulate(settings, |_| Ok(()))?);
        Ok(Found { coded, draws: (0..arguments.draws).map(draw).collect::<Result<_>>()? })
    })?;
    let cell = |((_, settings), Found { coded, draws }): (&(String, CallSettings), &Found)| {
        let modelled = Figures::median(draws);
        let mut delays: Vec<f64> = draws.iter().filter_map(|figures| figures.p95_ms).collect();
        delays.sort_unstable_by(f64::total_cmp);
        Cell {
            trace: settings.link.trace.name().to_string(),
            codec: settings.control.codec,
            controller: settings.control.controller.to_string(),
            coded: *coded,
            modelled,
            drawn_p95_ms: delays.first().copied().zip(delays.last().copied()),
            errors: Errors::of(&modelled, coded),
        }
    };
    let mut table: Vec<Cell> = cells.iter().zip(&found).map(cell).collect();
    let medians = Errors {
        p50: median(table.iter().map(|cell| cell.errors.p50)),
        p95: median(table.iter().map(|cell| cell.errors.p95)),
        throughput: median(table.iter().map(|cell| cell.errors.throughput)),
        ssim_db: median(table.iter().map(|cell| cell.errors.ssim_db)),
    };
    table.sort_by(|one, other| other.errors.badness().total_cmp(&one.errors.badness()));

    // One after the other: a live call requires the whole machine.
    let step = (cells.len() / arguments.live.max(1)).max(1);
    let mut live = Vec::new();
    // An odd step includes both codecs.
    for (key, settings) in cells.iter().step_by(step | 1).take(arguments.live) {
        let (played, simulated) = journal.measured(&format!("live {key}"), || {
            let LiveAndSimulated { live: played, simulated, .. } = both_ways(settings)?;
            Ok((Figures::of(&played), Figures::of(&simulated)))
        })?;
        live.push(LiveCell {
            trace: settings.link.trace.name().to_string(),
            codec: settings.control.codec,
            controller: settings.control.controller.to_string(),
            live: played,
            simulated,
        });
    }
    let report =
        FidelityReport { clip: given.clip.to_string(), seconds: given.length.as_f64(), cells: table, live, medians };
    print(&report);
    write(arguments.common.json.as_ref(), &report)
}

#[cfg(test)]
mod tests {
    use lockstep_configuration::Seconds;

    use super::*;

    #[test]
    fn study_announces_its_size_and_estimated_time() {
        let call = CallArguments {
            clip: Some("generated:64x48@10".into()),
            seconds: Some(Seconds::whole(3)),
            ..CallArguments::default()
        };
        let settings = call.settings().unwrap();
        let announced = announcement(3, &[&settings], 5, 0).unwrap();
        assert!(
            announced.starts_with("fidelity: 3 cells (2 in the journal) of a coded call and 5 modelled ones, about ")
        );
        let nothing_left = announcement(3, &[], 5, 0).unwrap();
        assert_eq!(nothing_left, "fidelity: 3 cells (3 in the journal) of a coded call and 5 modelled ones");
    }
}
