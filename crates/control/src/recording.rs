//! What a controller was told and what it answered, kept while a call runs and told again later: nothing else bears on
//! what it decides, so the same recording leads to the same decisions in any driver and at any speed.
//!
//! [`Recorded`] stands before a controller and hands an [`Event`] to a [`Recorder`] for each thing that it is told or
//! asked. [`Event::replay`] does the same to another controller, whose answer can be compared with the one recorded.
//! [`Header`] has what that controller is made of, and [`RecordingReader`] reads what [`header_line`], [`event_line`]
//! and [`end_line`] wrote.

mod file;
mod header;
mod kept;
mod rows;

use std::cell::RefCell;
use std::fmt;
use std::time::Duration;

use lockstep_transport::{Feedback, LostFragment};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use crate::{Allowance, Controller, InFlight};

pub use file::{Ending, RecordingError, RecordingReader, end_line, event_line, header_line};
pub use header::{Header, HeaderError};
pub use kept::{Kept, KeptEvents};

/// What a controller is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// [`Controller::on_transmit`].
    Transmit(Timestamp, ByteCount),
    /// [`Controller::on_feedback_transmit`].
    FeedbackTransmit(Timestamp, ByteCount),
    /// [`Controller::on_feedback`].
    Feedback(Timestamp, Feedback),
    /// [`Controller::on_time`].
    Time(Timestamp),
    /// [`Controller::on_loss`].
    Loss(Timestamp, Vec<LostFragment>),
    /// [`Controller::on_picture_left_out`].
    PictureLeftOut,
}

/// What a controller was asked, and what it answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answered {
    /// [`Controller::allowance`].
    Allowance(Timestamp, InFlight, Allowance),
    /// [`Controller::pacing_interval`].
    Pacing(Timestamp, InFlight, Duration),
    /// [`Controller::estimate`].
    Estimate(Option<Bitrate>),
    /// [`Controller::held_up`].
    HeldUp(ByteCount),
    /// [`Controller::is_bounded`].
    IsBounded(bool),
    /// [`Controller::has_ceiling`].
    HasCeiling(bool),
    /// [`Controller::wants_probes`].
    WantsProbes(bool),
}

/// One thing that a controller was told, or asked and answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// It was told this.
    Told(Told),
    /// It was asked this, and answered so.
    Answered(Answered),
}

/// Who hears of what a controller is told and answers.
pub trait Recorder: Send {
    /// First of all: what the controller is made of.
    fn begin(&mut self, header: &Header);
    /// It was told or asked something.
    fn record(&mut self, event: &Event);
}

/// An interval as a recording has it, in 64 bits of nanoseconds: beyond 584 years they are all the same.
fn held(interval: Duration) -> Duration {
    interval.min(Duration::from_nanos(u64::MAX))
}

impl Told {
    /// When that was, if it was at a time.
    #[must_use]
    pub fn at(&self) -> Option<Timestamp> {
        match self {
            Self::Transmit(at, _)
            | Self::FeedbackTransmit(at, _)
            | Self::Feedback(at, _)
            | Self::Time(at)
            | Self::Loss(at, _) => Some(*at),
            Self::PictureLeftOut => None,
        }
    }

    /// Tells `controller`.
    pub fn tell(&self, controller: &mut dyn Controller) {
        match self {
            Self::Transmit(at, size) => controller.on_transmit(*at, *size),
            Self::FeedbackTransmit(at, carried) => controller.on_feedback_transmit(*at, *carried),
            Self::Feedback(at, feedback) => controller.on_feedback(*at, feedback),
            Self::Time(at) => controller.on_time(*at),
            Self::Loss(at, lost) => controller.on_loss(*at, lost),
            Self::PictureLeftOut => controller.on_picture_left_out(),
        }
    }
}

impl Answered {
    /// How many things can be asked.
    const KINDS: usize = 7;

