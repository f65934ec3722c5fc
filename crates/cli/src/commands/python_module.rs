//! Commands that a Python module of this project does: training, the studies of what is learned, and reports of sessions.

use std::env;
use std::ffi::OsString;
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;

/// Words that the module takes, its help included.
#[derive(Debug, Clone, Args)]
#[command(disable_help_flag = true)]
pub struct ModuleWords {
    /// What the module takes; `--help` says more.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<OsString>,
}

/// Runs the function `entry` of `module` with `words`, in the Python that `LOCKSTEP_PYTHON` names, which has `extra` of
/// this project's package; it writes to the same terminal.
///
/// # Errors
/// That Python cannot be run, or that the function did not succeed, which has said why.
pub fn run(module: &str, entry: &str, extra: &str, words: &[OsString]) -> Result<()> {
    let named = env::var_os("LOCKSTEP_PYTHON").filter(|name| !name.is_empty());
    let python = named.unwrap_or_else(|| "python3".into());
    let program = format!("import sys; from {module} import {entry}; sys.exit({entry}())");
    let status =
        Command::new(&python).arg("-c").arg(program).args(words).status().with_context(|| {
            format!("cannot run {}; LOCKSTEP_PYTHON may name another Python", python.to_string_lossy())
        })?;
    if !status.success() {
        bail!(
            "it ended with {status}; what went wrong is said above. It takes a Python that has lockstep-video[{extra}]"
        );
    }
    Ok(())
}
