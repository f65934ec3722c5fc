//! An estimator in a Python process of its own, in the folder of its file.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;

use lockstep_units::{Bitrate, Timestamp};

use crate::estimator::{EstimatorHost, HostError, PacketReport};

/// What runs in the process.
const WORKER: &str = include_str!("../../../python/lockstep/alphartc/worker.py");

/// The file's name in the challenge.
const FILE_NAME: &str = "BandwidthEstimator.py";

/// An answer is a line, and never a long one.
const LONGEST_LINE: u64 = 64 * 1024;

/// Libraries such as PyTorch take long to load; an estimator has at least this long until it is there.
const LEAST_START_LIMIT: Duration = Duration::from_secs(120);

/// How often whoever waits for an answer is asked whether to go on waiting.
const INTERRUPTION_INTERVAL: Duration = Duration::from_millis(50);

/// Says whether to go on waiting for an answer: an error ends the wait, and is what the wait ends with.
pub type Interruption = fn() -> Result<(), HostError>;

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
    interruption: Option<Interruption>,
    child: Child,
    /// Whether its end was taken note of. Its number may be another one's then.
    is_reaped: bool,
    requests: ChildStdin,
    answers: Receiver<String>,
    request: String,
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
        // One thread for the mathematics: with more, sums come out in another order from run to run.
        let mut command = Command::new(&options.interpreter);
        command
            .args(["-B", "-c", WORKER])
            .arg(&path)
            .arg(options.seed.to_string())
            .current_dir(folder)
            .envs([("PYTHONHASHSEED", "0"), ("TZ", "UTC"), ("PYTHONIOENCODING", "utf-8")])
            .envs([("OMP_NUM_THREADS", "1"), ("OPENBLAS_NUM_THREADS", "1"), ("MKL_NUM_THREADS", "1")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        // A group of its own, so that it can be ended with what it starts. Signals of the terminal pass it by; it ends when its
        // input does, which is when this process ends in whatever way.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let failed =
            |source| ProcessError::Start { path: file.clone(), interpreter: options.interpreter.clone(), source };
        let mut child = command.spawn().map_err(failed)?;
        let (Some(requests), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed(std::io::ErrorKind::BrokenPipe.into()));
        };
        let (lines, answers) = sync_channel(1);
        thread::spawn(move || {
            let mut output = BufReader::new(output);
            loop {
                let mut line = String::new();
                match output.by_ref().take(LONGEST_LINE).read_line(&mut line) {
                    Ok(length) if length > 0 && lines.send(line).is_ok() => {}
                    _ => return,
                }
            }
        });
        let (limit, interruption) = (options.limit, options.interruption);
        let (is_reaped, request) = (false, String::new());
        let mut process = Self { path: file, limit, interruption, child, is_reaped, requests, answers, request };
        process.answer(limit.max(LEAST_START_LIMIT))?;
        Ok(process)
    }

    /// # Errors
    /// If whoever waits is to wait no longer.
    fn go_on(&self) -> Result<(), ProcessError> {
        self.interruption.map_or(Ok(()), |interruption| interruption().map_err(ProcessError::Interrupted))
    }

    /// Ends all processes of its group.
    fn end_group(&self) {
        #[cfg(unix)]
        {
            use rustix::process::{Pid, Signal, kill_process_group};
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        }
    }

    /// Waits for the next line of the process.
    fn line(&mut self, limit: Duration) -> Result<String, ProcessError> {
        let path = self.path.clone();
        let begun = Instant::now();
        loop {
            let left = limit.saturating_sub(begun.elapsed());
            match self.answers.recv_timeout(self.interruption.map_or(left, |_| left.min(INTERRUPTION_INTERVAL))) {
                Ok(line) => return Ok(line),
                Err(RecvTimeoutError::Timeout) if begun.elapsed() >= limit => {
                    return Err(ProcessError::Slow { path, limit });
                }
                Err(RecvTimeoutError::Timeout) => self.go_on()?,
                Err(RecvTimeoutError::Disconnected) => {
                    // It closed its output; what runs on in it is of no use any more.
                    thread::sleep(Duration::from_millis(50));
                    let ended = self.child.try_wait().ok().flatten();
                    if ended.is_some() {
                        self.is_reaped = true;
                        self.end_group();
                    }
                    let status = ended.map_or_else(|| "it closed its output".to_owned(), |status| status.to_string());
                    return Err(ProcessError::Ended { path, status });
                }
            }
        }
    }

    fn read(&mut self, limit: Duration) -> Result<Option<f64>, ProcessError> {
        let line = self.line(limit)?;
        let path = self.path.clone();
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

    fn write_request(&mut self, now: Timestamp, packets: &[PacketReport]) {
        let request = &mut self.request;
        request.clear();
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
    }
}

impl EstimatorHost for Process {
    fn exchange(&mut self, now: Timestamp, packets: &[PacketReport]) -> Result<Bitrate, HostError> {
        self.write_request(now, packets);
        // A process that is gone takes no more; its last words, or its end, say why. One that reads nothing while it
        // works is no problem either: the worker reads the whole line before it calls the estimator.
        let _ = self.requests.write_all(self.request.as_bytes());
        match self.answer(self.limit)? {
            Some(rate) if rate >= 0.0 => Ok(Bitrate::from_bps(rate as u64)),
            _ => {
                let message = "its answer has no estimate".to_owned();
                Err(ProcessError::Failed { path: self.path.clone(), message }.into())
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // While the process is not reaped, no other can have its number.
        if !self.is_reaped {
            self.end_group();
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
