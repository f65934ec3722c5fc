//! A process that answers each line on its standard input with a line on its standard output, within limits.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use lockstep_units::printable;

use crate::estimator::HostError;

/// Longest answer, bytes.
pub(crate) const MAX_LINE_BYTES: usize = 64 * 1024;
/// How often the owner of a waiting call may interrupt it.
const INTERRUPTION_INTERVAL: Duration = Duration::from_millis(50);
/// Lines of standard error that an error quotes, and the longest of them, bytes.
const QUOTED_LINES: usize = 5;
const MAX_QUOTE_BYTES: u64 = 1024;
/// A process whose input has ended has this long to end by itself.
const END_LIMIT: Duration = Duration::from_secs(1);

/// Decides whether to continue waiting for an answer. An error ends the wait, which returns it.
pub type Interruption = fn() -> Result<(), HostError>;

/// Reason for a missing answer.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// None within the limit.
    Slow(Duration),
    /// The process ended, or closed its output.
    Ended(String),
    /// The line is longer than [`MAX_LINE_BYTES`].
    TooLong,
    /// The process answers, but does not read its input.
    Unread,
    /// The owner of the call interrupted it.
    Interrupted(HostError),
}

/// The last lines that a process wrote to its standard error.
type Quoted = Arc<Mutex<VecDeque<String>>>;

/// A running process. Dropping this ends it. On Unix, its process group ends too.
#[derive(Debug)]
pub(crate) struct LineProcess {
    child: Child,
    /// Whether its end is known. Another process may have its number then.
    is_reaped: bool,
    interruption: Option<Interruption>,
    /// None once its input must end.
    requests: Option<SyncSender<String>>,
    answers: Receiver<Vec<u8>>,
    errors: Quoted,
}

/// Writes each request. A process that reads nothing blocks this thread alone, until the process is ended.
fn write(mut input: ChildStdin, requests: &Receiver<String>) {
    while let Ok(request) = requests.recv() {
        // A process that has ended reads no more. Its last answer, or its end, has the reason.
        if input.write_all(request.as_bytes()).is_err() {
            return;
        }
    }
}

/// Reads each answer.
fn read(output: ChildStdout, lines: &SyncSender<Vec<u8>>) {
    let mut output = BufReader::new(output);
    loop {
        let mut line = Vec::new();
        match output.by_ref().take(MAX_LINE_BYTES as u64).read_until(b'\n', &mut line) {
            Ok(length) if length > 0 && lines.send(line).is_ok() => {}
            _ => return,
        }
    }
}

/// Passes standard error on to that of this process, and keeps its last lines.
fn quote(errors: ChildStderr, quoted: &Quoted) {
    let mut errors = BufReader::new(errors);
    loop {
        let mut line = Vec::new();
        match errors.by_ref().take(MAX_QUOTE_BYTES).read_until(b'\n', &mut line) {
            Ok(length) if length > 0 => {}
            _ => return,
        }
        let text = String::from_utf8_lossy(&line);
        let _ = io::stderr().write_all(printable(&text).as_bytes());
        let text = text.trim_end().to_owned();
        let mut quoted = quoted.lock().unwrap_or_else(PoisonError::into_inner);
        if !text.trim().is_empty() {
            quoted.push_back(text);
        }
        if quoted.len() > QUOTED_LINES {
            quoted.pop_front();
        }
    }
}

