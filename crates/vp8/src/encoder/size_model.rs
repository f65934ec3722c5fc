//! The size of a frame, guessed from the coefficients that open-loop prediction leaves.

use super::bit_cost::{BIT, branch_cost, fitting_probability};
use super::forward_transform::{forward_dct_plane, forward_wht};
use crate::header::QuantizerIndices;
use crate::quantization::Steps;

const BINS: usize = 1024;
/// Second-order coefficients are up to eight times as large; their steps are at least twice those of luma.
const SECOND_ORDER_BIN: usize = 4;

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
}

impl Default for CoefficientHistogram {
    fn default() -> Self {
        Self { luma: Box::new([0; BINS]), second_order: Box::new([0; BINS]), macroblocks: 0 }
    }
}

impl CoefficientHistogram {
    /// Adds what a prediction of a macroblock's luma leaves.
    pub(super) fn add(&mut self, source: &[u8], source_stride: usize, prediction: &[u8; 256]) {
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
    }

    /// About how many bytes a frame takes.
    pub(super) fn predict(&self, quantizer: u8, key_frame: bool) -> usize {
        let steps = LumaSteps::new(quantizer);
        let luma = levels(&self.luma[..], 1, steps.luma);
        let second_order = levels(&self.second_order[..], SECOND_ORDER_BIN as u32, steps.second_order);
        size_of(&luma, &second_order, self.macroblocks, key_frame)
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
}

impl ResidualCount {
    pub(super) fn new(quantizer: u8) -> Self {
        Self {
            steps: LumaSteps::new(quantizer),
            luma: Levels::default(),
            second_order: Levels::default(),
            macroblocks: 0,
        }
    }

    /// Adds a macroblock of whose luma nothing is coded.
    pub(super) fn add_empty(&mut self) {
        (self.luma.zeros, self.second_order.zeros) = (self.luma.zeros + 240, self.second_order.zeros + 16);
        self.macroblocks += 1;
    }

    /// Adds what a prediction of a macroblock's luma leaves.
    pub(super) fn add(&mut self, source: &[u8], source_stride: usize, prediction: &[u8; 256]) {
        let (mut blocks, second_order) = transform(source, source_stride, prediction);
        self.second_order.add(&second_order, self.steps.second_order);
        // Those that went into the second order are no coefficients of luma any more.
        blocks.iter_mut().for_each(|block| block[0] = 0);
        self.luma.add(blocks.as_flattened(), self.steps.luma);
        self.luma.zeros -= 16;
        self.macroblocks += 1;
    }

    /// About how many bytes the frame takes.
    pub(super) fn bytes(&self, key_frame: bool) -> usize {
        size_of(&self.luma, &self.second_order, self.macroblocks, key_frame)
    }
}

/// The size of a frame of so many macroblocks with these luma coefficients.
fn size_of(luma: &Levels, second_order: &Levels, macroblocks: u32, key_frame: bool) -> usize {
    let mut coded = luma.cost() + second_order.cost();
    if !key_frame {
        // Inter macroblocks with next to nothing to mend are left as they are predicted.
        let count = u64::from(luma.others) + u64::from(second_order.others);
        coded = coded * count / (count + 2 * u64::from(macroblocks)).max(1);
    }
    // Chroma takes about a sixth of what luma takes. Key frames say subblock modes, inter frames few vectors.
    let coefficients = coded * 7 / 6;
    let modes = u64::from(macroblocks) * u64::from(if key_frame { 6 * BIT } else { BIT });
    // Where hardly anything is coded, most macroblocks say no more than that.
    let modes = modes.min(modes / 8 + coefficients / 2);
    24 + ((coefficients + modes) / u64::from(8 * BIT)) as usize
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
