//! BoB (IEEE TMM 2022): a selector between a heuristic and a learned estimator, at the receiver.
//!
//! The sender follows the lower of the estimate and its own loss controller
//! ([`ReceiverEstimate`](crate::ReceiverEstimate)).
//!
//! The model's input has eleven numbers: receive rate, queueing delay and loss of the last 200 ms, and eight estimates.
//! Its output is a probability for each of four ranges of rates. The learned estimate is the expected rate. If it
//! differs from the heuristic's estimate by 30 % of their mean or more, the heuristic's is used. The heuristic
//! continues from the estimate that was used.
//!
//! The paper prints another decision: its ranges are 0.01-2, 2-4, 4-6 and 6-8 Mb/s. A model with these ranges
//! (`lockstep.ranges_bps`) decides on the centre of the most probable one. Its heuristic is then that of the paper's text
//! (`lockstep.heuristic`, [`BobRules::Printed`]), as with `--as-published bob`.
//!
//! | constant | value | source |
//! |---|---|---|
//! | scale | 10 kb/s to 8 Mb/s, logarithmic | AlphaRTC's gym, BoB's code |
//! | ranges | four; their ends are 0, 1/3, 2/3 and 1 of the scale | `docs/lab/2026-11-learning.md` |
//! | selector | 30 % of the mean of both | BoB, section III; a model can override it (`lockstep.selector_threshold`) |
//! | interval | 200 ms | the paper; 60 ms in the code |
//!
//! `docs/lab/2026-11-learning.md` lists the differences between paper and code, and the choices made here.

use std::sync::Arc;

use lockstep_nn::{Model, ModelError};
use lockstep_transport::Arrival;
use lockstep_units::{Bitrate, Timestamp};

use super::Observation;
use super::arrived::{Arrived, linear, scaled};
use super::receiver::{Fit, Learned, Rule};
use crate::{BobHeuristic, BobRules, Estimator, RateBounds};

/// Length of the model's input.
const SEEN: usize = 11;
/// Number of estimates in it: seven that were used, and the heuristic's current one.
const ESTIMATES: usize = 8;
/// Number of ranges of rates.
const RANGES: usize = 4;
/// Default difference, as a share of the mean, at which the heuristic is used.
const THRESHOLD: f64 = 0.3;

const FIT: Fit = Fit { controller: "bob", input: &[SEEN], output: RANGES };

/// Observation of BoB's model. It contains the receive rate (0: 10 kb/s, 1: 8 Mb/s, logarithmic), the queueing delay
/// (s, at most 1) and the loss share. Eight estimates on the scale of the rate follow, oldest first: the last seven
/// that were used, and the heuristic's newest.
#[derive(Debug)]
pub struct BobObservation {
    arrived: Arrived,
    heuristic: BobHeuristic,
    used: [f32; ESTIMATES - 1],
}

impl BobObservation {
    /// An observation without history, with the heuristic of these rules.
    #[must_use]
    pub fn new(rules: BobRules) -> Self {
        let bounds = RateBounds::default();
        let used = [scaled(bounds.initial.as_bps() as f64); ESTIMATES - 1];
        Self { arrived: Arrived::new(), heuristic: BobHeuristic::with_manual_decisions(bounds, rules), used }
    }
}

impl Observation for BobObservation {
    fn shape(&self) -> Vec<usize> {
        vec![SEEN]
    }

    fn on_arrival(&mut self, arrival: &Arrival) {
        self.arrived.on_arrival(arrival);
        crate::Estimator::on_arrival(&mut self.heuristic, arrival);
    }

    fn on_decision(&mut self, _now: Timestamp, rate: Bitrate) {
        self.used.rotate_left(1);
        self.used[ESTIMATES - 2] = scaled(rate.as_bps() as f64);
        self.heuristic.set_estimate(rate);
    }

    fn observe(&mut self, _now: Timestamp, into: &mut [f32]) {
        self.heuristic.decide_now();
        let summary = self.arrived.take();
        let now = [scaled(summary.rate_bps), summary.waited.min(1.0) as f32, summary.loss as f32];
        let newest = [scaled(self.heuristic.prediction().as_bps() as f64)];
        let numbers = now.into_iter().chain(self.used).chain(newest);
        for (into, number) in into.iter_mut().zip(numbers) {
            *into = number;
        }
    }
}

/// Expected position on the scale of rates under probabilities of the ranges; none if they are NaN or all zero.
fn expected(probabilities: &[f32]) -> Option<f64> {
    let sum: f64 = probabilities.iter().map(|&probability| f64::from(probability)).sum();
    let weighted: f64 =
        probabilities.iter().zip(0u8..).map(|(&probability, range)| f64::from(probability) * f64::from(range)).sum();
    let place = weighted / sum / (RANGES - 1) as f64;
    place.is_finite().then_some(place)
}

/// Conversion of the probabilities into the learned estimate.
enum Decision {
    /// Expected position on the scale of rates.
    Expected,
    /// Centre of the most probable range, bit/s, the lowest range first.
    Centre([f64; RANGES]),
}

