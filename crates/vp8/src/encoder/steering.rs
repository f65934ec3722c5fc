//! Steering of a frame's size during coding: rounding and skip weight are corrected from macroblock to macroblock.

use super::costs::Costs;
use super::trial::Trial;

/// Look-ahead of the control loop, as a share of the frame (smallest, largest): the deviation should vanish within it.
const HORIZON: (f64, f64) = (0.03, 0.15);
/// Number of macroblocks between corrections.
const STEERING_INTERVAL: usize = 4;
/// Smallest and largest rounding of AC coefficients, in 1/128 of a step.
const ROUNDINGS: (f64, f64) = (0.0, 56.0);
/// Units of strictness that double the skip weight.
const DOUBLING: f64 = 8.0;

/// Cost of a macroblock's coefficients, with the probabilities at the start of the frame.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cost {
    /// Cost as coded.
    pub(super) bits: u32,
    /// Cost if the residual is kept.
    coded: u32,
    /// Skip weight from which on the residual is dropped.
    worth: u32,
}

impl Cost {
    /// Cost at another skip weight.
    pub(super) fn at(self, weight: u32) -> u32 {
        if self.worth > weight { self.coded } else { 0 }
    }
}

/// Plan for a frame's size.
#[derive(Debug)]
pub(super) struct Plan {
    /// Planned cost of each macroblock in 1/256 bit, and the total.
    pub(super) costs: Vec<f64>,
    pub(super) total: f64,
    /// Expected skip weight.
    pub(super) weight: f64,
    /// Relative decrease of the frame's size per unit of strictness.
    pub(super) gain: f64,
}

/// Records the cost of each macroblock and, with a plan, controls the frame's size.
#[derive(Debug)]
pub(super) struct Steering {
    plan: Option<Plan>,
    /// Costs of the macroblocks so far, and their total.
    costs: Vec<Cost>,
    spent: u64,
    planned: f64,
    /// Expected rounding, in 1/128 of a step.
    rounding: f64,
    /// Sum of the roundings used.
    roundings: f64,
}

impl Steering {
    /// Records only; `rounding` is the rounding in use.
    pub(super) fn recording(rounding: f64) -> Self {
        Self { plan: None, costs: Vec::new(), spent: 0, planned: 0.0, rounding, roundings: 0.0 }
    }

    /// Follows a plan, starting with `rounding`.
    pub(super) fn following(plan: Plan, rounding: f64) -> Self {
        Self { plan: Some(plan), ..Self::recording(rounding) }
    }

    /// Corrects rounding and skip weight every few macroblocks, before a macroblock is decided.
    pub(super) fn correct(&mut self, costs: &mut Costs<'_>) {
        let at = self.costs.len();
        if let Some(plan) = &self.plan
            && at.is_multiple_of(STEERING_INTERVAL)
        {
            let (rounding, weight) = self.steer(plan);
            let together = plan.costs.len().min(at + STEERING_INTERVAL) - at;
            self.roundings += rounding * together as f64;
            costs.steer(rounding as i32, weight as u32);
        }
    }

    /// Rounding and skip weight for the next macroblocks.
    fn steer(&self, plan: &Plan) -> (f64, f64) {
        let ahead = (self.spent as f64 - self.planned) / plan.total;
        let left = 1.0 - self.planned / plan.total;
        let strictness = (ahead / left.clamp(HORIZON.0, HORIZON.1) / plan.gain).clamp(-64.0, 64.0);
        let rounding = (self.rounding - strictness).clamp(ROUNDINGS.0, ROUNDINGS.1);
        let factor = 1.0 + strictness.abs() / DOUBLING;
        (rounding, if strictness > 0.0 { plan.weight * factor } else { plan.weight / factor })
    }

    /// Records the cost of a macroblock after its decision.
    pub(super) fn record(&mut self, chosen: &Trial) {
        let (coded, worth) = (chosen.coefficient_bits, chosen.worth);
        let bits = if chosen.residual.is_empty() { 0 } else { coded };
        if let Some(planned) = self.plan.as_ref().and_then(|plan| plan.costs.get(self.costs.len())) {
            self.planned += planned;
        }
        self.costs.push(Cost { bits, coded, worth });
        self.spent += u64::from(bits);
    }

    /// Returns the records and the mean rounding.
    pub(super) fn finish(self) -> (Vec<Cost>, f64) {
        let rounding = if self.plan.is_some() { self.roundings / self.costs.len() as f64 } else { self.rounding };
        (self.costs, rounding)
    }
}
