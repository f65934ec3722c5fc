//! A frame that fills a budget of bytes and does not exceed it.
//!
//! One quantizer for a whole frame is too coarse a control: beside camera noise a frame's size doubles or more from one
//! index to the next, for there most macroblocks stop being worth their bits at the same step. What lies between two
//! indices is reached by what needs no word in the bitstream: how readily a macroblock's residual is left out, and the
//! rounding of the quantizer (its dead zone). Both are steered from macroblock to macroblock while a frame is coded.
//!
//! A first pass codes the frame as ever and records what each macroblock's coefficients cost, and from which weight of
//! bits on they would be left out. That tells the weight that fills the budget, if any does. Another pass then keeps
//! references and vectors, only quantizes anew, and corrects weight and rounding as the bits run ahead of the plan or fall
//! behind it. In a small frame vectors may take most of the bits: where one like that went over its budget, they are
//! decided anew.

use std::borrow::Cow;

use super::analysis::Analysis;
use super::bit_cost::BIT;
use super::costs::USUAL_SKIP_WEIGHT;
use super::decisions::{Decisions, step};
use super::encoded::Encoded;
use super::frame_encoder::{code_macroblocks, finish};
use super::frame_quantizers::rounding_of;
use super::parameters::MAXIMUM_QUANTIZER;
use super::steering::{Cost, Plan, Steering};

/// A frame of at least this share of the budget is not made again.
const FILLED: f64 = 0.92;
/// What steered passes aim at, one after another: a later one comes of an earlier one that went over.
const AIMS: [f64; 3] = [0.965, 0.94, 0.88];
/// So many passes are spent on filling the budget.
const PASSES: usize = 4;
/// Where none of them fits, the next aims at this share of the budget; and if that was too much, the coarsest
/// quantizer is next.
const SAFE_AIM: f64 = 0.6;
/// No coarser than by so many indices, and so many more for each doubling that it was too large by: what a model says of
/// frames of a hundred bytes is worth little.
const SAFE_INDICES: (f64, f64) = (6.0, 40.0);
/// Once a pass went over the budget, modes and vectors that take more than this share of it are decided anew.
const HEAVY: f64 = 0.3;
/// What they are expected to take then, as a share of what they took.
const LIGHTER: f64 = 0.9;
/// How far sizes may be off the predicted ones, as factors, to say that others are off alike: where all was left out,
/// the size says nothing of finer quantizers.
const TRUSTED_SCALES: (f64, f64) = (0.25, 4.0);
/// How much smaller an inter frame becomes with every unit of strictness, as a share. It differs a lot: this is less
/// than most.
const INTER_GAIN: f64 = 0.05;
/// The weights of bits, in 1/256 of the usual, that are good at a quantizer; beyond them another quantizer is better.
const GOOD_WEIGHTS: (u32, u32) = (100, 400);

/// One way in which the frame was coded, kept for the next.
#[derive(Debug)]
struct Pass {
    quantizer: u8,
    size: usize,
    decisions: Decisions,
    costs: Vec<Cost>,
    /// Bytes of all that is no coefficient.
    overhead: usize,
    /// The rounding that it used on average, 1/128 of a step.
    rounding: f64,
}

impl Pass {
    fn spent(&self) -> f64 {
        self.costs.iter().map(|cost| f64::from(cost.bits)).sum()
    }

    /// What coefficients may cost in a frame of `target` bytes, `overhead` of which are others.
    fn total_for(&self, target: f64, overhead: f64) -> f64 {
        let (spent, written) = (self.spent(), (self.size - self.overhead) as f64);
        // Costs are by the old probabilities; what is written, by those that fit the frame.
        let cost_per_byte = if spent < f64::from(64 * BIT) { f64::from(8 * BIT) } else { spent / written };
        (target - overhead).max(16.0) * cost_per_byte
    }

    /// The skip weight at which the coefficients cost no more than `total`, or just the next smaller.
    fn weight_for(&self, total: f64) -> u32 {
        let sum = |weight: u32| self.costs.iter().map(|cost| f64::from(cost.at(weight))).sum::<f64>();
        let (mut low, mut high) = (0, 1 << 16);
        while low + 1 < high {
            let middle = (low + high) / 2;
            if sum(middle) > total { low = middle } else { high = middle }
        }
        low
    }
}

