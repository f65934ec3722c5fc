//! `lockstep study`: claims of the papers, run again.

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

use lockstep_configuration::{CallArguments, CallSettings, Seconds, SimulateWords, simulate};
use lockstep_runner::output_file::{self, write_json};

use crate::every_core::on_every_core;
use crate::python_module::{self, ModuleWords};

/// What `lockstep study` is told.
#[derive(Args)]
pub struct StudyArguments {
    #[command(subcommand)]
    study: Study,
}

#[derive(Subcommand)]
enum Study {
    /// What each tuned constant of the control path brings, over a fixed evaluation set.
    ///
    /// Modelled calls with one constant changed (`--variants jitter.weight=0.1 rule.level=0.5`) against the same calls as they are.
    Ablation(ModuleWords),
    /// BoB on the profiles of its paper, compared with its heuristic, Gemini and HRCC.
    ///
    /// Accuracy, rate, delay, loss and scores; and the threshold of its selector.
    Bob(ModuleWords),
    /// Concerto's observation, and its imitation learning compared with GCC, Salsify and RL-V.
    ///
    /// Video under GCC gets less than a source that always fills the target. Then inputs, losses, smoothness, mismatch, beta,
    /// loops and epochs of training.
    Concerto(ModuleWords),
    /// How close modelled calls are to coded ones, and simulated calls to live ones.
    ///
    /// With `--codec` only calls of that codec.
    Fidelity(fidelity::FidelityArguments),
    /// Lockstep's own controller compared with the others, hindsight and the upper bound.
    ///
    /// No controller was trained on the traces.
    Lockstep(ModuleWords),
    /// Salsify's ablation: without grace period, with a conventional codec, and transport.
    Salsify(salsify::AblationArguments),
}

/// What all studies are told that run calls themselves.
#[derive(Debug, Clone, Args)]
pub(super) struct CommonArguments {
    #[command(flatten)]
    simulation: SimulateWords,
    /// Where the numbers go, as JSON.
    #[arg(long)]
    pub(super) json: Option<PathBuf>,
}

/// How much is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Budget {
    /// Minutes.
    Small,
    /// All as it should be.
    Full,
}

impl Budget {
    /// Its name on the command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Full => "full",
        }
    }
}

/// What every study decides itself: which codec, under which control.
pub(super) const DECIDED: [&str; 5] = ["codec", "controller", "estimator", "latency", "grace_period"];

/// Refuses options that a command decides itself. `given` says whether an option was.
pub(super) fn refuse(names: &[&str], given: &dyn Fn(&str) -> bool) -> Result<()> {
    match names.iter().find(|name| given(name)) {
        Some(name) => bail!("this command decides --{} itself; leave it out", name.replace('_', "-")),
        None => Ok(()),
    }
}

impl CommonArguments {
    /// What its calls have in common; options that were not given are those of `usual`. Finds out whether the numbers can be
    /// written, before calls run that read `traces`, too.
    pub(super) fn settings(&self, usual: CallArguments, traces: &[String]) -> Result<CallSettings> {
        let settings = self.simulation.said().clone().or(usual).settings()?;
        let mut inputs = settings.inputs();
        inputs.extend(traces.iter().map(Path::new));
        output_file::check(&[("--json", self.json.as_deref())], &inputs)?;
        Ok(settings)
    }
}

/// `lockstep study`. `given` says whether an option was given.
pub fn run(arguments: &StudyArguments, given: &dyn Fn(&str) -> bool) -> Result<()> {
    match &arguments.study {
        Study::Ablation(arguments) => learned("ablation", arguments),
        Study::Bob(arguments) => learned("bob", arguments),
        Study::Concerto(arguments) => learned("concerto", arguments),
        Study::Fidelity(arguments) => {
            // A codec that is given is the only one of the table.
            refuse(&DECIDED, &|name| name != "codec" && given(name))?;
            refuse(&["modelled", "trace"], given)?;
            fidelity::run(arguments, given("codec"))
        }
        Study::Lockstep(arguments) => learned("lockstep", arguments),
        Study::Salsify(arguments) => {
            refuse(&DECIDED, given)?;
            salsify::run(arguments)
        }
    }
}

/// A study that the Python package has.
fn learned(name: &str, arguments: &ModuleWords) -> Result<()> {
    let words: Vec<OsString> = iter::once(name.into()).chain(arguments.words.iter().cloned()).collect();
    python_module::run("lockstep.studies.__main__", "main", "learn", &words)
}

/// What `run` makes of each of `calls`, on every core, in their order.
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

/// Seconds of a call that are run first: their time gives the estimate of a study's.
const TRIED_SECONDS: u16 = 2;

/// Estimates the seconds that `calls` calls such as `call` take on every core.
fn coded_seconds(call: &CallSettings, calls: usize) -> Result<f64> {
    let began = Instant::now();
    simulate(&CallSettings { length: Seconds::whole(TRIED_SECONDS), ..call.clone() }, |_| Ok(()))?;
    let cores = available_parallelism().map_or(1, NonZero::get);
    let share = call.length.as_f64() / f64::from(TRIED_SECONDS);
    Ok(began.elapsed().as_secs_f64() * share * (calls as f64 / cores as f64).ceil())
}

/// Writes the numbers of a study, if that was asked for.
pub(super) fn write(path: Option<&PathBuf>, numbers: &impl Serialize) -> Result<()> {
    if let Some(path) = path {
        write_json(path, numbers)?;
        say!("numbers in {}", path.display());
    }
    Ok(())
}
