//! `lockstep scenario all`: every scenario under one controller, one row each, with RFC 8868's metrics.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;

use lockstep_configuration::{OptionValue, ScenarioArguments, Share, run_scenario};
use lockstep_control::Controllers;
use lockstep_runner::output_file::{self, write_json, write_text};
use lockstep_runner::progress::{Progress, figure};
use lockstep_runner::session_log::arguments::SessionArguments;
use lockstep_sim::in_parallel;
use lockstep_sim::scenario::{Metrics, Scenario};

use super::bands::{self, Bands};
use super::{log_sessions, table};
use crate::model::open_model;

/// Arguments of `lockstep scenario all`.
#[derive(Debug, Args)]
pub(super) struct AllArguments {
    #[command(flatten)]
    arguments: ScenarioArguments,
    /// Only scenarios with this prefix of the section, such as `8867-5` or `8869-3.2`; see the first column.
    #[arg(long)]
    section: Option<String>,
    /// The codec model; default: the built-in one.
    #[arg(long)]
    codec_model: Option<PathBuf>,
    /// Concurrent scenarios; default: the number of cores.
    #[arg(long)]
    jobs: Option<NonZero<usize>>,
    /// Print tables in Markdown.
    #[arg(long)]
    markdown: bool,
    /// Write the metrics to this file as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Check the metrics against the pass bands in this TOML file. Exit status 1 if a metric is outside its band.
    #[arg(long, value_name = "BANDS")]
    check: Option<PathBuf>,
    /// Write every band and value of --check to this file as HTML.
    #[arg(long, value_name = "FILE", requires = "check")]
    html: Option<PathBuf>,
    /// Write pass bands around the metrics of this run to this file, as TOML.
    #[arg(long, value_name = "BANDS")]
    write_bands: Option<PathBuf>,
    /// Margin of --write-bands on both sides of a value: `0.1` or `10%`. It is at least 10 kb/s, 5 ms, 1 second, 1
    /// percentage point, or 0.05 of a ratio.
    #[arg(long, value_name = "SHARE", default_value = "10%", value_parser = Share::from_word)]
    margin: Share,
    #[command(flatten)]
    session: SessionArguments,
}

/// A scenario and its results.
#[derive(Serialize)]
struct Row {
    section: String,
    scenario: String,
    #[serde(flatten)]
    metrics: Metrics,
}

/// JSON document of all scenarios.
#[derive(Serialize)]
struct Document<'a> {
    lockstep: &'a str,
    kind: &'a str,
    config: &'a ScenarioArguments,
    rows: &'a [Row],
}

/// Converts `RFC 8867, section 6.2 of 5.1, with something` to `8867-6.2 (5.1)`.
fn section(source: &str) -> String {
    let words = source.trim_start_matches("RFC ");
    let mut parts = words.split(", ");
    let number = parts.next().unwrap_or_default();
    let section = parts.next().unwrap_or_default().trim_start_matches("section ");
    match section.split_once(" of ") {
        Some((section, basic)) => format!("{number}-{section} ({basic})"),
        None => format!("{number}-{section}"),
    }
}

/// Groups of sections with a line of means.
const GROUPS: [(&str, &str); 5] = [
    ("8867-5", "RFC 8867, 5: basic cases"),
    ("8867-6.2", "RFC 8867, 6.2: the same with ECN"),
    ("8869-2", "RFC 8869, 2: cells"),
    ("8869-3.1", "RFC 8869, 3.1: Wi-Fi, bottleneck wired"),
    ("8869-3.2", "RFC 8869, 3.2: Wi-Fi, bottleneck wireless"),
];

const COLUMNS: [&str; 14] = [
    "section",
    "scenario",
    "sent kb/s",
    "goodput",
    "delay p50",
    "p95 ms",
    "queue p95",
    "loss %",
    "marked %",
    "low/high",
    "media/TCP",
    "settles s",
    "step %",
    "used %",
];

const GROUP_COLUMNS: [&str; 7] = ["means", "goodput kb/s", "queue p95 ms", "loss %", "low/high", "media/TCP", "used %"];

fn cells(row: &Row) -> Vec<String> {
    let metrics = &row.metrics;
    vec![
        row.section.clone(),
        row.scenario.clone(),
        figure(Some(metrics.sent_kbps), 0),
        figure(Some(metrics.goodput_kbps), 0),
        figure(metrics.delay_p50_ms, 0),
        figure(metrics.delay_p95_ms, 0),
        figure(metrics.queue_p95_ms, 0),
        figure(Some(metrics.loss_percent), 2),
        figure(Some(metrics.marked_percent), 2),
        figure(metrics.lowest_over_highest, 2),
        figure(metrics.media_over_tcp, 2),
        figure(metrics.settles_seconds, 1),
        figure(metrics.unsteadiness_percent, 0),
        figure(Some(metrics.used_percent), 0),
    ]
}

/// Mean of `value` over the rows of a group that have one.
fn mean(rows: &[Row], group: &str, value: impl Fn(&Metrics) -> Option<f64>) -> Option<f64> {
    let of_group = rows.iter().filter(|row| row.section.starts_with(group));
    lockstep_call::mean(of_group.filter_map(|row| value(&row.metrics)))
}

fn group_cells(rows: &[Row], (group, name): (&str, &str)) -> Vec<String> {
    vec![
        name.to_owned(),
        figure(mean(rows, group, |metrics| Some(metrics.goodput_kbps)), 0),
        figure(mean(rows, group, |metrics| metrics.queue_p95_ms), 0),
        figure(mean(rows, group, |metrics| Some(metrics.loss_percent)), 2),
        figure(mean(rows, group, |metrics| metrics.lowest_over_highest), 2),
        figure(mean(rows, group, |metrics| metrics.media_over_tcp), 2),
        figure(mean(rows, group, |metrics| Some(metrics.used_percent)), 0),
    ]
}

