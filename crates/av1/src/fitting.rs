//! Passes towards a budget, and the size model that they follow and teach.

use lockstep_units::ByteCount;

use crate::aom::MAX_QUANTIZER;

/// Finest of libaom's quantizers in calls.
pub(crate) const FINEST: u8 = 3;
/// Fall of the size per quantizer before any pass, as a binary logarithm. `lab: 2026-11-av1-slots`.
const FIRST_FALL: f64 = 0.1;
/// Range of the fall per quantizer. Where the step passes the camera's noise, frames shrink by half.
const FALLS: [f64; 2] = [0.01, 2.0];
/// Largest ratio of a picture's fall to that of the model, from two passes on one side of the budget.
const MAX_STEEPNESS: f64 = 4.0;
/// Share of an error that the model learns.
const LEARNED: f64 = 0.5;
/// Smallest size that counts, bytes.
const MIN_SIZE: f64 = 32.0;

/// Fall of a frame's size from each of libaom's quantizers to the next one, as a binary logarithm.
///
/// Two passes of one picture differ in nothing but the quantizer, so each pair of passes teaches the falls between.
#[derive(Debug, Clone)]
pub(crate) struct SizeModel {
    falls: [f64; MAX_QUANTIZER as usize],
}

impl Default for SizeModel {
    fn default() -> Self {
        Self { falls: [FIRST_FALL; MAX_QUANTIZER as usize] }
    }
}

impl SizeModel {
    /// Fall from the finer quantizer `from` to `to`.
    fn fall(&self, from: u8, to: u8) -> f64 {
        self.falls[usize::from(from)..usize::from(to)].iter().sum()
    }

    /// Ratio of the fall between two passes to that of the model.
    fn steepness(&self, one: Pass, other: Pass) -> f64 {
        let (finer, coarser) = in_order(one, other);
        (finer.bits - coarser.bits) / self.fall(finer.quantizer, coarser.quantizer).max(FALLS[0])
    }

    /// Learns from two passes of one picture.
    fn learn(&mut self, one: Pass, other: Pass) {
        let (finer, coarser) = in_order(one, other);
        let range = usize::from(finer.quantizer)..usize::from(coarser.quantizer);
        let error = finer.bits - coarser.bits - self.fall(finer.quantizer, coarser.quantizer);
        let share = LEARNED * error / range.len().max(1) as f64;
        self.falls[range].iter_mut().for_each(|fall| *fall = (*fall + share).clamp(FALLS[0], FALLS[1]));
    }
}

/// A pass: its quantizer, and the binary logarithm of its size.
#[derive(Debug, Clone, Copy)]
struct Pass {
    quantizer: u8,
    bits: f64,
}

/// Two passes, the one with the finer quantizer first.
fn in_order(one: Pass, other: Pass) -> (Pass, Pass) {
    if one.quantizer < other.quantizer { (one, other) } else { (other, one) }
}

/// Passes of one picture.
#[derive(Debug)]
pub(crate) struct Passes {
    first: u8,
    coded: Vec<Pass>,
}

/// Binary logarithm of a size in bytes.
fn bits(size: f64) -> f64 {
    size.max(MIN_SIZE).log2()
}

impl Passes {
    /// No pass; the first one has the quantizer `first`.
    pub(crate) fn new(first: u8) -> Self {
        Self { first, coded: Vec::new() }
    }

    /// Quantizer of the next pass: the finest one whose frame should fit `budget`. That of a pass if no other can be
    /// better.
    pub(crate) fn next(&self, model: &SizeModel, budget: ByteCount) -> u8 {
        let budget = bits(budget.as_f64());
        let (within, above): (Vec<Pass>, Vec<Pass>) = self.coded.iter().partition(|pass| pass.bits <= budget);
        let within = within.into_iter().min_by_key(|pass| pass.quantizer);
        let above = above.into_iter().max_by_key(|pass| pass.quantizer);
        let finest = above.map_or(FINEST, |above| above.quantizer.saturating_add(1));
        let coarsest = within.map_or(MAX_QUANTIZER, |within| within.quantizer.saturating_sub(1));
        if finest > coarsest {
            return within.map_or(MAX_QUANTIZER, |within| within.quantizer);
        }
        // How much steeper than the model this picture is: through the passes around the budget, else the last two.
        let steepness = match (above, within, &self.coded[..]) {
            (Some(above), Some(within), _) => model.steepness(above, within),
            (.., &[.., one, other]) => model.steepness(one, other).clamp(1.0 / MAX_STEEPNESS, MAX_STEEPNESS),
            _ => 1.0,
        };
        let fit = |quantizer: u8| match (above, within) {
            (Some(above), _) => above.bits - steepness * model.fall(above.quantizer, quantizer) <= budget,
            (None, Some(within)) => within.bits + steepness * model.fall(quantizer, within.quantizer) <= budget,
            (None, None) => quantizer >= self.first,
        };
        (finest..=coarsest).find(|&quantizer| fit(quantizer)).unwrap_or(coarsest)
    }

