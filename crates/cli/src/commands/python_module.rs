//! Commands that a Python module of this project does: training, the studies of what is learned, and reports of sessions.

use std::env;
use std::ffi::OsString;
use std::process::Command;

use anyhow::{Context, Result};
use clap::Args;

/// Words that the module takes, its help included.
#[derive(Debug, Clone, Args)]
#[command(disable_help_flag = true)]
pub struct ModuleWords {
    /// What the module takes; `--help` says more.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<OsString>,
}

/// Which Python to run: what `LOCKSTEP_PYTHON` names, else `python3`.
const PYTHON: &str = "LOCKSTEP_PYTHON";
/// Tells that Python where this command is, so that it starts the same one.
const COMMAND: &str = "LOCKSTEP_COMMAND";

/// Runs the function `entry` of `module` with `words`, in the Python that `LOCKSTEP_PYTHON` names; it writes to the same
/// terminal. `extra` is what installs all that the module takes.
///
/// On Unix this process becomes that Python, so that signals and Ctrl-C reach it, and its status is what is seen. Elsewhere
/// it is waited for.
///
/// # Errors
/// That Python cannot be run; elsewhere than on Unix also that the function did not succeed, which has said why.
pub fn run(module: &str, entry: &str, extra: &str, words: &[OsString]) -> Result<()> {
    let named = env::var_os(PYTHON).filter(|name| !name.is_empty());
    let python = named.unwrap_or_else(|| "python3".into());
    let program = format!(
        "import sys\n\
         try:\n    from {module} import {entry}\n\
         except ModuleNotFoundError as error:\n    \
         sys.exit(f'lockstep: {{error}}; it takes a Python that has lockstep-video[{extra}], which {PYTHON} may name')\n\
         sys.exit({entry}())"
    );
    let mut command = Command::new(&python);
    command.arg("-c").arg(program).args(words);
    if let Ok(own) = env::current_exe() {
        command.env(COMMAND, own);
    }
    become_or_run(&mut command)
        .with_context(|| format!("cannot run {}; {PYTHON} may name another Python", python.to_string_lossy()))
}

/// Replaces this process by `command`; returns only if that cannot be.
#[cfg(unix)]
fn become_or_run(command: &mut Command) -> Result<()> {
    use std::os::unix::process::CommandExt;

    Err(command.exec().into())
}

#[cfg(not(unix))]
fn become_or_run(command: &mut Command) -> Result<()> {
    let status = command.status()?;
    anyhow::ensure!(status.success(), "it ended with {status}; what went wrong is said above");
    Ok(())
}
