//! Decision between the intra modes of a macroblock.

use super::canvas::CanvasRow;
use super::contest::Contest;
use super::costs::Costs;
use super::distortion::{satd, sse};
use super::mode_costs::{KEY_SUBBLOCK_COSTS, SUBBLOCK_COSTS, chroma_path, path_cost};
use super::packed_token::BlockKind;
use super::packed_tokens::PackedTokens;
use super::residual::Residual;
use super::subblock_modes::{Judged, SubblockEdges, judge};
use super::trial::Place;
use super::whole_modes::{WHOLE_MODES, luma_errors};
use crate::macroblock::{LumaMode, MacroblockInfo, SubblockMode};
use crate::neighbours::neighbouring_subblock_modes;
use crate::predict::intra::predict_block;

/// A mode for a whole block, in one plane (luma) or two (chroma), chosen by SATD.
struct BlockChoice<P> {
    mode: LumaMode,
    /// Cost of the mode.
    bits: u32,
    /// SATD of the prediction.
    error: u32,
    prediction: P,
}

/// Modes of all subblocks.
struct SubblocksChoice {
    modes: [SubblockMode; 16],
    /// Cost of the subblock modes and of the luma mode.
    bits: u32,
    /// Reconstructed luma.
    luma: [u8; 256],
}

/// Tries the best intra mode for the whole macroblock, and the best mode for each subblock.
pub(super) fn try_intra(costs: &Costs<'_>, canvas: &CanvasRow<'_>, place: &Place, contest: &mut Contest) {
    try_intra_below(costs, canvas, place, u32::MAX, contest);
}

/// [`try_intra`], limited to modes whose SATD cost is not far above `bar`.
pub(super) fn try_intra_below(
    costs: &Costs<'_>,
    canvas: &CanvasRow<'_>,
    place: &Place,
    bar: u32,
    contest: &mut Contest,
) {
    let whole = choose_whole(costs, canvas, place);
    let cost = costs.lagrangian.transformed(whole.error, whole.bits + costs.intra());
    // Subblock modes can at most halve the error. They seldom reduce it by more than three eighths.
    let least = if costs.analysis.tools.doubtful_intra { cost / 2 } else { cost / 8 * 5 };
    if least > bar {
        return;
    }
    let chroma = choose_chroma(costs, canvas, place);
    let chroma_bits = chroma.bits + costs.intra();

    if cost <= bar.saturating_add(bar / 8) {
        let next = &mut contest.next;
        next.info = MacroblockInfo::intra(whole.mode, chroma.mode);
        next.info.subblock_modes = [SubblockMode::implied_by(whole.mode); 16];
        next.mode_bits = whole.bits + chroma_bits;
        (next.luma, next.chroma) = (whole.prediction, chroma.prediction);
        contest.run(costs, place);
    }

    // Subblock modes cannot beat a whole mode that leaves almost no error.
    if whole.error > 8 * costs.step {
        let next = &mut contest.next;
        let Some(choice) = choose_subblocks(costs, canvas, place, bar, &mut next.residual) else { return };
        next.info = MacroblockInfo::intra(LumaMode::Subblocks, chroma.mode);
        next.info.subblock_modes = choice.modes;
        next.mode_bits = choice.bits + chroma_bits;
        (next.luma, next.chroma) = (choice.luma, chroma.prediction);
        contest.run(costs, place);
    }
}

/// The best luma mode for the whole macroblock.
fn choose_whole(costs: &Costs<'_>, canvas: &CanvasRow<'_>, place: &Place) -> BlockChoice<[u8; 256]> {
    let analysis = costs.analysis;
    let edges = canvas.luma_edges(place.column);
    let source = &analysis.source.planes[0];
    let original = source.at(16 * place.column, 16 * place.row);
    let mut best = BlockChoice { mode: LumaMode::Dc, bits: 0, error: u32::MAX, prediction: [0; 256] };
    let mut best_cost = u32::MAX;
    for (mode, error) in WHOLE_MODES.into_iter().zip(luma_errors(original, source.stride, &edges)) {
        let bits = costs.luma_mode(mode);
        let cost = costs.lagrangian.transformed(error, bits);
        if cost < best_cost {
            (best.mode, best.bits, best.error, best_cost) = (mode, bits, error, cost);
        }
    }
    predict_block(best.mode, &edges, &mut best.prediction, 16);
    best
}

