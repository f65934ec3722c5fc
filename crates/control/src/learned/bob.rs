//! BoB (IEEE TMM 2022): a heuristic and a learned estimator behind one selector, at the receiver; the sender follows the
//! lower of the estimate and its own loss controller ([`ReceiverEstimate`](crate::ReceiverEstimate)).
//!
//! The model sees eleven numbers: receive rate, waiting time and loss of the last 200 ms, and eight estimates. It says a
//! probability for each of four ranges of rates; the learned estimate is the rate that they expect. Where it differs from
//! the heuristic's by 30 % of their mean or more, the heuristic's is used, and the heuristic is told what was used.
//!
//! | constant | value | source |
//! |---|---|---|
//! | scale | 10 kb/s to 8 Mb/s, logarithmic | AlphaRTC's gym, BoB's code |
//! | ranges | four; their ends are 0, 1/3, 2/3 and 1 of the scale | the paper has four ranges within 0.01-8 Mb/s |
//! | selector | 30 % of the mean of both | BoB, section III; the model may say another (`lockstep.selector_threshold`) |
//! | interval | 200 ms | the paper; 60 ms in the code |
//!
//! `docs/learning.md` says where paper and code differ, and what was chosen.

use std::sync::Arc;

use lockstep_nn::{Model, ModelError};
use lockstep_transport::Arrival;
use lockstep_units::{Bitrate, Timestamp};

use super::Observation;
use super::arrived::{Arrived, linear, scaled};
use super::receiver::{Fit, Learned, Rule};
use crate::{BobHeuristic, Estimator, RateBounds};

/// Numbers that the model sees.
const SEEN: usize = 11;
/// Estimates among them: seven that were used, and what the heuristic says now.
const ESTIMATES: usize = 8;
/// Ranges of rates among which it chooses.
const RANGES: usize = 4;
/// The heuristic is used where the learned estimate differs by this share of their mean, unless a model says another.
const THRESHOLD: f64 = 0.3;

const FIT: Fit = Fit { controller: "bob", input: &[SEEN], output: RANGES };

/// What BoB's model sees: receive rate (0: 10 kb/s, 1: 8 Mb/s, logarithmic), waiting time (s, 1 at most), loss (share), then
/// eight estimates on the scale of the rate, oldest first: the last seven that were used, and the heuristic's newest.
#[derive(Debug)]
pub struct BobObservation {
    arrived: Arrived,
    heuristic: BobHeuristic,
    used: [f32; ESTIMATES - 1],
}

impl BobObservation {
    /// An observation without a past.
    #[must_use]
    pub fn new() -> Self {
        let bounds = RateBounds::default();
        let used = [scaled(bounds.initial.as_bps() as f64); ESTIMATES - 1];
        Self { arrived: Arrived::new(), heuristic: BobHeuristic::deciding_when_told(bounds), used }
    }
}

impl Default for BobObservation {
    fn default() -> Self {
        Self::new()
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

/// The place on the scale of rates that probabilities of the ranges expect; none if they are no numbers or all zero.
fn expected(probabilities: &[f32]) -> Option<f64> {
    let sum: f64 = probabilities.iter().map(|&probability| f64::from(probability)).sum();
    let weighted: f64 =
        probabilities.iter().zip(0u8..).map(|(&probability, range)| f64::from(probability) * f64::from(range)).sum();
    let place = weighted / sum / (RANGES - 1) as f64;
    place.is_finite().then_some(place)
}

/// The adaptive selector: `learned`, or `heuristic` where they are `threshold` of their mean apart or more.
fn select(learned: f64, heuristic: f64, threshold: f64) -> f64 {
    let mean = (learned + heuristic) / 2.0;
    if (learned - heuristic).abs() >= threshold * mean { heuristic } else { learned }
}

struct Selector {
    seen: BobObservation,
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
    fn rate(&self, said: &[f32]) -> Option<f64> {
        Some(select(linear(expected(said)?), self.heuristic(), self.threshold))
    }

    fn heuristic(&self) -> f64 {
        self.seen.heuristic.prediction().as_bps() as f64
    }
}

/// BoB with `model`.
///
/// # Errors
/// If the model has not one input `[1, 11]` and one output `[1, 4]`, says that it is another controller's, or that its
/// `lockstep.selector_threshold` is no share from 0 to 2.
pub fn bob(model: Arc<Model>, bounds: RateBounds) -> Result<Box<dyn Estimator>, ModelError> {
    let said = model.metadata("lockstep.selector_threshold").map(|text| text.trim().parse::<f64>());
    let threshold = match said {
        None => THRESHOLD,
        Some(Ok(threshold)) if (0.0..=2.0).contains(&threshold) => threshold,
        Some(_) => return Err(ModelError::Unfit("its lockstep.selector_threshold is no share from 0 to 2".to_owned())),
    };
    let rule = Selector { seen: BobObservation::new(), threshold };
    Ok(Box::new(Learned::new(rule, &FIT, model, bounds)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certain_ranges_are_the_ends_and_the_thirds_of_the_scale() {
        let rate = |said: [f32; 4]| linear(expected(&said).unwrap()).round();
        assert_eq!((rate([1.0, 0.0, 0.0, 0.0]), rate([0.0, 0.0, 0.0, 1.0])), (10_000.0, 8_000_000.0));
        assert_eq!(rate([0.25; 4]), 282_843.0);
        assert_eq!(expected(&[0.0; 4]), None);
        assert_eq!(expected(&[f32::NAN, 0.0, 0.0, 1.0]), None);
    }

    #[test]
    fn the_heuristic_is_used_where_both_are_30_percent_apart() {
        assert_eq!(select(1_340e3, 1_000e3, 0.3), 1_340e3);
        assert_eq!(select(1_360e3, 1_000e3, 0.3), 1_000e3);
        assert_eq!(select(700e3, 1_000e3, 0.3), 1_000e3);
        assert_eq!(select(760e3, 1_000e3, 0.3), 760e3);
    }
}
