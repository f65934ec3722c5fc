//! The laboratory of the `lockstep` command, with a module per command: sweeps, scenarios, studies, sessions,
//! benchmarks and data.
//!
//! [`Laboratory`] has the subcommands; [`Laboratory::run`] runs one.
#![forbid(unsafe_code)]
// `println!` panics if the reader closes the pipe.
#![deny(clippy::print_stdout, clippy::print_stderr)]

#[macro_use]
extern crate lockstep_runner;

mod allowance_table;
mod barcode;
mod bench;
mod compare;
mod data;
mod every_core;
mod journal;
mod leaderboard;
mod model;
mod page;
mod python_module;
mod rate;
mod replay;
mod scenario;
mod sessions;
mod sources;
mod study;
mod sweep;
mod testbed;
mod train;

use std::num::NonZero;

use anyhow::Result;
use clap::Subcommand;

use lockstep_control::Controllers;

/// The commands of the laboratory.
#[derive(Subcommand)]
pub enum Laboratory {
    /// Run many simulated calls on every core; writes one Parquet row per call.
    ///
    /// The calls are the product of controllers, codecs, traces and seeds.
    Sweep(sweep::SweepArguments),
    /// Reproduce claims of papers (BoB, Concerto, Salsify) and of this project.
    Study(study::StudyArguments),
    /// Run the congestion control tests of RFC 8867 and RFC 8869.
    Scenario(scenario::ScenarioCommand),
    /// Make a page of submitted sweep rows, or verify rows by running their calls again.
    Leaderboard(leaderboard::LeaderboardArguments),
    /// Compare sources that fill GCC's target with video over the same links.
    ///
    /// Reproduces Concerto's observation. Intermediate sources isolate the cause: pauses, pacing, codec, probes,
    /// padding.
    Sources(sources::SourcesArguments),
    /// Run the same call simulated and live, and compare the two.
    Compare(compare::CompareArguments),
    /// Replay a recording of --decisions to a controller, and compare its decisions.
    Replay(replay::ReplayArguments),
    /// Generate session logs, report on them, or query them in SQL.
    Sessions(sessions::SessionsArguments),
    /// Download, convert and split public sets of traces, and fit families of generated ones.
    Data(data::DataArguments),
    /// Fit or show the codec model of modelled calls.
    Model(model::ModelArguments),
    /// Train a learned controller; requires the extra `learn`.
    ///
    /// `lockstep train concerto --seed 1 --output DIR`.
    Train(python_module::ModuleArguments),
    /// Export the ONNX model of a training run again: `lockstep export DIR`.
    Export(python_module::ModuleArguments),
    /// Measure the codec against libvpx, or the simulator against real time.
    Bench(bench::BenchArguments),
    /// Measure unmodified programs and Lockstep over one link; requires the extra `testbed`.
    ///
    /// Programs such as Chromium's WebRTC get the same clip and the same measurement: `lockstep testbed run verizon`.
    Testbed(python_module::ModuleArguments),
    /// Rate clips on a local page, for a user study after ITU-T P.910.
    ///
    /// Participants compare pairs or rate single clips: `lockstep rate A.webm B.webm --participant P01`.
    Rate(python_module::ModuleArguments),
    /// Write frame numbers into the pictures of a clip, or read them.
    Barcode(barcode::BarcodeArguments),
}

impl Laboratory {
    /// Runs the command with the program's controllers. `given` tells whether an option is on the command line.
    ///
    /// # Errors
    /// If the command fails.
    pub fn run(&self, controllers: &Controllers, given: &dyn Fn(&str) -> bool) -> Result<()> {
        match self {
            Self::Barcode(arguments) => barcode::run(arguments),
            Self::Bench(arguments) => bench::run(arguments),
            Self::Compare(arguments) => compare::run(arguments),
            Self::Data(arguments) => data::run(arguments),
            Self::Export(arguments) => train::export(arguments),
            Self::Leaderboard(arguments) => leaderboard::run(arguments, controllers),
            Self::Model(arguments) => model::run(arguments),
            Self::Rate(arguments) => rate::run(arguments),
            Self::Replay(arguments) => replay::run(arguments),
            Self::Scenario(arguments) => scenario::run(arguments, controllers),
            Self::Sessions(arguments) => sessions::run(arguments),
            Self::Sources(arguments) => sources::run(arguments, given),
            Self::Study(arguments) => study::run(arguments, given),
            Self::Sweep(arguments) => sweep::run(arguments, controllers, given),
            Self::Testbed(arguments) => testbed::run(arguments),
            Self::Train(arguments) => train::train(arguments),
        }
    }
}

/// Maximum number of concurrent threads. Systems support about ten thousand.
const MAX_WORKERS: usize = 1_024;

/// Parses a number of threads.
fn workers(text: &str) -> Result<NonZero<usize>, String> {
    let workers = text.parse().ok().filter(|workers: &NonZero<usize>| workers.get() <= MAX_WORKERS);
    workers.ok_or_else(|| format!("`{text}` is not an integer from 1 to {MAX_WORKERS}"))
}
