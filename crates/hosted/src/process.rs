//! An estimator in a separate Python process, in the folder of its file.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::Deserialize;

use lockstep_units::{Bitrate, Timestamp};

use crate::child::{Interruption, LineProcess, NoAnswer};
use crate::estimator::{EstimatorHost, HostError, PacketReport};

/// The program of the process.
const WORKER: &str = include_str!("worker.py");
const _: () =
    assert!(WORKER.len() > 1_000, "worker.py is a link: run `git config core.symlinks true` and check out again");

/// The file's name in the challenge.
const FILE_NAME: &str = "BandwidthEstimator.py";

/// Least limit for loading an estimator: libraries such as PyTorch load slowly.
const MIN_START_LIMIT: Duration = Duration::from_secs(120);

/// Why an estimator's process fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProcessError {
    /// The file does not exist.
    #[error("estimator {0}: no such file")]
    NoFile(PathBuf),
    /// The interpreter did not start.
    #[error("estimator {path}: cannot start the interpreter `{interpreter}`: {source}")]
    Start {
        /// The estimator's file.
        path: PathBuf,
        /// The interpreter.
        interpreter: String,
        /// Error of the system.
        source: std::io::Error,
    },
    /// The estimator raised an exception, or returned something other than a rate.
    #[error("estimator {path}: {message}")]
    Failed {
        /// The estimator's file.
        path: PathBuf,
        /// The reason.
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
        /// Its exit status.
        status: String,
    },
    /// The caller was interrupted; see [`ProcessOptions::interruption`].
    #[error(transparent)]
    Interrupted(HostError),
}

/// Options of an estimator's process.
#[derive(Debug, Clone)]
pub struct ProcessOptions {
    /// The Python interpreter.
    pub interpreter: String,
    /// Seed of the estimator's random numbers.
    pub seed: u64,
    /// Limit for one answer, wall clock.
    pub limit: Duration,
    /// May end a wait earlier; called several times per second.
    pub interruption: Option<Interruption>,
}

#[derive(Deserialize)]
struct Answer {
    estimate: Option<f64>,
    error: Option<String>,
}

/// An estimator in a separate process. Dropping this ends the process. On Unix, its process group ends too.
#[derive(Debug)]
pub struct Process {
    path: PathBuf,
    limit: Duration,
    process: LineProcess,
}

/// File name of the estimator at `path`.
fn named(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(FILE_NAME) } else { path.to_path_buf() }
}

impl Process {
    /// The estimator's file: `path`, or `BandwidthEstimator.py` in the folder `path`. Its folder, with links resolved, is the
    /// working directory and the place of imports.
    ///
    /// # Errors
    /// [`ProcessError::NoFile`].
    pub fn file(path: &Path) -> Result<PathBuf, ProcessError> {
        let file = named(path);
        file.canonicalize().ok().filter(|file| file.is_file()).ok_or(ProcessError::NoFile(file))
    }

    /// Starts a process for the estimator at `path` (see [`Self::file`]), and waits until the estimator is loaded.
    ///
    /// # Errors
    /// If the file or the interpreter does not exist, the estimator cannot be loaded, or the wait is interrupted.
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
        process.answer(limit.max(MIN_START_LIMIT))?;
        Ok(process)
    }

    /// # Errors
    /// If the caller is interrupted.
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
            // An interruption may end both processes. Then it is the reason, not the failure.
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
        // If no answer follows, `answer` has the reason.
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
