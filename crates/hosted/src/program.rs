//! A controller in a separate program that speaks JSON lines in virtual time (`docs/reference/controller-protocol.md`).
//!
//! The call waits for each answer, up to a limit.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use lockstep_control::{FailureReason, Registration};

use crate::child::{LineProcess, MAX_LINE_BYTES, NoAnswer};
use crate::protocol::{ControllerLines, Event, line_controller};

/// The problem of a line that answers no event.
const EARLY_LINE: &str =
    "it wrote a line before the event; it must write one line for each event, and print to standard error instead";

/// Why the program of a controller ended the call.
#[derive(Debug)]
pub struct ProgramError {
    path: PathBuf,
    /// The unanswered event and its time; none before the first event.
    event: Option<Event>,
    problem: String,
    /// The last lines of its standard error.
    quoted: Vec<String>,
}

impl std::error::Error for ProgramError {}

impl fmt::Display for ProgramError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "controller program {}: ", self.path.display())?;
        if let Some(event) = self.event {
            write!(formatter, "{event}: ")?;
        }
        formatter.write_str(&self.problem)?;
        match self.quoted.join(" | ") {
            quoted if quoted.is_empty() => Ok(()),
            quoted => write!(formatter, "; its standard error ends: {quoted}"),
        }
    }
}

/// The running program.
struct Program {
    path: PathBuf,
    limit: Duration,
    process: LineProcess,
}

impl Program {
    /// The error for `problem` at an event.
    fn error(&self, event: Option<Event>, problem: String) -> FailureReason {
        Box::new(ProgramError { path: self.path.clone(), event, problem, quoted: self.process.quoted() })
    }

    /// Starts the program in the file `path`.
    fn start(path: &Path, limit: Duration) -> Result<Self, FailureReason> {
        let named = path.to_path_buf();
        let refused = |problem| ProgramError { path: named.clone(), event: None, problem, quoted: Vec::new() };
        // The absolute path: a bare name would be searched in the PATH.
        let file = path.canonicalize().ok().filter(|file| file.is_file());
        let file = file.ok_or_else(|| refused("no such file; name the file of a program".to_owned()))?;
        let process = LineProcess::start(&mut Command::new(file), true, None).map_err(|error| {
            refused(format!(
                "cannot start it: {error}; it must be executable (`chmod +x`) and begin with `#!` if a script"
            ))
        })?;
        Ok(Self { path: named, limit, process })
    }
}

impl ControllerLines for Program {
    fn answer(&mut self, event: Event, mut line: String) -> Result<String, FailureReason> {
        if self.process.has_line() {
            return Err(self.error(Some(event), EARLY_LINE.to_owned()));
        }
        line.push('\n');
        let answer = self.process.send(line).and_then(|()| self.process.line(self.limit));
        let reason = match answer {
            Ok(text) => return Ok(text),
            Err(NoAnswer::Interrupted(reason)) => return Err(reason),
            Err(reason) => reason,
        };
        let problem = match reason {
            NoAnswer::Slow(limit) => format!("no answer within {} s", limit.as_secs_f64()),
            NoAnswer::Ended(status) => format!("it ended without an answer ({status})"),
            NoAnswer::TooLong => format!("its answer is longer than {MAX_LINE_BYTES} bytes"),
            // The line came before the request was written.
            NoAnswer::Unread | NoAnswer::Interrupted(_) => EARLY_LINE.to_owned(),
        };
        Err(self.error(Some(event), problem))
    }

    fn refused(&self, event: Event, problem: String) -> FailureReason {
        self.error(Some(event), problem)
    }
}

impl Drop for Program {
    /// Its input ends first, so that it can write its remaining output.
    fn drop(&mut self) {
        self.process.finish();
    }
}

/// The controller `name` in the program at `path`. Each sending end starts a separate process. It must answer each event
/// within `limit`, wall clock.
#[must_use]
pub fn program_controller(name: &str, path: &Path, limit: Duration) -> Registration {
    let path = path.to_path_buf();
    let about = format!("the program {}", path.display());
    Registration::new(name, about, move |setup| {
        line_controller(Program::start(&path, limit), setup, setup.failure.clone())
    })
}