/// The best chroma mode.
fn choose_chroma(costs: &Costs<'_>, canvas: &CanvasRow<'_>, place: &Place) -> BlockChoice<[[u8; 64]; 2]> {
    let analysis = costs.analysis;
    let edges = canvas.chroma_edges(place.column);
    let probabilities = costs.chroma_mode_probabilities();
    let mut best = BlockChoice { mode: LumaMode::Dc, bits: 0, error: u32::MAX, prediction: [[0; 64]; 2] };
    let mut best_cost = u32::MAX;
    for mode in WHOLE_MODES {
        let mut prediction = [[0u8; 64]; 2];
        let mut error = 0;
        for index in 0..2 {
            predict_block(mode, &edges[index], &mut prediction[index], 8);
            let source = &analysis.source.planes[index + 1];
            let original = source.at(8 * place.column, 8 * place.row);
            error += satd::<8, 8>(original, source.stride, &prediction[index], 8);
        }
        let bits = path_cost(chroma_path(mode), probabilities);
        let cost = costs.lagrangian.transformed(error, bits);
        if cost < best_cost {
            best = BlockChoice { mode, bits, error, prediction };
            best_cost = cost;
        }
    }
    best
}

/// Chooses the best mode of each subblock in order. Each subblock is coded into `residual` before the next is predicted
/// from it. Returns `None` once the total SATD cost exceeds `bar`.
fn choose_subblocks(
    costs: &Costs<'_>,
    canvas: &CanvasRow<'_>,
    place: &Place,
    bar: u32,
    residual: &mut Residual,
) -> Option<SubblocksChoice> {
    let analysis = costs.analysis;
    let mut around = Surroundings::of(canvas, place);
    // The context of the following subblock modes.
    let mut info = MacroblockInfo::intra(LumaMode::Subblocks, LumaMode::Dc);
    let [above, left, _] = canvas.neighbours(place.column);
    let source = &analysis.source.planes[0];
    residual.clear();
    let mut total = costs.luma_mode(LumaMode::Subblocks);
    let mut transformed = costs.lagrangian.transformed(0, total + costs.intra());
    let weighed = |bits: &[u32; 10]| bits.map(|bits| costs.lagrangian.transformed(0, bits));
    let (mut mode_bits, mut weighed_bits) = (&SUBBLOCK_COSTS, weighed(&SUBBLOCK_COSTS));
    for block in 0..16 {
        let (x, y) = (4 * (block % 4), 4 * (block / 4));
        let original = source.at(16 * place.column + x, 16 * place.row + y);
        let at = SURROUNDINGS_ORIGIN + y * SURROUNDINGS_STRIDE + x;
        if analysis.key_frame {
            let [above, left] = neighbouring_subblock_modes(block, &info, above, left);
            mode_bits = &KEY_SUBBLOCK_COSTS[above as usize][left as usize];
            weighed_bits = weighed(mode_bits);
        }
        let judged = judge(original, source.stride, &around.edges(at));
        let mode_costs: [u32; 10] =
            std::array::from_fn(|mode| costs.lagrangian.transformed(judged.errors[mode], 0) + weighed_bits[mode]);
        let chosen = if analysis.tools.subblock_survivors > 1 {
            best_survivor(costs, block, original, &judged, &mode_costs, mode_bits, residual)
        } else {
            (0..10).min_by_key(|&mode| mode_costs[mode]).expect("at least one mode")
        };
        let (mode, bits) = (SubblockMode::ALL[chosen], mode_bits[chosen]);
        let (cost, mut samples) = (mode_costs[chosen], judged.predictions[chosen]);
        transformed = transformed.saturating_add(cost);
        if transformed > bar {
            return None;
        }
        residual.code_subblock(block, original, source.stride, &mut samples, 4, &costs.quantizers.luma);
        for (row, line) in samples.chunks_exact(4).enumerate() {
            around.samples[at + row * SURROUNDINGS_STRIDE..][..4].copy_from_slice(line);
        }
        info.subblock_modes[block] = mode;
        total += bits;
    }
    Some(SubblocksChoice { modes: info.subblock_modes, bits: total, luma: around.luma() })
}

