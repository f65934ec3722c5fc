//! One complete way to code a macroblock: prediction, residual, cost and reconstruction.

use super::costs::{Costs, DEFAULT_SKIP_WEIGHT};
use super::distortion::{compare_subblocks, sse};
use super::forward_quantizer::ForwardQuantizer;
use super::forward_transform::forward_wht;
use super::frame_quantizers::FrameQuantizers;
use super::inter_prediction::{predict_chroma, predict_luma, predict_split_chroma};
use super::mode_costs::PartitionVector;
use super::residual::{EdgeContext, Residual, TrellisContext};
use super::trellis::Trellis;
use crate::frame::Frame;
use crate::macroblock::{LumaMode, MacroblockInfo, ReferenceFrame};
use crate::neighbours::NearVectors;

/// Weight of a residual's bits in the decision to drop the residual, in 1/64.
///
/// The weight is `CORRECTION_BITS` for a residual that corrects nothing. It decreases by `CORRECTION_RELIEF` times the share
/// of the error that the residual corrects, down to `CORRECTION_MIN_BITS`. An error that is corrected now need not be
/// corrected in later frames. This holds for lost detail, which a few large coefficients restore. It does not hold for
/// noise, since coefficients capture little of it. With equal weights, lost detail stays lost and pictures fade.
/// `lab: 2026-11-notes-vp8`.
const CORRECTION_BITS: u32 = 48;
const CORRECTION_RELIEF: u32 = 120;
/// The first two of these constants where a trellis chooses levels. `lab: 2026-11-effort`.
const TRELLIS_CORRECTION_BITS: u32 = 80;
const TRELLIS_CORRECTION_RELIEF: u32 = 80;
const CORRECTION_MIN_BITS: u32 = 2;

/// Weighted `bits` of a residual that reduces a squared `error` by `gain`.
fn mending_bits(bits: u32, gain: u32, error: u32, trellis: bool) -> u32 {
    let (most, relief) = if trellis {
        (TRELLIS_CORRECTION_BITS, TRELLIS_CORRECTION_RELIEF)
    } else {
        (CORRECTION_BITS, CORRECTION_RELIEF)
    };
    let relief = (u64::from(gain) * u64::from(relief) / u64::from(error.max(1))) as u32;
    let share = most.saturating_sub(relief).max(CORRECTION_MIN_BITS);
    (u64::from(bits) * u64::from(share) / 64) as u32
}

/// Position of a macroblock and the contexts for coding it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) column: usize,
    pub(crate) row: usize,
    pub(crate) above: EdgeContext,
    pub(crate) left: EdgeContext,
    /// Near vectors in an interframe.
    pub(crate) near: NearVectors,
}

/// Method of choosing levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Levels {
    /// Rounding of each coefficient.
    Rounded,
    /// Trellis quantization (`trellis`).
    Cheapest,
}

/// A macroblock coded in one way.
#[derive(Debug, Clone)]
pub(crate) struct Trial {
    pub(crate) info: MacroblockInfo,
    /// How the vector of each partition is coded, in split mode.
    pub(crate) partition_vectors: [PartitionVector; 16],
    /// The reconstruction. Before it is made, the prediction.
    pub(crate) luma: [u8; 256],
    pub(crate) chroma: [[u8; 64]; 2],
    pub(crate) residual: Residual,
    /// Cost of modes and vectors in 1/256 bit.
    pub(crate) mode_bits: u32,
    /// Rate-distortion cost by squared error.
    pub(crate) cost: u64,
    /// Cost of the residual in 1/256 bit, kept or dropped.
    pub(crate) coefficient_bits: u32,
    /// Skip weight from which on the residual is dropped.
    pub(crate) worth: u32,
    /// Whether the residual is not yet added to the prediction.
    unrestored: bool,
    /// Whether all coefficients are known to be inside the dead zones. Always false for intra macroblocks.
    pub(crate) quantizes_to_zero: bool,
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
            unrestored: false,
            quantizes_to_zero: false,
        }
    }
}

/// Squared error that reconstruction adds by rounding each sample to an integer: a twelfth per sample.
const ROUNDING_ERROR: u32 = (256 + 2 * 64) / 12;

impl Trial {
    /// Predicts from a reference as `info` says.
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

