//! A controller in a program of its own, which speaks JSON lines in virtual time (`docs/reference/controller-protocol.md`).
//!
//! Each event is one line on the program's standard input; the program answers it with one line on its standard output. The
//! call waits for the answer, up to a limit.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use lockstep_control::{
    ControllerHost, Decision, FailureReason, HostedController, PathView, Registration, Sending, Setting,
};
use lockstep_transport::{Feedback, LostFragment};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use crate::child::{LONGEST_LINE, LineProcess, NoAnswer};
use crate::report::{FeedbackReport, PacketLost, PathReport, SendingReport, SettingReport};

/// Version of the protocol.
const VERSION: u32 = 1;

/// Why the program of a controller ended the call.
#[derive(Debug)]
pub struct ProgramError {
    path: PathBuf,
    /// The event that it did not answer, and when it was; none before the first.
    event: Option<(&'static str, Timestamp)>,
    problem: String,
    /// The last lines of its standard error.
    quoted: Vec<String>,
}

impl std::error::Error for ProgramError {}

impl fmt::Display for ProgramError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "controller program {}: ", self.path.display())?;
        if let Some((event, at)) = self.event {
            write!(formatter, "event `{event}` at {:.3} s: ", at.as_secs_f64())?;
        }
        formatter.write_str(&self.problem)?;
        match self.quoted.join(" | ") {
            quoted if quoted.is_empty() => Ok(()),
            quoted => write!(formatter, "; its standard error ends: {quoted}"),
        }
    }
}

/// A line for the program.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Request {
    Hello {
        version: u32,
        #[serde(flatten)]
        setting: SettingReport,
    },
    Feedback {
        path: PathReport,
        #[serde(flatten)]
        feedback: FeedbackReport,
    },
    Lost {
        path: PathReport,
        packets: Vec<PacketLost>,
    },
    Allowance {
        path: PathReport,
        #[serde(flatten)]
        sending: SendingReport,
    },
}

impl Request {
    fn name(&self) -> &'static str {
        match self {
            Self::Hello { .. } => "hello",
            Self::Feedback { .. } => "feedback",
            Self::Lost { .. } => "lost",
            Self::Allowance { .. } => "allowance",
        }
    }
}

/// A line of the program.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Answer {
    target_bps: Option<f64>,
    budget_bytes: Option<f64>,
    pacing_interval_ms: Option<f64>,
    capacity_bps: Option<f64>,
    error: Option<String>,
}

/// A number that the program may leave out.
fn optional(name: &str, value: Option<f64>) -> Result<Option<f64>, String> {
    match value {
        Some(number) if number < 0.0 => Err(format!("{name}: expected a number of at least 0, found {number}")),
        _ => Ok(value),
    }
}

impl Answer {
    fn decision(&self) -> Result<Decision, String> {
        let target = optional("target_bps", self.target_bps)?.ok_or("its answer has no `target_bps`")?;
        let interval = optional("pacing_interval_ms", self.pacing_interval_ms)?;
        Ok(Decision {
            target: Bitrate::from_bps(target as u64),
            budget: optional("budget_bytes", self.budget_bytes)?.map(|bytes| ByteCount::new(bytes as u64)),
            pacing_interval: interval
                .map(|interval| Duration::try_from_secs_f64(interval / 1e3).unwrap_or(Duration::MAX)),
            capacity: optional("capacity_bps", self.capacity_bps)?.map(|rate| Bitrate::from_bps(rate as u64)),
        })
    }
}

/// The program, which runs.
struct Program {
    path: PathBuf,
    limit: Duration,
    process: LineProcess,
}

