//! `lockstep study`: reproduces claims of papers.

mod fidelity;
mod salsify;

use std::ffi::OsString;
use std::iter;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;

use lockstep_configuration::{CallArguments, CallSettings, Seconds, SimulateArguments, simulate};
use lockstep_runner::output_file::{self, write_json};

use crate::every_core::on_every_core;
use crate::python_module::{self, ModuleArguments};

/// Arguments of `lockstep study`.
#[derive(Args)]
pub struct StudyArguments {
    #[command(subcommand)]
    study: Study,
}

#[derive(Subcommand)]
enum Study {
    /// Measure the value of each tuned constant of the control path over a fixed evaluation set.
    ///
    /// Compares modelled calls with one changed constant (`--variants jitter.weight=0.1 rule.level=0.5`) with unchanged
    /// calls.
    Ablation(ModuleArguments),
    /// BoB on the profiles of its paper, compared with its heuristic, Gemini and HRCC.
    ///
    /// Accuracy, rate, delay, loss and scores; and the threshold of its selector.
    Bob(ModuleArguments),
    /// Reproduce Concerto's observation, and compare its imitation learning with GCC, Salsify and RL-V.
    ///
    /// The observation: video under GCC has less throughput than a source that always fills the target. Further parts:
    /// inputs, losses, smoothness, mismatch, beta, loops and epochs of training.
    Concerto(ModuleArguments),
    /// Measure the errors of modelled calls against coded ones, and of simulated calls against live ones.
    ///
    /// `--codec` restricts the study to one codec.
    Fidelity(fidelity::FidelityArguments),
    /// Lockstep's own controller compared with the others, hindsight and the upper bound.
    ///
    /// No controller was trained on the traces.
    Lockstep(ModuleArguments),
    /// Every result that the papers of Salsify, Concerto and BoB print, and the same one measured here.
    ///
    /// Runs the other studies in parts that resume, and writes one HTML book and a Parquet table.
    Papers(ModuleArguments),
    /// Reproduce Salsify's ablation: without grace period, with a conventional codec, and with a conventional
    /// transport.
    Salsify(salsify::AblationArguments),
}

/// Common arguments of studies that run calls.
#[derive(Debug, Clone, Args)]
pub(super) struct CommonArguments {
    #[command(flatten)]
    simulation: SimulateArguments,
    /// Write the numbers to this file as JSON.
    #[arg(long)]
    pub(super) json: Option<PathBuf>,
}

/// Amount of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Budget {
    /// Minutes.
    Small,
    /// The full study.
    Full,
    /// The paper's own amount.
    Paper,
}

impl Budget {
    /// Its name on the command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Full => "full",
            Self::Paper => "paper",
        }
    }
}

/// Options that every study decides itself, such as codec and controller.
pub(super) const DECIDED: [&str; 6] = ["codec", "controller", "estimator", "latency", "grace_period", "as_published"];

/// Refuses options that a command decides itself. `given` tells whether an option was given.
pub(super) fn refuse(names: &[&str], given: &dyn Fn(&str) -> bool) -> Result<()> {
    match names.iter().find(|name| given(name)) {
        Some(name) => bail!("this command decides --{} itself; leave it out", name.replace('_', "-")),
        None => Ok(()),
    }
}

impl CommonArguments {
    /// Settings of all calls. `usual` has the defaults of options. Checks that the numbers can be written before calls
    /// read `traces`.
    pub(super) fn settings(&self, usual: CallArguments, traces: &[String]) -> Result<CallSettings> {
        let settings = self.simulation.given().clone().or(usual).settings()?;
        let mut inputs = settings.inputs();
        inputs.extend(traces.iter().map(Path::new));
        output_file::check(&[("--json", self.json.as_deref())], &inputs)?;
        Ok(settings)
    }
}

/// `lockstep study`. `given` tells whether an option was given.
pub fn run(arguments: &StudyArguments, given: &dyn Fn(&str) -> bool) -> Result<()> {
    match &arguments.study {
        Study::Ablation(arguments) => learned("ablation", arguments),
        Study::Bob(arguments) => learned("bob", arguments),
        Study::Concerto(arguments) => learned("concerto", arguments),
        Study::Fidelity(arguments) => {
            // A given codec restricts the table.
            refuse(&DECIDED, &|name| name != "codec" && given(name))?;
            refuse(&["modelled", "trace"], given)?;
            fidelity::run(arguments, given("codec"))
        }
        Study::Lockstep(arguments) => learned("lockstep", arguments),
        Study::Papers(arguments) => learned("papers", arguments),
        Study::Salsify(arguments) => {
            refuse(&DECIDED, given)?;
            salsify::run(arguments)
        }
    }
}

/// Runs a study of the Python package.
fn learned(name: &str, arguments: &ModuleArguments) -> Result<()> {
    let words: Vec<OsString> = iter::once(name.into()).chain(arguments.words.iter().cloned()).collect();
    python_module::run("lockstep.studies.__main__", "main", "learn", &words)
}

/// Results of `run` for each of `calls`, in order, on every core.
pub(super) fn each<Call: Sync, Outcome: Send>(
    study: &str,
    calls: &[Call],
    run: impl Fn(&Call) -> Result<Outcome> + Sync,
) -> Result<Vec<Outcome>> {
    let mut outcomes: Vec<Option<Outcome>> = calls.iter().map(|_| None).collect();
    on_every_core(study, 0, calls, run, |index, outcome| {
        outcomes[index] = Some(outcome);
        Ok(())
    })?;
    outcomes.into_iter().map(|outcome| outcome.context("a call was not run")).collect()
}

/// Length of the trial call, seconds. Its run time gives the estimate of a study.
const TRIED_SECONDS: u16 = 2;

/// Estimated time of `calls` calls such as `call` on all cores, seconds.
fn coded_seconds(call: &CallSettings, calls: usize) -> Result<f64> {
    let began = Instant::now();
    simulate(&CallSettings { length: Seconds::whole(TRIED_SECONDS), ..call.clone() }, |_| Ok(()))?;
    let cores = available_parallelism().map_or(1, NonZero::get);
    let share = call.length.as_f64() / f64::from(TRIED_SECONDS);
    Ok(began.elapsed().as_secs_f64() * share * (calls as f64 / cores as f64).ceil())
}

/// Writes the numbers of a study, if requested.
pub(super) fn write(path: Option<&PathBuf>, numbers: &impl Serialize) -> Result<()> {
    if let Some(path) = path {
        write_json(path, numbers)?;
        print_line!("numbers in {}", path.display());
    }
    Ok(())
}
