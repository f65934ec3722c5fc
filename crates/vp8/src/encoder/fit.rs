//! Encoding of a frame that fills a budget of bytes without exceeding it.
//!
//! One quantizer per frame is too coarse a control: with camera noise, the size may double from one index to the next.
//! The reason is that most macroblocks lose their residual at the same step. Two parameters that need no bits reach
//! sizes between two indices: the threshold for dropping a residual, and the rounding of the quantizer (its dead zone).
//! [`Steering`] adjusts both from macroblock to macroblock.
//!
//! 1. The first pass codes the frame normally. It records the cost of each macroblock's coefficients, and the weight of
//!    bits at which they would be dropped.
//! 2. These records give the weight that fills the budget, if there is one.
//! 3. The next pass reuses references and vectors and only quantizes again. It corrects weight and rounding while the
//!    bits deviate from the plan.
//! 4. In a small frame, vectors may take most of the bits. If such a frame exceeds its budget, the next pass decides
//!    them again.

use std::borrow::Cow;

use super::analysis::Analysis;
use super::bit_cost::BIT;
use super::costs::DEFAULT_SKIP_WEIGHT;
use super::decisions::{Decisions, step};
use super::encoded::Encoded;
use super::frame_encoder::{code_macroblocks, finish};
use super::frame_quantizers::rounding_of;
use super::macroblocks::Cost;
use super::parameters::MAX_QUANTIZER;
use super::steering::{Plan, Steering};

/// A frame with at least this share of the budget is not coded again.
const FILLED: f64 = 0.92;
/// So is a frame with this many bytes below the budget: the headers of its datagram are longer.
const SPARE: usize = 24;
/// Aims of steered passes as shares of the budget. A pass over the budget makes the next one use the next aim.
const AIMS: [f64; 3] = [0.965, 0.94, 0.88];
/// Number of passes spent on filling the budget.
const PASSES: usize = 4;
/// If none of them fits, the next pass aims at this share of the budget. If that frame is still too large, the coarsest
/// quantizer follows.
const SAFE_AIM: f64 = 0.6;
/// Largest increase of the quantizer index for that pass: a constant, plus an increment per doubling of the excess. The
/// size model is inaccurate for frames of about a hundred bytes.
const SAFE_INDICES: (f64, f64) = (6.0, 40.0);
/// Range of the ratio of actual to predicted size that is used to correct other predictions. A frame without any
/// residual says nothing about finer quantizers.
const TRUSTED_SCALES: (f64, f64) = (0.25, 4.0);
/// Relative decrease of an interframe's size per unit of strictness. The value varies a lot; this one is lower than
/// most.
const INTER_GAIN: f64 = 0.05;
/// Range of useful weights of bits at a quantizer, in 1/256 of the default. Outside of it, another quantizer is better.
const GOOD_WEIGHTS: (u32, u32) = (100, 400);

/// Smallest number of bytes of coefficients that a pass aims at.
const MIN_COEFFICIENTS: f64 = 4.0;

/// The record of one pass, for the next one.
#[derive(Debug)]
struct Pass {
    quantizer: u8,
    size: usize,
    decisions: Decisions,
    costs: Vec<Cost>,
    /// Bytes of the frame without coefficients.
    overhead: usize,
    /// Mean rounding of the pass, in 1/128 of a step.
    rounding: f64,
}

impl Pass {
    fn spent(&self) -> f64 {
        self.costs.iter().map(|cost| f64::from(cost.bits)).sum()
    }

    /// Whether the frame has hardly any coefficients.
    fn is_empty(&self) -> bool {
        (self.size - self.overhead) as f64 <= MIN_COEFFICIENTS
    }

    /// Total cost that coefficients may have in a frame of `target` bytes.
    fn total_for(&self, target: f64) -> f64 {
        let (spent, written) = (self.spent(), (self.size - self.overhead) as f64);
        // Costs use the old probabilities, written bytes those that fit the frame.
        let cost_per_byte = if spent < f64::from(64 * BIT) { f64::from(8 * BIT) } else { spent / written };
        // More coefficients need more skip flags and updates of probabilities: the eighth root fits natural clips.
        // `lab: 2026-11-codec`
        let overhead =
            |coefficients: f64| (coefficients / written.max(1.0)).sqrt().sqrt().sqrt() * self.overhead as f64;
        let fits = |coefficients: f64| coefficients + overhead(coefficients) <= target;
        largest_share(target.max(0.0), fits).max(MIN_COEFFICIENTS) * cost_per_byte
    }

