//! `lockstep train` and `lockstep export`: a Python module of this project does it.

use std::env;
use std::ffi::OsString;
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;

/// What `lockstep train` is told: an algorithm, and what the module that trains it takes.
#[derive(Debug, Clone, Args)]
#[command(disable_help_flag = true)]
pub struct TrainArguments {
    /// The algorithm and its arguments, such as `concerto --seed 1 --output DIR`; `--help` says more.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Runs the function `entry` of `lockstep.learn.__main__` with `arguments`; it writes to the same terminal.
fn run(entry: &str, arguments: &TrainArguments) -> Result<()> {
    let named = env::var_os("LOCKSTEP_PYTHON").filter(|name| !name.is_empty());
    let python = named.unwrap_or_else(|| "python3".into());
    let program = format!("import sys; from lockstep.learn.__main__ import {entry}; sys.exit({entry}())");
    let status =
        Command::new(&python).arg("-c").arg(program).args(&arguments.words).status().with_context(|| {
            format!("cannot run {}; LOCKSTEP_PYTHON may name another Python", python.to_string_lossy())
        })?;
    if !status.success() {
        bail!(
            "it ended with {status}; what went wrong is said above. It takes a Python that has lockstep-video[learn]"
        );
    }
    Ok(())
}

/// `lockstep train`.
pub fn train(arguments: &TrainArguments) -> Result<()> {
    run("main", arguments)
}

/// `lockstep export`.
pub fn export(arguments: &TrainArguments) -> Result<()> {
    run("export", arguments)
}
