//! The protocol of controllers that answer JSON lines (`docs/reference/controller-protocol.md`): each event is a line for the
//! controller, which answers it with a line.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use lockstep_control::{
    Controller, ControllerHost, ControllerSetup, Decision, Failure, FailureReason, HostedController, PathView, Sending,
};
use lockstep_transport::{Feedback, LostFragment};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use crate::report::{FeedbackReport, LostPacket, PathReport, SendingReport, SettingReport};

/// Version of the protocol.
const VERSION: u32 = 1;

/// An event and its time, as errors name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    name: &'static str,
    now: Timestamp,
}

impl fmt::Display for Event {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "event `{}` at {:.3} s", self.name, self.now.as_secs_f64())
    }
}

/// Transport of the lines.
pub trait ControllerLines: Send {
    /// The answer to the line of `event`; neither has the end of a line.
    ///
    /// # Errors
    /// If there is no answer.
    fn answer(&mut self, event: Event, line: String) -> Result<String, FailureReason>;
    /// The error of a controller whose answer to `event` is refused because of `problem`.
    fn refused(&self, event: Event, problem: String) -> FailureReason;
}

/// A line for the controller.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Request {
    Hello {
        version: u32,
        #[serde(flatten)]
        setup: SettingReport,
    },
    Feedback {
        path: PathReport,
        #[serde(flatten)]
        feedback: FeedbackReport,
    },
    Lost {
        path: PathReport,
        packets: Vec<LostPacket>,
    },
    Allowance {
        path: PathReport,
        #[serde(flatten)]
        sending: SendingReport,
    },
}

impl Request {
    fn at(&self, now: Timestamp) -> Event {
        let name = match self {
            Self::Hello { .. } => "hello",
            Self::Feedback { .. } => "feedback",
            Self::Lost { .. } => "lost",
            Self::Allowance { .. } => "allowance",
        };
        Event { name, now }
    }
}

/// A line of the controller.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Answer {
    target_bps: Option<f64>,
    budget_bytes: Option<f64>,
    pacing_interval_ms: Option<f64>,
    capacity_bps: Option<f64>,
    error: Option<String>,
}

/// A number that an answer may leave out.
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

/// A host that speaks the protocol.
struct LineHost<L>(L);

impl<L: ControllerLines> LineHost<L> {
    fn ask(&mut self, event: Event, request: &Request) -> Result<Answer, FailureReason> {
        let text = self.0.answer(event, serde_json::to_string(request)?)?;
        match serde_json::from_str(&text) {
            Ok(Answer { error: Some(message), .. }) => Err(self.0.refused(event, message.replace('\n', " | "))),
            Ok(answer) => Ok(answer),
            Err(error) => {
                let shown: String = text.chars().take(80).collect();
                let problem =
                    format!("expected a JSON object, found `{shown}`: {error}; print to standard error instead");
                Err(self.0.refused(event, problem))
            }
        }
    }
}

impl<L: ControllerLines> ControllerHost for LineHost<L> {
    fn on_feedback(&mut self, path: &PathView<'_>, feedback: &Feedback) -> Result<(), FailureReason> {
        let request = Request::Feedback { path: path.into(), feedback: FeedbackReport::new(path, feedback) };
        self.ask(request.at(path.now), &request).map(drop)
    }

    fn on_loss(&mut self, path: &PathView<'_>, lost: &[LostFragment]) -> Result<(), FailureReason> {
        let packets = lost.iter().map(LostPacket::from).collect();
        let request = Request::Lost { path: path.into(), packets };
        self.ask(request.at(path.now), &request).map(drop)
    }

    fn decide(&mut self, path: &PathView<'_>, sending: Sending) -> Result<Decision, FailureReason> {
        let request = Request::Allowance { path: path.into(), sending: sending.into() };
        let event = request.at(path.now);
        self.ask(event, &request)?.decision().map_err(|problem| self.0.refused(event, problem))
    }
}

/// The controller behind `lines` for a call of `setup`. Errors, those of the start included, are stored in `failure`.
#[must_use]
pub fn line_controller<L: ControllerLines + 'static>(
    lines: Result<L, FailureReason>,
    setup: &ControllerSetup,
    failure: Failure,
) -> Box<dyn Controller> {
    let started = lines.and_then(|lines| {
        let mut host = LineHost(lines);
        let hello = Request::Hello { version: VERSION, setup: setup.into() };
        host.ask(hello.at(Timestamp::ZERO), &hello).map(|_| host)
    });
    let host = match started {
        Ok(host) => Some(host),
        Err(reason) => {
            failure.set(reason);
            None
        }
    };
    Box::new(HostedController::new(host, setup, failure))
}