impl LineProcess {
    /// Starts `command`; `quotes` keeps the last lines of its standard error. `interruption` may end each wait.
    pub(crate) fn start(
        command: &mut Command,
        quotes: bool,
        interruption: Option<Interruption>,
    ) -> Result<Self, io::Error> {
        // One thread for mathematics: with more, sums have another order in each run.
        command
            .envs([("PYTHONHASHSEED", "0"), ("TZ", "UTC"), ("PYTHONIOENCODING", "utf-8")])
            .envs([("OMP_NUM_THREADS", "1"), ("OPENBLAS_NUM_THREADS", "1"), ("MKL_NUM_THREADS", "1")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        if quotes {
            command.stderr(Stdio::piped());
        }
        // A separate process group, so that its children end with it. It receives no signals of the terminal. It ends when its
        // input ends, and so whenever this process ends.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(command, 0);
        let mut child = command.spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let (requests, unwritten) = sync_channel(1);
        thread::spawn(move || write(input, &unwritten));
        let (lines, answers) = sync_channel(1);
        thread::spawn(move || read(output, &lines));
        let errors = Quoted::default();
        if let Some(stream) = child.stderr.take() {
            let errors = Arc::clone(&errors);
            thread::spawn(move || quote(stream, &errors));
        }
        Ok(Self { child, is_reaped: false, interruption, requests: Some(requests), answers, errors })
    }

    /// Whether it wrote a line without a request.
    pub(crate) fn has_line(&self) -> bool {
        !matches!(self.answers.try_recv(), Err(TryRecvError::Empty | TryRecvError::Disconnected))
    }

    /// Writes `request`, a whole line.
    ///
    /// # Errors
    /// [`NoAnswer::Unread`] if the requests before it are not written yet.
    pub(crate) fn send(&self, request: String) -> Result<(), NoAnswer> {
        match self.requests.as_ref().map(|requests| requests.try_send(request)) {
            Some(Err(TrySendError::Full(_))) => Err(NoAnswer::Unread),
            // If the process has ended, its end is the answer.
            _ => Ok(()),
        }
    }

    /// # Errors
    /// If the owner of the call interrupts it.
    pub(crate) fn check_interruption(&self) -> Result<(), HostError> {
        self.interruption.map_or(Ok(()), |interruption| interruption())
    }

    /// The next line, without its end.
    pub(crate) fn line(&mut self, limit: Duration) -> Result<String, NoAnswer> {
        let begun = Instant::now();
        loop {
            let left = limit.saturating_sub(begun.elapsed());
            match self.answers.recv_timeout(self.interruption.map_or(left, |_| left.min(INTERRUPTION_INTERVAL))) {
                Ok(line) if line.len() >= MAX_LINE_BYTES && !line.ends_with(b"\n") => return Err(NoAnswer::TooLong),
                Ok(line) => return Ok(String::from_utf8_lossy(&line).trim_end().to_owned()),
                Err(RecvTimeoutError::Timeout) if begun.elapsed() >= limit => return Err(NoAnswer::Slow(limit)),
                Err(RecvTimeoutError::Timeout) => self.check_interruption().map_err(NoAnswer::Interrupted)?,
                Err(RecvTimeoutError::Disconnected) => {
                    // It closed its output, so it cannot answer any more.
                    thread::sleep(Duration::from_millis(50));
                    let ended = self.child.try_wait().ok().flatten();
                    if ended.is_some() {
                        self.is_reaped = true;
                        self.end_group();
                    }
                    let closed = || "it closed its output".to_owned();
                    return Err(NoAnswer::Ended(ended.map_or_else(closed, |status| status.to_string())));
                }
            }
        }
    }

    /// The last lines of its standard error, oldest first.
    pub(crate) fn quoted(&self) -> Vec<String> {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Ends its input and waits at most one second until it exits.
    pub(crate) fn finish(&mut self) {
        self.requests = None;
        let begun = Instant::now();
        while !self.is_reaped && begun.elapsed() < END_LIMIT {
            match self.child.try_wait() {
                Ok(None) => thread::sleep(Duration::from_millis(2)),
                Ok(Some(_)) => {
                    self.is_reaped = true;
                    self.end_group();
                }
                Err(_) => return,
            }
        }
    }

    /// Ends all processes of its group.
    fn end_group(&self) {
        #[cfg(unix)]
        {
            use rustix::process::{Pid, Signal, kill_process_group};
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        }
    }
}

impl Drop for LineProcess {
    fn drop(&mut self) {
        // While the process is not reaped, no other can have its number.
        if !self.is_reaped {
            self.end_group();
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
