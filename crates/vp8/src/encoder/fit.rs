//! A frame that fills a budget of bytes and does not exceed it.
//!
//! One quantizer for a whole frame is too coarse a control: beside camera noise a frame's size doubles or more from one
//! index to the next, for there most macroblocks stop being worth their bits at the same step. What lies between two
//! indices is reached by what needs no word in the bitstream: how readily a macroblock's residual is left out, and the
//! rounding of the quantizer (its dead zone). Both are steered from macroblock to macroblock while a frame is coded.
//!
//! A first pass codes the frame as ever and records what each macroblock's coefficients cost, and from which weight of
//! bits on they would be left out. That tells the weight that fills the budget, if any does. Another pass then keeps
//! modes and vectors, only quantizes anew, and corrects weight and rounding as the bits run ahead of the plan or fall
//! behind it.

use super::bit_cost::BIT;
use super::frame_encoder::{FrameEncoder, Macroblocks, rounding_of};
use super::trial::{Place, USUAL_SKIP_WEIGHT};
use super::{Analysis, Encoded, MAXIMUM_QUANTIZER};
use crate::header::QuantizerIndices;
use crate::quantization::Steps;

/// A frame of at least this share of the budget is not made again.
const FILLED: f64 = 0.92;
/// What steered passes aim at, one after another: a later one comes of an earlier one that went over.
const AIMS: [f64; 3] = [0.965, 0.95, 0.92];
/// A pass keeps the modes of another whose step is at most so many times as large or as small.
const KEPT_WITHIN: f64 = 1.8;
/// So many passes are spent on filling the budget, where the caller does not say.
const USUAL_PASSES: usize = 4;
/// Where none of them fits, the next aims at this share of the budget; and if that was too much, the coarsest
/// quantizer is next.
const SAFE_AIM: f64 = 0.6;
/// How far ahead steering looks, as shares of the frame: it wants the bits back on plan by then.
const HORIZON: (f64, f64) = (0.03, 0.15);
/// Steering thinks again after so many macroblocks.
const STEERED_TOGETHER: usize = 4;
/// The least and the most rounding of AC coefficients, in 1/128 of a step.
const ROUNDINGS: (f64, f64) = (0.0, 56.0);
/// The weights of bits, in 1/256 of the usual, that are good at a quantizer; beyond them another quantizer is better.
const GOOD_WEIGHTS: (u32, u32) = (100, 400);
/// How much smaller an inter frame becomes with every unit of strictness, as a share. It differs a lot: this is less
/// than most.
const INTER_GAIN: f64 = 0.05;
/// The skip weight is doubled by so many units of strictness.
const DOUBLING: f64 = 8.0;

/// One way in which the frame was coded, kept for the next.
#[derive(Debug)]
struct Pass {
    quantizer: u8,
    size: usize,
    macroblocks: Macroblocks,
    costs: Vec<Cost>,
    /// Bytes of all that is no coefficient.
    overhead: usize,
    /// The rounding that it used on average, 1/128 of a step.
    rounding: f64,
}

/// What a macroblock's coefficients cost, by the costs that the frame begins with.
#[derive(Debug, Clone, Copy)]
struct Cost {
    /// As they were coded.
    bits: u32,
    /// As they would be coded if they are not left out.
    coded: u32,
    /// The skip weight from which on they are left out.
    worth: u32,
}

impl Cost {
    /// The bits at another skip weight.
    fn at(self, weight: u32) -> u32 {
        if self.worth > weight { self.coded } else { 0 }
    }
}

/// What a frame's making records, and by what it is steered.
#[derive(Debug)]
pub(super) struct Steering<'a> {
    kept: Option<&'a Pass>,
    costs: Vec<Cost>,
    spent: u64,
    /// What each macroblock should cost; empty where nothing is steered.
    plan: Vec<f64>,
    planned: f64,
    total: f64,
    /// Rounding and skip weight that are expected to be right.
    rounding: f64,
    weight: f64,
    /// How much smaller (as a share) a frame becomes by one unit of strictness.
    gain: f64,
    /// Sum of the roundings used.
    roundings: f64,
}

