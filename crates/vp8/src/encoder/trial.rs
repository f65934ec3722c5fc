//! One way to code a macroblock, carried out in full: what it predicts, what is left, what the decoder will see.

use super::distortion::sse;
use super::inter_prediction::{predict_chroma, predict_luma, predict_split_chroma};
use super::mode_costs::PartitionVector;
use super::rate_distortion::Lagrangian;
use super::residual::{EdgeContext, ForwardQuantizers, Residual};
use super::source::Source;
use super::tokens::TokenCosts;
use crate::frame::Frame;
use crate::macroblock::{LumaMode, MacroblockInfo, ReferenceFrame};

/// What coding any macroblock of a frame needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting<'a> {
    pub(crate) source: &'a Source,
    pub(crate) quantizers: &'a ForwardQuantizers,
    pub(crate) lagrangian: Lagrangian,
    pub(crate) token_costs: &'a TokenCosts,
    /// The weight of the bits of a residual that is left out if it is not worth them, in 1/256 of the usual.
    pub(crate) skip_weight: u32,
}

/// The usual [`Setting::skip_weight`].
pub(crate) const USUAL_SKIP_WEIGHT: u32 = 256;

/// What coding one macroblock needs: its place, its neighbours' contexts, and what its skip flag costs either way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) column: usize,
    pub(crate) row: usize,
    pub(crate) above: EdgeContext,
    pub(crate) left: EdgeContext,
    /// Costs of saying that there are coefficients, and that there are none.
    pub(crate) skip_costs: [u32; 2],
}

/// A macroblock coded one way.
#[derive(Debug, Clone)]
pub(crate) struct Trial {
    pub(crate) info: MacroblockInfo,
    /// How the vector of each partition is coded, where the macroblock is split.
    pub(crate) partition_vectors: [PartitionVector; 16],
    /// Reconstruction (before it is made: the prediction).
    pub(crate) luma: [u8; 256],
    pub(crate) chroma: [[u8; 64]; 2],
    pub(crate) residual: Residual,
    /// Cost of modes and vectors, in 1/256 bit.
    pub(crate) mode_bits: u32,
    /// Squared error and bits together.
    pub(crate) cost: u64,
    /// The bits of the residual, left out or not, in 1/256 bit.
    pub(crate) coefficient_bits: u32,
    /// The skip weight from which on the residual is left out.
    pub(crate) worth: u32,
}

impl Default for Trial {
    fn default() -> Self {
        Self {
            info: MacroblockInfo::default(),
            partition_vectors: [PartitionVector::Zero; 16],
            luma: [0; 256],
            chroma: [[0; 64]; 2],
            residual: Residual::default(),
            mode_bits: 0,
            cost: u64::MAX,
            coefficient_bits: 0,
            worth: u32::MAX,
        }
    }
}

impl Trial {
    /// Predicts from a reference what `info` says.
    pub(crate) fn predict_inter(&mut self, reference: &Frame, place: &Place) {
        let (x, y) = (16 * place.column, 16 * place.row);
        let info = &self.info;
        if info.luma_mode != LumaMode::Split {
            predict_luma::<16, 16>(reference, x, y, info.motion_vector, &mut self.luma, 16);
            predict_chroma(reference, x, y, info.motion_vector, &mut self.chroma);
            return;
        }
        for quarter in 0..4 {
            let first = 8 * (quarter / 2) + 2 * (quarter % 2);
            let blocks = [first, first + 1, first + 4, first + 5];
            let vector = info.subblock_vectors[first];
            if blocks.iter().all(|&block| info.subblock_vectors[block] == vector) {
                let (dx, dy) = (8 * (quarter % 2), 8 * (quarter / 2));
                predict_luma::<8, 8>(reference, x + dx, y + dy, vector, &mut self.luma[16 * dy + dx..], 16);
                continue;
            }
            for block in blocks {
                let (dx, dy) = (4 * (block % 4), 4 * (block / 4));
                let vector = info.subblock_vectors[block];
                predict_luma::<4, 4>(reference, x + dx, y + dy, vector, &mut self.luma[16 * dy + dx..], 16);
            }
        }
        predict_split_chroma(reference, x, y, &info.subblock_vectors, &mut self.chroma);
    }

    /// Codes the residual of a predicted macroblock, reconstructs it and costs it all. Macroblocks whose residual is not
    /// worth its bits are left without.
    pub(crate) fn code(&mut self, setting: &Setting<'_>, place: &Place) {
        let Self { luma, chroma, residual, .. } = self;
        let [y, u, v] = &setting.source.planes;
        let source = [
            y.at(16 * place.column, 16 * place.row),
            u.at(8 * place.column, 8 * place.row),
            v.at(8 * place.column, 8 * place.row),
        ];
        let inter = self.info.reference != ReferenceFrame::Intra;
        let second_order = self.info.luma_mode.has_second_order();
        let error_of = |luma: &[u8; 256], chroma: &[[u8; 64]; 2]| {
            sse::<16, 16>(source[0], y.stride, luma, 16)
                + sse::<8, 8>(source[1], u.stride, &chroma[0], 8)
                + sse::<8, 8>(source[2], v.stride, &chroma[1], 8)
        };
        // Subblock prediction has coded and reconstructed luma already.
        let predicted = inter.then_some((*luma, *chroma));
        if second_order {
            residual.code_luma(source[0], y.stride, luma, setting.quantizers);
            residual.restore_luma(luma);
        } else if inter {
            residual.code_luma_subblocks(source[0], y.stride, luma, &setting.quantizers.luma);
        }
        residual.code_chroma(0, source[1], u.stride, &mut chroma[0], &setting.quantizers.chroma);
        residual.code_chroma(1, source[2], v.stride, &mut chroma[1], &setting.quantizers.chroma);

        let coded_error = error_of(luma, chroma);
        let [coded_cost, skipped_cost] = place.skip_costs;
        (self.coefficient_bits, self.worth) = (0, u32::MAX);
        if residual.is_empty() {
            self.cost = setting.lagrangian.squared(coded_error, self.mode_bits + skipped_cost);
            return;
        }
        let bits = residual.luma_cost(second_order, &place.above, &place.left, setting.token_costs)
            + residual.chroma_cost(&place.above, &place.left, setting.token_costs);
        self.cost = setting.lagrangian.squared(coded_error, self.mode_bits + coded_cost + bits);
        self.coefficient_bits = bits;
        if let Some((predicted_luma, predicted_chroma)) = predicted {
            let error = error_of(&predicted_luma, &predicted_chroma);
            let skipped = setting.lagrangian.squared(error, self.mode_bits + skipped_cost);
            // What is mended now need not be mended in later frames: that counts as half the bits.
            let mending_bits = (coded_cost + bits) / 2;
            let bits_gained =
                setting.lagrangian.bits_worth(error.saturating_sub(coded_error)) + u64::from(skipped_cost);
            let usual = u64::from(USUAL_SKIP_WEIGHT);
            self.worth = (bits_gained * usual / u64::from(mending_bits.max(1))).min(u64::from(u32::MAX) - 1) as u32;
            let weighted = u64::from(mending_bits) * u64::from(setting.skip_weight) / usual;
            let mended = setting.lagrangian.squared(coded_error, self.mode_bits + weighted as u32);
            if skipped <= mended {
                self.cost = skipped;
                (*luma, *chroma) = (predicted_luma, predicted_chroma);
                residual.clear();
            }
        }
    }
}
