//! Coefficients as tokens (RFC 6386, section 13): costing them, recording and counting them, writing them.

use super::bit_cost::{BIT, bit_cost, branch_cost, fitting_probability};
use super::bool_encoder::BoolEncoder;
use crate::tables::{COEFFICIENT_BANDS, COEFFICIENT_UPDATE_PROBABILITIES, ZIGZAG};

/// Coefficient probabilities by block kind, band, context and tree node.
pub(crate) type CoefficientProbabilities = [[[[u8; 11]; 3]; 8]; 4];

/// What a block of coefficients stands for; the number is the first index of the probabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockKind {
    /// Luma whose DC travels in the macroblock's second-order block.
    LumaWithoutDc = 0,
    /// The second-order block of luma DCs.
    SecondOrder = 1,
    /// Either chroma plane.
    Chroma = 2,
    /// Luma with its DC (macroblocks coded subblock by subblock).
    Luma = 3,
}

impl BlockKind {
    /// The zigzag position of the first coefficient that is coded.
    #[inline]
    pub(crate) fn first(self) -> usize {
        usize::from(self == Self::LumaWithoutDc)
    }
}

const TOKENS: usize = 12;
const END_OF_BLOCK: usize = 11;
const FIRST_CATEGORY: usize = 5;
/// Block kinds, bands and contexts as one index.
const ROWS: usize = 4 * 8 * 3;

/// The way through the token tree to each token, from the root: (node, branch). After a zero it starts at the second
/// step, for a block cannot end there.
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

/// The smallest magnitude of each of the six categories, and the probabilities of its extra bits.
const CATEGORIES: [(u16, &[u8]); 6] = [
    (5, &[159]),
    (7, &[165, 145]),
    (11, &[173, 148, 140]),
    (19, &[176, 155, 140, 135]),
    (35, &[180, 157, 141, 134, 130]),
    (67, &[254, 254, 243, 230, 196, 177, 153, 140, 133, 130, 129]),
];

/// The token of a coefficient of this magnitude.
#[inline]
const fn token_of(magnitude: u16) -> usize {
    match magnitude {
        0..=4 => magnitude as usize,
        5..=6 => 5,
        7..=10 => 6,
        11..=18 => 7,
        19..=34 => 8,
        35..=66 => 9,
        _ => 10,
    }
}

/// The cost of sign and extra bits of a coefficient of this magnitude.
const fn extra_cost(magnitude: u16) -> u32 {
    if magnitude == 0 {
        return 0;
    }
    let token = token_of(magnitude);
    let mut cost = BIT;
    if token >= FIRST_CATEGORY {
        let (base, probabilities) = CATEGORIES[token - FIRST_CATEGORY];
        let extra = magnitude - base;
        let mut bit = 0;
        while bit < probabilities.len() {
            let set = (extra >> (probabilities.len() - 1 - bit)) & 1 == 1;
            cost += bit_cost(set, probabilities[bit]);
            bit += 1;
        }
    }
    cost
}

/// Token and [`extra_cost`] of the magnitudes below the last category.
const SMALL: [(u8, u16); 67] = {
    let mut small = [(0, 0); 67];
    let mut magnitude = 0;
    while magnitude < 67 {
        small[magnitude] = (token_of(magnitude as u16) as u8, extra_cost(magnitude as u16) as u16);
        magnitude += 1;
    }
    small
};

#[inline]
fn token_and_extra_cost(magnitude: u16) -> (usize, u32) {
    match SMALL.get(usize::from(magnitude)) {
        Some(&(token, cost)) => (usize::from(token), u32::from(cost)),
        None => (10, extra_cost(magnitude)),
    }
}

#[inline]
fn row_of(kind: BlockKind, position: usize, context: usize) -> usize {
    (kind as usize * 8 + COEFFICIENT_BANDS[position] as usize) * 3 + context
}

/// The zigzag position after the last coefficient that is not zero; 0 where there is none.
#[inline]
pub(crate) fn end_of(levels: &[i16; 16]) -> usize {
    /// One more than the zigzag position of each raster position.
    const REACH: [i16; 16] = {
        let mut reach = [0; 16];
        let mut position = 0;
        while position < 16 {
            reach[ZIGZAG[position] as usize] = position as i16 + 1;
            position += 1;
        }
        reach
    };
    let mut end = 0;
    for (level, reach) in levels.iter().zip(REACH) {
        end = end.max(if *level == 0 { 0 } else { reach });
    }
    end as usize
}