pub(super) fn run(all: &AllArguments, controllers: &Controllers) -> Result<()> {
    let inputs: Vec<&Path> = [&all.codec_model, &all.check].into_iter().flatten().map(PathBuf::as_path).collect();
    let outputs = [("--json", &all.json), ("--html", &all.html), ("--write-bands", &all.write_bands)];
    output_file::check(&outputs.map(|(option, path)| (option, path.as_deref())), &inputs)?;
    let bands = all.check.as_deref().map(Bands::open).transpose()?;
    let wanted = |scenario: &Scenario| match &all.section {
        Some(wanted) => section(&scenario.source).starts_with(wanted.as_str()),
        None => true,
    };
    let scenarios: Vec<Scenario> = Scenario::built_in().into_iter().filter(wanted).collect();
    if scenarios.is_empty() {
        let asked = all.section.as_deref().unwrap_or_default();
        bail!("--section {asked}: no scenario has this prefix; expected one such as 8867-5.1, 8867-6.2 or 8869-3");
    }
    let control = all.arguments.control.settings_with(controllers)?;
    let model = open_model(all.codec_model.as_ref())?;
    let cores = thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
    let mut progress = Progress::new("scenarios", scenarios.len() as u64);
    let mut outcomes: Vec<Option<Result<Metrics>>> = scenarios.iter().map(|_| None).collect();
    let logged = all.session.is_given();
    let mut finished = 0;
    in_parallel(
        &scenarios,
        all.jobs.unwrap_or(cores),
        |scenario| run_scenario(scenario.clone(), &all.arguments, &control, &model, logged, |_, _| {}),
        |index, outcome| {
            finished += 1;
            let name = &scenarios[index].name;
            progress.update(finished, name);
            outcomes[index] = Some(outcome.and_then(|(report, sessions)| {
                log_sessions(&all.session, &all.arguments, name, sessions, &control)?;
                Ok(report.metrics())
            }));
            true
        },
    );
    progress.finish();
    let (mut rows, mut failures) = (Vec::new(), Vec::new());
    for (scenario, outcome) in scenarios.iter().zip(outcomes) {
        match outcome {
            Some(Ok(metrics)) => {
                rows.push(Row { section: section(&scenario.source), scenario: scenario.name.clone(), metrics });
            }
            Some(Err(error)) => failures.push((&scenario.name, error)),
            None => {}
        }
    }
    if rows.is_empty()
        && let Some((name, error)) = failures.pop()
    {
        return Err(error.context(format!("scenario {name}")));
    }
    let lines: Vec<Vec<String>> = rows.iter().map(cells).collect();
    table(&COLUMNS, 2, &lines, all.markdown);
    let there = |group: &&(&str, &str)| rows.iter().any(|row| row.section.starts_with(group.0));
    let lines: Vec<Vec<String>> = GROUPS.iter().filter(there).map(|&group| group_cells(&rows, group)).collect();
    if !lines.is_empty() {
        print_line!("");
        table(&GROUP_COLUMNS, 1, &lines, all.markdown);
    }
    for (name, error) in &failures {
        print_line!("{name} was not run: {error}");
    }
    if let Some(path) = &all.json {
        let document =
            Document { lockstep: env!("CARGO_PKG_VERSION"), kind: "scenarios", config: &all.arguments, rows: &rows };
        write_json(path, &document)?;
        print_line!("results       {}", path.display());
    }
    if let Some(path) = &all.write_bands {
        let rows = rows.iter().map(|row| (row.scenario.as_str(), &row.metrics));
        write_text(path, &Bands::around(rows, all.margin.get())?.to_toml(&serde_json::to_string(&all.arguments)?))?;
        print_line!("bands         {}", path.display());
    }
    let (Some(bands), Some(path)) = (&bands, &all.check) else { return Ok(()) };
    let ran = rows.iter().map(|row| (row.scenario.as_str(), Some(&row.metrics)));
    let failed = failures.iter().map(|(name, _)| (name.as_str(), None));
    compare(bands, path, ran.chain(failed), all)
}

/// Compares the metrics of a run with `bands` from `path`, and prints the failures.
///
/// # Errors
/// If a metric is outside its band.
fn compare<'a>(
    bands: &Bands,
    path: &Path,
    ran: impl Iterator<Item = (&'a str, Option<&'a Metrics>)>,
    all: &AllArguments,
) -> Result<()> {
    let checks = bands.check(ran)?;
    if let Some(html) = &all.html {
        write_text(html, &bands::page(&checks, path))?;
        print_line!("page          {}", html.display());
    }
    let shown = path.display();
    if checks.is_empty() {
        bail!("cannot check against {shown}: it has no band for these scenarios; write some with --write-bands");
    }
    let failures: Vec<Vec<String>> = checks.iter().filter(|check| !check.passes()).map(bands::Check::cells).collect();
    if failures.is_empty() {
        print_line!("\nall {} metrics are in their bands", checks.len());
        return Ok(());
    }
    print_line!("");
    table(&bands::COLUMNS, bands::WORDS, &failures, all.markdown);
    bail!(
        "{} of {} metrics are outside their bands in {shown}; if the change is intended, run with --write-bands instead \
         of --check",
        failures.len(),
        checks.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_abbreviated() {
        assert_eq!(section("RFC 8867, section 5.1"), "8867-5.1");
        assert_eq!(section("RFC 8867, section 6.2 of 5.6, with another TCP"), "8867-6.2 (5.6)");
    }
}
