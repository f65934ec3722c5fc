//! Controllers that run outside this crate, in another process or another language.
//!
//! A [`ControllerHost`] passes events to the foreign code and returns its [`Decision`]s. [`HostedController`] turns it
//! into a [`Controller`]. It requests a decision before each picture and after each feedback, loss and skipped picture.
//! It derives the values that a decision omits from the target.
//!
//! ```text
//! events -> HostedController -> ControllerHost -> foreign code
//!                 |                                   |
//!             Allowance <----------- Decision <-------+
//! ```

use std::cell::RefCell;
use std::time::Duration;

use lockstep_transport::{Feedback, LostFragment};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use crate::{
    Allowance, Controller, ControllerSetup, Failure, FailureReason, InFlight, Input, PathView, RateBounds, TokenBucket,
    Traits,
};

/// Pacing rate over target for a decision without a pacing interval, as in WebRTC.
const PACING_FACTOR: f64 = 2.5;
/// Longest pause between two fragments.
const MAX_PACING_INTERVAL: Duration = Duration::from_secs(1);
/// Largest budget of a frame. No link of these calls delivers it within a frame interval.
const MAX_BUDGET: ByteCount = ByteCount::new(1 << 24);

/// Decision of foreign code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// Bit rate that the video should have on average.
    pub target: Bitrate,
    /// Bytes of the next frame. If none, a token bucket at the target gives them.
    pub budget: Option<ByteCount>,
    /// Time between two fragments. If none, it follows from 2.5 times the target.
    pub pacing_interval: Option<Duration>,
    /// Estimate of the path's capacity, if there is one apart from the target.
    pub capacity: Option<Bitrate>,
}

impl Decision {
    /// A decision with a target only; budget and pacing follow from it.
    #[must_use]
    pub const fn at(target: Bitrate) -> Self {
        Self { target, budget: None, pacing_interval: None, capacity: None }
    }
}

/// Sender state for a decision, in addition to the path view.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sending {
    /// Data that the sender has in flight.
    pub in_flight: InFlight,
    /// Bytes sent since the call began, headers included.
    pub sent: ByteCount,
    /// Pictures skipped since the call began.
    pub skipped: u64,
}

