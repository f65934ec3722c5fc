//! `lockstep sources`: compares sources under one congestion control, GCC, over the same links.
//!
//! The sources range from one that always fills the target to video with a conventional codec. Intermediate sources
//! change one property at a time. Each runs under current GCC and GCC of Concerto's time. All calls are modelled;
//! `--coded` adds video with the real codec.
//!
//! The command reproduces Concerto's observation (MobiCom 2019, section 2): the transport finds the capacity, and the
//! codec does not follow it. `lockstep study concerto --parts observation` runs it for several seeds, and compares the
//! results with the paper. The findings are in the lab: `2026-11-notes-lab`.

mod designs;
mod reaction;
mod recovery;
#[cfg(test)]
mod tests;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use serde::Serialize;

use lockstep_call::mean;
use lockstep_configuration::{
    CallArguments, CallSettings, CodecKind, NamedTrace, PROGRESS_INTERVAL, TraceName, simulate, simulate_gcc,
};
use lockstep_control::Algorithm;
use lockstep_measure::Scores;
use lockstep_runner::progress::figure;

use super::study::{CommonArguments, DECIDED, each, refuse, write};
use super::sweep::Seeds;
use crate::data::with_splits;
use designs::{Design, FULL_THROTTLE, TODAY, designs};
use reaction::Reaction;
use recovery::Recovery;

/// Arguments of `lockstep sources`.
#[derive(Args)]
pub struct SourcesArguments {
    /// Links of the calls, separated by commas.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "varying,returning")]
    links: Vec<Links>,
    /// Traces of varying links; default: eight generated cellular ones.
    #[arg(long, num_args = 1..)]
    traces: Vec<String>,
    /// Seeds of everything random: `1-5`, or `1,4,7`. Default: the one of --seed.
    #[arg(long)]
    seeds: Option<Seeds>,
    /// Add video with the real conventional codec. It requires real pictures and more time.
    #[arg(long)]
    coded: bool,
    #[command(flatten)]
    common: CommonArguments,
}

/// Kind of links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Links {
    /// Links with varying capacity: rate, delay, loss, and reaction time.
    Varying,
    /// Four links whose capacity falls for 20 s and returns, in calls of four minutes: time until the bit rate
    /// recovers.
    Returning,
}

/// Default traces of varying links.
const TRACES: [&str; 8] = [
    "cellular:mean=1.5mbps,seed=1",
    "cellular:mean=2mbps,seed=2",
    "cellular:mean=2.5mbps,seed=3",
    "cellular:mean=3mbps,seed=4",
    "cellular:mean=3.5mbps,seed=5",
    "cellular:mean=4mbps,seed=6",
    "cellular:mean=5mbps,seed=7",
    "cellular:mean=6mbps,seed=8",
];
/// The congestion control of all sources.
const CONTROLLER: Algorithm = Algorithm::Gcc;

/// One call.
#[derive(Serialize)]
struct Row {
    trace: String,
    seed: u64,
    control: &'static str,
    source: &'static str,
    /// Updates of GCC's delay-based estimate per second. None for coded video.
    samples_a_second: Option<f64>,
    #[serde(flatten)]
    reaction: Reaction,
    #[serde(flatten)]
    scores: Scores,
}

/// One call over a link whose capacity falls and returns.
#[derive(Serialize)]
struct RecoveryRow {
    trace: String,
    seed: u64,
    control: &'static str,
    source: &'static str,
    #[serde(flatten)]
    recovery: Recovery,
}

/// Output of `--json`.
#[derive(Serialize)]
struct Numbers {
    calls: Vec<Row>,
    recoveries: Vec<RecoveryRow>,
}

/// A call: a source under a control over a link.
#[derive(Clone)]
struct Call {
    trace: NamedTrace,
    seed: u64,
    control: &'static str,
    source: &'static str,
    /// None for video with the real codec.
    design: Option<Design>,
}