    /// Records a pass, and teaches the model.
    pub(crate) fn add(&mut self, model: &mut SizeModel, quantizer: u8, size: ByteCount) {
        let pass = Pass { quantizer, bits: bits(size.as_f64()) };
        if let Some(&before) = self.coded.last() {
            model.learn(before, pass);
        }
        self.coded.push(pass);
    }

    /// Whether no other quantizer is better for `budget` than those of the passes.
    pub(crate) fn is_filled(&self, model: &SizeModel, budget: ByteCount) -> bool {
        let next = self.next(model, budget);
        self.coded.iter().any(|pass| pass.quantizer == next)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Number of passes until none is better, and the last choice.
    fn fitted(model: &mut SizeModel, size_at: impl Fn(u8) -> f64, first: u8, budget: f64) -> (usize, u8) {
        let (mut passes, budget) = (Passes::new(first), ByteCount::new(budget as u64));
        loop {
            let next = passes.next(model, budget);
            if passes.coded.iter().any(|pass| pass.quantizer == next) {
                return (passes.coded.len(), next);
            }
            passes.add(model, next, ByteCount::new(size_at(next) as u64));
        }
    }

    /// Sizes of a picture with noise: a steep drop around quantizer 12.
    fn noisy(scale: f64, quantizer: u8) -> f64 {
        let quantizer = f64::from(quantizer);
        let cliff = 1.0 / (1.0 + ((quantizer - 12.0) / 1.5).exp());
        scale * (-quantizer / 10.0).exp2() * (0.04 + 0.96 * cliff)
    }

    #[test]
    fn model_of_a_steep_drop_is_learned_from_passes() {
        let mut model = SizeModel::default();
        let mut passes = |number: u32| {
            let (scale, budget) = (6e4 + 3e3 * f64::from(number % 7), 1e3 * f64::from(2 + number % 9));
            let first = 8 + (number * 5 % 14) as u8;
            let (passes, quantizer) = fitted(&mut model, |quantizer| noisy(scale, quantizer), first, budget);
            let best = (FINEST..=MAX_QUANTIZER).find(|&quantizer| noisy(scale, quantizer).floor() <= budget);
            assert_eq!(Some(quantizer), best);
            passes as f64
        };
        (0..40).for_each(|number| {
            passes(number);
        });
        let mean = (40..140).map(passes).sum::<f64>() / 100.0;
        assert!(mean < 3.2, "{mean} passes");
    }

    proptest! {
        #[test]
        fn passes_end_at_the_finest_quantizer_that_fits(
            first in FINEST..=MAX_QUANTIZER,
            budget in 100.0f64..1e6,
            halving in 4.0f64..20.0,
            most in 1e2f64..1e6,
        ) {
            let size_at = |quantizer: u8| most * (-f64::from(quantizer) / halving).exp2();
            let (passes, quantizer) = fitted(&mut SizeModel::default(), size_at, first, budget);
            let best = (FINEST..=MAX_QUANTIZER).find(|&quantizer| size_at(quantizer).floor() <= budget.floor());
            prop_assert_eq!(quantizer, best.unwrap_or(MAX_QUANTIZER));
            prop_assert!(passes <= 8, "{} passes", passes);
        }

        #[test]
        fn passes_end_for_any_sizes(
            first in FINEST..=MAX_QUANTIZER,
            budget in 0.0f64..1e6,
            sizes in proptest::collection::vec(0.0f64..1e6, 64),
        ) {
            let mut model = SizeModel::default();
            let (passes, _) = fitted(&mut model, |quantizer| sizes[usize::from(quantizer)], first, budget);
            prop_assert!(passes <= 64);
            prop_assert!(model.falls.iter().all(|fall| (FALLS[0]..=FALLS[1]).contains(fall)));
        }
    }
}
