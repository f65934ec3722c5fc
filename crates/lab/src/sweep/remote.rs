//! Jobs on a Ray cluster: a Python module of this project hands them out and prints what comes back.

use std::env;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::{Serialize, de::DeserializeOwned};

use super::finished::Finished;
use super::jobs::Job;
use crate::python_module::interpreter;

/// Runs the jobs of a sweep on the cluster at `address`. `done` hears of each.
pub fn run(address: &str, jobs: &[Job], mut done: impl FnMut(Finished) -> Result<()>) -> Result<()> {
    // Ray prints things of its own.
    run_command(address, &["sweep"], jobs, |line| Finished::from_line(line).map_or(Ok(()), &mut done))
}

/// The jobs of a `--job-file`, as a machine of the cluster gets them.
pub fn read_jobs<Job: DeserializeOwned>(path: &Path) -> Result<Vec<Job>> {
    let named = || format!("jobs {}", path.display());
    let file = File::open(path).with_context(named)?;
    serde_json::from_reader(BufReader::new(file)).with_context(named)
}

/// Has `command` of this program, on the machines of the cluster at `address`, run `jobs` from files of a few with
/// `--job-file`. `done` hears of each line that it prints, and of what Ray prints.
pub fn run_command(
    address: &str,
    command: &[&str],
    jobs: &[impl Serialize],
    mut done: impl FnMut(&str) -> Result<()>,
) -> Result<()> {
    if !address.starts_with("ray://") {
        bail!("`{address}` is no cluster; it should be like ray://HOST:PORT or ray://local");
    }
    if jobs.is_empty() {
        return Ok(());
    }
    let mut file = tempfile::NamedTempFile::new().context("cannot make a file for the jobs")?;
    serde_json::to_writer(&mut file, jobs)?;
    let python = interpreter()?;
    let mut child = Command::new(&python)
        .args(["-m", "lockstep.sweep_ray", "--address", address, "--jobs"])
        .arg(file.path())
        .arg("--program")
        .arg(env::current_exe().context("cannot find the lockstep program")?)
        .arg("--command")
        .args(command)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {}; LOCKSTEP_PYTHON may name another Python", python.display()))?;
    let output = child.stdout.take().context("the Python process has no output")?;
    let mut result = Ok(());
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        result = done(&line);
        if result.is_err() {
            let _ = child.kill();
            break;
        }
    }
    let status = child.wait().context("the Python process was lost")?;
    result?;
    if !status.success() {
        bail!("lockstep.sweep_ray failed ({status}); its message is above, and finished calls are kept");
    }
    Ok(())
}
