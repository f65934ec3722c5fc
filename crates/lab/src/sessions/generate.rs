//! `lockstep sessions generate`: generates sessions of a population by modelled calls.

use std::collections::BTreeMap;
use std::io::{Write, stdout};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};

use lockstep_runner::progress::Progress;
use lockstep_sim::{CodecModel, in_parallel};

use super::batch::{Batch, Made};
use super::draw::{Drawn, Session};
use super::population::Population;
use crate::sweep::remote;

/// Maximum number of sessions.
const MAX_SESSIONS: u64 = 100_000_000;

/// Arguments of `lockstep sessions generate`.
#[derive(Debug, Clone, Args)]
pub struct GenerateArguments {
    /// Number of sessions.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=MAX_SESSIONS))]
    count: u64,
    /// Folder for the logs. Existing sessions of the same seed and population are kept. So an interrupted run resumes,
    /// and a higher --count adds sessions.
    #[arg(long, value_name = "DIR", default_value = "out/sessions")]
    output: PathBuf,
    /// Seed of everything random: equal seeds give equal sessions.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The population, a JSON file like the built-in one; `docs/how-to/sessions.md` describes its content.
    #[arg(long, value_name = "FILE")]
    population: Option<PathBuf>,
    /// Concurrent sessions; default: the number of cores.
    #[arg(long, value_parser = crate::workers)]
    workers: Option<NonZero<usize>>,
    /// Run on a Ray cluster: `ray://HOST:PORT`, or `ray://local` for one on this machine. Requires Ray next to
    /// Lockstep's Python package, and this program under the same path on all machines.
    #[arg(long, value_name = "ADDRESS")]
    on: Option<String>,
    /// Generate the batches in this file and print one line of JSON for each; for machines of a cluster.
    #[arg(long, hide = true)]
    job_file: Option<PathBuf>,
}

/// A batch for a cluster machine, with all its inputs.
#[derive(Debug, Serialize, Deserialize)]
struct Job {
    population: Population,
    batch: Batch,
}

/// Finished sessions of incomplete batches.
struct Waiting {
    sessions: BTreeMap<usize, Vec<Option<Session>>>,
}

impl Waiting {
    /// Adds session `place` of batch `index` with `size` sessions. Returns the whole batch if it was the last.
    fn add(&mut self, index: usize, size: usize, place: usize, session: Session) -> Option<Vec<Session>> {
        let sessions = self.sessions.entry(index).or_insert_with(|| (0..size).map(|_| None).collect());
        sessions[place] = Some(session);
        if sessions.iter().any(Option::is_none) {
            return None;
        }
        self.sessions.remove(&index).map(|sessions| sessions.into_iter().flatten().collect())
    }
}

/// Generates `batches` into `folder` on `workers` threads. `done` receives the seconds of each session.
fn make(
    population: &Population,
    batches: &[Batch],
    folder: &Path,
    workers: NonZero<usize>,
    mut done: impl FnMut(u64),
) -> Result<()> {
    let model = CodecModel::built_in()?;
    let jobs: Vec<(usize, u64)> = batches
        .iter()
        .enumerate()
        .flat_map(|(index, batch)| batch.sessions().map(move |session| (index, session)))
        .collect();
    let mut waiting = Waiting { sessions: BTreeMap::new() };
    let mut failure = None;
    in_parallel(
        &jobs,
        workers,
        |&(index, session)| {
            let Batch { population: number, seed, .. } = batches[index];
            Drawn::new(population, number, seed, session)?.run(&model)
        },
        |job, made| {
            let (index, session) = jobs[job];
            let batch = &batches[index];
            let size = (batch.end - batch.first) as usize;
            let kept = made.with_context(|| format!("session {session}")).and_then(|made| {
                done(made.totals.seconds());
                match waiting.add(index, size, (session - batch.first) as usize, made) {
                    Some(sessions) => batch.write(folder, &sessions),
                    None => Ok(()),
                }
            });
            failure = kept.err();
            failure.is_none()
        },
    );
    failure.map_or(Ok(()), Err)
}