/// What every token costs in every context, given the probabilities.
#[derive(Debug, Clone)]
pub(crate) struct TokenCosts {
    /// By "follows a zero", row and token.
    costs: Box<[[[u16; TOKENS]; ROWS]; 2]>,
}

impl Default for TokenCosts {
    /// Nothing costs anything.
    fn default() -> Self {
        Self { costs: Box::new([[[0; TOKENS]; ROWS]; 2]) }
    }
}

/// What every token costs after a zero: the ways of [`PATHS`], each part of which is summed once.
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
    /// The costs under these probabilities.
    pub(crate) fn new(probabilities: &CoefficientProbabilities) -> Self {
        let mut costs = Self::default();
        let [usual, after_zero] = &mut *costs.costs;
        let rows = probabilities.iter().flatten().flatten();
        for ((probabilities, usual), after_zero) in rows.zip(usual).zip(after_zero) {
            *after_zero = costs_after_zero(probabilities);
            let more = bit_cost(true, probabilities[0]) as u16;
            *usual = after_zero.map(|cost| cost + more);
            usual[END_OF_BLOCK] = bit_cost(false, probabilities[0]) as u16;
        }
        costs
    }

    /// The cost of one block: its quantized `levels` in raster order, of which none from zigzag position `end` on
    /// differs from zero. `context` counts the neighbours above and to the left that have coefficients.
    #[inline]
    pub(crate) fn block(&self, kind: BlockKind, context: usize, levels: &[i16; 16], end: usize) -> u32 {
        let mut context = context;
        let mut after_zero = 0;
        let mut total = 0;
        let first = kind.first();
        for position in first..end {
            let magnitude = levels[ZIGZAG[position] as usize].unsigned_abs();
            let (token, extra) = token_and_extra_cost(magnitude);
            total += u32::from(self.costs[after_zero][row_of(kind, position, context)][token]) + extra;
            context = usize::from(magnitude.min(2));
            after_zero = usize::from(magnitude == 0);
        }
        if end < 16 {
            total += u32::from(self.costs[0][row_of(kind, end.max(first), context)][END_OF_BLOCK]);
        }
        total
    }
}

/// The tokens of a frame in the order in which they are written, and how often each occurs.
#[derive(Debug)]
pub(crate) struct TokenBuffer {
    /// Row (7 bits), token (4), "follows a zero" (1), sign (1), extra bits (11), from the lowest bit.
    tokens: Vec<u32>,
    counts: Box<[[u32; TOKENS]; ROWS]>,
    /// Of those, the ones that follow a zero.
    after_zero: Box<[u32; ROWS]>,
}

impl TokenBuffer {
    /// An empty buffer; `tokens` is an empty vector for them.
    pub(crate) fn new(tokens: Vec<u32>) -> Self {
        Self { tokens, counts: Box::new([[0; TOKENS]; ROWS]), after_zero: Box::new([0; ROWS]) }
    }

    /// Appends one block; the arguments are those of [`TokenCosts::block`].
    #[inline]
    pub(crate) fn push_block(&mut self, kind: BlockKind, context: usize, levels: &[i16; 16], end: usize) {
        let mut context = context;
        let mut after_zero = false;
        let first = kind.first();
        for position in first..end {
            let level = levels[ZIGZAG[position] as usize];
            let magnitude = level.unsigned_abs();
            let token = token_of(magnitude);
            let extra = if token >= FIRST_CATEGORY { magnitude - CATEGORIES[token - FIRST_CATEGORY].0 } else { 0 };
            let row = row_of(kind, position, context);
            self.counts[row][token] += 1;
            self.after_zero[row] += u32::from(after_zero);
            self.tokens.push(
                row as u32
                    | (token as u32) << 7
                    | u32::from(after_zero) << 11
                    | u32::from(level < 0) << 12
                    | u32::from(extra) << 13,
            );
            context = usize::from(magnitude.min(2));
            after_zero = magnitude == 0;
        }
        if end < 16 {
            let row = row_of(kind, end.max(first), context);
            self.counts[row][END_OF_BLOCK] += 1;
            self.tokens.push(row as u32 | (END_OF_BLOCK as u32) << 7);
        }
    }

    /// Chooses which probabilities to update, and writes the choice (RFC 6386, section 13.4): a probability changes
    /// where this frame's tokens save more than the update costs.
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

    /// How often each node of the token tree was left by either branch.
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

    /// Tokens in the buffer.
    pub(crate) fn len(&self) -> usize {
        self.tokens.len()
    }