    /// Skip weight at which the coefficients cost at most `total`, or the next smaller one.
    fn weight_for(&self, total: f64) -> u32 {
        let sum = |weight: u32| self.costs.iter().map(|cost| f64::from(cost.at(weight))).sum::<f64>();
        largest_index(1 << 16, |weight| sum(weight) > total)
    }
}

/// Fits a picture to a budget, pass by pass. The budget may change between passes; each pass uses the records of the
/// last one.
#[derive(Debug)]
pub struct Fitting<'a> {
    analysis: Cow<'a, Analysis>,
    first: Option<u8>,
    /// Quantizers and sizes of all passes, in order.
    coded: Vec<(u8, usize)>,
    last: Option<Pass>,
    /// Number of steered passes that exceeded the budget.
    over: usize,
}

impl<'a> Fitting<'a> {
    /// Starts with quantizer `first`. Without it, the first pass predicts a quantizer.
    #[must_use]
    pub fn new(analysis: Cow<'a, Analysis>, first: Option<u8>) -> Self {
        Self { analysis, first, coded: Vec::new(), last: None, over: 0 }
    }

    /// The analysis that all passes share.
    #[must_use]
    pub fn analysis(&self) -> &Analysis {
        &self.analysis
    }

    /// Codes the picture again, closer to `budget` bytes. The frame may exceed the budget. The first pass gives the
    /// frame of [`Analysis::encode`].
    #[must_use]
    pub fn pass(&mut self, budget: usize) -> Encoded {
        if let Some(last) = self.last.take() {
            return self.pass_after(&last, budget);
        }
        let first = self.first.unwrap_or_else(|| coarsest_of(&self.analysis, budget as f64));
        self.plain(first.min(MAX_QUANTIZER))
    }

    /// Whether another pass cannot improve the result for `budget`. This holds in three cases:
    /// - A frame fits and fills the budget.
    /// - A frame of the finest quantizer fits.
    /// - The coarsest quantizer exceeded the budget twice, once plain and once steered, or without coefficients.
    #[must_use]
    pub fn is_filled(&self, budget: usize) -> bool {
        let enough = (FILLED * budget as f64).min(budget as f64 - SPARE as f64);
        let filled = |&(quantizer, size): &(u8, usize)| quantizer == 0 || size as f64 >= enough;
        let enough_passes = if self.last.as_ref().is_some_and(Pass::is_empty) { 1 } else { 2 };
        let too_large = |&&(quantizer, size): &&(u8, usize)| quantizer == MAX_QUANTIZER && size > budget;
        self.coded.iter().filter(|&&(_, size)| size <= budget).any(filled)
            || self.coded.iter().filter(too_large).count() >= enough_passes
    }

    fn fits(&self, budget: usize) -> bool {
        self.coded.iter().any(|&(_, size)| size <= budget)
    }

    fn code(&mut self, quantizer: u8, kept: Option<&Decisions>, steering: &Steering) -> Encoded {
        let coded = code_macroblocks(&self.analysis, quantizer, kept, steering);
        let (costs, rounding) =
            (coded.macroblocks.all().map(|coded| coded.cost).collect(), coded.mean_rounding(steering));
        let (encoded, decisions) = finish(&self.analysis, quantizer, coded, kept);
        let size = encoded.frame.len();
        let overhead = size - encoded.statistics.coefficient_bytes;
        self.coded.push((quantizer, size));
        self.last = Some(Pass { quantizer, size, decisions, costs, overhead, rounding });
        encoded
    }

    /// Codes the frame with one quantizer, without steering.
    fn plain(&mut self, quantizer: u8) -> Encoded {
        self.code(quantizer, None, &Steering::none(self.default_rounding()))
    }

    fn default_rounding(&self) -> f64 {
        f64::from(rounding_of(self.analysis.key_frame).ac)
    }

