//! The size of a frame, guessed from the coefficients that open-loop prediction leaves.

use super::bit_cost::{BIT, branch_cost, fitting_probability};
use super::forward_transform::{forward_dct_plane, forward_wht};
use crate::header::QuantizerIndices;
use crate::quantization::Steps;

const BINS: usize = 1024;
/// Second-order coefficients are up to eight times as large; their steps are at least twice those of luma.
const SECOND_ORDER_BIN: usize = 4;
/// What an inter frame takes for each macroblock that has moved, beside its coefficients: 3.2 bits. That, and what of the
/// coefficients counts, was fitted to 31 pictures of each of ten clips, indices 4 to 127: of the logarithm of the size it is
/// off by 0.64 (root of the mean square, each clip by a fit to the nine others), where one bit for each macroblock and no look
/// at what moves was off by 0.79, and by 1.0 to 1.6 in coarse frames of clips that move.
const MOVED: u64 = 16 * BIT as u64 / 5;

/// What a prediction of a macroblock's luma leaves: its blocks, and the second-order block of their first coefficients.
fn transform(source: &[u8], source_stride: usize, prediction: &[u8; 256]) -> ([[i16; 16]; 16], [i16; 16]) {
    let mut blocks = [[0; 16]; 16];
    forward_dct_plane::<16>(source, source_stride, prediction, &mut blocks);
    let mut second_order = [0; 16];
    forward_wht(&blocks.map(|block| block[0]), &mut second_order);
    (blocks, second_order)
}

/// How often each magnitude occurs among a picture's luma coefficients.
#[derive(Debug, Clone)]
pub(super) struct CoefficientHistogram {
    luma: Box<[u32; BINS]>,
    /// In bins of [`SECOND_ORDER_BIN`].
    second_order: Box<[u32; BINS]>,
    macroblocks: u32,
    /// Of those, the ones that have moved.
    moved: u32,
}

impl Default for CoefficientHistogram {
    fn default() -> Self {
        Self { luma: Box::new([0; BINS]), second_order: Box::new([0; BINS]), macroblocks: 0, moved: 0 }
    }
}

impl CoefficientHistogram {
    /// Adds what a prediction of a macroblock's luma leaves, which comes from elsewhere where it has `moved`.
    pub(super) fn add(&mut self, source: &[u8], source_stride: usize, prediction: &[u8; 256], moved: bool) {
        let (blocks, second_order) = transform(source, source_stride, prediction);
        for block in &blocks {
            for coefficient in &block[1..] {
                self.luma[usize::from(coefficient.unsigned_abs()).min(BINS - 1)] += 1;
            }
        }
        for coefficient in second_order {
            self.second_order[(usize::from(coefficient.unsigned_abs()) / SECOND_ORDER_BIN).min(BINS - 1)] += 1;
        }
        self.macroblocks += 1;
        self.moved += u32::from(moved);
    }

    /// About how many bytes a frame takes.
    pub(super) fn predict(&self, quantizer: u8, key_frame: bool) -> usize {
        let steps = LumaSteps::new(quantizer);
        let luma = levels(&self.luma[..], 1, steps.luma);
        let second_order = levels(&self.second_order[..], SECOND_ORDER_BIN as u32, steps.second_order);
        size_of(&luma, &second_order, (self.macroblocks, self.moved), key_frame)
    }
}

/// The steps of luma coefficients and of second-order ones, all but the first of a block.
#[derive(Debug, Clone, Copy)]
struct LumaSteps {
    luma: u32,
    second_order: u32,
}

impl LumaSteps {
    fn new(quantizer: u8) -> Self {
        let steps = Steps::new(quantizer, &QuantizerIndices { base: quantizer, ..QuantizerIndices::default() });
        Self { luma: steps.luma[1] as u32, second_order: steps.second_order[1] as u32 }
    }
}

/// What coefficients become at one step: how many zeros and others, and what signs and magnitudes of those cost, about two
/// bits for each doubling.
#[derive(Debug, Clone, Copy, Default)]
struct Levels {
    zeros: u32,
    others: u32,
    magnitudes: u64,
}

impl Levels {
    /// The cost of them all: where those are that are not zero, by entropy, and what they are.
    fn cost(&self) -> u64 {
        let Self { zeros, others, magnitudes } = *self;
        branch_cost(zeros, others, fitting_probability(zeros, others)) + magnitudes
    }

