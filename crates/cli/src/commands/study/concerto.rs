//! Concerto's observation (MobiCom 2019, section 2): the transport finds the capacity, and the codec does not follow it.
//! The same congestion control, GCC, with two sources over the same link: video with a conventional codec, and a source
//! that always sends what the target allows. Both calls are modelled, so that they differ in nothing else; video with
//! the codec itself is a third row, if it is asked for.

use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;

use lockstep_call::{Scores, mean};
use lockstep_control::Algorithm;

use super::reaction::Reaction;
use super::{CommonArguments, each, figure, write};
use crate::commands::sweep::Seeds;
use crate::configuration::{CodecKind, NamedTrace, TraceName, simulate, simulate_full_throttle};

/// What `lockstep study concerto` is told.
#[derive(Args)]
pub(super) struct ConcertoArguments {
    /// Traces; if not given, eight generated cellular ones.
    #[arg(long, num_args = 1..)]
    traces: Vec<String>,
    /// Seeds of everything random: `1-5`, or `1,4,7`. If not given, the one of --seed.
    #[arg(long)]
    seeds: Option<Seeds>,
    /// Video with the conventional codec itself, too, besides the model of it. That takes real pictures, and time.
    #[arg(long)]
    coded: bool,
    #[command(flatten)]
    common: CommonArguments,
}

/// The traces that the study runs over if none are given.
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

/// What sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Source {
    /// Video, as a model of the conventional codec codes it.
    Video,
    /// Whatever the target allows.
    FullThrottle,
    /// Video, coded by the conventional codec.
    CodedVideo,
}

impl Source {
    const ALL: [Self; 3] = [Self::Video, Self::FullThrottle, Self::CodedVideo];

    const fn name(self) -> &'static str {
        match self {
            Self::Video => "video",
            Self::FullThrottle => "full throttle",
            Self::CodedVideo => "coded video",
        }
    }
}

#[derive(Serialize)]
struct Row {
    trace: String,
    seed: u64,
    source: Source,
    #[serde(flatten)]
    reaction: Reaction,
    #[serde(flatten)]
    scores: Scores,
}

/// A figure of the table: heading, digits, value.
type Figure = (&'static str, usize, fn(&Row) -> Option<f64>);

const FIGURES: [Figure; 9] = [
    ("Mb/s", 2, |row| Some(row.scores.throughput_bps as f64 * 1e-6)),
    ("link %", 0, |row| Some(100.0 * row.scores.link_utilisation)),
    ("one-way ms", 0, |row| row.scores.one_way_delay_ms.map(|delay| delay.mean)),
    ("p95", 0, |row| row.scores.one_way_delay_ms.map(|delay| delay.p95)),
    ("queue p95", 0, |row| row.scores.queueing_delay_ms.map(|delay| delay.p95)),
    ("loss %", 2, |row| row.scores.packet_loss.map(|loss| 100.0 * loss)),
    ("reduce ms", 0, |row| row.reaction.reduction_ms),
    ("recover ms", 0, |row| row.reaction.recovery_ms),
    ("updates", 0, |row| Some(row.reaction.target_updates as f64)),
];

fn print(rows: &[Row]) {
    let headings: String = FIGURES.iter().map(|(heading, ..)| format!("{heading:>12}")).collect();
    say!("{:<44}{:<16}{headings}", "trace / seed", "source");
    for row in rows {
        let values: String =
            FIGURES.iter().map(|&(_, digits, value)| format!("{:>12}", figure(value(row), digits))).collect();
        say!("{:<44}{:<16}{values}", format!("{} / {}", row.trace, row.seed), row.source.name());
    }
    say!("");
    for source in Source::ALL {
        if rows.iter().all(|row| row.source != source) {
            continue;
        }
        let values: String = FIGURES
            .iter()
            .map(|&(_, digits, value)| {
                let values: Vec<f64> = rows.iter().filter(|row| row.source == source).filter_map(value).collect();
                format!("{:>12}", figure(mean(&values), digits))
            })
            .collect();
        say!("{:<44}{:<16}{values}", "mean", source.name());
    }
}

pub(super) fn run(arguments: &ConcertoArguments, told: &dyn Fn(&str) -> bool) -> Result<()> {
    if let Some(name) = ["menu", "fit_passes"].iter().find(|name| told(name)) {
        bail!("the conventional codec, whose study this is, does not heed --{}; leave it out", name.replace('_', "-"));
    }
    let given = arguments.common.settings(&arguments.traces)?;
    let traces: Vec<TraceName> = match &arguments.traces[..] {
        [] => TRACES.map(TraceName::from).to_vec(),
        given => given.iter().map(|name| TraceName::from(name.as_str())).collect(),
    };
    let traces = traces.iter().map(NamedTrace::open).collect::<Result<Vec<_>>>()?;
    let seeds = arguments.seeds.as_ref().map_or_else(|| vec![given.link.seed], |seeds| seeds.0.clone());
    let sources: Vec<Source> =
        Source::ALL.into_iter().filter(|&source| arguments.coded || source != Source::CodedVideo).collect();
    let mut calls = Vec::new();
    for trace in &traces {
        for &seed in &seeds {
            calls.extend(sources.iter().map(|&source| (trace.clone(), seed, source)));
        }
    }
    let rows = each("study concerto", &calls, |(trace, seed, source)| {
        let mut call = given.clone();
        call.link.trace.clone_from(trace);
        call.link.seed = *seed;
        call.control.controller = CONTROLLER.into();
        call.control.codec = CodecKind::Conventional;
        call.modelled = *source != Source::CodedVideo;
        let report = match source {
            Source::Video | Source::CodedVideo => simulate(&call, |_| Ok(()))?.report,
            Source::FullThrottle => simulate_full_throttle(&call)?.report,
        };
        let reaction = Reaction::of(&report.series);
        Ok(Row { trace: trace.name().to_string(), seed: *seed, source: *source, reaction, scores: report.scores })
    })?;
    say!("{} s of {} under {CONTROLLER}\n", given.length.as_f64(), given.clip);
    print(&rows);
    write(arguments.common.json.as_ref(), &rows)
}