    /// Codes the frame again, steered towards `budget` if the budget is close enough.
    fn pass_after(&mut self, last: &Pass, budget: usize) -> Encoded {
        let key_frame = self.analysis.key_frame;
        let target = AIMS[self.over.min(AIMS.len() - 1)] * budget as f64;
        if last.is_empty() && last.overhead as f64 >= target {
            return self.plain(MAX_QUANTIZER);
        }
        let total = last.total_for(target);
        let weight = if key_frame { 0 } else { last.weight_for(total) };
        let encoded = if (GOOD_WEIGHTS.0..=GOOD_WEIGHTS.1).contains(&weight) {
            // The same quantizer fills the budget with another weight.
            let costs = last.costs.iter().map(|cost| f64::from(cost.at(weight))).collect();
            let plan = Plan { costs, total, weight: f64::from(weight), gain: INTER_GAIN };
            self.code(last.quantizer, Some(&last.decisions), &Steering::following(plan, last.rounding))
        } else {
            let quantizer = self.next_quantizer(last, target, budget);
            if !last.decisions.serve(quantizer) {
                return self.plain(quantizer);
            }
            let (rounding, gain) = if key_frame {
                let wanted = target * self.analysis.predict_size(last.quantizer) as f64 / last.size as f64;
                key_rounding(&self.analysis, quantizer, wanted, self.default_rounding())
            } else {
                (self.default_rounding(), INTER_GAIN)
            };
            let (costs, weight) = (planned_costs(&last.costs, total), f64::from(DEFAULT_SKIP_WEIGHT));
            let plan = Plan { costs, total, weight, gain };
            self.code(quantizer, Some(&last.decisions), &Steering::following(plan, rounding))
        };
        self.over += usize::from(encoded.frame.len() > budget);
        encoded
    }

    /// Codes the frame at a quantizer that is expected to be well within `budget`, after all passes exceeded it.
    fn safe_pass(&mut self, budget: usize) -> Encoded {
        let quantizer = self.too_fine(budget).map_or(MAX_QUANTIZER, |(quantizer, size)| {
            let scale = size as f64 / self.analysis.predict_size(quantizer) as f64;
            let expected = coarsest_of(&self.analysis, SAFE_AIM * budget as f64 / scale);
            let excess = log2(size as f64 / budget.max(1) as f64);
            let enough = f64::from(quantizer) + SAFE_INDICES.0 + SAFE_INDICES.1 * excess;
            expected.min(enough as u8).max(quantizer.saturating_add(2)).min(MAX_QUANTIZER)
        });
        self.plain(quantizer)
    }

    /// The coarsest quantizer that exceeded the budget, and the size of its frame.
    fn too_fine(&self, budget: usize) -> Option<(u8, usize)> {
        let over = self.coded.iter().filter(|&&(_, size)| size > budget);
        over.max_by_key(|(quantizer, _)| *quantizer).copied()
    }

    /// The finest quantizer that fits the budget, and the size of its frame.
    fn too_coarse(&self, budget: usize) -> Option<(u8, usize)> {
        let within = self.coded.iter().rev().filter(|&&(_, size)| size <= budget);
        within.min_by_key(|(quantizer, _)| *quantizer).copied()
    }

    /// The quantizer with the expected size nearest to `target` bytes.
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
                    expected.max(last.quantizer.saturating_add(1)).min(MAX_QUANTIZER)
                } else {
                    expected.min(last.quantizer.saturating_sub(1))
                }
            }
        }
    }
}

/// The coarsest quantizer with a predicted size of at least `wanted` bytes.
fn coarsest_of(analysis: &Analysis, wanted: f64) -> u8 {
    largest_index(u32::from(MAX_QUANTIZER) + 1, |quantizer| analysis.predict_size(quantizer as u8) as f64 >= wanted)
        as u8
}

/// The largest index below `end` for which `holds` is true. It holds for all lower ones, and 0 is not tested.
fn largest_index(end: u32, holds: impl Fn(u32) -> bool) -> u32 {
    let (mut low, mut high) = (0, end);
    while low + 1 < high {
        let middle = u32::midpoint(low, high);
        if holds(middle) { low = middle } else { high = middle }
    }
    low
}

