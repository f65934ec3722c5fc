//! `lockstep sessions`: session logs of a population of calls, and reports of session logs.

mod batch;
mod draw;
mod generate;
mod population;

use std::ffi::OsString;
use std::iter;

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::python_module::{self, ModuleArguments};

/// Arguments of `lockstep sessions`.
#[derive(Args)]
pub struct SessionsArguments {
    #[command(subcommand)]
    command: SessionsCommand,
}

#[derive(Subcommand)]
enum SessionsCommand {
    /// Generate sessions of a population by modelled calls: places, hours, access networks, controllers; on every core
    /// or on a Ray cluster.
    Generate(generate::GenerateArguments),
    /// Report Concerto's measures of the session logs in a folder. They are the share of poor sessions by place, hour
    /// and access network, and the reaction times of codecs. Distributions of round-trip times, losses and bit rates
    /// follow. Requires the extra `sessions`.
    Report(ModuleArguments),
    /// Query the session logs in a folder with SQL: `lockstep sessions sql DIR "SELECT access, count(*) FROM sessions
    /// GROUP BY 1"`. Requires the extra `sessions`.
    Sql(ModuleArguments),
}

/// `lockstep sessions`.
pub fn run(arguments: &SessionsArguments) -> Result<()> {
    match &arguments.command {
        SessionsCommand::Generate(arguments) => generate::run(arguments),
        SessionsCommand::Report(arguments) => asked("report", arguments),
        SessionsCommand::Sql(arguments) => asked("sql", arguments),
    }
}

/// Runs a command of the Python package.
fn asked(name: &str, arguments: &ModuleArguments) -> Result<()> {
    let words: Vec<OsString> = iter::once(name.into()).chain(arguments.words.iter().cloned()).collect();
    python_module::run("lockstep.sessions.__main__", "main", "sessions", &words)
}
