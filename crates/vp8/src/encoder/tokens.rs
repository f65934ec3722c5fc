//! Coefficient tokens (RFC 6386, section 13): their costs, recording, counts and writing.

use std::ops::Range;

use super::bit_cost::{BIT, bit_cost, branch_cost, fitting_probability};
use super::bool_encoder::BoolEncoder;
use super::packed_token::{
    BlockKind, END_OF_BLOCK, FIRST_CATEGORY, INDICES, PackedToken, ROWS, TOKENS, row_of, token_of,
};
use crate::tables::{CATEGORY_BASES, CATEGORY_PROBABILITIES, COEFFICIENT_UPDATE_PROBABILITIES};

/// Coefficient probabilities by block type, band, context and tree node.
pub(crate) type CoefficientProbabilities = [[[[u8; 11]; 3]; 8]; 4];

/// Path through the token tree to each token, from the root: (node, branch). After a zero the path starts at the second
/// step, because a block cannot end there.
const PATHS: [&[(usize, bool)]; TOKENS] = {
    const F: bool = false;
    const T: bool = true;
    [
        &[(0, T), (1, F)],
        &[(0, T), (1, T), (2, F)],
        &[(0, T), (1, T), (2, T), (3, F), (4, F)],
        &[(0, T), (1, T), (2, T), (3, F), (4, T), (5, F)],
        &[(0, T), (1, T), (2, T), (3, F), (4, T), (5, T)],
        &[(0, T), (1, T), (2, T), (3, T), (6, F), (7, F)],
        &[(0, T), (1, T), (2, T), (3, T), (6, F), (7, T)],
        &[(0, T), (1, T), (2, T), (3, T), (6, T), (8, F), (9, F)],
        &[(0, T), (1, T), (2, T), (3, T), (6, T), (8, F), (9, T)],
        &[(0, T), (1, T), (2, T), (3, T), (6, T), (8, T), (10, F)],
        &[(0, T), (1, T), (2, T), (3, T), (6, T), (8, T), (10, T)],
        &[(0, F)],
    ]
};

/// Cost of the sign and extra bits of a coefficient with this magnitude.
const fn extra_cost(magnitude: u16) -> u32 {
    if magnitude == 0 {
        return 0;
    }
    let token = token_of(magnitude);
    let mut cost = BIT;
    if token >= FIRST_CATEGORY {
        let category = token - FIRST_CATEGORY;
        let probabilities = CATEGORY_PROBABILITIES[category];
        let extra = magnitude - CATEGORY_BASES[category];
        let mut bit = 0;
        while bit < probabilities.len() {
            let set = (extra >> (probabilities.len() - 1 - bit)) & 1 == 1;
            cost += bit_cost(set, probabilities[bit]);
            bit += 1;
        }
    }
    cost
}

/// [`extra_cost`] of all magnitudes.
static EXTRA_COSTS: [u16; 2048] = {
    let mut costs = [0; 2048];
    let mut magnitude = 0;
    while magnitude < costs.len() {
        costs[magnitude] = extra_cost(magnitude as u16) as u16;
        magnitude += 1;
    }
    costs
};

/// Cost of every token in every context with given probabilities.
#[derive(Debug, Clone)]
pub(crate) struct TokenCosts {
    /// Indexed by [`PackedToken::index`].
    costs: Box<[u16; INDICES]>,
}

impl Default for TokenCosts {
    /// All costs are zero.
    fn default() -> Self {
        Self { costs: Box::new([0; INDICES]) }
    }
}

/// Cost of every token after a zero: the paths of [`PATHS`], with shared parts summed once.
#[inline]
fn costs_after_zero(probabilities: &[u8; 11]) -> [u16; TOKENS] {
    let [falses, trues] = [false, true].map(|bit| probabilities.map(|probability| bit_cost(bit, probability) as u16));
    let two = trues[1] + trues[2];
    let (small, large) = (two + falses[3], two + trues[3]);
    let (category_1, category_3) = (large + falses[6], large + trues[6]);
    let (category_3, category_5) = (category_3 + falses[8], category_3 + trues[8]);
    [
        falses[1],
        trues[1] + falses[2],
        small + falses[4],
        small + trues[4] + falses[5],
        small + trues[4] + trues[5],
        category_1 + falses[7],
        category_1 + trues[7],
        category_3 + falses[9],
        category_3 + trues[9],
        category_5 + falses[10],
        category_5 + trues[10],
        0,
    ]
}