    fn kind(self) -> usize {
        match self {
            Self::Allowance(..) => 0,
            Self::Pacing(..) => 1,
            Self::Estimate(_) => 2,
            Self::HeldUp(_) => 3,
            Self::IsBounded(_) => 4,
            Self::HasCeiling(_) => 5,
            Self::WantsProbes(_) => 6,
        }
    }

    fn of_allowance(at: Timestamp, in_flight: InFlight, allowance: Allowance) -> Self {
        let pacing_interval = held(allowance.pacing_interval);
        Self::Allowance(at, in_flight, Allowance { pacing_interval, ..allowance })
    }

    /// When that was, if it was at a time.
    #[must_use]
    pub fn at(self) -> Option<Timestamp> {
        match self {
            Self::Allowance(at, ..) | Self::Pacing(at, ..) => Some(at),
            _ => None,
        }
    }

    /// Asks `controller` the same: with what it answers.
    #[must_use]
    pub fn ask(self, controller: &dyn Controller) -> Self {
        match self {
            Self::Allowance(at, in_flight, _) => Self::of_allowance(at, in_flight, controller.allowance(at, in_flight)),
            Self::Pacing(at, in_flight, _) => {
                Self::Pacing(at, in_flight, held(controller.pacing_interval(at, in_flight)))
            }
            Self::Estimate(_) => Self::Estimate(controller.estimate()),
            Self::HeldUp(_) => Self::HeldUp(controller.held_up()),
            Self::IsBounded(_) => Self::IsBounded(controller.is_bounded()),
            Self::HasCeiling(_) => Self::HasCeiling(controller.has_ceiling()),
            Self::WantsProbes(_) => Self::WantsProbes(controller.wants_probes()),
        }
    }

    /// What was asked, for people.
    #[must_use]
    pub fn question(self) -> String {
        let on_the_way =
            |what: &str, in_flight: InFlight| format!("{what} with {} B on the way", in_flight.bytes.get());
        match self {
            Self::Allowance(_, in_flight, _) => on_the_way("what may be sent", in_flight),
            Self::Pacing(_, in_flight, _) => on_the_way("the pacing interval", in_flight),
            Self::Estimate(_) => "what the path carries".to_owned(),
            Self::HeldUp(_) => "what is held up".to_owned(),
            Self::IsBounded(_) => "whether it is bounded".to_owned(),
            Self::HasCeiling(_) => "whether it has a ceiling".to_owned(),
            Self::WantsProbes(_) => "whether it wants probes".to_owned(),
        }
    }
}

/// The answer, for people.
impl fmt::Display for Answered {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds = |interval: Duration| interval.as_nanos() as f64 / 1e6;
        match self {
            Self::Allowance(_, _, Allowance { budget, pacing_interval, target }) => {
                let (bytes, interval) = (budget.get(), milliseconds(*pacing_interval));
                write!(formatter, "{bytes} B, {interval} ms apart, target {} b/s", target.as_bps())
            }
            Self::Pacing(_, _, interval) => write!(formatter, "{} ms", milliseconds(*interval)),
            Self::Estimate(Some(rate)) => write!(formatter, "{} b/s", rate.as_bps()),
            Self::Estimate(None) => formatter.write_str("its target"),
            Self::HeldUp(bytes) => write!(formatter, "{} B", bytes.get()),
            Self::IsBounded(yes) | Self::HasCeiling(yes) | Self::WantsProbes(yes) => {
                formatter.write_str(if *yes { "yes" } else { "no" })
            }
        }
    }
}

impl Event {
    /// When that was, if it was at a time.
    #[must_use]
    pub fn at(&self) -> Option<Timestamp> {
        match self {
            Self::Told(told) => told.at(),
            Self::Answered(answered) => answered.at(),
        }
    }

    /// Tells `controller` the same, or asks it the same: with what it answers then.
    pub fn replay(&self, controller: &mut dyn Controller) -> Option<Answered> {
        match self {
            Self::Told(told) => {
                told.tell(controller);
                None
            }
            Self::Answered(answered) => Some(answered.ask(controller)),
        }
    }
}