impl Steering<'_> {
    fn recording(rounding: f64) -> Self {
        Self {
            kept: None,
            costs: Vec::new(),
            spent: 0,
            plan: Vec::new(),
            planned: 0.0,
            total: 1.0,
            rounding,
            weight: f64::from(USUAL_SKIP_WEIGHT),
            gain: INTER_GAIN,
            roundings: 0.0,
        }
    }

    /// Rounding and skip weight for the macroblocks to come.
    fn steer(&self) -> (f64, f64) {
        let ahead = (self.spent as f64 - self.planned) / self.total;
        let left = 1.0 - self.planned / self.total;
        let strictness = (ahead / left.clamp(HORIZON.0, HORIZON.1) / self.gain).clamp(-64.0, 64.0);
        let rounding = (self.rounding - strictness).clamp(ROUNDINGS.0, ROUNDINGS.1);
        let factor = 1.0 + strictness.abs() / DOUBLING;
        (rounding, if strictness > 0.0 { self.weight * factor } else { self.weight / factor })
    }
}

impl FrameEncoder<'_> {
    /// Before a macroblock is decided: steers, and codes it with the mode and vectors that were kept, if any were. Whether
    /// it did.
    pub(super) fn keep_mode(&mut self, place: &Place) -> bool {
        let Some(steering) = &mut self.steering else { return false };
        let at = steering.costs.len();
        if !steering.plan.is_empty() && at.is_multiple_of(STEERED_TOGETHER) {
            let (rounding, weight) = steering.steer();
            let together = steering.plan.len().min(at + STEERED_TOGETHER) - at;
            steering.roundings += rounding * together as f64;
            self.quantizers.round_by(rounding as i32, self.analysis.key_frame);
            self.skip_weight = weight as u32;
        }
        let Some(kept) = steering.kept else { return false };
        let info = kept.macroblocks.infos[at];
        let references = &self.analysis.references;
        let Some((_, reference)) = references.iter().find(|(kind, _)| *kind == info.reference) else {
            // Predicted from this frame, which differs from that of the other pass. It must not turn to a reference now:
            // that the vectors around it are told as near ones depends on it.
            self.decide_intra(place);
            return true;
        };
        self.trial.info = info;
        self.trial.partition_vectors = kept.macroblocks.partition_vectors[at];
        self.trial.mode_bits = 0;
        self.trial.predict_inter(reference, place);
        self.code_trial(place);
        true
    }

    /// After a macroblock is decided: records what it costs.
    pub(super) fn record_cost(&mut self) {
        let Some(steering) = &mut self.steering else { return };
        let (coded, worth) = (self.best.coefficient_bits, self.best.worth);
        let bits = if self.best.residual.is_empty() { 0 } else { coded };
        if let Some(planned) = steering.plan.get(steering.costs.len()) {
            steering.planned += planned;
        }
        steering.costs.push(Cost { bits, coded, worth });
        steering.spent += u64::from(bits);
    }
}

impl Pass {
    fn spent(&self) -> f64 {
        self.costs.iter().map(|cost| f64::from(cost.bits)).sum()
    }

    /// What coefficients may cost in a frame of `target` bytes.
    fn total_for(&self, target: f64) -> f64 {
        let (spent, written) = (self.spent(), (self.size - self.overhead) as f64);
        // Costs are by the old probabilities; what is written, by those that fit the frame.
        let cost_per_byte = if spent < f64::from(64 * BIT) { f64::from(8 * BIT) } else { spent / written };
        (target - self.overhead as f64).max(16.0) * cost_per_byte
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

/// How to go about filling a budget ([`Analysis::passes_to_fit`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FitSearch {
    /// The quantizer to begin with, where the caller knows of a good one; else one is predicted.
    pub first: Option<u8>,
    /// How many times the picture may be coded to fill the budget; at least one. Where none of them fits, up to two more
    /// are spent on not exceeding it.
    pub passes: usize,
}

impl Default for FitSearch {
    fn default() -> Self {
        Self { first: None, passes: USUAL_PASSES }
    }
}

/// The frames that were coded on the way to one that fits a budget.
#[derive(Debug, Clone)]
pub struct Fitted {
    /// In the order in which they were coded; the first is what [`Analysis::encode`] gives for its quantizer.
    pub frames: Vec<Encoded>,
    /// The index of the best that fits; of the smallest, if none does.
    pub best: usize,
}

impl Fitted {
    /// The best frame that fits, or else the smallest.
    #[must_use]
    pub fn into_best(mut self) -> Encoded {
        self.frames.swap_remove(self.best)
    }
}

/// The search for the frame that fits.
struct Search<'a> {
    analysis: &'a Analysis,
    budget: usize,
    frames: Vec<Encoded>,
    /// The coarsest quantizer that was too fine, and its frame's size; the finest that was too coarse.
    too_fine: Option<(u8, usize)>,
    too_coarse: Option<(u8, usize)>,
    /// Whether the coarsest quantizer has been tried, without any steering.
    coarsest_tried: bool,
}