/// A picture being made to fit a budget, pass by pass. The budget may be another for each pass: what was coded for one
/// shows the way to the next.
#[derive(Debug)]
pub struct Fitting<'a> {
    analysis: Cow<'a, Analysis>,
    first: Option<u8>,
    /// Quantizers and sizes of what was coded, in order.
    coded: Vec<(u8, usize)>,
    last: Option<Pass>,
    /// How many steered passes went over what they aimed at.
    over: usize,
}

impl<'a> Fitting<'a> {
    /// Begins with quantizer `first`, where the caller knows of a good one; else the first pass predicts one.
    #[must_use]
    pub fn new(analysis: Cow<'a, Analysis>, first: Option<u8>) -> Self {
        Self { analysis, first, coded: Vec::new(), last: None, over: 0 }
    }

    /// The analysis that all passes share.
    #[must_use]
    pub fn analysis(&self) -> &Analysis {
        &self.analysis
    }

    /// Codes the picture, nearer to `budget` bytes than before. The first pass gives very nearly what
    /// [`Analysis::encode`] gives for its quantizer. A frame may be larger than the budget.
    #[must_use]
    pub fn pass(&mut self, budget: usize) -> Encoded {
        if let Some(last) = self.last.take() {
            return self.pass_after(&last, budget);
        }
        let first = self.first.unwrap_or_else(|| coarsest_of(&self.analysis, budget as f64));
        self.plain(first.min(MAXIMUM_QUANTIZER))
    }

    /// Whether another pass would bring nothing for `budget`: a frame fits and fills it, not even the finest quantizer does,
    /// or the coarsest was too large for it twice, plain and steered.
    #[must_use]
    pub fn is_filled(&self, budget: usize) -> bool {
        let filled = |&(quantizer, size): &(u8, usize)| quantizer == 0 || size as f64 >= FILLED * budget as f64;
        let too_large = |&&(quantizer, size): &&(u8, usize)| quantizer == MAXIMUM_QUANTIZER && size > budget;
        self.coded.iter().filter(|&&(_, size)| size <= budget).any(filled)
            || self.coded.iter().filter(too_large).count() > 1
    }

    fn fits(&self, budget: usize) -> bool {
        self.coded.iter().any(|&(_, size)| size <= budget)
    }

    fn code(&mut self, quantizer: u8, kept: Option<&Decisions>, mut steering: Steering) -> Encoded {
        let canvas = code_macroblocks(&self.analysis, quantizer, kept, Some(&mut steering));
        let (costs, rounding) = steering.finish();
        let (encoded, decisions) = finish(&self.analysis, quantizer, canvas, kept);
        let size = encoded.frame.len();
        let overhead = size - encoded.statistics.coefficient_bytes;
        self.coded.push((quantizer, size));
        self.last = Some(Pass { quantizer, size, decisions, costs, overhead, rounding });
        encoded
    }

    /// The frame at a plain quantizer.
    fn plain(&mut self, quantizer: u8) -> Encoded {
        self.code(quantizer, None, Steering::recording(self.usual_rounding()))
    }

    fn usual_rounding(&self) -> f64 {
        f64::from(rounding_of(self.analysis.key_frame).ac)
    }