impl TokenCosts {
    /// Computes the costs with these probabilities.
    pub(crate) fn new(probabilities: &CoefficientProbabilities) -> Self {
        let mut costs = Self::default();
        for (row, probabilities) in probabilities.iter().flatten().flatten().enumerate() {
            let after_zero = costs_after_zero(probabilities);
            let more = bit_cost(true, probabilities[0]) as u16;
            for (token, cost) in after_zero.into_iter().enumerate() {
                costs.costs[PackedToken::new(row, token, true, 0).index()] = cost;
                let usual = if token == END_OF_BLOCK { bit_cost(false, probabilities[0]) as u16 } else { cost + more };
                costs.costs[PackedToken::new(row, token, false, 0).index()] = usual;
            }
        }
        costs
    }

    /// Cost of a level with this magnitude at a zigzag position of a block, including its sign. `context` is that of
    /// the previous token or, at the first position, that of the block's neighbours.
    #[inline]
    pub(crate) fn level(
        &self,
        kind: BlockKind,
        position: usize,
        context: usize,
        after_zero: bool,
        magnitude: u16,
    ) -> u32 {
        let token = PackedToken::new(row_of(kind, position, context), token_of(magnitude), after_zero, 0);
        u32::from(self.costs[token.index()]) + u32::from(EXTRA_COSTS[usize::from(magnitude) % EXTRA_COSTS.len()])
    }

    /// Cost of ending a block before a zigzag position.
    #[inline]
    pub(crate) fn end(&self, kind: BlockKind, position: usize, context: usize) -> u32 {
        let token = PackedToken::new(row_of(kind, position, context), END_OF_BLOCK, false, 0);
        u32::from(self.costs[token.index()])
    }

    /// Cost of these tokens.
    #[inline]
    pub(crate) fn of(&self, tokens: &[PackedToken]) -> u32 {
        // The remainder never changes a magnitude, which has eleven bits. It removes a bounds check.
        let cost = |token: &PackedToken| {
            u32::from(self.costs[token.index()]) + u32::from(EXTRA_COSTS[token.magnitude() % EXTRA_COSTS.len()])
        };
        tokens.iter().map(cost).sum()
    }
}

/// Tokens of the rows of macroblocks that one lane codes (`lanes`).
#[derive(Debug)]
pub(crate) struct LaneTokens {
    tokens: Vec<PackedToken>,
    /// The rows in order, and the number of tokens at the end of each.
    ends: Vec<(usize, usize)>,
}

impl LaneTokens {
    /// Starts with no row. `tokens` is an empty vector to fill.
    pub(crate) fn new(tokens: Vec<PackedToken>) -> Self {
        Self { tokens, ends: Vec::new() }
    }

    /// Appends the tokens of a macroblock.
    #[inline]
    pub(crate) fn push(&mut self, tokens: &[PackedToken]) {
        self.tokens.extend_from_slice(tokens);
    }

    /// Ends `row`.
    pub(crate) fn end_row(&mut self, row: usize) {
        self.ends.push((row, self.tokens.len()));
    }
}

/// Counts of a frame's tokens by row of probabilities.
#[derive(Debug)]
pub(crate) struct TokenCounts {
    counts: Box<[[u32; TOKENS]; ROWS]>,
    /// Number of tokens that follow a zero.
    after_zero: Box<[u32; ROWS]>,
}

/// Tokens of a frame.
#[derive(Debug)]
pub(crate) struct TokenBuffer {
    lanes: Vec<Vec<PackedToken>>,
    /// For each row, its lane and its part of the lane's tokens.
    rows: Vec<(usize, Range<usize>)>,
}

impl TokenBuffer {
    /// The tokens of all rows, each from one of the lanes.
    pub(crate) fn new(lanes: Vec<LaneTokens>) -> Self {
        let mut rows = vec![(0, 0..0); lanes.iter().map(|lane| lane.ends.len()).sum()];
        for (lane, LaneTokens { ends, .. }) in lanes.iter().enumerate() {
            let mut start = 0;
            for &(row, end) in ends {
                rows[row] = (lane, start..end);
                start = end;
            }
        }
        Self { lanes: lanes.into_iter().map(|lane| lane.tokens).collect(), rows }
    }

