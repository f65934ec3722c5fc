//! `lockstep scenario`: the congestion control tests of RFC 8867 and RFC 8869.

mod all;
mod bands;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use serde::Serialize;

use lockstep_configuration::{ControlSettings, ScenarioArguments, ScenarioSession, read_regular_text, run_scenario};
use lockstep_control::Controllers;
use lockstep_runner::output_file::{self, write_json};
use lockstep_runner::progress::{Progress, figure};
use lockstep_runner::session_log::arguments::SessionArguments;
use lockstep_sim::scenario::{FlowReport, Scenario, ScenarioReport};

use crate::model::open_model;

/// Arguments of `lockstep scenario`.
#[derive(Debug, Args)]
pub struct ScenarioCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the built-in scenarios.
    List,
    /// Print a scenario as JSON, which `run` reads after changes.
    Show(ShowArguments),
    /// Run a scenario under a controller.
    Run(RunArguments),
    /// Run all scenarios under a controller, for one table of RFC 8868's metrics.
    All(all::AllArguments),
}

/// Arguments of `lockstep scenario show`.
#[derive(Debug, Args)]
struct ShowArguments {
    /// Name of the scenario, see `lockstep scenario list`.
    scenario: String,
}

/// Arguments of `lockstep scenario run`.
#[derive(Debug, Args)]
struct RunArguments {
    /// Name of the scenario, see `lockstep scenario list`, or a file in the format of `lockstep scenario show`.
    scenario: String,
    #[command(flatten)]
    arguments: ScenarioArguments,
    /// The codec model; default: the built-in one.
    #[arg(long)]
    codec_model: Option<PathBuf>,
    /// Write the results to this file as JSON: rates over time, delays, losses and scores of every flow; links; phases.
    #[arg(long)]
    json: Option<PathBuf>,
    #[command(flatten)]
    session: SessionArguments,
}

/// JSON document of a run.
#[derive(Serialize)]
struct Document<'a> {
    lockstep: &'a str,
    kind: &'a str,
    config: &'a ScenarioArguments,
    #[serde(flatten)]
    report: &'a ScenarioReport,
}

fn find(name: &str) -> Result<Scenario> {
    if let Some(scenario) = Scenario::named(name) {
        return Ok(scenario);
    }
    let path = Path::new(name);
    if !path.exists() {
        bail!("scenario {name}: neither a file nor a built-in scenario; `lockstep scenario list` lists them");
    }
    let text = read_regular_text(path).with_context(|| format!("scenario {name}"))?;
    Scenario::from_json(&text).with_context(|| format!("scenario {name}"))
}

fn list() {
    let all = Scenario::built_in();
    let widest = all.iter().map(|scenario| scenario.name.len()).max().unwrap_or(0);
    for Scenario { name, title, source, seconds, .. } in &all {
        print_line!("{name:widest$}   {seconds:>3.0} s   {title} ({source})");
    }
}

/// Writes the session logs of the calls of `scenario`.
fn log_sessions(
    session_log: &SessionArguments,
    arguments: &ScenarioArguments,
    scenario: &str,
    sessions: Vec<ScenarioSession>,
    control: &ControlSettings,
) -> Result<()> {
    for ScenarioSession { flow, meter, seconds, format } in sessions {
        let name = serde_json::to_string(&(scenario, &flow, arguments))?;
        let Some(mut log) = session_log.open("scenario", "both", Some(&name))? else { break };
        let description = log.description();
        description.control(control);
        description.pictures(&format);
        description.seed = i64::try_from(arguments.seed).ok();
        for (label, value) in [("scenario", scenario), ("flow", &flow)] {
            description.labels.insert(label.to_owned(), value.to_owned());
        }
        log.finish(&mut meter.lock(), seconds)?;
    }
    Ok(())
}

fn run_one(arguments: &RunArguments, controllers: &Controllers) -> Result<()> {
    let inputs: Vec<&Path> =
        [Some(Path::new(&arguments.scenario)), arguments.codec_model.as_deref()].into_iter().flatten().collect();
    output_file::check(&[("--json", arguments.json.as_deref())], &inputs)?;
    let scenario = find(&arguments.scenario)?;
    let control = arguments.arguments.control.settings_with(controllers)?;
    let model = open_model(arguments.codec_model.as_ref())?;
    print_line!("{}: {} ({})", scenario.name, scenario.title, scenario.source);
    print_line!("expected: {}", scenario.expected);
    let mut progress = None;
    let logged = arguments.session.is_given();
    let (report, sessions) = run_scenario(scenario, &arguments.arguments, &control, &model, logged, |now, length| {
        let progress = progress.get_or_insert_with(|| Progress::new("scenario", length.as_millis() as u64));
        progress.update(now.as_nanos() / 1_000_000, &format!("{:.1} s", now.as_secs_f64()));
    })?;
    if let Some(progress) = progress {
        progress.finish();
    }
    log_sessions(&arguments.session, &arguments.arguments, &report.scenario, sessions, &control)?;
    print(&report);
    if let Some(path) = &arguments.json {
        let document = Document {
            lockstep: env!("CARGO_PKG_VERSION"),
            kind: "scenario",
            config: &arguments.arguments,
            report: &report,
        };
        write_json(path, &document)?;
        print_line!("results       {}", path.display());
    }
    Ok(())
}