/// The largest value up to `most` for which `holds` is true, to one part in 2^24. It holds for all lower ones.
fn largest_share(most: f64, holds: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, most);
    for _ in 0..24 {
        let middle = f64::midpoint(low, high);
        if holds(middle) { low = middle } else { high = middle }
    }
    low
}

/// Binary logarithm, linear between powers of two: accurate enough for interpolation, and equal on every platform.
fn log2(value: f64) -> f64 {
    let whole = (value.max(1.0) as u64).ilog2();
    f64::from(whole) + value.max(1.0) / (1u64 << whole) as f64 - 1.0
}

/// Rounding at which a key frame at `quantizer` has a predicted size of `wanted` bytes. Also returns the relative
/// decrease of its size per 1/128 of a step.
fn key_rounding(analysis: &Analysis, quantizer: u8, wanted: f64, usual: f64) -> (f64, f64) {
    let finer = quantizer.min(MAX_QUANTIZER - 1);
    let [here, next] = [finer, finer + 1].map(|index| f64::from(step(index)));
    // The rounding at which the finer quantizer zeroes as many coefficients as the coarser one.
    let change = (128.0 - usual) * (next - here) / here;
    let [size, next] = [finer, finer + 1].map(|index| analysis.predict_size(index) as f64);
    let share = ((size - wanted) / (size - next).max(1.0)).clamp(-1.0, 1.0);
    let gain = 2.0 * (size - next) / (size + next) / change.max(0.5);
    (usual - share * change, gain.clamp(0.008, 0.2))
}

/// Planned cost of each macroblock for a total of `total`. The difference is distributed equally, because noise varies
/// in all macroblocks.
fn planned_costs(costs: &[Cost], total: f64) -> Vec<f64> {
    let spent: f64 = costs.iter().map(|cost| f64::from(cost.bits)).sum();
    if total >= spent {
        let more = (total - spent) / costs.len() as f64;
        return costs.iter().map(|cost| f64::from(cost.bits) + more).collect();
    }
    let left = |off: f64| -> f64 { costs.iter().map(|cost| (f64::from(cost.bits) - off).max(0.0)).sum() };
    let most = costs.iter().map(|cost| cost.bits).max().unwrap_or(0);
    let low = largest_share(most.into(), |off| left(off) > total);
    costs.iter().map(|cost| (f64::from(cost.bits) - low).max(0.0)).collect()
}

impl Analysis {
    /// The best frame that the encoder finds within `budget` bytes.
    ///
    /// It fills 95 % of the budget in the median, unless the finest quantizer needs less. Frames of a few hundred bytes
    /// may fill less, because modes and vectors take most of those. If even the coarsest quantizer exceeds the budget,
    /// it returns the smallest frame that it found.
    ///
    /// It runs at most six passes. `lab: 2026-11-notes-vp8`.
    #[must_use]
    pub fn encode_to_fit(&self, budget: usize) -> Encoded {
        let mut fitting = Fitting::new(Cow::Borrowed(self), None);
        let mut frames = Vec::with_capacity(PASSES + 2);
        while frames.len() < PASSES && !fitting.is_filled(budget) {
            frames.push(fitting.pass(budget));
        }
        let coarsest_tried = fitting.coded.iter().any(|&(quantizer, _)| quantizer == MAX_QUANTIZER);
        if !fitting.fits(budget) && !coarsest_tried {
            frames.push(fitting.safe_pass(budget));
        }
        if !fitting.fits(budget) {
            // A plain frame may be smaller than a steered one of the same quantizer.
            frames.push(self.encode(MAX_QUANTIZER));
        }
        let fits = |encoded: &Encoded| encoded.frame.len() <= budget;
        if !frames.iter().any(fits) {
            let size = |encoded: &Encoded| encoded.frame.len();
            return frames.into_iter().min_by_key(size).expect("a first pass was coded");
        }
        frames.retain(fits);
        if frames.len() == 1 {
            return frames.swap_remove(0);
        }
        frames.into_iter().min_by_key(|encoded| self.squared_error(encoded)).expect("a frame fits")
    }
}
