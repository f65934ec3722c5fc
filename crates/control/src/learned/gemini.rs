//! Gemini (MMSys 2021): GCC and a learned estimator at the receiver, and a safety detector that selects one of them.
//!
//! The model's input has five numbers of the last 200 ms: receive rate, queueing delay, loss, the last estimate and its
//! last change. Its output is a position on the scale of rates.
//!
//! The detector sums the increase of the delay from packet to packet and halves the sum with each packet. It compares
//! the sum with its own average (gain 0.5). Once ten more packets were above the average than below, GCC is used, until
//! ten more were below. A delay of [`MAX_QUEUEING_SECONDS`] switches to GCC at once.
//!
//! The published code does not define a large delay. Here it is half of the worst delay of the challenge (400 ms). GCC
//! is [`BobHeuristic`], a delay-gradient estimator after GCC that decides every 200 ms at the receiver.

use std::sync::Arc;

use lockstep_nn::{Model, ModelError};
use lockstep_transport::Arrival;
use lockstep_units::{Bitrate, Timestamp};

use super::Observation;
use super::arrived::{Arrived, linear, scaled};
use super::receiver::{Fit, Learned, Rule};
use crate::{BobHeuristic, BobRules, Estimator, RateBounds};

/// Length of the model's input. The observation has two more numbers: GCC's estimate, and 1 if the learned one is safe.
const GIVEN: usize = 5;
const SEEN: usize = GIVEN + 2;

const FORGOTTEN: f64 = 0.5;
const GAIN: f64 = 0.5;
const PACKETS_TO_SWITCH: u8 = 10;
/// Queueing delay of a packet that switches to GCC, seconds.
const MAX_QUEUEING_SECONDS: f64 = 0.2;

const FIT: Fit = Fit { controller: "gemini", input: &[GIVEN], output: 1 };

/// Detector that decides whether the learned estimate may be used.
#[derive(Debug, Default)]
struct SafetyDetector {
    last_waited: f64,
    sum: f64,
    average: f64,
    against: u8,
    unsafe_now: bool,
}

impl SafetyDetector {
    /// Adds a packet with this queueing delay, seconds.
    fn on_arrival(&mut self, waited: f64) {
        let growth = (waited - self.last_waited).max(0.0);
        self.last_waited = waited;
        self.sum = self.sum * FORGOTTEN + growth;
        let above = self.sum > self.average;
        self.average += GAIN * (self.sum - self.average);
        self.against = if above { (self.against + 1).min(PACKETS_TO_SWITCH) } else { self.against.saturating_sub(1) };
        if waited >= MAX_QUEUEING_SECONDS {
            self.against = PACKETS_TO_SWITCH;
        }
        match self.against {
            PACKETS_TO_SWITCH => self.unsafe_now = true,
            0 => self.unsafe_now = false,
            _ => {}
        }
    }
}

/// Observation of Gemini's model, `[7]`. The first five numbers are the model's input:
///
/// - receive rate (0: 10 kb/s, 1: 8 Mb/s, logarithmic)
/// - queueing delay (s, at most 1)
/// - loss (share)
/// - last estimate on the scale of the rate
/// - its increase over the estimate before
///
/// The other two are GCC's estimate on that scale, and 1 if the learned estimate is safe.
#[derive(Debug)]
pub struct GeminiObservation {
    arrived: Arrived,
    heuristic: BobHeuristic,
    detector: SafetyDetector,
    /// The last estimate that was used, and the one before it.
    used: (f32, f32),
}

impl GeminiObservation {
    /// An observation without history.
    #[must_use]
    pub fn new() -> Self {
        let bounds = RateBounds::default();
        let initial = scaled(bounds.initial.as_bps() as f64);
        Self {
            arrived: Arrived::new(),
            heuristic: BobHeuristic::with_manual_decisions(bounds, BobRules::Released),
            detector: SafetyDetector::default(),
            used: (initial, initial),
        }
    }
}

impl Default for GeminiObservation {
    fn default() -> Self {
        Self::new()
    }
}

impl Observation for GeminiObservation {
    fn shape(&self) -> Vec<usize> {
        vec![SEEN]
    }

    fn on_arrival(&mut self, arrival: &Arrival) {
        let waited = self.arrived.on_arrival(arrival);
        self.detector.on_arrival(waited);
        self.heuristic.on_arrival(arrival);
    }

    fn on_decision(&mut self, _now: Timestamp, rate: Bitrate) {
        self.used = (scaled(rate.as_bps() as f64), self.used.0);
        self.heuristic.set_estimate(rate);
    }

    fn observe(&mut self, _now: Timestamp, into: &mut [f32]) {
        self.heuristic.decide_now();
        let summary = self.arrived.take();
        let numbers = [
            scaled(summary.rate_bps),
            summary.waited.min(1.0) as f32,
            summary.loss as f32,
            self.used.0,
            self.used.0 - self.used.1,
            scaled(self.heuristic.prediction().as_bps() as f64),
            if self.detector.unsafe_now { 0.0 } else { 1.0 },
        ];
        for (into, number) in into.iter_mut().zip(numbers) {
            *into = number;
        }
    }
}

impl Rule for GeminiObservation {
    fn runs_model(&self) -> bool {
        !self.detector.unsafe_now
    }

    fn rate(&self, output: &[f32]) -> Option<f64> {
        let place = f64::from(*output.first()?);
        place.is_finite().then(|| linear(place))
    }

    fn heuristic(&self) -> f64 {
        self.heuristic.prediction().as_bps() as f64
    }
}

/// Gemini with this model.
///
/// # Errors
/// [`ModelError::Unfit`] if the model does not have one input `[1, 5]` and one output `[1, 1]`. The same if its
/// metadata names another controller.
pub fn gemini(model: Arc<Model>, bounds: RateBounds) -> Result<Box<dyn Estimator>, ModelError> {
    Ok(Box::new(Learned::new(GeminiObservation::new(), &FIT, model, bounds)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growing_queue_switches_after_ten_packets_large_delay_at_once() {
        let mut detector = SafetyDetector::default();
        // The delay grows faster with each packet.
        let mut until = 0;
        while !detector.unsafe_now {
            until += 1;
            detector.on_arrival(1e-4 * f64::from(until * until));
        }
        assert_eq!(until, 10);
        for _ in 0..10 {
            assert!(detector.unsafe_now);
            detector.on_arrival(0.0);
        }
        assert!(!detector.unsafe_now);
        detector.on_arrival(0.25);
        assert!(detector.unsafe_now);
    }
}