    /// What the tokens were kept in.
    pub(crate) fn into_tokens(self) -> Vec<u32> {
        self.tokens
    }

    /// Writes all tokens.
    pub(crate) fn write(&self, writer: &mut BoolEncoder, probabilities: &CoefficientProbabilities) {
        let rows: Vec<[u8; 11]> = probabilities.iter().flatten().flatten().copied().collect();
        for &packed in &self.tokens {
            let p = &rows[(packed & 127) as usize];
            let token = (packed >> 7 & 15) as usize;
            if packed >> 11 & 1 == 0 {
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
                    let extra = packed >> 13;
                    let probabilities = CATEGORIES[token - FIRST_CATEGORY].1;
                    for (bit, &probability) in probabilities.iter().enumerate() {
                        writer.write(extra >> (probabilities.len() - 1 - bit) & 1 == 1, probability);
                    }
                }
            }
            writer.write_flag(packed >> 12 & 1 == 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::DEFAULT_COEFFICIENT_PROBABILITIES;
    use proptest::prelude::*;

    fn end(levels: &[i16; 16]) -> usize {
        (0..16).rev().find(|&position| levels[ZIGZAG[position] as usize] != 0).map_or(0, |position| position + 1)
    }

    proptest! {
        #[test]
        fn a_block_costs_what_it_takes_to_write(
            blocks in proptest::collection::vec(
                (0usize..4, 0usize..3, proptest::array::uniform16(prop_oneof![
                    3 => Just(0i16), 2 => -4i16..=4, 1 => -100i16..=100, 1 => -2047i16..=2047,
                ])),
                20..60,
            )
        ) {
            let kinds = [BlockKind::LumaWithoutDc, BlockKind::SecondOrder, BlockKind::Chroma, BlockKind::Luma];
            let costs = TokenCosts::new(&DEFAULT_COEFFICIENT_PROBABILITIES);
            let mut tokens = TokenBuffer::new(Vec::new());
            let mut cost = 0;
            for (kind, context, mut levels) in blocks {
                if kind == 0 {
                    levels[0] = 0;
                }
                prop_assert_eq!(end_of(&levels), end(&levels));
                cost += costs.block(kinds[kind], context, &levels, end(&levels));
                tokens.push_block(kinds[kind], context, &levels, end(&levels));
            }
            let mut writer = BoolEncoder::with_capacity(0);
            tokens.write(&mut writer, &DEFAULT_COEFFICIENT_PROBABILITIES);
            let bits = 8.0 * writer.finish().len() as f64;
            let expected = f64::from(cost) / 256.0;
            prop_assert!((bits - expected).abs() < 24.0 + expected / 20.0, "{bits} bits, costed {expected}");
        }
    }

    #[test]
    fn tokens_cost_what_their_ways_through_the_tree_do() {
        let costs = TokenCosts::new(&DEFAULT_COEFFICIENT_PROBABILITIES);
        for (row, p) in DEFAULT_COEFFICIENT_PROBABILITIES.iter().flatten().flatten().enumerate() {
            for (token, path) in PATHS.iter().enumerate() {
                let cost = |path: &[(usize, bool)]| path.iter().map(|&(node, bit)| bit_cost(bit, p[node])).sum::<u32>();
                assert_eq!(u32::from(costs.costs[0][row][token]), cost(path));
                assert_eq!(u32::from(costs.costs[1][row][token]), cost(&path[1..]));
            }
        }
    }

    #[test]
    fn updates_make_a_frame_smaller() {
        let mut tokens = TokenBuffer::new(Vec::new());
        let mut levels = [0; 16];
        for index in 0..3000 {
            levels[0] = index % 3 - 1;
            levels[5] = i16::from(index % 7 == 0) * 9;
            tokens.push_block(BlockKind::Luma, 0, &levels, end(&levels));
        }
        let mut adapted = DEFAULT_COEFFICIENT_PROBABILITIES;
        let size = |probabilities: &CoefficientProbabilities| {
            let mut writer = BoolEncoder::with_capacity(0);
            tokens.write(&mut writer, probabilities);
            writer.finish().len()
        };
        let mut writer = BoolEncoder::with_capacity(0);
        tokens.write_updates(&mut writer, &mut adapted);
        assert!(adapted != DEFAULT_COEFFICIENT_PROBABILITIES);
        assert!(writer.finish().len() + size(&adapted) < size(&DEFAULT_COEFFICIENT_PROBABILITIES));
    }
}
