//! An estimator in a Python process of its own, in the folder of its file.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::Deserialize;

use lockstep_units::{Bitrate, Timestamp};

use crate::child::{Interruption, LineProcess, NoAnswer};
use crate::estimator::{EstimatorHost, HostError, PacketReport};

/// What runs in the process.
const WORKER: &str = include_str!("worker.py");

/// The file's name in the challenge.
const FILE_NAME: &str = "BandwidthEstimator.py";

/// Libraries such as PyTorch take long to load; an estimator has at least this long until it is there.
const LEAST_START_LIMIT: Duration = Duration::from_secs(120);

/// Why an estimator's process is of no use, or no longer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProcessError {
    /// There is no such file.
    #[error("estimator {0}: no such file")]
    NoFile(PathBuf),
    /// The interpreter did not start.
    #[error("estimator {path}: cannot start the interpreter `{interpreter}`: {source}")]
    Start {
        /// The estimator's file.
        path: PathBuf,
        /// The interpreter.
        interpreter: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The estimator raised something, or returned what is no rate.
    #[error("estimator {path}: {message}")]
    Failed {
        /// The estimator's file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// No answer within the limit.
    #[error("estimator {path}: no answer within {} s", limit.as_secs_f64())]
    Slow {
        /// The estimator's file.
        path: PathBuf,
        /// The limit.
        limit: Duration,
    },
    /// The process ended without an answer.
    #[error("estimator {path}: its process ended ({status})")]
    Ended {
        /// The estimator's file.
        path: PathBuf,
        /// How it ended.
        status: String,
    },
    /// Whoever waited was interrupted; see [`ProcessOptions::interruption`].
    #[error(transparent)]
    Interrupted(HostError),
}

/// How an estimator's process is run.
#[derive(Debug, Clone)]
pub struct ProcessOptions {
    /// The Python interpreter.
    pub interpreter: String,
    /// Seed of the estimator's draws.
    pub seed: u64,
    /// Longest time that one answer may take on the clock on the wall.
    pub limit: Duration,
    /// What may end a wait before that, several times a second; nothing does if not given.
    pub interruption: Option<Interruption>,
}

#[derive(Deserialize)]
struct Answer {
    estimate: Option<f64>,
    error: Option<String>,
}

/// An estimator in a process of its own. The process ends with this, and, on Unix, so do those that it started, but for
/// those that left its group of processes.
#[derive(Debug)]
pub struct Process {
    path: PathBuf,
    limit: Duration,
    process: LineProcess,
}

/// The name of the file of the estimator that `path` names.
fn named(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(FILE_NAME) } else { path.to_path_buf() }
}

impl Process {
    /// The file of the estimator that `path` names: `path`, or `BandwidthEstimator.py` in the folder `path`. The folder that
    /// it is in, links followed, is the one that it runs and imports from.
    ///
    /// # Errors
    /// [`ProcessError::NoFile`].
    pub fn file(path: &Path) -> Result<PathBuf, ProcessError> {
        let file = named(path);
        file.canonicalize().ok().filter(|file| file.is_file()).ok_or(ProcessError::NoFile(file))
    }

    /// Starts a process for the estimator in the file `path`, or in `BandwidthEstimator.py` in the folder `path`, and waits
    /// until the estimator is there.
    ///
    /// # Errors
    /// [`ProcessError`]: if there is no such file or interpreter, if the estimator cannot be loaded, or if the wait for it
    /// was interrupted.
    pub fn start(path: &Path, options: &ProcessOptions) -> Result<Self, ProcessError> {
        let (file, path) = (named(path), Self::file(path)?);
        let folder = path.parent().ok_or_else(|| ProcessError::NoFile(file.clone()))?;
        let mut command = Command::new(&options.interpreter);
        command.args(["-B", "-c", WORKER]).arg(&path).arg(options.seed.to_string()).current_dir(folder);
        let failed =
            |source| ProcessError::Start { path: file.clone(), interpreter: options.interpreter.clone(), source };
        let process = LineProcess::start(&mut command, false, options.interruption).map_err(failed)?;
        let limit = options.limit;
        let mut process = Self { path: file, limit, process };
        process.answer(limit.max(LEAST_START_LIMIT))?;
        Ok(process)
    }

    /// # Errors
    /// If whoever waits is to wait no longer.
    fn go_on(&self) -> Result<(), ProcessError> {
        self.process.check_interruption().map_err(ProcessError::Interrupted)
    }

    fn read(&mut self, limit: Duration) -> Result<Option<f64>, ProcessError> {
        let path = self.path.clone();
        let line = match self.process.line(limit) {
            Ok(line) => line,
            Err(NoAnswer::Slow(limit)) => return Err(ProcessError::Slow { path, limit }),
            Err(NoAnswer::Ended(status)) => return Err(ProcessError::Ended { path, status }),
            Err(NoAnswer::TooLong | NoAnswer::Unread) => {
                return Err(ProcessError::Failed { path, message: "its answer is too long".to_owned() });
            }
            Err(NoAnswer::Interrupted(reason)) => return Err(ProcessError::Interrupted(reason)),
        };
        match serde_json::from_str(&line) {
            Ok(Answer { error: Some(message), .. }) => Err(ProcessError::Failed { path, message }),
            Ok(Answer { estimate, error: None }) => Ok(estimate),
            Err(error) => Err(ProcessError::Failed { path, message: format!("its answer is garbled: {error}") }),
        }
    }

    /// The next answer; its rate if it has one.
    fn answer(&mut self, limit: Duration) -> Result<Option<f64>, ProcessError> {
        let answer = self.read(limit);
        if answer.is_err() {
            // What interrupts this process may end the estimator's as well: that it failed is not the news then.
            self.go_on()?;
        }
        answer
    }

    fn request(now: Timestamp, packets: &[PacketReport]) -> String {
        let mut request = String::new();
        // Writing to a string does not fail.
        let _ = write!(request, "{{\"now\":{},\"packets\":[", now.as_nanos());
        for (index, packet) in packets.iter().enumerate() {
            let _ = write!(
                request,
                "{}[{},{},{},{},{},{}]",
                if index == 0 { "" } else { "," },
                packet.arrived_at.as_nanos(),
                packet.send_time_ms,
                packet.arrival_time_ms,
                packet.sequence_number,
                packet.header_length,
                packet.payload_size,
            );
        }
        request.push_str("]}\n");
        request
    }
}

impl EstimatorHost for Process {
    fn exchange(&mut self, now: Timestamp, packets: &[PacketReport]) -> Result<Bitrate, HostError> {
        // Without an answer to it, `answer` says why.
        let _ = self.process.send(Self::request(now, packets));
        match self.answer(self.limit)? {
            Some(rate) if rate >= 0.0 => Ok(Bitrate::from_bps(rate as u64)),
            _ => {
                let message = "its answer has no estimate".to_owned();
                Err(ProcessError::Failed { path: self.path.clone(), message }.into())
            }
        }
    }
}
