//! HRCC (MMSys 2021): a delay-gradient heuristic after GCC at the receiver, tuned by a model.
//!
//! The model returns a number a from 0 to 1. Every fourth estimate of the heuristic is multiplied by 2^(2a - 1). The
//! heuristic continues from there and makes the other three decisions alone.
//!
//! The model's input has six numbers for each of the last ten decisions (released code):
//!
//! - receive rate / 6 Mb/s
//! - queueing delay / 1 s
//! - loss
//! - the heuristic's estimate / 6 Mb/s
//! - decisions since the last overuse / 100
//! - receive rate at that overuse / 6 Mb/s
//!
//! The heuristic is [`BobHeuristic`], which derives from HRCC's. Delays are queueing delays.

use std::collections::VecDeque;
use std::sync::Arc;

use lockstep_nn::{Model, ModelError};
use lockstep_transport::Arrival;
use lockstep_units::{Bitrate, Timestamp};

use super::Observation;
use super::arrived::Arrived;
use super::receiver::{Fit, Learned, Rule};
use crate::{BobHeuristic, BobRules, Estimator, PathUse, RateBounds};

const SIGNALS: usize = 6;
const DECISIONS: usize = 10;
/// Number of decisions, one of which the model tunes.
const TUNED: u32 = 4;
const RATE_UNIT_BPS: f64 = 6e6;
const STEPS_UNIT: f64 = 100.0;
/// Upper bound of signals.
const LARGEST: f64 = 10.0;

const FIT: Fit = Fit { controller: "hrcc", input: &[SIGNALS, DECISIONS], output: 1 };

/// Observation of HRCC's model: `[6, 10]` numbers, one row per signal, newest decision last.
#[derive(Debug)]
pub struct HrccObservation {
    arrived: Arrived,
    heuristic: BobHeuristic,
    history: VecDeque<[f32; SIGNALS]>,
    observed: u32,
    since_overuse: u32,
    rate_at_overuse: f64,
}

impl HrccObservation {
    /// An observation without history.
    #[must_use]
    pub fn new() -> Self {
        Self {
            arrived: Arrived::new(),
            heuristic: BobHeuristic::with_manual_decisions(RateBounds::default(), BobRules::Released),
            history: VecDeque::from([[0.0; SIGNALS]; DECISIONS]),
            observed: 0,
            since_overuse: 0,
            rate_at_overuse: 0.0,
        }
    }
}

impl Default for HrccObservation {
    fn default() -> Self {
        Self::new()
    }
}

impl Observation for HrccObservation {
    fn shape(&self) -> Vec<usize> {
        vec![SIGNALS, DECISIONS]
    }

    fn on_arrival(&mut self, arrival: &Arrival) {
        self.arrived.on_arrival(arrival);
        self.heuristic.on_arrival(arrival);
    }

    fn on_decision(&mut self, _now: Timestamp, rate: Bitrate) {
        self.heuristic.set_estimate(rate);
    }

    fn observe(&mut self, _now: Timestamp, into: &mut [f32]) {
        self.observed = self.observed.wrapping_add(1);
        self.heuristic.decide_now();
        let summary = self.arrived.take();
        if self.heuristic.path_use() == PathUse::Overuse {
            (self.since_overuse, self.rate_at_overuse) = (0, summary.rate_bps);
        } else {
            self.since_overuse = self.since_overuse.saturating_add(1);
        }
        let row = [
            summary.rate_bps / RATE_UNIT_BPS,
            summary.waited,
            summary.loss,
            self.heuristic.prediction().as_bps() as f64 / RATE_UNIT_BPS,
            f64::from(self.since_overuse) / STEPS_UNIT,
            self.rate_at_overuse / RATE_UNIT_BPS,
        ];
        self.history.pop_front();
        self.history.push_back(row.map(|signal| signal.min(LARGEST) as f32));
        for (at, row) in self.history.iter().enumerate() {
            for (signal, value) in row.iter().enumerate() {
                into[signal * DECISIONS + at] = *value;
            }
        }
    }
}

impl Rule for HrccObservation {
    fn runs_model(&self) -> bool {
        self.observed % TUNED == 1
    }

    fn rate(&self, output: &[f32]) -> Option<f64> {
        let tuned = f64::from(*output.first()?);
        tuned.is_finite().then(|| Rule::heuristic(self) * libm::exp2(2.0 * tuned.clamp(0.0, 1.0) - 1.0))
    }

    fn heuristic(&self) -> f64 {
        self.heuristic.prediction().as_bps() as f64
    }
}

/// HRCC with this model.
///
/// # Errors
/// [`ModelError::Unfit`] if the model does not have one input `[1, 6, 10]` and one output `[1, 1]`. The same if its
/// metadata names another controller.
pub fn hrcc(model: Arc<Model>, bounds: RateBounds) -> Result<Box<dyn Estimator>, ModelError> {
    Ok(Box::new(Learned::new(HrccObservation::new(), &FIT, model, bounds)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fourth_decision_is_tuned_by_at_most_a_factor_of_two() {
        let mut tuner = HrccObservation::new();
        let mut seen = [0.0; SIGNALS * DECISIONS];
        let tuned: Vec<bool> = (0..9)
            .map(|_| {
                tuner.observe(Timestamp::ZERO, &mut seen);
                tuner.runs_model()
            })
            .collect();
        assert_eq!(tuned, [1, 0, 0, 0, 1, 0, 0, 0, 1].map(|runs| runs == 1));
        assert_eq!(
            [-1.0, 0.0, 0.5, 1.0, 9.0].map(|output| tuner.rate(&[output]).unwrap()),
            [150e3, 150e3, 300e3, 600e3, 600e3]
        );
        assert_eq!(tuner.rate(&[f32::NAN]), None);
    }
}
