//! The size of a frame, guessed from the coefficients that open-loop prediction leaves.

use super::bit_cost::{BIT, branch_cost, fitting_probability};
use super::forward_transform::{forward_dct_plane, forward_wht};
use crate::header::QuantizerIndices;
use crate::quantization::Steps;

const BINS: usize = 1024;
/// Second-order coefficients are up to eight times as large; their steps are at least twice those of luma.
const SECOND_ORDER_BIN: usize = 4;

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
        let mut blocks = [[0i16; 16]; 16];
        forward_dct_plane::<16>(source, source_stride, prediction, &mut blocks);
        for block in &blocks {
            for coefficient in &block[1..] {
                self.luma[usize::from(coefficient.unsigned_abs()).min(BINS - 1)] += 1;
            }
        }
        let mut coefficients = [0i16; 16];
        forward_wht(&blocks.map(|block| block[0]), &mut coefficients);
        for coefficient in coefficients {
            self.second_order[(usize::from(coefficient.unsigned_abs()) / SECOND_ORDER_BIN).min(BINS - 1)] += 1;
        }
        self.macroblocks += 1;
    }

    /// About how many bytes a frame takes.
    pub(super) fn predict(&self, quantizer: u8, key_frame: bool) -> usize {
        let steps = Steps::new(quantizer, &QuantizerIndices { base: quantizer, ..QuantizerIndices::default() });
        let (luma, luma_count) = bits(&self.luma[..], 1, steps.luma[1] as u32);
        let (second, second_count) =
            bits(&self.second_order[..], SECOND_ORDER_BIN as u32, steps.second_order[1] as u32);
        let mut coded = luma + second;
        if !key_frame {
            // Inter macroblocks with next to nothing to mend are left as they are predicted.
            let count = luma_count + second_count;
            coded = coded * count / (count + 2 * u64::from(self.macroblocks)).max(1);
        }
        // Chroma takes about a sixth of what luma takes. Key frames say subblock modes, inter frames few vectors.
        let coefficients = coded * 7 / 6;
        let modes = u64::from(self.macroblocks) * u64::from(if key_frame { 6 * BIT } else { BIT });
        // Where hardly anything is coded, most macroblocks say no more than that.
        let modes = modes.min(modes / 8 + coefficients / 2);
        24 + ((coefficients + modes) / u64::from(8 * BIT)) as usize
    }
}

/// The cost of a histogram's coefficients at one step: where those are that are not zero, by entropy; then their signs
/// and magnitudes, about two bits for each doubling. Also how many are not zero.
fn bits(histogram: &[u32], bin: u32, step: u32) -> (u64, u64) {
    let (mut zeros, mut others, mut magnitudes) = (0, 0, 0u64);
    for (index, &count) in histogram.iter().enumerate().filter(|(_, count)| **count > 0) {
        // The encoder rounds down up to two thirds of a step.
        let level = (index as u32 * bin + step / 3) / step;
        if level == 0 {
            zeros += count;
        } else {
            others += count;
            magnitudes += u64::from(count) * u64::from(BIT + 2 * BIT * level.ilog2());
        }
    }
    (branch_cost(zeros, others, fitting_probability(zeros, others)) + magnitudes, u64::from(others))
}
