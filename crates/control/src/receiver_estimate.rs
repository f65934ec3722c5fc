//! Controller that follows the receiver's estimate of capacity, or its own loss controller if that allows less.
//!
//! It serves all estimators at the receiver: BoB's heuristic, learned estimators, and those of the AlphaRTC challenge.
//!
//! | constant | value | source |
//! |---|---|---|
//! | increase | x1.05 below 2 % loss | draft-ietf-rmcat-gcc-02, section 6; BoB (IEEE TMM 2022), section III-D |
//! | decrease | x(1 - loss / 2) above 10 % loss | the same |
//! | interval | 200 ms and 20 datagrams | BoB's decision interval; the share of fewer datagrams is not reliable (libwebrtc) |
//! | pacing rate / target | 2.5 | libwebrtc |

use std::time::Duration;

use lockstep_transport::Feedback;
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use crate::reported_loss::ReportedLoss;
use crate::{Allowance, Controller, ControllerSetup, InFlight, Input, PathView, RateBounds, TokenBucket, Traits};

/// The rate rises below the first loss share and falls above the second.
const LOSS_BOUNDS: (f64, f64) = (0.02, 0.10);
const INCREASE: f64 = 1.05;
const DECREASE: f64 = 0.5;

/// Minimum time and number of datagrams of a loss share.
const MIN_LOSS_INTERVAL: Duration = Duration::from_millis(200);
const MIN_DATAGRAMS: u64 = 20;

/// Pacing rate over target.
const PACING_FACTOR: f64 = 2.5;

/// Rate limit by losses; it does not bind at low loss.
#[derive(Debug)]
struct LossController {
    loss: ReportedLoss,
    taken_at: Timestamp,
    bounds: RateBounds,
    rate: Bitrate,
}

impl LossController {
    fn new(bounds: RateBounds) -> Self {
        Self { loss: ReportedLoss::default(), taken_at: Timestamp::ZERO, bounds, rate: bounds.max }
    }

    /// Adds a feedback that arrived while the flow sent at `target`. A decrease starts from there, not from an unused
    /// allowance.
    fn on_feedback(&mut self, now: Timestamp, feedback: &Feedback, target: Bitrate) {
        self.loss.on_feedback(feedback);
        let few = self.loss.since_taken().due < MIN_DATAGRAMS;
        if few || now.saturating_since(self.taken_at) < MIN_LOSS_INTERVAL {
            return;
        }
        self.taken_at = now;
        let share = self.loss.take().share();
        let rate = if share > LOSS_BOUNDS.1 {
            self.rate.min(target).mul_f64(1.0 - DECREASE * share)
        } else if share < LOSS_BOUNDS.0 {
            self.rate.mul_f64(INCREASE)
        } else {
            self.rate
        };
        self.rate = rate.clamp(self.bounds.min, self.bounds.max);
    }
}

/// Controller that sends at the receiver's estimate.
#[derive(Debug)]
pub struct ReceiverEstimate {
    bounds: RateBounds,
    estimate: Bitrate,
    loss: LossController,
    bucket: TokenBucket,
}

impl ReceiverEstimate {
    /// A controller that sends at the initial rate until the first estimate.
    #[must_use]
    pub fn new(setup: &ControllerSetup) -> Self {
        let bounds = setup.bounds;
        Self {
            bounds,
            estimate: bounds.initial,
            loss: LossController::new(bounds),
            bucket: TokenBucket::new(setup.payload, setup.frame_interval),
        }
    }

    fn target(&self) -> Bitrate {
        self.estimate.min(self.loss.rate)
    }
}

impl ReceiverEstimate {
    fn on_sent(&mut self, now: Timestamp, size: ByteCount) {
        self.bucket.on_transmit(now, size, self.target());
    }

    fn on_feedback(&mut self, now: Timestamp, feedback: &Feedback) {
        self.loss.on_feedback(now, feedback, self.target());
        if let Some(capacity) = feedback.estimate.capacity {
            self.estimate = capacity.clamp(self.bounds.min, self.bounds.max);
        }
    }
}

impl Controller for ReceiverEstimate {
    fn traits(&self) -> Traits {
        Traits::ESTIMATING
    }

    fn handle(&mut self, path: &PathView<'_>, input: Input<'_>) {
        match input {
            Input::Sent(size) => self.on_sent(path.now, size),
            Input::Feedback(feedback) => self.on_feedback(path.now, feedback),
            Input::FeedbackSent(_) | Input::Encoded(_) | Input::Time | Input::Lost(_) | Input::PictureSkipped => {}
        }
    }

    fn allowance(&self, path: &PathView<'_>, in_flight: InFlight) -> Allowance {
        self.bucket.allowance(path.now, in_flight, self.target(), self.target().mul_f64(PACING_FACTOR))
    }

    fn pacing_interval(&self, _path: &PathView<'_>, _in_flight: InFlight) -> Duration {
        self.bucket.pacing_interval(self.target().mul_f64(PACING_FACTOR))
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use lockstep_transport::{Arrival, Estimate};

    use super::*;
    use crate::Estimator;
    use crate::closed_loop::{Plan, run, setup};

    /// Estimator with a constant estimate, kb/s.
    struct Constant(u64);

    impl Estimator for Constant {
        fn on_arrival(&mut self, _arrival: &Arrival) {}

        fn estimate(&mut self, _now: Timestamp) -> Estimate {
            Estimate { inter_arrival: None, capacity: Some(Bitrate::from_kbps(self.0)) }
        }
    }

    fn controller() -> ReceiverEstimate {
        ReceiverEstimate::new(&setup())
    }

    #[test]
    fn rate_follows_the_receivers_estimate() {
        for feedback_interval in [None, Some(Duration::from_millis(100))] {
            let plan = Plan { feedback_interval, ..Plan::constant(2_000) };
            let outcome = run(&plan, &mut controller(), Some(&mut Constant(800)));
            let rate = outcome.rate(1, 20).as_mbps();
            assert!((0.7..0.82).contains(&rate), "{outcome:?}");
        }
    }

    #[test]
    fn loss_above_10_percent_lowers_the_rate() {
        // The receiver's estimate is twice the capacity, so the queue overflows.
        let outcome = run(&Plan { fill: 1.0, ..Plan::constant(1_000) }, &mut controller(), Some(&mut Constant(2_000)));
        assert!(outcome.mean_target(10, 20) < Bitrate::from_kbps(1_400), "{outcome:?}");
        assert!(outcome.rate(10, 20) > Bitrate::from_kbps(900), "{outcome:?}");
    }

    #[test]
    fn low_loss_keeps_the_rate() {
        let outcome = run(&Plan { loss: 0.04, ..Plan::constant(2_000) }, &mut controller(), Some(&mut Constant(800)));
        assert!(outcome.rate(5, 20) > Bitrate::from_kbps(650), "{outcome:?}");
    }
}
