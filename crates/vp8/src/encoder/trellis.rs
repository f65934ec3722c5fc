//! Trellis quantization: chooses the levels of a block with the lowest rate-distortion cost.
//!
//! The cost of a token depends on the previous token. So the best levels are the cheapest path through a trellis: one
//! step per zigzag position, one node per context of the next token.

use super::forward_quantizer::ForwardQuantizer;
use super::packed_token::BlockKind;
use super::rate_distortion::Lagrangian;
use super::tokens::TokenCosts;
use crate::tables::ZIGZAG;

/// Weights of bits in the trellis for key frames and interframes, in 1/16 of the weight in mode decisions.
///
/// Key frames have a lower weight, because detail that they lose is missing in all following frames.
/// `lab: 2026-11-effort`.
const KEY_BIT_WEIGHT: u64 = 8;
const INTER_BIT_WEIGHT: u64 = 16;

/// Parameters of trellis quantization.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Trellis<'a> {
    token_costs: &'a TokenCosts,
    /// Cost of 256 bits by [`Lagrangian::squared`].
    bit: u64,
}

/// Contexts: the previous token is zero, one or more. At the first position, the number of neighbours with
/// coefficients.
const NODES: usize = 3;

/// Last step of the cheapest path to a node: the node before, and the magnitude of the level between.
#[derive(Debug, Clone, Copy, Default)]
struct Step {
    before: u8,
    magnitude: u16,
}

/// Cost of an unreachable node.
const NOWHERE: u64 = u64::MAX;

/// Coefficients of one block, and their context.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block<'a> {
    pub(crate) kind: BlockKind,
    /// Number of neighbours, above and to the left, that have coefficients.
    pub(crate) context: u8,
    /// Ratio of squared coefficients to squared samples.
    pub(crate) square: u32,
    pub(crate) coefficients: &'a [i16; 16],
}

impl<'a> Trellis<'a> {
    pub(crate) fn new(token_costs: &'a TokenCosts, lagrangian: &Lagrangian, key_frame: bool) -> Self {
        let weight = if key_frame { KEY_BIT_WEIGHT } else { INTER_BIT_WEIGHT };
        Self { token_costs, bit: lagrangian.squared(0, 1 << 16) * weight / 16 }
    }

