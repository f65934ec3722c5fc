//! What learned estimators have in common: every 200 ms the model is given what is seen, and the rule of the estimator
//! makes a rate of what it says. Whatever is used is told to the rule, whose heuristic goes on from there.

use std::sync::Arc;

use lockstep_nn::{Model, ModelError};
use lockstep_transport::{Arrival, Estimate};
use lockstep_units::{Bitrate, Timestamp};

use super::Observation;
use super::arrived::{INTERVAL, Rhythm};
use super::purpose::check_controller;
use crate::{Estimator, RateBounds};

/// What an estimator sees, and what it makes of what its model says.
pub(super) trait Rule: Observation {
    /// Whether the model is asked for the decision that was last observed for; one that is not costs nothing.
    fn asks(&self) -> bool {
        true
    }
    /// The rate, bit/s, by what the model says. None if that is no number.
    fn rate(&self, said: &[f32]) -> Option<f64>;
    /// The rate, bit/s, without the model.
    fn heuristic(&self) -> f64;
}

/// What a model for a receiver must be.
pub(super) struct Fit {
    /// Its controller, as `lockstep.controller` says.
    pub controller: &'static str,
    /// The shape of its input, the call's one beside it.
    pub input: &'static [usize],
    /// How many numbers it says.
    pub output: usize,
}

impl Fit {
    /// # Errors
    /// If `model` is none for this.
    pub(super) fn check(&self, model: &Model) -> Result<(), ModelError> {
        let Self { controller, input, output } = self;
        check_controller(model, controller)?;
        let wanted = [&[1], *input].concat();
        match (model.inputs(), model.outputs()) {
            ([given], [said]) if given.shape == wanted && said.shape == [1, *output] => Ok(()),
            ([given], [said]) => Err(ModelError::Unfit(format!(
                "it makes {:?} of {:?}; {controller} takes one that makes [1, {output}] of {wanted:?}",
                said.shape, given.shape
            ))),
            (inputs, outputs) => {
                let (inputs, outputs) = (inputs.len(), outputs.len());
                Err(ModelError::Unfit(format!("it has {inputs} inputs and {outputs} outputs, not one each")))
            }
        }
    }

    /// How many numbers the model is given.
    fn numbers(&self) -> usize {
        self.input.iter().product()
    }
}

/// A learned estimator at the receiver.
pub(super) struct Learned<R> {
    rule: R,
    model: Arc<Model>,
    seen: Vec<f32>,
    /// The first so many numbers of what is seen are the model's.
    given: usize,
    rhythm: Rhythm,
    bounds: RateBounds,
    estimate: Bitrate,
}

impl<R: Rule> Learned<R> {
    /// # Errors
    /// If the model does not fit.
    pub(super) fn new(rule: R, fit: &Fit, model: Arc<Model>, bounds: RateBounds) -> Result<Self, ModelError> {
        fit.check(&model)?;
        let seen = vec![0.0; rule.shape().iter().product()];
        let rhythm = Rhythm::default();
        Ok(Self { rule, model, seen, given: fit.numbers(), rhythm, bounds, estimate: bounds.initial })
    }

    fn decide(&mut self, now: Timestamp) {
        while let Some(due) = self.rhythm.next(now, INTERVAL) {
            self.rule.observe(due, &mut self.seen);
            let learned = if self.rule.asks() {
                let said = self.model.run(&[&self.seen[..self.given]]).ok();
                said.and_then(|said| self.rule.rate(said.first()?)).filter(|rate| rate.is_finite() && *rate >= 0.0)
            } else {
                None
            };
            let rate = Bitrate::from_bps(learned.unwrap_or_else(|| self.rule.heuristic()) as u64);
            self.estimate = rate.clamp(self.bounds.least, self.bounds.most);
            self.rule.on_decision(due, self.estimate);
        }
    }
}

impl<R: Rule> Estimator for Learned<R> {
    fn on_arrival(&mut self, arrival: &Arrival) {
        self.rhythm.begin(arrival.arrived_at, INTERVAL);
        // Whatever came before this belongs to the interval that has ended.
        self.decide(arrival.arrived_at);
        self.rule.on_arrival(arrival);
    }

    fn estimate(&mut self, now: Timestamp) -> Estimate {
        self.decide(now);
        Estimate { inter_arrival: None, capacity: Some(self.estimate) }
    }
}
