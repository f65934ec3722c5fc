//! Jobs on a Ray cluster: a Python module of this project distributes them and prints the results.

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

/// Runs the jobs of a sweep on the cluster at `address`. `done` receives each result.
pub fn run(address: &str, jobs: &[Job], mut done: impl FnMut(Finished) -> Result<()>) -> Result<()> {
    // Ray prints other lines, too.
    run_command(address, &["sweep"], jobs, |line| Finished::from_line(line).map_or(Ok(()), &mut done))
}

/// Reads the jobs of a `--job-file`, on a cluster machine.
pub fn read_jobs<Job: DeserializeOwned>(path: &Path) -> Result<Vec<Job>> {
    let named = || format!("jobs {}", path.display());
    let file = File::open(path).with_context(named)?;
    serde_json::from_reader(BufReader::new(file)).with_context(named)
}

/// Runs `jobs` on the cluster at `address`. Its machines run `command` of this program with `--job-file` and files of a
/// few jobs. `done` receives each printed line, including those of Ray.
pub fn run_command(
    address: &str,
    command: &[&str],
    jobs: &[impl Serialize],
    mut done: impl FnMut(&str) -> Result<()>,
) -> Result<()> {
    if !address.starts_with("ray://") {
        bail!("`{address}` is not a cluster; expected ray://HOST:PORT or ray://local");
    }
    if jobs.is_empty() {
        return Ok(());
    }
    let mut file = tempfile::NamedTempFile::new().context("cannot create a file for the jobs")?;
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
