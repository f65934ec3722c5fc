//! Costs at one quantizer, for the decisions of one macroblock.

use super::analysis::Analysis;
use super::frame_quantizers::{DeadZones, FrameQuantizers};
use super::mode_costs::{inter_path, key_luma_path, luma_path, path_cost};
use super::mode_counts::ModeCounts;
use super::rate_distortion::Lagrangian;
use crate::header::QuantizerIndices;
use crate::macroblock::{LumaMode, ReferenceFrame};
use crate::neighbours::NearVectors;
use crate::quantization::Steps;
use crate::tables::{KEY_FRAME_CHROMA_MODE_PROBABILITIES, KEY_FRAME_LUMA_MODE_PROBABILITIES};

/// Default of [`Costs::skip_weight`].
pub(super) const DEFAULT_SKIP_WEIGHT: u32 = 256;

/// Costs of errors and bits in one frame. Bits are in units of 1/256.
#[derive(Debug)]
pub(super) struct Costs<'a> {
    pub(super) analysis: &'a Analysis,
    pub(super) quantizers: FrameQuantizers,
    usual: Lagrangian,
    /// Lagrangian of the current macroblock.
    pub(super) lagrangian: Lagrangian,
    /// Quantizer step of luma AC coefficients.
    pub(super) step: u32,
    /// The widest dead zones of the lane's macroblocks so far.
    pub(super) widest_dead_zones: DeadZones,
    /// Weight of a residual's bits in the decision to drop the residual, in 1/256 of the default.
    pub(super) skip_weight: u32,
    /// Cost of the reference of a macroblock.
    references: [u32; 4],
    /// Cost of the skip flag: with coefficients, without coefficients.
    pub(super) skip: [u32; 2],
}

impl<'a> Costs<'a> {
    /// Costs at a quantizer before any macroblock is counted.
    pub(super) fn new(analysis: &'a Analysis, quantizer: u8) -> Self {
        let steps = Steps::new(quantizer, &QuantizerIndices { base: quantizer, ..QuantizerIndices::default() });
        let usual = Lagrangian::new(steps.luma[1], analysis.key_frame, analysis.tools.trellis);
        let quantizers = FrameQuantizers::new(&steps, analysis.key_frame);
        Self {
            analysis,
            widest_dead_zones: quantizers.dead_zones(),
            quantizers,
            usual,
            lagrangian: usual,
            step: steps.luma[1] as u32,
            skip_weight: DEFAULT_SKIP_WEIGHT,
            references: [0; 4],
            skip: [0; 2],
        }
    }

    /// Updates the costs of references and skip flags from `counts`; called once per row.
    pub(super) fn update_mode_costs(&mut self, counts: &ModeCounts) {
        self.references = counts.reference_costs();
        self.skip = counts.skip_costs();
    }

    /// Prepares for macroblock `at` (row by row).
    pub(super) fn set_macroblock(&mut self, at: usize) {
        self.lagrangian = self.usual.weighed(self.analysis.activity.weight(at));
    }

    /// Changes the rounding of AC coefficients (1/128 of a step) and the skip weight. It is called between macroblocks
    /// to steer the frame's size.
    pub(super) fn steer(&mut self, rounding: i32, skip_weight: u32) {
        self.quantizers.round_by(rounding, self.analysis.key_frame);
        self.widest_dead_zones = self.widest_dead_zones.widened(&self.quantizers.dead_zones());
        self.skip_weight = skip_weight;
    }

    /// Cost of an inter mode without its vector.
    pub(super) fn inter_mode(&self, mode: LumaMode, reference: ReferenceFrame, near: &NearVectors) -> u32 {
        self.references[reference as usize] + path_cost(inter_path(mode), &near.mode_probabilities)
    }

    /// Cost of the decision for intra prediction.
    pub(super) fn intra(&self) -> u32 {
        if self.analysis.key_frame { 0 } else { self.references[ReferenceFrame::Intra as usize] }
    }

    /// Cost of an intra macroblock's luma mode.
    pub(super) fn luma_mode(&self, mode: LumaMode) -> u32 {
        if self.analysis.key_frame {
            path_cost(key_luma_path(mode), &KEY_FRAME_LUMA_MODE_PROBABILITIES)
        } else {
            path_cost(luma_path(mode), &self.analysis.probabilities.luma_modes)
        }
    }

    /// Probabilities of an intra macroblock's chroma mode.
    pub(super) fn chroma_mode_probabilities(&self) -> &[u8; 3] {
        if self.analysis.key_frame {
            &KEY_FRAME_CHROMA_MODE_PROBABILITIES
        } else {
            &self.analysis.probabilities.chroma_modes
        }
    }
}
