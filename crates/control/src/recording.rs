//! Recording and replay of a controller: its inputs and answers during a call.
//!
//! [`Recorded`] wraps a controller and passes an [`Event`] to a [`Recorder`] for each input and each answer.
//! [`Event::replay`] repeats the event on another controller, and its answer can be compared with the recorded one.
//! Only these inputs affect a controller. Therefore a recording leads to the same decisions in any driver and at any
//! speed. [`Header`] describes the controller. [`RecordingReader`] reads the output of [`header_line`], [`event_line`]
//! and [`end_line`].

mod error;
mod file;
mod header;
mod kept;
mod rows;

use std::cell::RefCell;
use std::fmt;
use std::time::Duration;

use lockstep_transport::{Feedback, LostFragment};
use lockstep_units::{ByteCount, Timestamp};

use crate::{Allowance, Controller, InFlight, Input, PathObserver, PathView, Traits};

pub use error::RecordingError;
pub use file::{Ending, RecordingReader, end_line, event_line, header_line};
pub use header::{Header, HeaderError};
pub use kept::{Kept, KeptEvents};

/// An [`Input`] that owns its lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordedInput {
    /// [`Input::Sent`].
    Sent(ByteCount),
    /// [`Input::Encoded`].
    Encoded(ByteCount),
    /// [`Input::FeedbackSent`].
    FeedbackSent(ByteCount),
    /// [`Input::Feedback`].
    Feedback(Feedback),
    /// [`Input::Lost`].
    Lost(Vec<LostFragment>),
    /// [`Input::Time`].
    Time,
    /// [`Input::PictureSkipped`].
    PictureSkipped,
}

impl RecordedInput {
    /// The input that it was recorded from.
    #[must_use]
    pub fn input(&self) -> Input<'_> {
        match self {
            Self::Sent(size) => Input::Sent(*size),
            Self::Encoded(size) => Input::Encoded(*size),
            Self::FeedbackSent(carried) => Input::FeedbackSent(*carried),
            Self::Feedback(feedback) => Input::Feedback(feedback),
            Self::Lost(lost) => Input::Lost(lost),
            Self::Time => Input::Time,
            Self::PictureSkipped => Input::PictureSkipped,
        }
    }
}

impl From<Input<'_>> for RecordedInput {
    fn from(input: Input<'_>) -> Self {
        match input {
            Input::Sent(size) => Self::Sent(size),
            Input::Encoded(size) => Self::Encoded(size),
            Input::FeedbackSent(carried) => Self::FeedbackSent(carried),
            Input::Feedback(feedback) => Self::Feedback(feedback.clone()),
            Input::Lost(lost) => Self::Lost(lost.to_vec()),
            Input::Time => Self::Time,
            Input::PictureSkipped => Self::PictureSkipped,
        }
    }
}

/// Call of a controller's method with its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// [`Controller::allowance`].
    Allowance(Timestamp, InFlight, Allowance),
    /// [`Controller::pacing_interval`].
    Pacing(Timestamp, InFlight, Duration),
    /// [`Controller::traits`].
    Traits(Traits),
}

/// One input or one answer of a controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The controller handled this input at that time.
    Input(Timestamp, RecordedInput),
    /// The controller returned this answer.
    Answer(Answer),
}

/// Receiver of a controller's events.
pub trait Recorder: Send {
    /// Called first, with the description of the controller.
    fn begin(&mut self, header: &Header);
    /// Called when the controller has handled an input or returned an answer.
    fn record(&mut self, event: &Event);
}

/// An interval as stored in a recording: 64 bits of nanoseconds, clipped at 584 years.
fn held(interval: Duration) -> Duration {
    interval.min(Duration::from_nanos(u64::MAX))
}

impl Answer {
    /// Number of kinds of questions.
    const KINDS: usize = 3;

    fn kind(self) -> usize {
        match self {
            Self::Allowance(..) => 0,
            Self::Pacing(..) => 1,
            Self::Traits(_) => 2,
        }
    }

    fn of_allowance(at: Timestamp, in_flight: InFlight, allowance: Allowance) -> Self {
        let pacing_interval = held(allowance.pacing_interval);
        Self::Allowance(at, in_flight, Allowance { pacing_interval, ..allowance })
    }

    /// Time of the question; none if it has no time.
    #[must_use]
    pub fn at(self) -> Option<Timestamp> {
        match self {
            Self::Allowance(at, ..) | Self::Pacing(at, ..) => Some(at),
            Self::Traits(_) => None,
        }
    }

    /// The answer of `controller` to the same question, over the path of `path`.
    #[must_use]
    pub fn ask(self, path: &PathObserver, controller: &dyn Controller) -> Self {
        match self {
            Self::Allowance(at, in_flight, _) => {
                Self::of_allowance(at, in_flight, controller.allowance(&path.view(at), in_flight))
            }
            Self::Pacing(at, in_flight, _) => {
                Self::Pacing(at, in_flight, held(controller.pacing_interval(&path.view(at), in_flight)))
            }
            Self::Traits(_) => Self::Traits(controller.traits()),
        }
    }