/// Generates the batches of a job file, on a cluster machine.
fn run_job_file(path: &Path, workers: NonZero<usize>) -> Result<()> {
    let jobs: Vec<Job> = remote::read_jobs(path)?;
    let folder = tempfile::tempdir().context("cannot create a folder for the sessions")?;
    for Job { population, batch } in jobs {
        let made = make(&population, std::slice::from_ref(&batch), folder.path(), workers, |_| {})
            .and_then(|()| Made::read(batch.clone(), folder.path()))
            .unwrap_or_else(|error| Made::failed(batch, lockstep_runner::output_file::in_one_line(&error)));
        let mut out = stdout().lock();
        writeln!(out, "{}", serde_json::to_string(&made)?)?;
        out.flush()?;
    }
    Ok(())
}

/// Generates `batches` on the cluster at `address`. `done` receives each result.
fn make_on(
    address: &str,
    population: &Population,
    batches: &[Batch],
    folder: &Path,
    mut done: impl FnMut(&Batch),
) -> Result<()> {
    let job = |batch: &Batch| Job { population: population.clone(), batch: batch.clone() };
    let jobs: Vec<Job> = batches.iter().map(job).collect();
    let mut failure = None;
    remote::run_command(address, &["sessions", "generate"], &jobs, |line| {
        // Ray prints other lines, too.
        let Ok(made) = serde_json::from_str::<Made>(line) else { return Ok(()) };
        if let Some(reason) = made.failure {
            failure.get_or_insert(reason);
            return Ok(());
        }
        made.write(folder)?;
        done(&made.batch);
        Ok(())
    })?;
    failure.map_or(Ok(()), |reason| bail!("{reason}; finished batches are kept"))
}

/// `lockstep sessions generate`.
pub fn run(arguments: &GenerateArguments) -> Result<()> {
    let workers = arguments.workers.or(available_parallelism().ok()).unwrap_or(NonZero::<usize>::MIN);
    if let Some(path) = &arguments.job_file {
        return run_job_file(path, workers);
    }
    let population = Population::open(arguments.population.as_deref())?;
    let folder = &arguments.output;
    let all = Batch::all(population.number()?, arguments.seed, arguments.count);
    let mut open = Vec::new();
    for batch in all {
        if !batch.exists(folder).with_context(|| format!("--output {}", folder.display()))? {
            open.push(batch);
        }
    }
    let to_make: u64 = open.iter().map(|batch| batch.end - batch.first).sum();
    let kept = arguments.count - to_make;
    if kept > 0 {
        print_line!("{kept} of {} sessions exist already", arguments.count);
    }
    let mut progress = Progress::new("sessions", arguments.count);
    let (begun, mut count, mut seconds) = (Instant::now(), 0, 0);
    let mut made = |sessions: u64, length: u64| {
        (count, seconds) = (count + sessions, seconds + length);
        let rate = count as f64 / begun.elapsed().as_secs_f64().max(1e-3);
        let total = arguments.count;
        progress.update(kept + count, &format!("{} of {total} sessions   {rate:.1} a second", kept + count));
    };
    match &arguments.on {
        Some(address) => {
            make_on(address, &population, &open, folder, |batch| made(batch.end - batch.first, 0))?;
        }
        None => make(&population, &open, folder, workers, |length| made(1, length))?,
    }
    progress.finish();
    let elapsed = begun.elapsed().as_secs_f64();
    if count > 0 {
        let pace = format!("{:.1} sessions a second", count as f64 / elapsed.max(1e-3));
        let virtual_time = if seconds > 0 {
            format!(", {seconds} s of calls, {:.0} times faster than real time", seconds as f64 / elapsed.max(1e-3))
        } else {
            String::new()
        };
        print_line!("{count} sessions in {elapsed:.1} s: {pace}{virtual_time}");
    }
    print_line!("{} sessions in {}", arguments.count, folder.display());
    Ok(())
}
