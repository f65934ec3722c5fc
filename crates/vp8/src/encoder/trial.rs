//! One way to code a macroblock, carried out in full: what it predicts, what is left, what the decoder will see.

use super::costs::{Costs, USUAL_SKIP_WEIGHT};
use super::distortion::{compare_subblocks, sse};
use super::forward_quantizer::ForwardQuantizer;
use super::forward_transform::forward_wht;
use super::frame_quantizers::FrameQuantizers;
use super::inter_prediction::{predict_chroma, predict_luma, predict_split_chroma};
use super::mode_costs::PartitionVector;
use super::parameters::Preset;
use super::residual::{Care, EdgeContext, Residual};
use super::trellis::Trellis;
use crate::frame::Frame;
use crate::macroblock::{LumaMode, MacroblockInfo, ReferenceFrame};
use crate::neighbours::NearVectors;

/// How much of a residual's bits count when it is weighed against leaving it out, in 1/64: of one that mends nothing, how
/// much less for one that mends all the error there is, and the least.
///
/// What is mended now need not be mended in later frames. That holds for detail that predictions have lost, which a few
/// large coefficients restore, and not for noise, of which coefficients catch little. Where bits counted alike for both,
/// lost detail stayed lost: a photograph panned without noise faded by 1 to 5 dB in two seconds. By BD-rate against libvpx
/// and that photograph (`lockstep bench codec`).
///
/// What still fades in fine pans (0.1 dB in the mean, 1.1 dB at worst at index 20) a cyclic refresh does not bring back for
/// less than a finer quantizer for all: one macroblock of eight in turn at half the index gained 0.7 dB for 19 % of bits, all
/// of them at 7/8 of it 0.4 dB for 14 %; rounded to the nearest level and never left out, 0.2 dB for 9 %.
const MENDING_BITS: u32 = 48;
/// The first of these for quality: 2 % fewer bits than 48 in the mean of four clips, 50 pictures each, 5 % on one that hardly
/// moves.
const QUALITY_MENDING_BITS: u32 = 64;
const MENDING_RELIEF: u32 = 120;
const MENDING_LEAST: u32 = 2;

/// The bits that count of `bits` which take `gain` off a squared error.
fn mending_bits(bits: u32, gain: u32, error: u32, preset: Preset) -> u32 {
    let relief = (u64::from(gain) * u64::from(MENDING_RELIEF) / u64::from(error.max(1))) as u32;
    let most = match preset {
        Preset::RealTime => MENDING_BITS,
        Preset::Quality => QUALITY_MENDING_BITS,
    };
    let share = most.saturating_sub(relief).max(MENDING_LEAST);
    (u64::from(bits) * u64::from(share) / 64) as u32
}

/// What coding one macroblock needs: its place and its neighbours' contexts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) column: usize,
    pub(crate) row: usize,
    pub(crate) above: EdgeContext,
    pub(crate) left: EdgeContext,
    /// What the neighbours say of its vector, in an inter frame.
    pub(crate) near: NearVectors,
}

/// How levels are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Levels {
    /// By rounding each coefficient.
    Rounded,
    /// By a trellis (`trellis`).
    Cheapest,
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
    /// Whether the residual is still to be added to the prediction.
    unrestored: bool,
    /// Whether all coefficients of the residual lie in the quantizers' dead zones, as far as was looked: always false where
    /// it is predicted from its own frame.
    pub(crate) hopeless: bool,
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
            hopeless: false,
        }
    }
}

/// What restoring a macroblock adds to its squared error beyond what its coefficients say: each sample is rounded to a
/// whole number, which is a twelfth.
const ROUNDING_ERROR: u32 = (256 + 2 * 64) / 12;

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

    /// Codes the residual of a predicted macroblock and costs it all. Macroblocks whose residual is not worth its bits are
    /// left without. [`Trial::restore`] must follow, unless the trial is given up.
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
        (self.coefficient_bits, self.worth, self.unrestored, self.hopeless) = (0, u32::MAX, false, false);
        let mut error = 0;
        if inter {
            let strides = [y.stride, u.stride];
            let predicted = Predicted::new(source, strides, luma, chroma, second_order, &costs.quantizers);
            error = predicted.error;
            if !predicted.mendable {
                residual.clear();
                self.hopeless = true;
                self.cost = costs.lagrangian.squared(error, self.mode_bits + skipped_cost);
                return;
            }
        }
        // Subblock prediction has coded and reconstructed luma already.
        let mut gain = 0;
        let care = (levels == Levels::Cheapest).then_some(Care {
            trellis: Trellis::new(&costs.analysis.token_costs, &costs.lagrangian, costs.analysis.key_frame),
            above: &place.above,
            left: &place.left,
        });
        if second_order {
            gain += residual.code_luma(source[0], y.stride, luma, &costs.quantizers, care);
        } else if inter {
            gain += residual.code_luma_subblocks(source[0], y.stride, luma, &costs.quantizers.luma, care);
        }
        gain += residual.code_chroma([source[1], source[2]], u.stride, chroma, &costs.quantizers.chroma, care);
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
            let mending_bits = mending_bits(coded_cost + bits, gain, error, costs.analysis.preset);
            let bits_gained = costs.lagrangian.bits_worth(gain) + u64::from(skipped_cost);
            let usual = u64::from(USUAL_SKIP_WEIGHT);
            self.worth = (bits_gained * usual / u64::from(mending_bits.max(1))).min(u64::from(u32::MAX) - 1) as u32;
            let weighted = u64::from(mending_bits) * u64::from(costs.skip_weight) / usual;
            let mended = costs.lagrangian.squared(coded_error, self.mode_bits + weighted as u32);
            if skipped <= mended {
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

    /// [`Trial::code`] for a prediction of which it is known that all coefficients lie in the dead zones; it costs nothing
    /// that anything could be compared with.
    pub(crate) fn leave_empty(&mut self) {
        self.residual.clear();
        (self.coefficient_bits, self.worth, self.unrestored, self.hopeless) = (0, u32::MAX, false, true);
        self.cost = 0;
    }

    /// Whether the prediction is all that stands there, and has a residual.
    pub(crate) fn is_unrestored(&self) -> bool {
        self.unrestored
    }

    /// Reconstructs the macroblock, where that was left for when it is chosen.
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

/// What is known of a prediction from a reference before its residual is transformed.
struct Predicted {
    /// Its squared error.
    error: u32,
    /// Whether any of it can be mended: else the residual quantizes to nothing.
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
        // A coefficient but the DC is, squared, at most a quarter of what its subblock varies by; the DC is half the sum.
        let limit = |quantizer: &ForwardQuantizer| 4 * quantizer.dead_zone.ac.pow(2);
        let dc = |sum: i16| (sum + 1) >> 1;
        // All of them and no branch, which vector instructions do at once.
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
                // No coefficient is larger than half of all magnitudes, which most often says enough.
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
