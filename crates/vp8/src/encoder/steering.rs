//! Steering of a frame's size during coding: rounding and skip weight are corrected from macroblock to macroblock.

use super::costs::Costs;
use super::macroblocks::Cost;
use super::trial::Trial;

/// Look-ahead of the control loop, as a share of the frame (smallest, largest): the deviation should vanish within it.
const HORIZON: (f64, f64) = (0.03, 0.15);
/// Number of macroblocks between corrections.
const STEERING_INTERVAL: usize = 4;
/// Smallest and largest rounding of AC coefficients, in 1/128 of a step.
const ROUNDINGS: (f64, f64) = (0.0, 56.0);
/// Units of strictness that double the skip weight.
const DOUBLING: f64 = 8.0;

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

/// Control of a frame's size, if there is a plan.
#[derive(Debug)]
pub(super) struct Steering {
    plan: Option<Plan>,
    /// Sum of the planned costs before each macroblock, and of all.
    planned: Vec<f64>,
    /// Expected rounding, in 1/128 of a step.
    rounding: f64,
}

/// Control within one row of macroblocks.
#[derive(Debug)]
pub(super) struct RowSteering<'a> {
    steering: &'a Steering,
    /// First macroblock of the row.
    first: usize,
    /// Number of macroblocks before the row whose costs are known, and those costs. The others count as planned.
    known: usize,
    known_spent: u64,
    /// Cost of the row so far.
    pub(super) spent: u64,
    /// Sum of the roundings used.
    pub(super) roundings: f64,
}

impl Steering {
    /// Does not steer; `rounding` is the rounding in use.
    pub(super) fn none(rounding: f64) -> Self {
        Self { plan: None, planned: Vec::new(), rounding }
    }

    /// Follows a plan, starting with `rounding`.
    pub(super) fn following(mut plan: Plan, rounding: f64) -> Self {
        let sums = std::mem::take(&mut plan.costs).into_iter().scan(0.0, |sum, cost| {
            *sum += cost;
            Some(*sum)
        });
        let planned = std::iter::once(0.0).chain(sums).collect();
        Self { plan: Some(plan), planned, rounding }
    }

    /// Control of a row that begins with macroblock `first`. The first `known` macroblocks have cost
    /// `known_spent`.
    pub(super) fn row(&self, first: usize, known: usize, known_spent: u64) -> RowSteering<'_> {
        RowSteering { steering: self, first, known, known_spent, spent: 0, roundings: 0.0 }
    }

    /// Mean rounding of `count` macroblocks with this sum of roundings.
    pub(super) fn mean_rounding(&self, roundings: f64, count: usize) -> f64 {
        if self.plan.is_some() { roundings / count as f64 } else { self.rounding }
    }
}

impl RowSteering<'_> {
    /// Corrects rounding and skip weight every few macroblocks, before macroblock `at` is decided. The row ends before
    /// macroblock `end`.
    pub(super) fn correct(&mut self, at: usize, end: usize, costs: &mut Costs<'_>) {
        if let Some(plan) = &self.steering.plan
            && (at - self.first).is_multiple_of(STEERING_INTERVAL)
        {
            let (rounding, weight) = self.steer(plan, at);
            let together = end.min(at + STEERING_INTERVAL) - at;
            self.roundings += rounding * together as f64;
            costs.steer(rounding as i32, weight as u32);
        }
    }

    /// Rounding and skip weight for the next macroblocks.
    fn steer(&self, plan: &Plan, at: usize) -> (f64, f64) {
        let Steering { planned, rounding, .. } = self.steering;
        let unknown = planned[self.first] - planned[self.known];
        let spent = self.known_spent + self.spent;
        let ahead = (spent as f64 - (planned[at] - unknown)) / plan.total;
        let left = 1.0 - planned[at] / plan.total;
        let strictness = (ahead / left.clamp(HORIZON.0, HORIZON.1) / plan.gain).clamp(-64.0, 64.0);
        let rounding = (rounding - strictness).clamp(ROUNDINGS.0, ROUNDINGS.1);
        let factor = 1.0 + strictness.abs() / DOUBLING;
        (rounding, if strictness > 0.0 { plan.weight * factor } else { plan.weight / factor })
    }

    /// Records the cost of a macroblock after its decision.
    pub(super) fn record(&mut self, cost: Cost) {
        self.spent += u64::from(cost.bits);
    }
}

/// Cost of a decided macroblock's coefficients.
pub(super) fn cost_of(chosen: &Trial) -> Cost {
    let (coded, worth) = (chosen.coefficient_bits, chosen.worth);
    Cost { bits: if chosen.residual.is_empty() { 0 } else { coded }, coded, worth }
}
