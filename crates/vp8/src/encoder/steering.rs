//! Steering a frame's size while it is coded: rounding and skip weight are corrected from macroblock to macroblock.

use super::costs::Costs;
use super::trial::Trial;

/// How far ahead steering looks, as shares of the frame: it wants the bits back on plan by then.
const HORIZON: (f64, f64) = (0.03, 0.15);
/// Steering thinks again after so many macroblocks.
const STEERED_TOGETHER: usize = 4;
/// The least and the most rounding of AC coefficients, in 1/128 of a step.
const ROUNDINGS: (f64, f64) = (0.0, 56.0);
/// The skip weight is doubled by so many units of strictness.
const DOUBLING: f64 = 8.0;

/// What a macroblock's coefficients cost, by the costs that the frame begins with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cost {
    /// As they were coded.
    pub(super) bits: u32,
    /// As they would be coded if they are not left out.
    coded: u32,
    /// The skip weight from which on they are left out.
    worth: u32,
}

impl Cost {
    /// The bits at another skip weight.
    pub(super) fn at(self, weight: u32) -> u32 {
        if self.worth > weight { self.coded } else { 0 }
    }
}

/// How a frame's making is steered towards a size.
#[derive(Debug)]
pub(super) struct Plan {
    /// What each macroblock should cost, in 1/256 bit, and all of them together.
    pub(super) costs: Vec<f64>,
    pub(super) total: f64,
    /// The skip weight that is expected to be right.
    pub(super) weight: f64,
    /// How much smaller (as a share) a frame becomes by one unit of strictness.
    pub(super) gain: f64,
}

/// What a frame's making records, and by what it is steered if it is.
#[derive(Debug)]
pub(super) struct Steering {
    plan: Option<Plan>,
    /// What was spent on each macroblock so far, and on all of them.
    costs: Vec<Cost>,
    spent: u64,
    planned: f64,
    /// The rounding that is expected to be right, 1/128 of a step.
    rounding: f64,
    /// Sum of the roundings used.
    roundings: f64,
}

impl Steering {
    /// Records only; `rounding` is what is used.
    pub(super) fn recording(rounding: f64) -> Self {
        Self { plan: None, costs: Vec::new(), spent: 0, planned: 0.0, rounding, roundings: 0.0 }
    }

    /// Follows a plan, beginning with `rounding`.
    pub(super) fn following(plan: Plan, rounding: f64) -> Self {
        Self { plan: Some(plan), ..Self::recording(rounding) }
    }

    /// Before a macroblock is decided: corrects what coding costs, every few macroblocks.
    pub(super) fn correct(&mut self, costs: &mut Costs<'_>) {
        let at = self.costs.len();
        if let Some(plan) = &self.plan
            && at.is_multiple_of(STEERED_TOGETHER)
        {
            let (rounding, weight) = self.steer(plan);
            let together = plan.costs.len().min(at + STEERED_TOGETHER) - at;
            self.roundings += rounding * together as f64;
            costs.steer(rounding as i32, weight as u32);
        }
    }

    /// Rounding and skip weight for the macroblocks to come.
    fn steer(&self, plan: &Plan) -> (f64, f64) {
        let ahead = (self.spent as f64 - self.planned) / plan.total;
        let left = 1.0 - self.planned / plan.total;
        let strictness = (ahead / left.clamp(HORIZON.0, HORIZON.1) / plan.gain).clamp(-64.0, 64.0);
        let rounding = (self.rounding - strictness).clamp(ROUNDINGS.0, ROUNDINGS.1);
        let factor = 1.0 + strictness.abs() / DOUBLING;
        (rounding, if strictness > 0.0 { plan.weight * factor } else { plan.weight / factor })
    }

    /// After a macroblock is decided: records what it costs.
    pub(super) fn record(&mut self, chosen: &Trial) {
        let (coded, worth) = (chosen.coefficient_bits, chosen.worth);
        let bits = if chosen.residual.is_empty() { 0 } else { coded };
        if let Some(planned) = self.plan.as_ref().and_then(|plan| plan.costs.get(self.costs.len())) {
            self.planned += planned;
        }
        self.costs.push(Cost { bits, coded, worth });
        self.spent += u64::from(bits);
    }

    /// What was recorded, and the rounding that was used on average.
    pub(super) fn finish(self) -> (Vec<Cost>, f64) {
        let rounding = if self.plan.is_some() { self.roundings / self.costs.len() as f64 } else { self.rounding };
        (self.costs, rounding)
    }
}
