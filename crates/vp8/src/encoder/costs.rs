//! What it costs to code macroblocks at one quantizer: only read while a macroblock is decided.

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

/// The usual [`Costs::skip_weight`].
pub(super) const USUAL_SKIP_WEIGHT: u32 = 256;

/// What errors and bits cost in one frame. Bits are counted in 1/256.
#[derive(Debug)]
pub(super) struct Costs<'a> {
    pub(super) analysis: &'a Analysis,
    pub(super) quantizers: FrameQuantizers,
    usual: Lagrangian,
    /// That of the macroblock that is being decided.
    pub(super) lagrangian: Lagrangian,
    /// The step between luma AC levels.
    pub(super) step: u32,
    /// The widest dead zones that macroblocks were coded with so far.
    pub(super) widest_dead_zones: DeadZones,
    /// The weight of the bits of a residual that is left out if it is not worth them, in 1/256 of the usual.
    pub(super) skip_weight: u32,
    /// Of saying which reference a macroblock has.
    references: [u32; 4],
    /// Of saying that there are coefficients, and that there are none.
    pub(super) skip: [u32; 2],
}

impl<'a> Costs<'a> {
    /// The costs at a quantizer, before anything is counted.
    pub(super) fn new(analysis: &'a Analysis, quantizer: u8) -> Self {
        let steps = Steps::new(quantizer, &QuantizerIndices { base: quantizer, ..QuantizerIndices::default() });
        let usual = Lagrangian::new(steps.luma[1], analysis.key_frame, analysis.preset);
        let quantizers = FrameQuantizers::new(&steps, analysis.key_frame);
        Self {
            analysis,
            widest_dead_zones: quantizers.dead_zones(),
            quantizers,
            usual,
            lagrangian: usual,
            step: steps.luma[1] as u32,
            skip_weight: USUAL_SKIP_WEIGHT,
            references: [0; 4],
            skip: [0; 2],
        }
    }

    /// Goes on with what saying references and skips will cost, as far as `counts` tells: once a row.
    pub(super) fn follow(&mut self, counts: &ModeCounts) {
        self.references = counts.reference_costs();
        self.skip = counts.skip_costs();
    }

    /// Goes on to macroblock `at`, row by row.
    pub(super) fn go_to(&mut self, at: usize) {
        self.lagrangian = self.usual.weighed(self.analysis.activity.weight(at));
    }

    /// Goes on with other roundings (of AC coefficients, 1/128 of a step) and another skip weight: between macroblocks, to
    /// steer the frame's size.
    pub(super) fn steer(&mut self, rounding: i32, skip_weight: u32) {
        self.quantizers.round_by(rounding, self.analysis.key_frame);
        self.widest_dead_zones = self.widest_dead_zones.widened(&self.quantizers.dead_zones());
        self.skip_weight = skip_weight;
    }

    /// The cost of an inter mode without its vector.
    pub(super) fn inter_mode(&self, mode: LumaMode, reference: ReferenceFrame, near: &NearVectors) -> u32 {
        self.references[reference as usize] + path_cost(inter_path(mode), &near.mode_probabilities)
    }

    /// The cost of saying that a macroblock is intra.
    pub(super) fn intra(&self) -> u32 {
        if self.analysis.key_frame { 0 } else { self.references[ReferenceFrame::Intra as usize] }
    }

    /// The cost of an intra macroblock's luma mode.
    pub(super) fn luma_mode(&self, mode: LumaMode) -> u32 {
        if self.analysis.key_frame {
            path_cost(key_luma_path(mode), &KEY_FRAME_LUMA_MODE_PROBABILITIES)
        } else {
            path_cost(luma_path(mode), &self.analysis.probabilities.luma_modes)
        }
    }

    /// The probabilities of an intra macroblock's chroma mode.
    pub(super) fn chroma_mode_probabilities(&self) -> &[u8; 3] {
        if self.analysis.key_frame {
            &KEY_FRAME_CHROMA_MODE_PROBABILITIES
        } else {
            &self.analysis.probabilities.chroma_modes
        }
    }
}
