//! `lockstep sweep`: runs many calls on every core or on a cluster; one row per call.

mod contenders;
pub(super) mod contents;
mod finished;
pub(super) mod jobs;
pub(super) mod remote;
pub(super) mod rows;
pub(super) mod submitted;

use std::collections::HashMap;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

use anyhow::{Result, bail};
use clap::Args;

use lockstep_configuration::{Observers, SimulateArguments, simulate_modelled_with, simulate_with};
use lockstep_control::Controllers;
use lockstep_measure::{Scores, SharedSessionMeter};
use lockstep_runner::output_file::{self, is_standard_output};
use lockstep_runner::progress::Progress;
use lockstep_runner::session_log::arguments::SessionArguments;
use lockstep_sim::in_parallel;
use lockstep_units::Timestamp;

use crate::journal::Journal;
use crate::model::open_model;
pub use contents::Contents;
use finished::Finished;
pub use jobs::Seeds;
use jobs::{Job, SweepCodec};

/// Arguments of `lockstep sweep`.
#[derive(Debug, Clone, Args)]
pub struct SweepArguments {
    /// The controllers, separated by commas: `salsify,fixed:1mbps`. Estimators, models and programs, and custom names
    /// are possible: `gcc,mine=estimator:mine.py,ours=concerto:run.onnx,theirs=program:./theirs`. Default: the one of
    /// --controller.
    #[arg(long, value_delimiter = ',', conflicts_with = "estimator")]
    controllers: Vec<String>,
    /// The codecs, separated by commas, instead of --codec and --modelled.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "modelled")]
    codecs: Vec<SweepCodec>,
    /// Traces: a file, a folder of files, or a generated one. Repeatable, with several values each. `split:NAME=FOLDER`
    /// is a split of `lockstep data list`, `split:NAME:test=FOLDER` its test part. Default: the one of --trace.
    #[arg(long, num_args = 1..)]
    traces: Vec<String>,
    /// Seeds of everything random: `1-5`, or `1,4,7`. Default: the one of --seed.
    #[arg(long)]
    seeds: Option<Seeds>,
    #[command(flatten)]
    simulation: SimulateArguments,
    /// The codec model of calls without pixels, as `lockstep model fit` writes it; default: the built-in one.
    #[arg(long, value_name = "FILE")]
    codec_model: Option<PathBuf>,
    /// Write the rows to this file as Parquet. OUTPUT.journal next to it keeps every successful call, so that an
    /// interrupted sweep resumes. `-` is standard output, without a journal.
    #[arg(long, default_value = "out/sweep.parquet")]
    output: PathBuf,
    /// Run every call again, even those in the journal.
    #[arg(long)]
    fresh: bool,
    /// Concurrent calls; default: the number of cores.
    #[arg(long, value_parser = crate::workers)]
    workers: Option<NonZero<usize>>,
    /// Run the calls on a Ray cluster: `ray://HOST:PORT`, or `ray://local` for one on this machine. Requires Ray next
    /// to Lockstep's Python package, and this program and the traces under the same paths on all machines.
    #[arg(long, value_name = "ADDRESS")]
    on: Option<String>,
    /// Run the jobs in this file and print one line of JSON for each; for machines of a cluster.
    #[arg(long, hide = true)]
    job_file: Option<PathBuf>,
    #[command(flatten)]
    session: SessionArguments,
}

/// Kind of call of a job's session log, and the name that its number is derived from.
fn session_name(job: &Job) -> Result<(&'static str, String)> {
    let kind = if job.codec.is_modelled() { "modelled" } else { "simulate" };
    Ok((kind, serde_json::to_string(&job.settings())?))
}

/// Runs one call and writes its session log if `session` requests it.
pub(super) fn call(job: &Job, session: &SessionArguments) -> Result<Scores> {
    let (kind, name) = session_name(job)?;
    let log = session.open(kind, "both", Some(&name))?;
    let meter = log.as_ref().map(|_| SharedSessionMeter::new(Timestamp::ZERO));
    let observers = Observers { session: meter.clone(), ..Observers::default() };
    let simulated = if job.codec.is_modelled() {
        simulate_modelled_with(&job.call, &open_model(job.codec_model.as_ref())?, None, observers, |_| Ok(()))?
    } else {
        simulate_with(&job.call, None, observers, |_| Ok(()))?
    };
    let scores = simulated.report.scores;
    if let Some((mut log, meter)) = log.zip(meter) {
        log.description().simulated(&job.call)?;
        log.finish(&mut meter.lock(), scores.scored_seconds as u64)?;
    }
    Ok(scores)
}

/// Runs `jobs` on the cores of this machine. `done` receives each result.
fn run_here(
    jobs: &[Job],
    workers: NonZero<usize>,
    session: &SessionArguments,
    mut done: impl FnMut(Finished) -> Result<()>,
) -> Result<()> {
    let mut failure = None;
    in_parallel(
        jobs,
        workers,
        |job: &Job| call(job, session),
        |index, outcome| {
            let outcome = outcome.map_err(|error| format!("{error:#}"));
            failure = done(Finished { key: jobs[index].key.clone(), outcome }).err();
            failure.is_none()
        },
    );
    failure.map_or(Ok(()), Err)
}