/// Connection to a controller outside this crate.
pub trait ControllerHost: Send {
    /// Handles feedback. `path` includes it.
    ///
    /// # Errors
    /// The error of the controller, if it failed.
    fn on_feedback(&mut self, path: &PathView<'_>, feedback: &Feedback) -> Result<(), FailureReason>;
    /// Handles fragments that were declared lost.
    ///
    /// # Errors
    /// The error of the controller, if it failed.
    fn on_loss(&mut self, path: &PathView<'_>, lost: &[LostFragment]) -> Result<(), FailureReason>;
    /// Decides on target, budget and pacing at `path.now`.
    ///
    /// # Errors
    /// The error of the controller, if it failed.
    fn decide(&mut self, path: &PathView<'_>, sending: Sending) -> Result<Decision, FailureReason>;
}

/// The host and its last decision.
struct State<H> {
    /// The host; none after it failed.
    host: Option<H>,
    decision: Decision,
    /// Time and sender state of the decision; none after a new event.
    made_for: Option<(Timestamp, Sending)>,
}

impl<H> State<H> {
    /// The result of `call`, unless the host has failed. An error of `call` marks the host as failed.
    fn with_host<T>(&mut self, failure: &Failure, call: impl FnOnce(&mut H) -> Result<T, FailureReason>) -> Option<T> {
        match call(self.host.as_mut()?) {
            Ok(value) => Some(value),
            Err(reason) => {
                failure.set(reason);
                self.host = None;
                None
            }
        }
    }
}

/// Controller behind a host. After a failure its last decision stays valid, and the driver ends the call.
pub struct HostedController<H> {
    bounds: RateBounds,
    failure: Failure,
    bucket: TokenBucket,
    sent: ByteCount,
    skipped: u64,
    state: RefCell<State<H>>,
}

impl<H: ControllerHost> HostedController<H> {
    /// The controller of `host` for a call of `setup`. It reports errors in `failure`. Without a host it counts as
    /// failed.
    #[must_use]
    pub fn new(host: Option<H>, setup: &ControllerSetup, failure: Failure) -> Self {
        let ControllerSetup { payload, frame_interval, bounds, .. } = *setup;
        let state = State { host, decision: Decision::at(bounds.initial), made_for: None };
        let bucket = TokenBucket::new(payload, frame_interval);
        Self { bounds, failure, bucket, sent: ByteCount::ZERO, skipped: 0, state: RefCell::new(state) }
    }

    /// The decision for `in_flight`. If `is_new` is false, any decision since the last event is reused.
    fn decision(&self, path: &PathView<'_>, in_flight: InFlight, is_new: bool) -> Decision {
        let mut state = self.state.borrow_mut();
        let sending = Sending { in_flight, sent: self.sent, skipped: self.skipped };
        let wanted = (path.now, sending);
        if state.made_for.is_none_or(|made_for| is_new && made_for != wanted)
            && let Some(decision) = state.with_host(&self.failure, |host| host.decide(path, sending))
        {
            state.decision = Decision {
                target: decision.target.clamp(self.bounds.min, self.bounds.max),
                budget: decision.budget.map(|budget| budget.min(MAX_BUDGET)),
                pacing_interval: decision.pacing_interval.map(|interval| interval.min(MAX_PACING_INTERVAL)),
                ..decision
            };
            state.made_for = Some(wanted);
        }
        state.decision
    }
}

impl<H: ControllerHost> Controller for HostedController<H> {
    fn traits(&self) -> Traits {
        Traits::ESTIMATING
    }

    fn handle(&mut self, path: &PathView<'_>, input: Input<'_>) {
        let Self { failure, state, .. } = self;
        let state = state.get_mut();
        match input {
            Input::Sent(size) => {
                self.sent += size;
                self.bucket.on_transmit(path.now, size, state.decision.target);
                return;
            }
            Input::FeedbackSent(_) | Input::Encoded(_) => return,
            Input::Feedback(feedback) => drop(state.with_host(failure, |host| host.on_feedback(path, feedback))),
            Input::Lost(lost) => drop(state.with_host(failure, |host| host.on_loss(path, lost))),
            Input::PictureSkipped => self.skipped += 1,
            Input::Time => {}
        }
        state.made_for = None;
    }

    fn allowance(&self, path: &PathView<'_>, in_flight: InFlight) -> Allowance {
        let Decision { target, budget, pacing_interval, capacity } = self.decision(path, in_flight, true);
        let usual = self.bucket.allowance(path.now, in_flight, target, target.mul_f64(PACING_FACTOR));
        Allowance {
            budget: budget.unwrap_or(usual.budget),
            pacing_interval: pacing_interval.unwrap_or(usual.pacing_interval),
            capacity,
            ..usual
        }
    }

    fn pacing_interval(&self, path: &PathView<'_>, in_flight: InFlight) -> Duration {
        let Decision { target, pacing_interval, .. } = self.decision(path, in_flight, false);
        pacing_interval.unwrap_or_else(|| self.bucket.pacing_interval(target.mul_f64(PACING_FACTOR)))
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use lockstep_transport::Estimate;

    use super::*;
    use crate::closed_loop::setup;

    /// Records the names of its calls, returns `decision`, and fails after `left` decisions.
    struct Scripted {
        asked: Arc<Mutex<Vec<&'static str>>>,
        decision: Decision,
        left: usize,
    }

    impl ControllerHost for Scripted {
        fn on_feedback(&mut self, _path: &PathView<'_>, _feedback: &Feedback) -> Result<(), FailureReason> {
            self.asked.lock().unwrap().push("feedback");
            Ok(())
        }

        fn on_loss(&mut self, _path: &PathView<'_>, _lost: &[LostFragment]) -> Result<(), FailureReason> {
            self.asked.lock().unwrap().push("lost");
            Ok(())
        }

        fn decide(&mut self, _path: &PathView<'_>, _sending: Sending) -> Result<Decision, FailureReason> {
            self.asked.lock().unwrap().push("decide");
            self.left = self.left.checked_sub(1).ok_or("no decision left")?;
            Ok(self.decision)
        }
    }

    type Hosted = (HostedController<Scripted>, Arc<Mutex<Vec<&'static str>>>, Failure);

    fn hosted(decision: Decision, left: usize) -> Hosted {
        let (asked, failure) = (Arc::default(), Failure::default());
        let host = Scripted { asked: Arc::clone(&asked), decision, left };
        (HostedController::new(Some(host), &setup(), failure.clone()), asked, failure)
    }

    fn feedback() -> Feedback {
        let (acknowledged, estimate) = (Vec::new(), Estimate::default());
        Feedback { acknowledged, estimate, round_trip_time: None, highest_sequence: 0, found: 0, received: 1 }
    }

    #[test]
    fn pacing_calls_the_host_only_after_an_event() {
        let (mut controller, asked, _) = hosted(Decision::at(Bitrate::from_kbps(500)), 100);
        let path = PathView::default();
        let pace = |controller: &HostedController<_>, bytes| {
            let in_flight = InFlight { bytes: ByteCount::new(bytes), ..InFlight::default() };
            controller.pacing_interval(&path, in_flight)
        };
        controller.handle(&path, Input::Time);
        for datagram in 0..5 {
            pace(&controller, datagram);
            controller.handle(&path, Input::Sent(ByteCount::new(1_000)));
        }
        assert_eq!(*asked.lock().unwrap(), ["decide"]);
        controller.handle(&path, Input::Feedback(&feedback()));
        pace(&controller, 0);
        pace(&controller, 1);
        assert_eq!(*asked.lock().unwrap(), ["decide", "feedback", "decide"]);
    }

    #[test]
    fn budget_and_pace_follow_from_a_target_alone() {
        let (controller, ..) = hosted(Decision::at(Bitrate::from_kbps(1_000)), 100);
        let path = PathView { now: Timestamp::from_millis(1_000), ..PathView::default() };
        let allowance = controller.allowance(&path, InFlight::default());
        assert_eq!(allowance.target, Bitrate::from_kbps(1_000));
        let interval = setup().frame_interval;
        assert!(allowance.budget >= allowance.target.bytes_in(interval), "{allowance:?}");
        assert!(allowance.pacing_interval < Duration::from_millis(10), "{allowance:?}");
    }

    #[test]
    fn decisions_are_clamped_to_the_bounds_of_a_call() {
        let decision = Decision {
            target: Bitrate::from_kbps(1 << 40),
            budget: Some(ByteCount::new(u64::MAX)),
            pacing_interval: Some(Duration::MAX),
            capacity: None,
        };
        let allowance = hosted(decision, 100).0.allowance(&PathView::default(), InFlight::default());
        assert_eq!((allowance.budget, allowance.pacing_interval), (MAX_BUDGET, MAX_PACING_INTERVAL));
        assert_eq!(allowance.target, setup().bounds.max);
    }

    #[test]
    fn failed_host_is_not_called_again_and_reports_once() {
        let (mut controller, asked, failure) = hosted(Decision::at(Bitrate::from_kbps(500)), 1);
        let path = PathView::default();
        for _ in 0..4 {
            controller.handle(&path, Input::Time);
            assert_eq!(controller.allowance(&path, InFlight::default()).target, Bitrate::from_kbps(500));
        }
        assert_eq!(*asked.lock().unwrap(), ["decide", "decide"]);
        assert_eq!(failure.check().unwrap_err().to_string(), "no decision left");
        assert!(failure.check().is_ok());
    }
}