impl<'a> Search<'a> {
    fn new(analysis: &'a Analysis, budget: usize) -> Self {
        Self { analysis, budget, frames: Vec::new(), too_fine: None, too_coarse: None, coarsest_tried: false }
    }

    fn code(&mut self, quantizer: u8, steering: Steering<'_>) -> Pass {
        let steered = !steering.plan.is_empty();
        let mut encoder = FrameEncoder::new(self.analysis, quantizer);
        let mut rounding = steering.rounding;
        encoder.steering = Some(steering);
        encoder.code_macroblocks();
        let macroblocks = encoder.macroblocks.clone();
        let mut costs = Vec::new();
        if let Some(steering) = encoder.steering.take() {
            if steered {
                rounding = steering.roundings / steering.costs.len() as f64;
            }
            costs = steering.costs;
        }
        let encoded = encoder.finish();
        let size = encoded.frame.len();
        let overhead = size - encoded.statistics.coefficient_bytes;
        self.frames.push(encoded);
        if size <= self.budget {
            if self.too_coarse.is_none_or(|(finest, _)| quantizer <= finest) {
                self.too_coarse = Some((quantizer, size));
            }
        } else if self.too_fine.is_none_or(|(coarsest, _)| quantizer >= coarsest) {
            self.too_fine = Some((quantizer, size));
        }
        Pass { quantizer, size, macroblocks, costs, overhead, rounding }
    }

    /// The frame at a plain quantizer.
    fn plain(&mut self, quantizer: u8) -> Pass {
        self.coarsest_tried |= quantizer == MAXIMUM_QUANTIZER;
        self.code(quantizer, Steering::recording(self.usual_rounding()))
    }

    fn fits(&self) -> bool {
        self.frames.iter().any(|encoded| encoded.frame.len() <= self.budget)
    }

    fn finish(self) -> Fitted {
        let rank = |encoded: &Encoded| {
            let (size, error) = (encoded.frame.len(), encoded.statistics.squared_error.iter().sum::<u64>());
            if size <= self.budget { (false, error) } else { (true, size as u64) }
        };
        let best = (0..self.frames.len()).min_by_key(|&index| rank(&self.frames[index])).expect("a frame was coded");
        Fitted { frames: self.frames, best }
    }

    fn usual_rounding(&self) -> f64 {
        f64::from(rounding_of(self.analysis.key_frame).ac)
    }

    fn is_filled(&self, pass: &Pass) -> bool {
        pass.size <= self.budget && pass.size as f64 >= FILLED * self.budget as f64
    }

    /// Codes until the budget is filled, `passes` times at most.
    fn fill(&mut self, first: u8, passes: usize) {
        let analysis = self.analysis;
        let budget = self.budget as f64;
        let mut pass = self.plain(first);
        let mut over = 0;
        for _ in 1..passes {
            if self.is_filled(&pass) || (pass.quantizer == 0 && pass.size <= self.budget) {
                return;
            }
            let target = AIMS[over] * budget;
            let total = pass.total_for(target);
            let weight = if analysis.key_frame { 0 } else { pass.weight_for(total) };
            if (GOOD_WEIGHTS.0..=GOOD_WEIGHTS.1).contains(&weight) {
                // Another weight fills the budget at this quantizer.
                let plan = pass.costs.iter().map(|cost| f64::from(cost.at(weight))).collect();
                let steering = Steering {
                    kept: Some(&pass),
                    plan,
                    total,
                    weight: f64::from(weight),
                    ..Steering::recording(pass.rounding)
                };
                pass = self.code(pass.quantizer, steering);
            } else {
                let quantizer = self.next_quantizer(&pass, target);
                let ratio = f64::from(step(quantizer)) / f64::from(step(pass.quantizer));
                if !(1.0 / KEPT_WITHIN..=KEPT_WITHIN).contains(&ratio) {
                    pass = self.plain(quantizer);
                    continue;
                }
                let (rounding, gain) = if analysis.key_frame {
                    let wanted = target * analysis.predict_size(pass.quantizer) as f64 / pass.size as f64;
                    key_rounding(analysis, quantizer, wanted, self.usual_rounding())
                } else {
                    (self.usual_rounding(), INTER_GAIN)
                };
                let plan = plan(&pass.costs, total);
                let steering = Steering { kept: Some(&pass), plan, total, gain, ..Steering::recording(rounding) };
                pass = self.code(quantizer, steering);
            }
            if pass.size > self.budget && over + 1 < AIMS.len() {
                over += 1;
            }
        }
    }

