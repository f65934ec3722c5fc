//! Prediction of a frame's size from the coefficients of open-loop prediction.
//!
//! [`CoefficientHistogram`] predicts for all quantizers, [`ResidualCount`] for one.

use super::bit_cost::{BIT, branch_cost, fitting_probability};
use super::forward_transform::{forward_dct_plane, forward_wht};
use crate::header::QuantizerIndices;
use crate::quantization::Steps;

const BINS: usize = 1024;
/// Width of a histogram bin for Y2. Its coefficients are up to eight times larger, and its steps at least twice those
/// of luma.
const SECOND_ORDER_BIN: usize = 4;
/// Cost of an interframe's macroblock that has moved, in addition to its coefficients: 3.2 bits.
/// `lab: 2026-11-notes-vp8`.
const MOVED: u64 = 16 * BIT as u64 / 5;

/// Coefficients of the residual of a macroblock's luma: its blocks, and the Y2 block of their DC coefficients.
fn transform(source: &[u8], source_stride: usize, prediction: &[u8; 256]) -> ([[i16; 16]; 16], [i16; 16]) {
    let mut blocks = [[0; 16]; 16];
    forward_dct_plane::<16>(source, source_stride, prediction, &mut blocks);
    let mut second_order = [0; 16];
    forward_wht(&blocks.map(|block| block[0]), &mut second_order);
    (blocks, second_order)
}

/// Histogram of the magnitudes of a picture's luma coefficients.
#[derive(Debug, Clone)]
pub(super) struct CoefficientHistogram {
    luma: Box<[u32; BINS]>,
    /// In bins of width [`SECOND_ORDER_BIN`].
    second_order: Box<[u32; BINS]>,
    macroblocks: u32,
    /// Number of macroblocks that have moved.
    moved: u32,
    /// Number of macroblocks of the picture.
    all: u32,
}

impl CoefficientHistogram {
    /// An empty histogram for a sample of the `all` macroblocks of a picture.
    pub(super) fn new(all: usize) -> Self {
        let (luma, second_order) = (Box::new([0; BINS]), Box::new([0; BINS]));
        Self { luma, second_order, macroblocks: 0, moved: 0, all: all as u32 }
    }

    /// Adds the luma residual of a macroblock. `moved` says whether its prediction uses motion.
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

    /// Predicts the size of the frame in bytes.
    pub(super) fn predict(&self, quantizer: u8, coding: Coding) -> usize {
        let steps = LumaSteps::new(quantizer);
        let luma = levels(&self.luma[..], 1, steps.luma, coding);
        let second_order = levels(&self.second_order[..], SECOND_ORDER_BIN as u32, steps.second_order, coding);
        let bits = bits_of(&luma, &second_order, (self.macroblocks, self.moved), coding);
        size_of(bits, self.macroblocks, self.all)
    }
}

/// What decides how much of a residual is coded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coding {
    /// A key frame.
    Key,
    /// An interframe whose coefficients are rounded.
    Rounded,
    /// An interframe whose coefficients a trellis drops. Residuals near the step are seldom worth their bits.
    Trellis,
}

impl Coding {
    /// Magnitude at which a level begins. `lab: 2026-11-effort`.
    fn begin(self, level: u32, step: u32) -> u32 {
        match self {
            Self::Key | Self::Rounded => (level * step).saturating_sub(step / 3),
            Self::Trellis => level * step + step / 4,
        }
    }
}

/// Steps of AC coefficients in luma and Y2 blocks.
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

/// Result of quantization at one step: the number of zeros and of other levels, and the cost of their signs and
/// magnitudes. A magnitude costs about two bits per doubling.
#[derive(Debug, Clone, Copy, Default)]
struct Levels {
    zeros: u32,
    others: u32,
    magnitudes: u64,
}

impl Levels {
    /// Cost of all levels: the entropy of zero or nonzero, and the magnitudes.
    fn cost(&self) -> u64 {
        let Self { zeros, others, magnitudes } = *self;
        branch_cost(zeros, others, fitting_probability(zeros, others)) + magnitudes
    }