/// What [`Recorded`] writes to, and what it wrote since the controller was last told something.
struct Tape {
    recorder: Box<dyn Recorder>,
    newest: [Option<Answered>; Answered::KINDS],
}

/// A controller of which everything that it is told and answers is recorded. It decides as it would by itself.
///
/// What is asked again before anything else is told is recorded once: an end asks for some answers at each datagram,
/// and a controller that only answers does not change.
pub struct Recorded {
    controller: Box<dyn Controller>,
    // Questions are asked of a controller that is not changed by them; nobody else has it meanwhile.
    tape: RefCell<Tape>,
}

impl Recorded {
    /// `controller`, which was made as `header` says, recorded by `recorder`.
    #[must_use]
    pub fn new(controller: Box<dyn Controller>, header: &Header, mut recorder: Box<dyn Recorder>) -> Self {
        recorder.begin(header);
        Self { controller, tape: RefCell::new(Tape { recorder, newest: [None; Answered::KINDS] }) }
    }

    fn told(&mut self, told: Told) {
        told.tell(self.controller.as_mut());
        let tape = self.tape.get_mut();
        tape.newest = [None; Answered::KINDS];
        tape.recorder.record(&Event::Told(told));
    }

    fn answered(&self, answered: Answered) {
        let mut tape = self.tape.borrow_mut();
        let newest = &mut tape.newest[answered.kind()];
        if *newest != Some(answered) {
            *newest = Some(answered);
            tape.recorder.record(&Event::Answered(answered));
        }
    }
}

impl Controller for Recorded {
    fn on_transmit(&mut self, now: Timestamp, size: ByteCount) {
        self.told(Told::Transmit(now, size));
    }

    fn on_feedback_transmit(&mut self, now: Timestamp, carried: ByteCount) {
        self.told(Told::FeedbackTransmit(now, carried));
    }

    fn on_feedback(&mut self, now: Timestamp, feedback: &Feedback) {
        self.told(Told::Feedback(now, feedback.clone()));
    }

    fn on_time(&mut self, now: Timestamp) {
        self.told(Told::Time(now));
    }

    fn on_loss(&mut self, now: Timestamp, lost: &[LostFragment]) {
        self.told(Told::Loss(now, lost.to_vec()));
    }

    fn on_picture_left_out(&mut self) {
        self.told(Told::PictureLeftOut);
    }

    fn allowance(&self, now: Timestamp, in_flight: InFlight) -> Allowance {
        let allowance = self.controller.allowance(now, in_flight);
        self.answered(Answered::of_allowance(now, in_flight, allowance));
        allowance
    }

    fn pacing_interval(&self, now: Timestamp, in_flight: InFlight) -> Duration {
        let interval = self.controller.pacing_interval(now, in_flight);
        self.answered(Answered::Pacing(now, in_flight, held(interval)));
        interval
    }

    fn estimate(&self) -> Option<Bitrate> {
        let estimate = self.controller.estimate();
        self.answered(Answered::Estimate(estimate));
        estimate
    }

    fn held_up(&self) -> ByteCount {
        let bytes = self.controller.held_up();
        self.answered(Answered::HeldUp(bytes));
        bytes
    }

    /// Counts are no decisions: they are passed on, and not recorded.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.controller.counters()
    }

    fn is_bounded(&self) -> bool {
        let answer = self.controller.is_bounded();
        self.answered(Answered::IsBounded(answer));
        answer
    }

    fn has_ceiling(&self) -> bool {
        let answer = self.controller.has_ceiling();
        self.answered(Answered::HasCeiling(answer));
        answer
    }

    fn wants_probes(&self) -> bool {
        let answer = self.controller.wants_probes();
        self.answered(Answered::WantsProbes(answer));
        answer
    }
}

#[cfg(test)]
mod tests;