    /// Description of the question for messages.
    #[must_use]
    pub fn question(self) -> String {
        let in_flight = |what: &str, in_flight: InFlight| format!("{what} with {} B in flight", in_flight.bytes.get());
        match self {
            Self::Allowance(_, bytes, _) => in_flight("the allowance", bytes),
            Self::Pacing(_, bytes, _) => in_flight("the pacing interval", bytes),
            Self::Traits(_) => "its traits".to_owned(),
        }
    }
}

/// Description of the answer for messages.
impl fmt::Display for Answer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds = |interval: Duration| interval.as_nanos() as f64 / 1e6;
        match self {
            Self::Allowance(_, _, allowance) => {
                let Allowance { budget, pacing_interval, target, capacity, behind_cross_traffic } = allowance;
                let (bytes, interval) = (budget.get(), milliseconds(*pacing_interval));
                write!(formatter, "{bytes} B, {interval} ms apart, target {} b/s", target.as_bps())?;
                if let Some(capacity) = capacity {
                    write!(formatter, ", capacity {} b/s", capacity.as_bps())?;
                }
                match behind_cross_traffic.get() {
                    0 => Ok(()),
                    bytes => write!(formatter, ", {bytes} B behind cross traffic"),
                }
            }
            Self::Pacing(_, _, interval) => write!(formatter, "{} ms", milliseconds(*interval)),
            Self::Traits(Traits { is_bounded, has_ceiling, wants_probes }) => {
                write!(formatter, "bounded: {is_bounded}, ceiling: {has_ceiling}, probes: {wants_probes}")
            }
        }
    }
}

impl Event {
    /// Time of the event; none for an answer without a time.
    #[must_use]
    pub fn at(&self) -> Option<Timestamp> {
        match self {
            Self::Input(at, _) => Some(*at),
            Self::Answer(answer) => answer.at(),
        }
    }

    /// Repeats the event on `path` and `controller`. Returns the answer if the event is a question.
    pub fn replay(&self, path: &mut PathObserver, controller: &mut dyn Controller) -> Option<Answer> {
        match self {
            Self::Input(at, input) => {
                path.pass(*at, input.input(), controller);
                None
            }
            Self::Answer(answer) => Some(answer.ask(path, controller)),
        }
    }
}

/// The recorder of [`Recorded`], and the answers since the last input.
struct Tape {
    recorder: Box<dyn Recorder>,
    newest: [Option<Answer>; Answer::KINDS],
}

/// Controller whose inputs and answers are recorded. The recording does not change its decisions.
///
/// An answer is recorded once if it repeats the last one of its kind since the last input. An end asks some questions
/// for every datagram, and an answer does not change a controller.
pub struct Recorded {
    controller: Box<dyn Controller>,
    // Answers are recorded behind `&self`; no borrow outlives a call.
    tape: RefCell<Tape>,
}

impl Recorded {
    /// Records `controller`, described by `header`, with `recorder`.
    #[must_use]
    pub fn new(controller: Box<dyn Controller>, header: &Header, mut recorder: Box<dyn Recorder>) -> Self {
        recorder.begin(header);
        Self { controller, tape: RefCell::new(Tape { recorder, newest: [None; Answer::KINDS] }) }
    }

    fn answer(&self, answer: Answer) {
        let mut tape = self.tape.borrow_mut();
        let newest = &mut tape.newest[answer.kind()];
        if *newest != Some(answer) {
            *newest = Some(answer);
            tape.recorder.record(&Event::Answer(answer));
        }
    }
}

impl Controller for Recorded {
    fn traits(&self) -> Traits {
        let traits = self.controller.traits();
        self.answer(Answer::Traits(traits));
        traits
    }

    fn handle(&mut self, path: &PathView<'_>, input: Input<'_>) {
        self.controller.handle(path, input);
        let tape = self.tape.get_mut();
        tape.newest = [None; Answer::KINDS];
        tape.recorder.record(&Event::Input(path.now, input.into()));
    }

    fn allowance(&self, path: &PathView<'_>, in_flight: InFlight) -> Allowance {
        let allowance = self.controller.allowance(path, in_flight);
        self.answer(Answer::of_allowance(path.now, in_flight, allowance));
        allowance
    }

    fn pacing_interval(&self, path: &PathView<'_>, in_flight: InFlight) -> Duration {
        let interval = self.controller.pacing_interval(path, in_flight);
        self.answer(Answer::Pacing(path.now, in_flight, held(interval)));
        interval
    }

    /// Counters are not decisions, so they are not recorded.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.controller.counters()
    }
}

#[cfg(test)]
mod tests;