impl Program {
    /// The error that `problem` is, at an event.
    fn error(&self, event: Option<(&'static str, Timestamp)>, problem: String) -> FailureReason {
        Box::new(ProgramError { path: self.path.clone(), event, problem, quoted: self.process.quoted() })
    }

    /// Starts the program in the file `path`, and lets it know the call.
    fn start(path: &Path, limit: Duration, setting: &Setting) -> Result<Self, FailureReason> {
        let named = path.to_path_buf();
        let refused = |problem| ProgramError { path: named.clone(), event: None, problem, quoted: Vec::new() };
        // The whole path: a mere name would be looked for where the system has its programs.
        let file = path.canonicalize().ok().filter(|file| file.is_file());
        let file = file.ok_or_else(|| refused("no such file; name the file of a program".to_owned()))?;
        let process = LineProcess::start(&mut Command::new(file), true, None).map_err(|error| {
            refused(format!(
                "cannot start it: {error}; it must be executable (`chmod +x`) and begin with `#!` if a script"
            ))
        })?;
        let mut program = Self { path: named, limit, process };
        program.ask(Timestamp::ZERO, &Request::Hello { version: VERSION, setting: setting.into() })?;
        Ok(program)
    }

    /// Sends `request`, of the moment `now`, and waits for the answer.
    fn ask(&mut self, now: Timestamp, request: &Request) -> Result<Answer, FailureReason> {
        let event = Some((request.name(), now));
        if self.process.has_line() {
            let problem = "it wrote a line before the event; it must write one line for each event, and print to standard \
                           error instead";
            return Err(self.error(event, problem.to_owned()));
        }
        let mut line = serde_json::to_string(request)?;
        line.push('\n');
        let answer = self.process.send(line).and_then(|()| self.process.line(self.limit));
        let text = match answer {
            Ok(text) => text,
            Err(NoAnswer::Interrupted(reason)) => return Err(reason),
            Err(reason) => {
                let problem = match reason {
                    NoAnswer::Slow(limit) => format!("no answer within {} s", limit.as_secs_f64()),
                    NoAnswer::Ended(status) => format!("it ended without an answer ({status})"),
                    NoAnswer::TooLong => format!("its answer is longer than {LONGEST_LINE} bytes"),
                    NoAnswer::Unread | NoAnswer::Interrupted(_) => "it does not read its standard input".to_owned(),
                };
                return Err(self.error(event, problem));
            }
        };
        match serde_json::from_str(&text) {
            Ok(Answer { error: Some(message), .. }) => Err(self.error(event, message.replace('\n', " | "))),
            Ok(answer) => Ok(answer),
            Err(error) => {
                let shown: String = text.chars().take(80).collect();
                let problem =
                    format!("expected a JSON object, found `{shown}`: {error}; print to standard error instead");
                Err(self.error(event, problem))
            }
        }
    }
}

impl ControllerHost for Program {
    fn on_feedback(&mut self, path: &PathView<'_>, feedback: &Feedback) -> Result<(), FailureReason> {
        let feedback = FeedbackReport::new(path, feedback);
        self.ask(path.now, &Request::Feedback { path: path.into(), feedback }).map(drop)
    }

    fn on_loss(&mut self, path: &PathView<'_>, lost: &[LostFragment]) -> Result<(), FailureReason> {
        let packets = lost.iter().map(PacketLost::from).collect();
        self.ask(path.now, &Request::Lost { path: path.into(), packets }).map(drop)
    }

    fn decide(&mut self, path: &PathView<'_>, sending: Sending) -> Result<Decision, FailureReason> {
        let request = Request::Allowance { path: path.into(), sending: sending.into() };
        let answer = self.ask(path.now, &request)?;
        answer.decision().map_err(|problem| self.error(Some((request.name(), path.now)), problem))
    }
}

impl Drop for Program {
    /// Its input ends first, so that it can write what it has left.
    fn drop(&mut self) {
        self.process.finish();
    }
}

/// The controller that the program in the file `path` is, under the name `name`. Each sending end starts a process of its
/// own, which must answer each event within `limit` on the wall clock.
#[must_use]
pub fn program_controller(name: &str, path: &Path, limit: Duration) -> Registration {
    let path = path.to_path_buf();
    let about = format!("the program {}", path.display());
    Registration::new(name, about, move |setting| {
        let program = match Program::start(&path, limit, setting) {
            Ok(program) => Some(program),
            Err(reason) => {
                setting.failure.set(reason);
                None
            }
        };
        Box::new(HostedController::new(program, setting, setting.failure.clone()))
    })
}