    /// The tokens in coding order, row by row.
    fn rows(&self) -> impl Iterator<Item = &[PackedToken]> {
        self.rows.iter().map(|(lane, part)| &self.lanes[*lane][part.clone()])
    }

    /// Counts the tokens.
    pub(crate) fn count(&self) -> TokenCounts {
        let mut by_index = Box::new([0u32; INDICES]);
        for row in self.rows() {
            for token in row {
                by_index[token.index()] += 1;
            }
        }
        let mut counted = TokenCounts { counts: Box::new([[0; TOKENS]; ROWS]), after_zero: Box::new([0; ROWS]) };
        for (row, (counts, after_zero)) in counted.counts.iter_mut().zip(counted.after_zero.iter_mut()).enumerate() {
            for (token, count) in counts.iter_mut().enumerate() {
                let [usual, after] =
                    [false, true].map(|after| by_index[PackedToken::new(row, token, after, 0).index()]);
                *count = usual + after;
                *after_zero += after;
            }
        }
        counted
    }

    /// Number of tokens.
    pub(crate) fn len(&self) -> usize {
        self.lanes.iter().map(Vec::len).sum()
    }

    /// Returns the vectors of tokens.
    pub(crate) fn into_tokens(self) -> impl Iterator<Item = Vec<PackedToken>> {
        self.lanes.into_iter()
    }

    /// Writes all tokens.
    pub(crate) fn write(&self, mut writer: BoolEncoder, probabilities: &CoefficientProbabilities) -> BoolEncoder {
        let mut rows = [[0u8; 11]; 128];
        for (row, probabilities) in rows.iter_mut().zip(probabilities.iter().flatten().flatten()) {
            *row = *probabilities;
        }
        for row in self.rows() {
            for &packed in row {
                let p = &rows[packed.row() % rows.len()];
                let token = packed.token();
                if !packed.follows_zero() {
                    writer.write(token != END_OF_BLOCK, p[0]);
                    if token == END_OF_BLOCK {
                        continue;
                    }
                }
                writer.write(token != 0, p[1]);
                if token == 0 {
                    continue;
                }
                writer.write(token != 1, p[2]);
                if token > 1 {
                    for &(node, bit) in &PATHS[token][3..] {
                        writer.write(bit, p[node]);
                    }
                    if token >= FIRST_CATEGORY {
                        let category = token - FIRST_CATEGORY;
                        let extra = packed.magnitude() - usize::from(CATEGORY_BASES[category]);
                        let probabilities = CATEGORY_PROBABILITIES[category];
                        for (bit, &probability) in probabilities.iter().enumerate() {
                            writer.write(extra >> (probabilities.len() - 1 - bit) & 1 == 1, probability);
                        }
                    }
                }
                writer.write(packed.is_negative(), 128);
            }
        }
        writer
    }
}

impl TokenCounts {
    /// Chooses and writes the probability updates (RFC 6386, section 13.4). A probability changes if that saves bits in
    /// this frame.
    pub(crate) fn write_updates(&self, writer: &mut BoolEncoder, probabilities: &mut CoefficientProbabilities) {
        let rows = probabilities.iter_mut().flatten().flatten();
        let updates = COEFFICIENT_UPDATE_PROBABILITIES.iter().flatten().flatten();
        for ((row, probabilities), update_probabilities) in rows.enumerate().zip(updates) {
            let branches = self.branches(row);
            for node in 0..11 {
                let [falses, trues] = branches[node];
                let old = probabilities[node];
                let new = fitting_probability(falses, trues);
                let flag = update_probabilities[node];
                let change = u64::from(bit_cost(true, flag) + 8 * BIT);
                let update = falses + trues > 0
                    && new != old
                    && branch_cost(falses, trues, new) + change
                        < branch_cost(falses, trues, old) + u64::from(bit_cost(false, flag));
                writer.write(update, flag);
                if update {
                    writer.write_literal(u32::from(new), 8);
                    probabilities[node] = new;
                }
            }
        }
    }

    /// Counts of both branches of each node of the token tree.
    fn branches(&self, row: usize) -> [[u32; 2]; 11] {
        let mut branches = [[0; 2]; 11];
        for (path, count) in PATHS.iter().zip(self.counts[row]) {
            if count > 0 {
                for &(node, bit) in *path {
                    branches[node][usize::from(bit)] += count;
                }
            }
        }
        branches[0][1] -= self.after_zero[row];
        branches
    }
}