    /// Adds coefficients at a step.
    fn add(&mut self, coefficients: &[i16], step: u32, coding: Coding) {
        let begins: [i16; 7] =
            std::array::from_fn(|doublings| coding.begin(1 << doublings, step).min(i16::MAX as u32) as i16);
        // All coefficients without a branch, so that the compiler can vectorise it.
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

/// Counts of a picture's luma levels at one quantizer, for the prediction of its size.
#[derive(Debug)]
pub(super) struct ResidualCount {
    steps: LumaSteps,
    coding: Coding,
    luma: Levels,
    second_order: Levels,
    macroblocks: u32,
    /// Number of macroblocks that have moved.
    moved: u32,
}

impl ResidualCount {
    pub(super) fn new(quantizer: u8, coding: Coding) -> Self {
        Self {
            steps: LumaSteps::new(quantizer),
            coding,
            luma: Levels::default(),
            second_order: Levels::default(),
            macroblocks: 0,
            moved: 0,
        }
    }

    /// Adds a macroblock without luma coefficients. `moved` says whether its prediction uses motion.
    pub(super) fn add_empty(&mut self, moved: bool) {
        (self.luma.zeros, self.second_order.zeros) = (self.luma.zeros + 240, self.second_order.zeros + 16);
        self.macroblocks += 1;
        self.moved += u32::from(moved);
    }

    /// Adds the luma residual of a macroblock. `moved` says whether its prediction uses motion.
    pub(super) fn add(&mut self, source: &[u8], source_stride: usize, prediction: &[u8; 256], moved: bool) {
        let (mut blocks, second_order) = transform(source, source_stride, prediction);
        self.second_order.add(&second_order, self.steps.second_order, self.coding);
        // DC coefficients are counted in Y2, not in luma.
        blocks.iter_mut().for_each(|block| block[0] = 0);
        self.luma.add(blocks.as_flattened(), self.steps.luma, self.coding);
        self.luma.zeros -= 16;
        self.macroblocks += 1;
        self.moved += u32::from(moved);
    }

    /// Predicts the size of a frame of `all` macroblocks in bytes.
    pub(super) fn bytes(&self, all: usize) -> usize {
        let bits = bits_of(&self.luma, &self.second_order, (self.macroblocks, self.moved), self.coding);
        size_of(bits, self.macroblocks, all as u32)
    }
}

/// Size in bytes of a frame of `all` macroblocks, of which `counted` cost `bits`.
fn size_of(bits: u64, counted: u32, all: u32) -> usize {
    let bits = bits * u64::from(all) / u64::from(counted.max(1));
    24 + (bits / u64::from(8 * BIT)) as usize
}

/// Cost of macroblocks from their luma levels and their numbers (counted, moved).
fn bits_of(luma: &Levels, second_order: &Levels, (macroblocks, moved): (u32, u32), coding: Coding) -> u64 {
    let coded = luma.cost() + second_order.cost();
    let macroblocks = u64::from(macroblocks);
    if coding == Coding::Key {
        // Chroma costs about a sixth of luma. The bits of subblock modes are added.
        let coefficients = coded * 7 / 6;
        let modes = 6 * u64::from(BIT) * macroblocks;
        // In a frame with few coefficients, most macroblocks have cheap modes.
        return coefficients + modes.min(modes / 8 + coefficients / 2);
    }
    // Inter macroblocks with very small residuals are coded without them.
    let count = u64::from(luma.others) + u64::from(second_order.others);
    // Levels that a trellis keeps are rare, so each costs more.
    let quarters = if coding == Coding::Trellis { 6 } else { 3 };
    let coefficients = (coded * count / (count + macroblocks / 3).max(1)) * quarters / 4;
    coefficients + MOVED * u64::from(moved)
}

/// Quantizes a histogram at one step.
fn levels(histogram: &[u32], bin: u32, step: u32, coding: Coding) -> Levels {
    let mut found = Levels::default();
    let first = coding.begin(1, step);
    for (index, &count) in histogram.iter().enumerate().filter(|(_, count)| **count > 0) {
        let magnitude = index as u32 * bin;
        if magnitude < first {
            found.zeros += count;
        } else {
            let level = (magnitude - first) / step + 1;
            found.others += count;
            found.magnitudes += u64::from(count) * u64::from(BIT + 2 * BIT * level.ilog2());
        }
    }
    found
}