impl Call {
    fn settings(&self, given: &CallSettings) -> CallSettings {
        let mut settings = given.clone();
        settings.link.trace.clone_from(&self.trace);
        settings.link.seed = self.seed;
        settings.control.controller = CONTROLLER.into();
        settings.control.codec = CodecKind::Conventional;
        settings.modelled = self.design.is_some();
        settings
    }

    fn run(&self, given: &CallSettings) -> Result<Row> {
        let settings = self.settings(given);
        let (simulated, samples) = match &self.design {
            Some(design) => simulate_gcc(&settings, &design.call)?,
            None => (simulate(&settings, |_| Ok(()))?, Vec::new()),
        };
        let report = simulated.report;
        Ok(Row {
            trace: self.trace.name().to_string(),
            seed: self.seed,
            control: self.control,
            source: self.source,
            samples_a_second: samples.last().map(|&count| count as f64 / given.length.as_f64()),
            reaction: Reaction::of(&report.series),
            scores: report.scores,
        })
    }

    fn recover(&self, given: &CallSettings) -> Result<RecoveryRow> {
        let mut settings = self.settings(given);
        settings.length = recovery::LENGTH;
        let design = self.design.as_ref().context("only modelled calls")?;
        let (simulated, samples) = simulate_gcc(&settings, &design.call)?;
        Ok(RecoveryRow {
            trace: self.trace.name().to_string(),
            seed: self.seed,
            control: self.control,
            source: self.source,
            recovery: Recovery::of(&simulated.report.series, &samples, PROGRESS_INTERVAL),
        })
    }
}

/// A row of a table, by control and source.
trait Compared {
    fn design(&self) -> (&'static str, &'static str);
}

impl Compared for Row {
    fn design(&self) -> (&'static str, &'static str) {
        (self.control, self.source)
    }
}

impl Compared for RecoveryRow {
    fn design(&self) -> (&'static str, &'static str) {
        (self.control, self.source)
    }
}