    /// A quantizer that is expected to fit, where those tried did not.
    fn safe_quantizer(&self) -> u8 {
        let Some((quantizer, size)) = self.too_fine else { return MAXIMUM_QUANTIZER };
        let scale = size as f64 / self.analysis.predict_size(quantizer) as f64;
        let expected = coarsest_of(self.analysis, SAFE_AIM * self.budget as f64 / scale);
        expected.max(quantizer.saturating_add(2)).min(MAXIMUM_QUANTIZER)
    }

    /// The quantizer that is expected to be nearest to `target` bytes.
    fn next_quantizer(&self, pass: &Pass, target: f64) -> u8 {
        match (self.too_fine, self.too_coarse) {
            (Some((fine, large)), Some((coarse, small))) if fine + 1 < coarse => {
                let share = (log2(large as f64) - log2(target)) / (log2(large as f64) - log2(small as f64));
                let between = f64::from(fine) + share.clamp(0.0, 1.0) * f64::from(coarse - fine);
                (between as u8).clamp(fine + 1, coarse - 1)
            }
            (Some((fine, _)), Some((coarse, _))) => fine.min(coarse),
            (fine, _) => {
                let scale = pass.size as f64 / self.analysis.predict_size(pass.quantizer) as f64;
                let expected = coarsest_of(self.analysis, target / scale);
                if fine.is_some() {
                    expected.max(pass.quantizer.saturating_add(1)).min(MAXIMUM_QUANTIZER)
                } else {
                    expected.min(pass.quantizer.saturating_sub(1))
                }
            }
        }
    }
}

/// The step of luma coefficients.
fn step(quantizer: u8) -> u16 {
    Steps::new(quantizer, &QuantizerIndices::default()).luma[1] as u16
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
fn plan(costs: &[Cost], total: f64) -> Vec<f64> {
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
    /// The best frame that this encoder finds within `budget` bytes: of at least nine tenths of them in the median, where
    /// the finest quantizer needs that many. Where even the coarsest needs more, the smallest frame that was found.
    ///
    /// It takes about as long as two candidates of a menu, rarely more than three.
    #[must_use]
    pub fn encode_to_fit(&self, budget: usize) -> Encoded {
        self.passes_to_fit(budget, &FitSearch::default()).into_best()
    }

    /// The same, beginning with quantizer `first`, where the caller knows of a good one.
    #[must_use]
    pub fn encode_to_fit_from(&self, budget: usize, first: u8) -> Encoded {
        self.passes_to_fit(budget, &FitSearch { first: Some(first), ..FitSearch::default() }).into_best()
    }

    /// The same, with all that was coded on the way: frames around the budget that cost nothing more.
    #[must_use]
    pub fn passes_to_fit(&self, budget: usize, how: &FitSearch) -> Fitted {
        let mut search = Search::new(self, budget);
        let first = how.first.unwrap_or_else(|| coarsest_of(self, budget as f64));
        search.fill(first.min(MAXIMUM_QUANTIZER), how.passes.max(1));
        if !search.fits() && !search.coarsest_tried {
            search.plain(search.safe_quantizer());
        }
        if !search.fits() && !search.coarsest_tried {
            search.plain(MAXIMUM_QUANTIZER);
        }
        search.finish()
    }
}