    /// Adds coefficients, at a step.
    fn add(&mut self, coefficients: &[i16], step: u32) {
        // Level n begins where two thirds of a step more than n - 1 steps are reached.
        let from = |level: u32| (level * step).saturating_sub(step / 3).min(i16::MAX as u32) as i16;
        let begins: [i16; 7] = std::array::from_fn(|doublings| from(1 << doublings));
        // All of them and no branch, which vector instructions do at once.
        let (mut others, mut reached) = (0u16, 0u16);
        for coefficient in coefficients {
            let magnitude = (*coefficient).max(coefficient.wrapping_neg());
            others += u16::from(magnitude >= begins[0]);
            reached += begins.iter().map(|&begin| u16::from(magnitude >= begin)).sum::<u16>();
        }
        let doublings = reached - others;
        self.zeros += coefficients.len() as u32 - u32::from(others);
        self.others += u32::from(others);
        self.magnitudes += u64::from(BIT) * (u64::from(others) + 2 * u64::from(doublings));
    }
}

/// What of a picture's luma becomes what at one quantizer, for a guess of its frame's size.
#[derive(Debug)]
pub(super) struct ResidualCount {
    steps: LumaSteps,
    luma: Levels,
    second_order: Levels,
    macroblocks: u32,
    /// Of those, the ones that have moved.
    moved: u32,
}

impl ResidualCount {
    pub(super) fn new(quantizer: u8) -> Self {
        Self {
            steps: LumaSteps::new(quantizer),
            luma: Levels::default(),
            second_order: Levels::default(),
            macroblocks: 0,
            moved: 0,
        }
    }

    /// Adds a macroblock of whose luma nothing is coded, and whether it has `moved`.
    pub(super) fn add_empty(&mut self, moved: bool) {
        (self.luma.zeros, self.second_order.zeros) = (self.luma.zeros + 240, self.second_order.zeros + 16);
        self.macroblocks += 1;
        self.moved += u32::from(moved);
    }

    /// Adds what a prediction of a macroblock's luma leaves, which comes from elsewhere where it has `moved`.
    pub(super) fn add(&mut self, source: &[u8], source_stride: usize, prediction: &[u8; 256], moved: bool) {
        let (mut blocks, second_order) = transform(source, source_stride, prediction);
        self.second_order.add(&second_order, self.steps.second_order);
        // Those that went into the second order are no coefficients of luma any more.
        blocks.iter_mut().for_each(|block| block[0] = 0);
        self.luma.add(blocks.as_flattened(), self.steps.luma);
        self.luma.zeros -= 16;
        self.macroblocks += 1;
        self.moved += u32::from(moved);
    }

    /// About how many bytes the frame takes.
    pub(super) fn bytes(&self, key_frame: bool) -> usize {
        size_of(&self.luma, &self.second_order, (self.macroblocks, self.moved), key_frame)
    }
}

/// The size of a frame of so many macroblocks, some of which have moved, with these luma coefficients.
fn size_of(luma: &Levels, second_order: &Levels, (macroblocks, moved): (u32, u32), key_frame: bool) -> usize {
    let coded = luma.cost() + second_order.cost();
    let macroblocks = u64::from(macroblocks);
    let bits = if key_frame {
        // Chroma takes about a sixth of what luma takes, and subblock modes are said.
        let coefficients = coded * 7 / 6;
        let modes = 6 * u64::from(BIT) * macroblocks;
        // Where hardly anything is coded, most macroblocks say no more than that.
        coefficients + modes.min(modes / 8 + coefficients / 2)
    } else {
        // Inter macroblocks with next to nothing to mend are left as they are predicted.
        let count = u64::from(luma.others) + u64::from(second_order.others);
        let coefficients = (coded * count / (count + macroblocks / 3).max(1)) * 3 / 4;
        coefficients + MOVED * u64::from(moved)
    };
    24 + (bits / u64::from(8 * BIT)) as usize
}

/// What a histogram's coefficients become at one step.
fn levels(histogram: &[u32], bin: u32, step: u32) -> Levels {
    let mut found = Levels::default();
    for (index, &count) in histogram.iter().enumerate().filter(|(_, count)| **count > 0) {
        // The encoder rounds down up to two thirds of a step.
        let level = (index as u32 * bin + step / 3) / step;
        if level == 0 {
            found.zeros += count;
        } else {
            found.others += count;
            found.magnitudes += u64::from(count) * u64::from(BIT + 2 * BIT * level.ilog2());
        }
    }
    found
}