    /// Chooses the levels of a block and stores the decoder's dequantized values in `restored`. Returns the zigzag
    /// position after the last nonzero level, or 0 if there is none.
    pub(crate) fn quantize(
        &self,
        block: &Block<'_>,
        quantizer: &ForwardQuantizer,
        levels: &mut [i16; 16],
        restored: &mut [i16; 16],
    ) -> u8 {
        let Block { kind, context, square, coefficients } = *block;
        (*levels, *restored) = ([0; 16], [0; 16]);
        let first = kind.first();
        // Early exit for most blocks, with all sixteen coefficients at once.
        let all_small = coefficients.iter().zip(&quantizer.step).fold(true, |small, (coefficient, step)| {
            small & (2 * u32::from(coefficient.unsigned_abs()) < u32::from(step.unsigned_abs()))
        });
        if all_small {
            return 0;
        }
        let nearest: [u16; 16] = std::array::from_fn(|position| {
            let at = usize::from(ZIGZAG[position]);
            quantizer.nearest(at, coefficients[at])
        });
        let Some(last) = (first..16).rev().find(|&position| nearest[position] > 0) else { return 0 };
        let error_weight = u64::from(256 / square);
        let bits_cost = |bits: u32| (u64::from(bits) * self.bit) >> 16;
        let error_cost = |error: i64| (error * error) as u64 * error_weight;
        let zero_cost = |position: usize| error_cost(i64::from(coefficients[usize::from(ZIGZAG[position])]));
        // Error of the remaining coefficients if the block ends here. Errors that all paths share are not counted.
        let mut dropped: u64 = (first..=last).map(zero_cost).sum();
        let mut costs = [NOWHERE; NODES];
        costs[usize::from(context)] = 0;
        let mut steps = [[Step::default(); NODES]; 16];
        let end = |position: usize, node: usize| match position {
            16 => 0,
            _ => bits_cost(self.token_costs.end(kind, position, node)),
        };
        let mut best = (dropped + end(first, usize::from(context)), first, 0);
        for position in first..=last {
            let at = usize::from(ZIGZAG[position]);
            let coefficient = i64::from(coefficients[at].unsigned_abs());
            let (high, step) = (nearest[position], i64::from(quantizer.step[at]));
            let mut next = [NOWHERE; NODES];
            let mut offer = |magnitude: u16| {
                let error = error_cost(coefficient - i64::from(magnitude) * step);
                let node = usize::from(magnitude.min(2));
                for (before, &cost) in costs.iter().enumerate().filter(|&(_, &cost)| cost < NOWHERE) {
                    let after_zero = position > first && before == 0;
                    let bits = self.token_costs.level(kind, position, before, after_zero, magnitude);
                    let cost = cost + error + bits_cost(bits);
                    if cost < next[node] {
                        next[node] = cost;
                        steps[position][node] = Step { before: before as u8, magnitude };
                    }
                }
            };
            offer(0);
            if high > 0 {
                offer(high);
            }
            if high > 1 {
                offer(high - 1);
            }
            costs = next;
            dropped -= zero_cost(position);
            // A block ends only after a nonzero level.
            for (node, &cost) in costs.iter().enumerate().skip(1).filter(|&(_, &cost)| cost < NOWHERE) {
                let cost = cost + dropped + end(position + 1, node);
                if cost < best.0 {
                    best = (cost, position + 1, node);
                }
            }
        }
        let (_, end, mut node) = best;
        if end == first {
            return 0;
        }
        for position in (first..end).rev() {
            let at = usize::from(ZIGZAG[position]);
            let Step { before, magnitude } = steps[position][node];
            let level = magnitude as i16;
            levels[at] = if coefficients[at] < 0 { -level } else { level };
            restored[at] = levels[at].wrapping_mul(quantizer.step[at]);
            node = usize::from(before);
        }
        end as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoder::frame_quantizers::FrameQuantizers;
    use crate::encoder::packed_token::end_of;
    use crate::encoder::packed_tokens::PackedTokens;
    use crate::header::QuantizerIndices;
    use crate::quantization::Steps;
    use crate::tables::DEFAULT_COEFFICIENT_PROBABILITIES;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn trellis_levels_cost_at_most_rounded_levels(
            kind in 0usize..4,
            context in 0u8..3,
            base in 0u8..128,
            key_frame: bool,
            mut coefficients in proptest::array::uniform16(prop_oneof![
                6 => -40i16..=40, 3 => -400i16..=400, 1 => -16_000i16..=16_000,
            ]),
        ) {
            let kind = [BlockKind::LumaWithoutDc, BlockKind::SecondOrder, BlockKind::Chroma, BlockKind::Luma][kind];
            if kind == BlockKind::LumaWithoutDc {
                coefficients[0] = 0;
            }
            let steps = Steps::new(base, &QuantizerIndices { base, ..QuantizerIndices::default() });
            let quantizers = FrameQuantizers::new(&steps, key_frame);
            let (quantizer, square) = match kind {
                BlockKind::SecondOrder => (&quantizers.second_order, 16),
                BlockKind::Chroma => (&quantizers.chroma, 4),
                _ => (&quantizers.luma, 4),
            };
            let token_costs = TokenCosts::new(&DEFAULT_COEFFICIENT_PROBABILITIES);
            let trellis = Trellis::new(&token_costs, &Lagrangian::new(steps.luma[1], key_frame, true), key_frame);
            let block = Block { kind, context, square, coefficients: &coefficients };
            let (mut chosen, mut restored) = ([0; 16], [0; 16]);
            let end = trellis.quantize(&block, quantizer, &mut chosen, &mut restored);
            prop_assert_eq!(usize::from(end), end_of(&chosen));
            for at in 0..16 {
                prop_assert_eq!(restored[at], chosen[at].wrapping_mul(quantizer.step[at]));
                prop_assert!(i32::from(chosen[at]) * i32::from(coefficients[at]) >= 0, "a sign changed");
            }
            let (mut rounded, mut rounded_restored) = ([0; 16], [0; 16]);
            let rounded_end = quantizer.quantize(&coefficients, &mut rounded, &mut rounded_restored);
            let cost = |levels: &[i16; 16], restored: &[i16; 16], end: u8| {
                let mut tokens = PackedTokens::default();
                tokens.append(kind, &[*levels], &[end], &[context]);
                let errors = coefficients.iter().zip(restored).map(|(&coefficient, &restored)| {
                    (i64::from(coefficient) - i64::from(restored)).pow(2) as u64 * u64::from(256 / square)
                });
                errors.sum::<u64>() + ((u64::from(token_costs.of(tokens.all())) * trellis.bit) >> 16)
            };
            // The bits of each token are rounded down separately.
            let rounding = 17;
            prop_assert!(
                cost(&chosen, &restored, end) <= cost(&rounded, &rounded_restored, rounded_end) + rounding,
                "{chosen:?} instead of {rounded:?}"
            );
        }
    }
}