    /// Codes the frame again, steered towards `budget` if that is not too far away.
    fn pass_after(&mut self, last: &Pass, budget: usize) -> Encoded {
        let key_frame = self.analysis.key_frame;
        let target = AIMS[self.over.min(AIMS.len() - 1)] * budget as f64;
        // What was decided for a finer quantizer may alone take more than there is room for.
        let heavy = self.over > 0 && last.overhead as f64 > HEAVY * budget as f64;
        let overhead = last.overhead as f64 * if heavy { LIGHTER } else { 1.0 };
        let total = last.total_for(target, overhead);
        let weight = if key_frame { 0 } else { last.weight_for(total) };
        let kept = (!heavy).then_some(&last.decisions);
        let encoded = if !heavy && (GOOD_WEIGHTS.0..=GOOD_WEIGHTS.1).contains(&weight) {
            // Another weight fills the budget at this quantizer.
            let costs = last.costs.iter().map(|cost| f64::from(cost.at(weight))).collect();
            let plan = Plan { costs, total, weight: f64::from(weight), gain: INTER_GAIN };
            self.code(last.quantizer, kept, Steering::following(plan, last.rounding))
        } else {
            let quantizer = self.next_quantizer(last, target, budget);
            if !last.decisions.serve(quantizer) {
                return self.plain(quantizer);
            }
            let (rounding, gain) = if key_frame {
                let wanted = target * self.analysis.predict_size(last.quantizer) as f64 / last.size as f64;
                key_rounding(&self.analysis, quantizer, wanted, self.usual_rounding())
            } else {
                (self.usual_rounding(), INTER_GAIN)
            };
            let (costs, weight) = (planned_costs(&last.costs, total), f64::from(USUAL_SKIP_WEIGHT));
            let plan = Plan { costs, total, weight, gain };
            self.code(quantizer, kept, Steering::following(plan, rounding))
        };
        self.over += usize::from(encoded.frame.len() > budget);
        encoded
    }

    /// Codes the frame at a quantizer that is expected to be well within `budget`, where what was coded is not.
    fn safe_pass(&mut self, budget: usize) -> Encoded {
        let quantizer = self.too_fine(budget).map_or(MAXIMUM_QUANTIZER, |(quantizer, size)| {
            let scale = size as f64 / self.analysis.predict_size(quantizer) as f64;
            let expected = coarsest_of(&self.analysis, SAFE_AIM * budget as f64 / scale);
            let excess = log2(size as f64 / budget.max(1) as f64);
            let enough = f64::from(quantizer) + SAFE_INDICES.0 + SAFE_INDICES.1 * excess;
            expected.min(enough as u8).max(quantizer.saturating_add(2)).min(MAXIMUM_QUANTIZER)
        });
        self.plain(quantizer)
    }

    /// The coarsest quantizer that was too fine, and its frame's size.
    fn too_fine(&self, budget: usize) -> Option<(u8, usize)> {
        let over = self.coded.iter().filter(|&&(_, size)| size > budget);
        over.max_by_key(|(quantizer, _)| *quantizer).copied()
    }

    /// The finest quantizer that was too coarse, and its frame's size.
    fn too_coarse(&self, budget: usize) -> Option<(u8, usize)> {
        let within = self.coded.iter().rev().filter(|&&(_, size)| size <= budget);
        within.min_by_key(|(quantizer, _)| *quantizer).copied()
    }

    /// The quantizer that is expected to be nearest to `target` bytes.
    fn next_quantizer(&self, last: &Pass, target: f64, budget: usize) -> u8 {
        match (self.too_fine(budget), self.too_coarse(budget)) {
            (Some((fine, large)), Some((coarse, small))) if fine + 1 < coarse => {
                let share = (log2(large as f64) - log2(target)) / (log2(large as f64) - log2(small as f64));
                let between = f64::from(fine) + share.clamp(0.0, 1.0) * f64::from(coarse - fine);
                (between as u8).clamp(fine + 1, coarse - 1)
            }
            (Some((fine, _)), Some((coarse, _))) => fine.min(coarse),
            (fine, _) => {
                let scale = last.size as f64 / self.analysis.predict_size(last.quantizer) as f64;
                let expected = coarsest_of(&self.analysis, target / scale.clamp(TRUSTED_SCALES.0, TRUSTED_SCALES.1));
                if fine.is_some() {
                    expected.max(last.quantizer.saturating_add(1)).min(MAXIMUM_QUANTIZER)
                } else {
                    expected.min(last.quantizer.saturating_sub(1))
                }
            }
        }
    }
}

/// The coarsest quantizer that is predicted to take at least `wanted` bytes.
fn coarsest_of(analysis: &Analysis, wanted: f64) -> u8 {
    (1..=MAXIMUM_QUANTIZER).take_while(|&quantizer| analysis.predict_size(quantizer) as f64 >= wanted).count() as u8
}

