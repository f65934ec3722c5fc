//! Concerto's observation (MobiCom 2019, section 2): the transport finds the capacity, and the codec does not follow it.
//! The same congestion control, GCC, with two sources over the same link: video with a conventional codec, and a source
//! that always sends what the target allows.

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use lockstep_call::{Scores, mean};

use super::reaction::Reaction;
use super::{CommonArguments, each, figure, write};
use crate::configuration::{CodecArgument, SimulateArguments, simulate, simulate_full_throttle};

/// What `lockstep study concerto` is told.
#[derive(Args)]
pub(super) struct ConcertoArguments {
    /// Traces; if not given, three generated cellular ones.
    #[arg(long, num_args = 1..)]
    traces: Vec<String>,
    #[command(flatten)]
    common: CommonArguments,
}

/// The traces that the study runs over if none are given.
const TRACES: [&str; 3] = ["cellular:mean=2mbps,seed=1", "cellular:mean=3mbps,seed=2", "cellular:mean=5mbps,seed=3"];
/// The congestion control of both sources.
const CONTROLLER: &str = "gcc";

/// What sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Source {
    /// Video, coded by the conventional codec.
    Video,
    /// Whatever the target allows.
    FullThrottle,
}

#[derive(Serialize)]
struct Row {
    trace: String,
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
    say!("{:<44}{:<16}{headings}", "trace", "source");
    for row in rows {
        let values: String =
            FIGURES.iter().map(|&(_, digits, value)| format!("{:>12}", figure(value(row), digits))).collect();
        let source = if row.source == Source::Video { "video" } else { "full throttle" };
        say!("{:<44}{source:<16}{values}", row.trace);
    }
    say!("");
    for source in [Source::Video, Source::FullThrottle] {
        let values: String = FIGURES
            .iter()
            .map(|&(_, digits, value)| {
                let values: Vec<f64> = rows.iter().filter(|row| row.source == source).filter_map(value).collect();
                format!("{:>12}", figure(mean(&values), digits))
            })
            .collect();
        let source = if source == Source::Video { "video" } else { "full throttle" };
        say!("{:<44}{source:<16}{values}", "mean");
    }
}

pub(super) fn run(arguments: &ConcertoArguments) -> Result<()> {
    let given = &arguments.common.simulation;
    let traces: Vec<String> = match &arguments.traces[..] {
        [] => TRACES.map(str::to_owned).to_vec(),
        given => given.to_vec(),
    };
    let calls: Vec<(String, Source)> = traces
        .iter()
        .flat_map(|trace| [Source::Video, Source::FullThrottle].map(|source| (trace.clone(), source)))
        .collect();
    let rows = each("study concerto", &calls, |(trace, source)| {
        let mut call: SimulateArguments = given.clone();
        call.link.trace.clone_from(trace);
        call.control.controller = CONTROLLER.to_owned();
        call.control.codec = CodecArgument::Conventional;
        let report = match source {
            Source::Video => simulate(&call, |_| Ok(()))?.report,
            Source::FullThrottle => simulate_full_throttle(&call)?.report,
        };
        let reaction = Reaction::of(&report.series);
        Ok(Row { trace: trace.clone(), source: *source, reaction, scores: report.scores })
    })?;
    say!("{} s of {} under {CONTROLLER}\n", given.seconds, given.clip);
    print(&rows);
    write(arguments.common.json.as_ref(), &rows)
}
