//! Common part of learned estimators: it runs the model every 200 ms, and the estimator's rule turns the output into a
//! rate. The rule's heuristic continues from the rate that is used.

use std::sync::Arc;

use lockstep_nn::{Model, ModelError};
use lockstep_transport::{Arrival, Estimate};
use lockstep_units::{Bitrate, Timestamp};

use super::Observation;
use super::arrived::{DecisionTimer, INTERVAL};
use super::purpose::check_controller;
use crate::{Estimator, RateBounds};

/// An observation, and the conversion of the model's output into a rate.
pub(super) trait Rule: Observation {
    /// Whether the last observed decision needs the model. Other decisions do not run it.
    fn runs_model(&self) -> bool {
        true
    }
    /// Rate by the model's output, bit/s; none if the output is invalid.
    fn rate(&self, output: &[f32]) -> Option<f64>;
    /// Rate without the model, bit/s.
    fn heuristic(&self) -> f64;
}

/// Requirements of a model at the receiver.
pub(super) struct Fit {
    /// Value of `lockstep.controller`.
    pub controller: &'static str,
    /// Shape of its input, without the batch dimension.
    pub input: &'static [usize],
    /// Length of its output.
    pub output: usize,
}

impl Fit {
    /// # Errors
    /// [`ModelError::Unfit`] if `model` does not meet the requirements.
    pub(super) fn check(&self, model: &Model) -> Result<(), ModelError> {
        let Self { controller, input, output } = self;
        check_controller(model, controller)?;
        let wanted = [&[1], *input].concat();
        match (model.inputs(), model.outputs()) {
            ([given], [returned]) if given.shape == wanted && returned.shape == [1, *output] => Ok(()),
            ([given], [returned]) => Err(ModelError::Unfit(format!(
                "input {:?} and output {:?}, {controller} expects {wanted:?} and [1, {output}]",
                given.shape, returned.shape
            ))),
            (inputs, outputs) => {
                let (inputs, outputs) = (inputs.len(), outputs.len());
                Err(ModelError::Unfit(format!("{inputs} inputs and {outputs} outputs, expected one each")))
            }
        }
    }

    /// Length of the model's input.
    fn numbers(&self) -> usize {
        self.input.iter().product()
    }
}

/// A learned estimator at the receiver.
pub(super) struct Learned<R> {
    rule: R,
    model: Arc<Model>,
    seen: Vec<f32>,
    /// Number of observed values that the model gets, from the first on.
    given: usize,
    rhythm: DecisionTimer,
    bounds: RateBounds,
    estimate: Bitrate,
}

impl<R: Rule> Learned<R> {
    /// # Errors
    /// [`ModelError::Unfit`] if the model does not fit.
    pub(super) fn new(rule: R, fit: &Fit, model: Arc<Model>, bounds: RateBounds) -> Result<Self, ModelError> {
        fit.check(&model)?;
        let seen = vec![0.0; rule.shape().iter().product()];
        let rhythm = DecisionTimer::default();
        Ok(Self { rule, model, seen, given: fit.numbers(), rhythm, bounds, estimate: bounds.initial })
    }

    fn decide(&mut self, now: Timestamp) {
        while let Some(due) = self.rhythm.next(now, INTERVAL) {
            self.rule.observe(due, &mut self.seen);
            let learned = if self.rule.runs_model() {
                let outputs = self.model.run(&[&self.seen[..self.given]]).ok();
                outputs
                    .and_then(|outputs| self.rule.rate(outputs.first()?))
                    .filter(|rate| rate.is_finite() && *rate >= 0.0)
            } else {
                None
            };
            let rate = Bitrate::from_bps(learned.unwrap_or_else(|| self.rule.heuristic()) as u64);
            self.estimate = rate.clamp(self.bounds.min, self.bounds.max);
            self.rule.on_decision(due, self.estimate);
        }
    }
}

impl<R: Rule> Estimator for Learned<R> {
    fn on_arrival(&mut self, arrival: &Arrival) {
        self.rhythm.begin(arrival.arrived_at, INTERVAL);
        // Earlier arrivals belong to the interval that has ended.
        self.decide(arrival.arrived_at);
        self.rule.on_arrival(arrival);
    }

    fn estimate(&mut self, now: Timestamp) -> Estimate {
        self.decide(now);
        Estimate { inter_arrival: None, capacity: Some(self.estimate) }
    }
}