/// A binary logarithm, straight between powers of two: good enough to interpolate by, and the same everywhere.
fn log2(value: f64) -> f64 {
    let whole = (value.max(1.0) as u64).ilog2();
    f64::from(whole) + value.max(1.0) / (1u64 << whole) as f64 - 1.0
}

/// The rounding with which a key frame at `quantizer` is predicted to take `wanted` bytes, and by what share it shrinks
/// with each 1/128 of a step less.
fn key_rounding(analysis: &Analysis, quantizer: u8, wanted: f64, usual: f64) -> (f64, f64) {
    let finer = quantizer.min(MAXIMUM_QUANTIZER - 1);
    let [here, next] = [finer, finer + 1].map(|index| f64::from(step(index)));
    // The rounding by which the finer quantizer leaves as many coefficients at zero as the coarser.
    let change = (128.0 - usual) * (next - here) / here;
    let [size, next] = [finer, finer + 1].map(|index| analysis.predict_size(index) as f64);
    let share = ((size - wanted) / (size - next).max(1.0)).clamp(-1.0, 1.0);
    let gain = 2.0 * (size - next) / (size + next) / change.max(0.5);
    (usual - share * change, gain.clamp(0.008, 0.2))
}

/// What each macroblock should cost where all cost `total`: what is too much is taken off all alike, and what is left
/// over is given to all alike, for it is the noise in all of them that comes and goes.
fn planned_costs(costs: &[Cost], total: f64) -> Vec<f64> {
    let spent: f64 = costs.iter().map(|cost| f64::from(cost.bits)).sum();
    if total >= spent {
        let more = (total - spent) / costs.len() as f64;
        return costs.iter().map(|cost| f64::from(cost.bits) + more).collect();
    }
    let left = |off: f64| -> f64 { costs.iter().map(|cost| (f64::from(cost.bits) - off).max(0.0)).sum() };
    let (mut low, mut high) = (0.0, f64::from(costs.iter().map(|cost| cost.bits).max().unwrap_or(0)));
    for _ in 0..24 {
        let middle = (low + high) / 2.0;
        if left(middle) > total { low = middle } else { high = middle }
    }
    costs.iter().map(|cost| (f64::from(cost.bits) - low).max(0.0)).collect()
}

impl Analysis {
    /// The best frame that this encoder finds within `budget` bytes: of 95 % of them in the median, where the finest
    /// quantizer needs that many; frames of a few hundred bytes may fill less, for modes and vectors take most of those.
    /// Where even the coarsest quantizer needs more, the smallest frame that was found.
    ///
    /// It takes 2 to 3.5 times as long as [`Analysis::encode`] with an analysis, the mean of a clip's frames, and never
    /// more than six passes (`lockstep bench codec`).
    #[must_use]
    pub fn encode_to_fit(&self, budget: usize) -> Encoded {
        let mut fitting = Fitting::new(Cow::Borrowed(self), None);
        let mut frames = Vec::with_capacity(PASSES + 2);
        while frames.len() < PASSES && !fitting.is_filled(budget) {
            frames.push(fitting.pass(budget));
        }
        let coarsest_tried = fitting.coded.iter().any(|&(quantizer, _)| quantizer == MAXIMUM_QUANTIZER);
        if !fitting.fits(budget) && !coarsest_tried {
            frames.push(fitting.safe_pass(budget));
        }
        if !fitting.fits(budget) {
            // A pass records what else might be coded, and may differ a little from this for that reason.
            frames.push(self.encode(MAXIMUM_QUANTIZER));
        }
        let fits = |encoded: &Encoded| encoded.frame.len() <= budget;
        if !frames.iter().any(fits) {
            let size = |encoded: &Encoded| encoded.frame.len();
            return frames.into_iter().min_by_key(size).expect("a first pass was coded");
        }
        frames.retain(fits);
        if frames.len() > 1 {
            frames.sort_by_cached_key(|encoded| self.squared_error(encoded));
        }
        frames.swap_remove(0)
    }
}