    /// Codes the residual of a predicted macroblock and computes the cost. A residual that is not worth its bits is
    /// dropped. [`Trial::restore`] must follow if the trial is used.
    pub(crate) fn code(&mut self, costs: &Costs<'_>, place: &Place, levels: Levels) {
        let Self { luma, chroma, residual, .. } = self;
        let [y, u, v] = &costs.analysis.source.planes;
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
        let [coded_cost, skipped_cost] = costs.skip;
        (self.coefficient_bits, self.worth, self.unrestored, self.quantizes_to_zero) = (0, u32::MAX, false, false);
        let mut error = 0;
        if inter {
            let strides = [y.stride, u.stride];
            let predicted = Predicted::new(source, strides, luma, chroma, second_order, &costs.quantizers);
            error = predicted.error;
            if !predicted.mendable {
                residual.clear();
                self.quantizes_to_zero = true;
                self.cost = costs.lagrangian.squared(error, self.mode_bits + skipped_cost);
                return;
            }
        }
        // With subblock modes, luma is already coded and reconstructed.
        let mut gain = 0;
        let trellis_context = (levels == Levels::Cheapest).then_some(TrellisContext {
            trellis: Trellis::new(&costs.analysis.token_costs, &costs.lagrangian, costs.analysis.key_frame),
            above: &place.above,
            left: &place.left,
        });
        if second_order {
            gain += residual.code_luma(source[0], y.stride, luma, &costs.quantizers, trellis_context);
        } else if inter {
            gain += residual.code_luma_subblocks(source[0], y.stride, luma, &costs.quantizers.luma, trellis_context);
        }
        gain +=
            residual.code_chroma([source[1], source[2]], u.stride, chroma, &costs.quantizers.chroma, trellis_context);
        if residual.is_empty() {
            if !inter {
                error = error_of(luma, chroma);
            }
            self.cost = costs.lagrangian.squared(error, self.mode_bits + skipped_cost);
            return;
        }
        residual.pack_tokens(second_order, &place.above, &place.left);
        let bits = costs.analysis.token_costs.of(residual.tokens());
        self.coefficient_bits = bits;
        if inter {
            let gain = gain.saturating_sub(ROUNDING_ERROR);
            let coded_error = error.saturating_sub(gain);
            let skipped = costs.lagrangian.squared(error, self.mode_bits + skipped_cost);
            let mending_bits = mending_bits(coded_cost + bits, gain, error, costs.analysis.tools.trellis);
            let bits_gained = costs.lagrangian.bits_worth(gain) + u64::from(skipped_cost);
            let usual = u64::from(DEFAULT_SKIP_WEIGHT);
            self.worth = (bits_gained * usual / u64::from(mending_bits.max(1))).min(u64::from(u32::MAX) - 1) as u32;
            let weighted = u64::from(mending_bits) * u64::from(costs.skip_weight) / usual;
            let corrected = costs.lagrangian.squared(coded_error, self.mode_bits + weighted as u32);
            if skipped <= corrected {
                self.cost = skipped;
                residual.clear();
                return;
            }
            error = coded_error;
        }
        if !inter {
            if second_order {
                residual.restore_luma(luma);
            }
            residual.restore_chroma(chroma);
            error = error_of(luma, chroma);
        }
        self.unrestored = inter;
        self.cost = costs.lagrangian.squared(error, self.mode_bits + coded_cost + bits);
    }

    /// [`Trial::code`] for an inter prediction whose coefficients are known to be inside the dead zones. The cost is
    /// zero and not comparable.
    pub(crate) fn code_empty(&mut self) {
        self.residual.clear();
        (self.coefficient_bits, self.worth, self.unrestored, self.quantizes_to_zero) = (0, u32::MAX, false, true);
        self.cost = 0;
    }

    /// Whether there is a residual that is not yet added to the prediction.
    pub(crate) fn is_unrestored(&self) -> bool {
        self.unrestored
    }

    /// Reconstructs the macroblock, if that is still to be done.
    pub(crate) fn restore(&mut self) {
        if std::mem::take(&mut self.unrestored) {
            if self.info.luma_mode.has_second_order() {
                self.residual.restore_luma(&mut self.luma);
            } else {
                self.residual.restore_luma_subblocks(&mut self.luma);
            }
            self.residual.restore_chroma(&mut self.chroma);
        }
    }
}

/// Properties of an inter prediction before its residual is transformed.
struct Predicted {
    /// Squared error of the prediction.
    error: u32,
    /// Whether a coefficient may be nonzero after quantization.
    mendable: bool,
}

impl Predicted {
    fn new(
        [y, u, v]: [&[u8]; 3],
        [stride, chroma_stride]: [usize; 2],
        luma: &[u8; 256],
        chroma: &[[u8; 64]; 2],
        second_order: bool,
        quantizers: &FrameQuantizers,
    ) -> Self {
        // The square of an AC coefficient is at most a quarter of its subblock's variation. The DC coefficient is half
        // of the sum.
        let limit = |quantizer: &ForwardQuantizer| 4 * quantizer.dead_zone.ac.pow(2);
        let dc = |sum: i16| (sum + 1) >> 1;
        // All sums without a branch, so that the compiler can vectorise it.
        let any_dc = |sums: &[i16], quantizer: &ForwardQuantizer| {
            let least = u16::try_from(quantizer.dead_zone.dc).unwrap_or(u16::MAX);
            sums.iter().fold(false, |any, &sum| any | (dc(sum).unsigned_abs() >= least))
        };
        let luma = compare_subblocks::<16, 16, 16>(y, stride, luma, 16, limit(&quantizers.luma));
        let mut error = luma.squared;
        let mut mendable = luma.varied > 0;
        for (source, prediction) in [(u, &chroma[0]), (v, &chroma[1])] {
            let limit = limit(&quantizers.chroma);
            let plane = compare_subblocks::<8, 8, 4>(source, chroma_stride, prediction, 8, limit);
            error += plane.squared;
            mendable = mendable || plane.varied > 0 || any_dc(&plane.sums, &quantizers.chroma);
        }
        let mendable = mendable
            || if second_order {
                let (dcs, dead_zone) = (luma.sums.map(dc), quantizers.second_order.dead_zone);
                // A cheaper test first: no coefficient exceeds half of the sum of all magnitudes.
                let most: u32 = dcs.iter().map(|dc| u32::from(dc.unsigned_abs())).sum();
                most.div_ceil(2) >= dead_zone.dc.min(dead_zone.ac) && {
                    let mut coefficients = [0; 16];
                    forward_wht(&dcs, &mut coefficients);
                    u32::from(coefficients[0].unsigned_abs()) >= dead_zone.dc
                        || coefficients[1..].iter().any(|value| u32::from(value.unsigned_abs()) >= dead_zone.ac)
                }
            } else {
                any_dc(&luma.sums, &quantizers.luma)
            };
        Self { error, mendable }
    }
}