impl Decision {
    /// Bit/s; none if the probabilities are NaN or all zero.
    fn rate(&self, probabilities: &[f32]) -> Option<f64> {
        let place = expected(probabilities)?;
        match self {
            Self::Expected => Some(linear(place)),
            Self::Centre(centres) => {
                let known = probabilities.iter().zip(centres);
                known.max_by(|one, other| one.0.total_cmp(other.0)).map(|(_, &centre)| centre)
            }
        }
    }

    /// The decision that the model's metadata names.
    fn of(model: &Model) -> Result<Self, ModelError> {
        let Some(text) = model.metadata("lockstep.ranges_bps") else { return Ok(Self::Expected) };
        let ends: Option<Vec<f64>> = text.split(',').map(|end| end.trim().parse().ok()).collect();
        let ends = ends.filter(|ends| ends.len() == RANGES + 1 && ends.is_sorted_by(|one, next| one < next));
        match ends.as_deref() {
            Some(ends) if ends[0] >= 0.0 && ends[RANGES].is_finite() => {
                Ok(Self::Centre(std::array::from_fn(|range| f64::midpoint(ends[range], ends[range + 1]))))
            }
            _ => Err(ModelError::Unfit("lockstep.ranges_bps: expected five increasing numbers".to_owned())),
        }
    }
}

/// The adaptive selector: `learned`, or `heuristic` if the two differ by `threshold` of their mean or more.
fn select(learned: f64, heuristic: f64, threshold: f64) -> f64 {
    let mean = (learned + heuristic) / 2.0;
    if (learned - heuristic).abs() >= threshold * mean { heuristic } else { learned }
}

struct Selector {
    seen: BobObservation,
    decision: Decision,
    threshold: f64,
}

impl Observation for Selector {
    fn shape(&self) -> Vec<usize> {
        self.seen.shape()
    }

    fn on_arrival(&mut self, arrival: &Arrival) {
        self.seen.on_arrival(arrival);
    }

    fn on_decision(&mut self, now: Timestamp, rate: Bitrate) {
        self.seen.on_decision(now, rate);
    }

    fn observe(&mut self, now: Timestamp, into: &mut [f32]) {
        self.seen.observe(now, into);
    }
}

impl Rule for Selector {
    fn rate(&self, output: &[f32]) -> Option<f64> {
        Some(select(self.decision.rate(output)?, self.heuristic(), self.threshold))
    }

    fn heuristic(&self) -> f64 {
        self.seen.heuristic.prediction().as_bps() as f64
    }
}

/// BoB with this model. Its heuristic has `rules`, or those of the model (`lockstep.heuristic`) if they are printed.
///
/// # Errors
/// [`ModelError::Unfit`] if the model does not have one input `[1, 11]` and one output `[1, 4]`. The same if its
/// metadata names another controller, or if `lockstep.selector_threshold` is not from 0 to 2. The same if
/// `lockstep.ranges_bps` is not five increasing numbers, or `lockstep.heuristic` neither `released` nor `printed`.
pub fn bob(model: Arc<Model>, bounds: RateBounds, rules: BobRules) -> Result<Box<dyn Estimator>, ModelError> {
    let rules = match model.metadata("lockstep.heuristic") {
        None | Some("released") => rules,
        Some("printed") => BobRules::Printed,
        Some(_) => return Err(ModelError::Unfit("lockstep.heuristic: expected released or printed".to_owned())),
    };
    let entry = model.metadata("lockstep.selector_threshold").map(|text| text.trim().parse::<f64>());
    let threshold = match entry {
        None => THRESHOLD,
        Some(Ok(threshold)) if (0.0..=2.0).contains(&threshold) => threshold,
        Some(_) => {
            return Err(ModelError::Unfit("lockstep.selector_threshold: expected a number from 0 to 2".to_owned()));
        }
    };
    let rule = Selector { seen: BobObservation::new(rules), decision: Decision::of(&model)?, threshold };
    Ok(Box::new(Learned::new(rule, &FIT, model, bounds)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certain_ranges_give_the_ends_of_the_scale() {
        let rate = |output: [f32; 4]| linear(expected(&output).unwrap()).round();
        assert_eq!((rate([1.0, 0.0, 0.0, 0.0]), rate([0.0, 0.0, 0.0, 1.0])), (10_000.0, 8_000_000.0));
        assert_eq!(rate([0.25; 4]), 282_843.0);
        assert_eq!(expected(&[0.0; 4]), None);
        assert_eq!(expected(&[f32::NAN, 0.0, 0.0, 1.0]), None);
    }

    #[test]
    fn printed_ranges_decide_on_the_centre_of_the_likeliest() {
        let decision = Decision::Centre([1_005e3, 3e6, 5e6, 7e6]);
        assert_eq!(decision.rate(&[0.4, 0.3, 0.2, 0.1]), Some(1_005e3));
        assert_eq!(decision.rate(&[0.1, 0.2, 0.3, 0.4]), Some(7e6));
        assert_eq!(decision.rate(&[f32::NAN, 0.0, 0.0, 1.0]), None);
    }

    #[test]
    fn heuristic_is_used_beyond_30_percent_difference() {
        assert_eq!(select(1_340e3, 1_000e3, 0.3), 1_340e3);
        assert_eq!(select(1_360e3, 1_000e3, 0.3), 1_000e3);
        assert_eq!(select(700e3, 1_000e3, 0.3), 1_000e3);
        assert_eq!(select(760e3, 1_000e3, 0.3), 760e3);
    }
}
