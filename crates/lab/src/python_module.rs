//! Runs commands in Python modules of this project: training, studies of learned controllers, reports of sessions.
//!
//! [`interpreter`] finds the Python in which this command was installed. [`run`] runs a function of a module in it.

use std::env::{self, consts::EXE_SUFFIX};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::Args;

/// Arguments for the module, its help included.
#[derive(Debug, Clone, Args)]
#[command(disable_help_flag = true)]
pub struct ModuleArguments {
    /// Arguments for the module; `--help` lists them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<OsString>,
}

/// Environment variable that names the interpreter. No other is tried.
const PYTHON: &str = "LOCKSTEP_PYTHON";
/// Environment variable that names this command for the interpreter, which starts the same one.
const COMMAND: &str = "LOCKSTEP_COMMAND";
/// Program that succeeds in an interpreter with the package. A mere folder called `lockstep` has no origin.
const PROBE: &str =
    "import sys, importlib.util as u; p = u.find_spec('lockstep'); sys.exit(p is None or p.origin is None)";

/// Runs the function `entry` of `module` with the arguments `words` in [`interpreter`], on the same terminal. `extra`
/// is the extra of the package that installs the dependencies of the module.
///
/// On Unix the interpreter replaces this process, so that signals and the exit status are its own. Elsewhere this
/// process waits for it.
///
/// # Errors
/// If no interpreter has the package. Except on Unix, also if the function fails; it prints the reason.
pub fn run(module: &str, entry: &str, extra: &str, words: &[OsString]) -> Result<()> {
    let python = interpreter()?;
    let program = format!(
        "import sys\n\
         try:\n    from lockstep.module_command import run_entry\n\
         except ModuleNotFoundError as error:\n    \
         sys.exit(f'lockstep: {{sys.executable}}, named by {PYTHON}: {{error}}; {remedy}')\n\
         sys.exit(run_entry('{module}', '{entry}', '{extra}'))",
        remedy = remedy(None),
    );
    let mut command = Command::new(&python);
    command.arg("-c").arg(program).args(words);
    if let Ok(own) = env::current_exe() {
        command.env(COMMAND, own);
    }
    become_or_run(&mut command)
        .with_context(|| format!("cannot run {}; {PYTHON} may name another Python", python.to_string_lossy()))
}

/// The interpreter in `LOCKSTEP_PYTHON`, else the first of [`candidates`] with the package.
///
/// # Errors
/// If no interpreter has the package. The error names those tried, and a command that installs the package.
pub fn interpreter() -> Result<PathBuf> {
    if let Some(named) = env::var_os(PYTHON).filter(|name| !name.is_empty()) {
        return Ok(named.into());
    }
    // Links are resolved: `uv tool install` links the command from a folder of the PATH.
    let executable = env::current_exe().and_then(|path| path.canonicalize()).ok();
    let candidates = candidates(executable.as_deref());
    if let Some(found) = candidates.iter().find(|python| has_package(python)) {
        return Ok(found.clone());
    }
    let tried: Vec<_> = candidates.iter().map(|python| python.to_string_lossy()).collect();
    let checkout = executable.as_deref().and_then(checkout);
    bail!("no Python has the package lockstep: tried {}; {}", tried.join(", "), remedy(checkout))
}

/// Possible interpreters, in order: next to `executable` as in a virtual environment, in the `.venv` of its checkout,
/// on the PATH.
fn candidates(executable: Option<&Path>) -> Vec<PathBuf> {
    let python = format!("python{EXE_SUFFIX}");
    let beside = executable.and_then(Path::parent).map(|folder| folder.join(&python));
    let scripts = if cfg!(windows) { ".venv/Scripts" } else { ".venv/bin" };
    let own = executable.and_then(checkout).map(|checkout| checkout.join(scripts).join(&python));
    let mut candidates: Vec<PathBuf> = [beside, own].into_iter().flatten().filter(|path| path.is_file()).collect();
    candidates.push(if cfg!(windows) { python } else { "python3".to_owned() }.into());
    candidates
}

/// The checkout that built `executable` in its `target` folder.
fn checkout(executable: &Path) -> Option<&Path> {
    let target = executable.ancestors().find(|folder| folder.file_name() == Some(OsStr::new("target")))?;
    target.parent().filter(|checkout| checkout.join("pyproject.toml").is_file())
}

fn has_package(python: &Path) -> bool {
    let mut command = Command::new(python);
    command.args(["-c", PROBE]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Instructions to install the package.
fn remedy(checkout: Option<&Path>) -> String {
    let install = match checkout {
        Some(checkout) => format!("run: make -C {} setup", checkout.display()),
        None => "run make install in a checkout of Lockstep".to_owned(),
    };
    format!("{install}, or name a Python that has it: {PYTHON}=PATH")
}

/// Replaces this process by `command`. Returns only on failure.
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