#[cfg(test)]
mod tests {
    use super::super::packed_token::end_of;
    use super::super::packed_tokens::PackedTokens;
    use super::*;
    use crate::tables::DEFAULT_COEFFICIENT_PROBABILITIES;
    use crate::tables::ZIGZAG;
    use proptest::prelude::*;

    fn end(levels: &[i16; 16]) -> usize {
        (0..16).rev().find(|&position| levels[ZIGZAG[position] as usize] != 0).map_or(0, |position| position + 1)
    }

    fn packed(kind: BlockKind, context: usize, levels: &[i16; 16]) -> PackedTokens {
        let mut packed = PackedTokens::default();
        packed.append(kind, &[*levels], &[end(levels) as u8], &[context as u8]);
        packed
    }

    proptest! {
        #[test]
        fn cost_of_a_block_matches_its_written_bits(
            blocks in proptest::collection::vec(
                (0usize..4, 0usize..3, proptest::array::uniform16(prop_oneof![
                    3 => Just(0i16), 2 => -4i16..=4, 1 => -100i16..=100, 1 => -2047i16..=2047,
                ])),
                20..60,
            )
        ) {
            let kinds = [BlockKind::LumaWithoutDc, BlockKind::SecondOrder, BlockKind::Chroma, BlockKind::Luma];
            let costs = TokenCosts::new(&DEFAULT_COEFFICIENT_PROBABILITIES);
            let mut lane = LaneTokens::new(Vec::new());
            let mut cost = 0;
            for (kind, context, mut levels) in blocks {
                if kind == 0 {
                    levels[0] = 0;
                }
                prop_assert_eq!(end_of(&levels), end(&levels));
                let block = packed(kinds[kind], context, &levels);
                cost += costs.of(block.all());
                lane.push(block.all());
            }
            lane.end_row(0);
            let tokens = TokenBuffer::new(vec![lane]);
            let writer = tokens.write(BoolEncoder::with_capacity(0), &DEFAULT_COEFFICIENT_PROBABILITIES);
            let bits = 8.0 * writer.finish().len() as f64;
            let expected = f64::from(cost) / 256.0;
            prop_assert!((bits - expected).abs() < 24.0 + expected / 20.0, "{bits} bits, expected {expected}");
        }
    }

    #[test]
    fn cost_of_a_token_matches_its_path() {
        let costs = TokenCosts::new(&DEFAULT_COEFFICIENT_PROBABILITIES);
        for (row, p) in DEFAULT_COEFFICIENT_PROBABILITIES.iter().flatten().flatten().enumerate() {
            for (token, path) in PATHS.iter().enumerate() {
                let cost = |path: &[(usize, bool)]| path.iter().map(|&(node, bit)| bit_cost(bit, p[node])).sum::<u32>();
                let costed = |after_zero| u32::from(costs.costs[PackedToken::new(row, token, after_zero, 0).index()]);
                assert_eq!(costed(false), cost(path));
                assert_eq!(costed(true), cost(&path[1..]));
            }
        }
    }

    #[test]
    fn probability_updates_reduce_the_frame_size() {
        let mut lane = LaneTokens::new(Vec::new());
        let mut levels = [0; 16];
        for index in 0..3000 {
            levels[0] = index % 3 - 1;
            levels[5] = i16::from(index % 7 == 0) * 9;
            lane.push(packed(BlockKind::Luma, 0, &levels).all());
        }
        lane.end_row(0);
        let tokens = TokenBuffer::new(vec![lane]);
        let mut adapted = DEFAULT_COEFFICIENT_PROBABILITIES;
        let size = |probabilities: &CoefficientProbabilities| {
            tokens.write(BoolEncoder::with_capacity(0), probabilities).finish().len()
        };
        let mut writer = BoolEncoder::with_capacity(0);
        tokens.count().write_updates(&mut writer, &mut adapted);
        assert!(adapted != DEFAULT_COEFFICIENT_PROBABILITIES);
        assert!(writer.finish().len() + size(&adapted) < size(&DEFAULT_COEFFICIENT_PROBABILITIES));
    }
}