/// `lockstep scenario`.
pub fn run(command: &ScenarioCommand, controllers: &Controllers) -> Result<()> {
    match &command.action {
        Action::List => list(),
        Action::Show(arguments) => print_line!("{}", serde_json::to_string_pretty(&find(&arguments.scenario)?)?),
        Action::Run(arguments) => run_one(arguments, controllers)?,
        Action::All(arguments) => all::run(arguments, controllers)?,
    }
    Ok(())
}

/// The columns of the table, with their headings.
const COLUMNS: [&str; 11] = [
    "flow",
    "kind",
    "active s",
    "sent kb/s",
    "goodput",
    "queue p50",
    "p95 ms",
    "loss %",
    "video p50",
    "p95 ms",
    "settles s",
];

fn row(flow: &FlowReport, report: &ScenarioReport) -> Vec<String> {
    let active: Vec<String> = flow.active_seconds.iter().map(|(from, to)| format!("{from:.0}-{to:.0}")).collect();
    let video = flow.video.as_ref().and_then(|video| video.video_delay_ms);
    let (mut times, failed) = report.settle_times(&flow.name);
    times.sort_by(f64::total_cmp);
    let settles = match times.get(times.len() / 2) {
        Some(median) if failed => format!("{median:.1} or never"),
        Some(median) => format!("{median:.1}"),
        None if failed => "never".to_owned(),
        None => "-".to_owned(),
    };
    vec![
        flow.name.clone(),
        flow.kind.clone(),
        active.join(" "),
        format!("{:.0}", flow.sent_bps.as_bps() as f64 / 1e3),
        format!("{:.0}", flow.goodput_bps.as_bps() as f64 / 1e3),
        figure(flow.queueing_delay_ms.map(|delay| delay.p50), 0),
        figure(flow.queueing_delay_ms.map(|delay| delay.p95), 0),
        format!("{:.2}", 100.0 * flow.loss),
        figure(video.map(|delay| delay.p50), 0),
        figure(video.map(|delay| delay.p95), 0),
        settles,
    ]
}

/// Prints `rows` under `columns`. The first `words` columns are text, the others numbers.
fn table(columns: &[&str], words: usize, rows: &[Vec<String>], markdown: bool) {
    let width = |column: usize| rows.iter().map(|row| row[column].len()).chain([columns[column].len()]).max();
    let widths: Vec<usize> = (0..columns.len()).filter_map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded = cells.zip(&widths).enumerate().map(|(column, (cell, &width))| match column < words {
            true => format!("{cell:width$}"),
            false => format!("{cell:>width$}"),
        });
        let padded: Vec<String> = padded.collect();
        if markdown { format!("| {} |", padded.join(" | ")) } else { padded.join("  ") }
    };
    print_line!("{}", line(&mut columns.iter().copied()));
    if markdown {
        let rules = widths.iter().enumerate();
        let rules: Vec<String> = rules
            .map(
                |(column, &width)| {
                    if column < words { "-".repeat(width) } else { format!("{}:", "-".repeat(width - 1)) }
                },
            )
            .collect();
        print_line!("| {} |", rules.join(" | "));
    }
    for row in rows {
        print_line!("{}", line(&mut row.iter().map(String::as_str)));
    }
}

fn print(report: &ScenarioReport) {
    let rows: Vec<Vec<String>> = report.flows.iter().map(|flow| row(flow, report)).collect();
    table(&COLUMNS, 2, &rows, false);
    for link in &report.links {
        let marked = if link.marked > 0.0 { format!(", {:.2} % marked", 100.0 * link.marked) } else { String::new() };
        print_line!(
            "link {}: {:.0} % of {} used, {:.2} % dropped{marked}, queue mean {:.0} ms, longest {:.0} ms",
            link.name,
            100.0 * link.utilisation,
            link.capacity_bps,
            100.0 * link.dropped,
            link.mean_queueing_delay_ms,
            link.longest_queueing_delay_ms
        );
    }
    for medium in &report.shared_media {
        print_line!(
            "medium {}: busy {:.0} % of the time, carried {}, {:.2} collisions a packet",
            medium.name,
            100.0 * medium.busy,
            medium.carried_bps,
            medium.collisions
        );
    }
    if let Some(fairness) = report.fairness {
        print_line!("fairness of media (Jain): {fairness:.3}");
    }
}