/// Runs the jobs of a job file, on a cluster machine.
fn run_job_file(path: &Path, controllers: &Controllers, workers: NonZero<usize>) -> Result<()> {
    let mut jobs: Vec<Job> = remote::read_jobs(path)?;
    for job in &mut jobs {
        job.call.control.controller = job.call.control.controller.clone().found_in(controllers)?;
    }
    run_here(&jobs, workers, &SessionArguments::default(), |finished| {
        print_line!("{}", finished.to_line()?);
        Ok(())
    })
}

/// Refuses options that contradict `--codecs`, or that apply to none of its codecs. `given` tells whether an option was
/// given.
fn refuse_contradictions(arguments: &SweepArguments, given: &dyn Fn(&str) -> bool) -> Result<()> {
    if given("codec") {
        bail!(
            "a sweep takes its codecs from --codecs, such as --codecs conventional,modelled-conventional, not from --codec"
        );
    }
    if arguments.simulation.given().modelled == Some(true)
        && let Some(coded) = arguments.codecs.iter().find(|codec| !codec.is_modelled())
    {
        bail!("--modelled contradicts --codecs {}; omit one of the two", coded.name());
    }
    if arguments.codec_model.is_some() && !arguments.codecs.iter().any(|codec| codec.is_modelled()) {
        bail!("--codec-model applies to none of the codecs; omit it, or name a modelled one: --codecs modelled");
    }
    Ok(())
}

/// `lockstep sweep`. `given` tells whether an option was given.
pub fn run(arguments: &SweepArguments, controllers: &Controllers, given: &dyn Fn(&str) -> bool) -> Result<()> {
    refuse_contradictions(arguments, given)?;
    if let Some(path) = &arguments.job_file {
        return run_job_file(path, controllers, workers(arguments));
    }
    run_calls(arguments, controllers)
}

fn workers(arguments: &SweepArguments) -> NonZero<usize> {
    arguments.workers.or(available_parallelism().ok()).unwrap_or(NonZero::<usize>::MIN)
}

/// Runs the calls that the journal lacks, writes all calls as rows, and prints their table.
fn run_calls(arguments: &SweepArguments, controllers: &Controllers) -> Result<()> {
    let to_file = !is_standard_output(&arguments.output);
    if to_file && arguments.output.extension().is_none_or(|extension| extension != "parquet") {
        bail!("output {}: the name must end in .parquet", arguments.output.display());
    }
    // Opened before it is hashed for the keys: a device may be endless.
    open_model(arguments.codec_model.as_ref())?;
    let jobs = jobs::all(arguments, controllers)?;
    let mut inputs: Vec<&Path> = jobs.iter().flat_map(|job| job.call.inputs()).collect();
    inputs.sort_unstable();
    inputs.dedup();
    inputs.extend(arguments.traces.iter().map(Path::new));
    inputs.extend(arguments.codec_model.as_deref());
    output_file::check(&[("--output", Some(&arguments.output))], &inputs)?;
    let mut journal = Journal::of_output(Some(&arguments.output), arguments.fresh)?;
    if arguments.on.is_some() && arguments.session.is_given() {
        bail!("--session-log: calls on a cluster write no logs; omit --on");
    }
    let mut open = Vec::new();
    for job in &jobs {
        let (kind, name) = session_name(job)?;
        // A call without its session log runs again, even if it is in the journal.
        if journal.known::<Scores>(&job.key).is_none() || !arguments.session.exists(kind, "both", &name) {
            open.push(job.clone());
        }
    }
    let kept = jobs.len() - open.len();
    if kept > 0 {
        print_line!("{kept} of {} calls are in the journal already", jobs.len());
    }
    let mut progress = Progress::new("sweep", jobs.len() as u64);
    let mut count = kept as u64;
    // Only failures of this run: failed calls run again.
    let mut failures: HashMap<String, String> = HashMap::new();
    let done = |Finished { key, outcome }: Finished| {
        count += 1;
        progress.update(count, &format!("{count} of {} calls", jobs.len()));
        match outcome {
            Ok(scores) => journal.keep(&key, &scores).map(|_| ()),
            Err(reason) => {
                failures.insert(key, reason);
                Ok(())
            }
        }
    };
    match &arguments.on {
        Some(address) => remote::run(address, &open, done)?,
        None => run_here(&open, workers(arguments), &arguments.session, done)?,
    }
    progress.finish();

    let rows: Vec<(&Job, Scores)> = jobs.iter().filter_map(|job| Some((job, journal.known(&job.key)?))).collect();
    // If every call failed, the earlier output remains.
    if !rows.is_empty() {
        rows::write(&arguments.output, &rows)?;
        rows::print(&rows);
        print_line!("\n{} calls in {}", rows.len(), arguments.output.display());
    }
    let failed: Vec<_> = jobs.iter().filter_map(|job| Some((job, failures.get(&job.key)?))).collect();
    if let Some((job, reason)) = failed.first() {
        bail!("{} of {} calls failed; the first is {}: {reason}", failed.len(), jobs.len(), job.description());
    }
    Ok(())
}