/// Codes the modes with the lowest SATD cost, and returns the one with the lowest rate-distortion cost.
fn best_survivor(
    costs: &Costs<'_>,
    block: usize,
    original: &[u8],
    judged: &Judged,
    mode_costs: &[u32; 10],
    mode_bits: &[u32; 10],
    residual: &mut Residual,
) -> usize {
    let stride = costs.analysis.source.planes[0].stride;
    let mut survivors: [usize; 10] = std::array::from_fn(|mode| mode);
    let count = costs.analysis.tools.subblock_survivors;
    for place in 0..count {
        let cheapest = (place..10).min_by_key(|&at| mode_costs[survivors[at]]).expect("more modes than survivors");
        survivors[place..=cheapest].rotate_right(1);
    }
    let mut best = (0, u64::MAX);
    let mut tokens = PackedTokens::default();
    for &mode in &survivors[..count] {
        let mut samples = judged.predictions[mode];
        residual.code_subblock(block, original, stride, &mut samples, 4, &costs.quantizers.luma);
        let error = sse::<4, 4>(original, stride, &samples, 4);
        tokens.clear();
        let (levels, ends) = (&residual.levels[block..=block], &residual.ends[block..=block]);
        tokens.append(BlockKind::Luma, levels, ends, &[1]);
        let bits = costs.analysis.token_costs.of(tokens.all());
        let cost = costs.lagrangian.squared(error, mode_bits[mode] + bits);
        if cost < best.1 {
            best = (mode, cost);
        }
    }
    best.0
}

/// A macroblock's luma and the samples around it that subblock prediction reads.
struct Surroundings {
    samples: [u8; SURROUNDINGS_STRIDE * 17],
}

const SURROUNDINGS_STRIDE: usize = 32;
/// Index of the macroblock's first sample: one row down and eight columns to the right.
const SURROUNDINGS_ORIGIN: usize = SURROUNDINGS_STRIDE + 8;

impl Surroundings {
    /// Gathers the surroundings of a macroblock's luma. Outside the frame they have the values that prediction uses
    /// there.
    fn of(canvas: &CanvasRow<'_>, place: &Place) -> Self {
        let edges = canvas.luma_edges(place.column);
        let mut around = Self { samples: [0; SURROUNDINGS_STRIDE * 17] };
        around.samples[7] = edges.corner;
        around.samples[8..24].copy_from_slice(&edges.above);
        // The samples above and to the right of the macroblock serve the right subblocks of all four rows.
        let above_right = canvas.above_right(place.column);
        for row in [0, 4, 8, 12] {
            around.samples[SURROUNDINGS_STRIDE * row + 24..][..4].copy_from_slice(&above_right);
        }
        for (row, value) in edges.left.into_iter().enumerate() {
            around.samples[SURROUNDINGS_ORIGIN + row * SURROUNDINGS_STRIDE - 1] = value;
        }
        around
    }

    /// The luma of the macroblock itself.
    fn luma(&self) -> [u8; 256] {
        let mut luma = [0; 256];
        for (y, row) in luma.chunks_exact_mut(16).enumerate() {
            row.copy_from_slice(&self.samples[SURROUNDINGS_ORIGIN + y * SURROUNDINGS_STRIDE..][..16]);
        }
        luma
    }

    /// The eight samples above a subblock, the four to its left, and the corner.
    fn edges(&self, at: usize) -> SubblockEdges {
        let above = *self.samples[at - SURROUNDINGS_STRIDE..].first_chunk().expect("a row above");
        let left = std::array::from_fn(|row| self.samples[at + row * SURROUNDINGS_STRIDE - 1]);
        (above, left, self.samples[at - SURROUNDINGS_STRIDE - 1])
    }
}