/// A score of a table: heading, digits, value.
type Figure<R> = (&'static str, usize, fn(&R) -> Option<f64>);

const FIGURES: [Figure<Row>; 10] = [
    ("Mb/s", 2, |row| Some(row.scores.throughput_bps as f64 * 1e-6)),
    ("link %", 0, |row| Some(100.0 * row.scores.link_utilisation)),
    ("delay ms", 0, |row| row.scores.one_way_delay_ms.map(|delay| delay.mean)),
    ("p95", 0, |row| row.scores.one_way_delay_ms.map(|delay| delay.p95)),
    ("loss %", 2, |row| row.scores.packet_loss.map(|loss| 100.0 * loss)),
    ("reduced %", 0, |row| row.reaction.reduction.map(|share| 100.0 * share)),
    ("reduce ms", 0, |row| row.reaction.reduction_ms),
    ("recover ms", 0, |row| row.reaction.recovery_ms),
    ("targets", 0, |row| Some(row.reaction.target_updates as f64)),
    ("samples/s", 1, |row| row.samples_a_second),
];

const RECOVERY_FIGURES: [Figure<RecoveryRow>; 4] = [
    ("back s", 1, |row| Some(row.recovery.seconds)),
    ("reduced %", 0, |row| row.recovery.reduction.map(|share| 100.0 * share)),
    ("never %", 0, |row| Some(if row.recovery.came_back { 0.0 } else { 100.0 })),
    ("samples/s", 1, |row| Some(row.recovery.samples_a_second)),
];

/// Prints the mean of each source over all calls, grouped by control. The first score is also relative to the
/// full-throttle source.
fn print<R: Compared>(rows: &[R], figures: &[Figure<R>]) {
    let mut of: Vec<(&str, &str)> = Vec::new();
    for row in rows {
        if !of.contains(&row.design()) {
            of.push(row.design());
        }
    }
    let mean_of =
        |design, value: fn(&R) -> Option<f64>| mean(rows.iter().filter(|row| row.design() == design).filter_map(value));
    let headings: String = figures.iter().map(|(heading, ..)| format!("{heading:>11}")).collect();
    let mut last = "";
    for (control, source) in of {
        if control != last {
            print_line!("{control:<42}{headings}{:>11}", "against");
            last = control;
        }
        let values = figures
            .iter()
            .map(|&(_, digits, value)| format!("{:>11}", figure(mean_of((control, source), value), digits)));
        let first = figures.first().and_then(|&(.., value)| {
            let (own, full) = (mean_of((control, source), value)?, mean_of((control, FULL_THROTTLE), value)?);
            (source != FULL_THROTTLE && full > 0.0).then(|| format!("{:+.1} %", 100.0 * (own / full - 1.0)))
        });
        print_line!("  {source:<40}{}{:>11}", values.collect::<String>(), first.unwrap_or_default());
    }
    print_line!("");
}

/// `lockstep sources`. `is_given` tells whether an option was given.
///
/// # Errors
/// If an option that the command decides itself was given, or a trace cannot be read. Also if a call fails or the
/// numbers cannot be written.
pub fn run(arguments: &SourcesArguments, is_given: &dyn Fn(&str) -> bool) -> Result<()> {
    refuse(&DECIDED, is_given)?;
    refuse(&["modelled"], is_given)?;
    if let Some(name) = ["menu", "fit_passes"].iter().find(|name| is_given(name)) {
        bail!("--{} does not apply to the conventional codec of this command; omit it", name.replace('_', "-"));
    }
    let takes = |links| arguments.links.contains(&links);
    if !takes(Links::Varying) && (arguments.coded || !arguments.traces.is_empty()) {
        bail!("--traces and --coded require varying links; add them to --links");
    }
    let named = with_splits(&arguments.traces)?;
    let given = arguments.common.settings(CallArguments::default(), &named)?;
    let traces: Vec<TraceName> = match &named[..] {
        [] => TRACES.map(TraceName::from).to_vec(),
        given => given.iter().map(|name| TraceName::from(name.as_str())).collect(),
    };
    let seeds = arguments.seeds.as_ref().map_or_else(|| vec![given.link.seed], |seeds| seeds.0.clone());
    let over = |links, traces: &[TraceName], coded| {
        if takes(links) { calls_over(traces, &seeds, coded) } else { Ok(Vec::new()) }
    };
    let varying = over(Links::Varying, &traces, arguments.coded)?;
    let returning = over(Links::Returning, &recovery::TRACES.map(TraceName::from), false)?;
    let calls = each("sources, varying links", &varying, |call| call.run(&given))?;
    let recoveries = each("sources, returning links", &returning, |call| call.recover(&given))?;
    if takes(Links::Varying) {
        print_line!(
            "{} s of {} under {CONTROLLER}: means over {} traces\n",
            given.length.as_f64(),
            given.clip,
            traces.len()
        );
        print(&calls, &FIGURES);
    }
    if takes(Links::Returning) {
        print_line!(
            "from the return of a link's capacity until 70 % of it come through: {} links\n",
            recovery::TRACES.len()
        );
        print(&recoveries, &RECOVERY_FIGURES);
    }
    write(arguments.common.json.as_ref(), &Numbers { calls, recoveries })
}

/// Every design over each of `traces` with each of `seeds`. `coded` adds video with the real codec.
fn calls_over(traces: &[TraceName], seeds: &[u64], coded: bool) -> Result<Vec<Call>> {
    let traces = traces.iter().map(NamedTrace::open).collect::<Result<Vec<_>>>()?;
    let designs = designs();
    let mut calls = Vec::new();
    for trace in &traces {
        for &seed in seeds {
            let call = |control, source, design| Call { trace: trace.clone(), seed, control, source, design };
            calls.extend(coded.then(|| call(TODAY, "coded video", None)));
            calls.extend(designs.iter().map(|design| call(design.control, design.source, Some(*design))));
        }
    }
    Ok(calls)
}
