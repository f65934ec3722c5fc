//! Which way to predict a macroblock from its own frame is taken.

use super::Preset;
use super::distortion::{satd, satd_4x4, sse};
use super::frame_encoder::FrameEncoder;
use super::header_writer::key_subblock_probabilities;
use super::mode_costs::{chroma_path, key_luma_path, luma_path, path_cost, subblock_path};
use super::residual::Residual;
use super::tokens::BlockKind;
use super::trial::Place;
use crate::macroblock::{LumaMode, MacroblockInfo, MotionVector, ReferenceFrame, SubblockMode};
use crate::predict::intra::{ABOVE_FRAME, Edges, LEFT_OF_FRAME, predict_block, predict_subblock};
use crate::tables::{
    DEFAULT_SUBBLOCK_MODE_PROBABILITIES, KEY_FRAME_CHROMA_MODE_PROBABILITIES, KEY_FRAME_LUMA_MODE_PROBABILITIES,
};

const WHOLE_MODES: [LumaMode; 4] = [LumaMode::Dc, LumaMode::Vertical, LumaMode::Horizontal, LumaMode::TrueMotion];

/// The samples of a macroblock's luma with those around it that subblock prediction reads.
struct Canvas {
    samples: [u8; CANVAS_STRIDE * 17],
}

const CANVAS_STRIDE: usize = 32;
/// Index of the macroblock's first sample: one row and eight columns in.
const CANVAS_ORIGIN: usize = CANVAS_STRIDE + 8;

/// How many of a subblock's modes are coded in full before one is chosen, for quality.
const SUBBLOCK_SURVIVORS: usize = 3;

impl FrameEncoder<'_> {
    /// Tries the intra modes: the best for the whole macroblock, and the best for each subblock.
    pub(super) fn decide_intra(&mut self, place: &Place) {
        self.decide_intra_below(place, u32::MAX);
    }

    /// [`FrameEncoder::decide_intra`], but for modes whose transformed cost is well above `bar`.
    pub(super) fn decide_intra_below(&mut self, place: &Place, bar: u32) {
        let (mode, bits, error) = self.choose_whole(place);
        let cost = self.lagrangian.transformed(error, bits + self.intra_bits());
        // Subblocks may halve the error, no more.
        if cost / 2 > bar {
            return;
        }
        let (chroma_mode, chroma, chroma_bits) = self.choose_chroma(place);
        let chroma_bits = chroma_bits + self.intra_bits();

        if cost <= bar.saturating_add(bar / 8) {
            self.trial.info = intra_info(mode, chroma_mode);
            self.trial.info.subblock_modes = [SubblockMode::implied_by(mode); 16];
            self.trial.mode_bits = bits + chroma_bits;
            self.trial.chroma = chroma;
            self.code_trial(place);
        }

        // A whole mode that leaves next to nothing cannot be beaten.
        if error > 8 * self.step {
            let Some(bits) = self.code_subblocks(place, chroma_mode, bar) else { return };
            self.trial.mode_bits = bits + chroma_bits;
            self.trial.chroma = chroma;
            self.code_trial(place);
        }
    }

    /// The cost of saying that a macroblock is intra.
    fn intra_bits(&self) -> u32 {
        if self.analysis.key_frame { 0 } else { self.reference_costs[ReferenceFrame::Intra as usize] }
    }

    fn luma_mode_bits(&self, mode: LumaMode) -> u32 {
        if self.analysis.key_frame {
            path_cost(key_luma_path(mode), &KEY_FRAME_LUMA_MODE_PROBABILITIES)
        } else {
            path_cost(luma_path(mode), &self.analysis.probabilities.luma_modes)
        }
    }

    /// The best whole mode by transformed error, predicted into the trial; its bits and error.
    fn choose_whole(&mut self, place: &Place) -> (LumaMode, u32, u32) {
        let plane = self.analysis.layout.planes[0];
        let at = plane.origin + 16 * place.row * plane.stride + 16 * place.column;
        let edges = Edges::<16>::gather(self.buffer.samples_mut(), plane.stride, at, place.row > 0, place.column > 0);
        let source = &self.analysis.source.planes[0];
        let mut best = (LumaMode::Dc, 0, u32::MAX, u32::MAX);
        let mut prediction = [0u8; 256];
        for mode in WHOLE_MODES {
            predict_block(mode, &edges, &mut prediction, 16);
            let error = satd::<16, 16>(source.at(16 * place.column, 16 * place.row), source.stride, &prediction, 16);
            let bits = self.luma_mode_bits(mode);
            let cost = self.lagrangian.transformed(error, bits);
            if cost < best.3 {
                best = (mode, bits, error, cost);
                self.trial.luma = prediction;
            }
        }
        (best.0, best.1, best.2)
    }

    /// The best chroma mode by transformed error, its prediction and bits.
    fn choose_chroma(&mut self, place: &Place) -> (LumaMode, [[u8; 64]; 2], u32) {
        let planes = self.analysis.layout.planes;
        let samples = self.buffer.samples_mut();
        let edges = [1, 2].map(|index: usize| {
            let plane = planes[index];
            let at = plane.origin + 8 * place.row * plane.stride + 8 * place.column;
            Edges::<8>::gather(samples, plane.stride, at, place.row > 0, place.column > 0)
        });
        let probabilities = if self.analysis.key_frame {
            &KEY_FRAME_CHROMA_MODE_PROBABILITIES
        } else {
            &self.analysis.probabilities.chroma_modes
        };
        let mut best = (LumaMode::Dc, [[0; 64]; 2], 0);
        let mut best_cost = u32::MAX;
        for mode in WHOLE_MODES {
            let mut prediction = [[0u8; 64]; 2];
            let mut error = 0;
            for index in 0..2 {
                predict_block(mode, &edges[index], &mut prediction[index], 8);
                let source = &self.analysis.source.planes[index + 1];
                let original = source.at(8 * place.column, 8 * place.row);
                error += satd::<8, 8>(original, source.stride, &prediction[index], 8);
            }
            let bits = path_cost(chroma_path(mode), probabilities);
            let cost = self.lagrangian.transformed(error, bits);
            if cost < best_cost {
                best = (mode, prediction, bits);
                best_cost = cost;
            }
        }
        best
    }

    /// Chooses, codes and reconstructs the trial's luma subblock by subblock; gives the bits of the modes, or nothing once
    /// their transformed cost rises above `bar`.
    fn code_subblocks(&mut self, place: &Place, chroma_mode: LumaMode, bar: u32) -> Option<u32> {
        let mut canvas = self.canvas(place);
        let mut info = intra_info(LumaMode::Subblocks, chroma_mode);
        let [above, left, _] = self.macroblocks.neighbours(place.column, place.row);
        let analysis = self.analysis;
        let source = &analysis.source.planes[0];
        self.trial.residual.clear();
        let mut total = self.luma_mode_bits(LumaMode::Subblocks);
        let mut transformed = self.lagrangian.transformed(0, total + self.intra_bits());
        let quantizer = self.luma_quantizer().clone();
        for block in 0..16 {
            let (x, y) = (4 * (block % 4), 4 * (block / 4));
            let original = source.at(16 * place.column + x, 16 * place.row + y);
            let at = CANVAS_ORIGIN + y * CANVAS_STRIDE + x;
            let probabilities = if analysis.key_frame {
                key_subblock_probabilities(block, &info, above, left)
            } else {
                &DEFAULT_SUBBLOCK_MODE_PROBABILITIES
            };
            let (edge_above, edge_left, corner) = canvas.edges(at);
            // The cheapest by transformed error, cheapest first.
            let mut survivors = [(u32::MAX, SubblockMode::Dc, [0u8; 16], 0u32); SUBBLOCK_SURVIVORS];
            for mode in SubblockMode::ALL {
                let mut prediction = [0u8; 16];
                predict_subblock(mode, &edge_above, &edge_left, corner, &mut prediction, 4);
                let error = satd_4x4(original, source.stride, &prediction, 4);
                let bits = path_cost(subblock_path(mode), probabilities);
                let cost = self.lagrangian.transformed(error, bits);
                if let Some(slot) = survivors.iter().position(|survivor| cost < survivor.0) {
                    survivors[slot..].rotate_right(1);
                    survivors[slot] = (cost, mode, prediction, bits);
                }
            }
            let chosen = if analysis.preset == Preset::Quality {
                let mut residual = std::mem::take(&mut self.trial.residual);
                let chosen = self.best_survivor(block, original, &survivors, &mut residual);
                self.trial.residual = residual;
                chosen
            } else {
                0
            };
            let (cost, mode, mut samples, bits) = survivors[chosen];
            transformed = transformed.saturating_add(cost);
            if transformed > bar {
                return None;
            }
            self.trial.residual.code_subblock(block, original, source.stride, &mut samples, 4, &quantizer);
            for (row, line) in samples.chunks_exact(4).enumerate() {
                canvas.samples[at + row * CANVAS_STRIDE..][..4].copy_from_slice(line);
            }
            info.subblock_modes[block] = mode;
            total += bits;
        }
        for (y, row) in self.trial.luma.chunks_exact_mut(16).enumerate() {
            row.copy_from_slice(&canvas.samples[CANVAS_ORIGIN + y * CANVAS_STRIDE..][..16]);
        }
        self.trial.info = info;
        Some(total)
    }

    /// Codes each of a subblock's surviving modes and gives the index of the one with the least error and bits.
    fn best_survivor(
        &self,
        block: usize,
        original: &[u8],
        survivors: &[(u32, SubblockMode, [u8; 16], u32); SUBBLOCK_SURVIVORS],
        residual: &mut Residual,
    ) -> usize {
        let stride = self.analysis.source.planes[0].stride;
        let mut best = (0, u64::MAX);
        for (index, (_, _, prediction, bits)) in survivors.iter().enumerate() {
            let mut samples = *prediction;
            residual.code_subblock(block, original, stride, &mut samples, 4, self.luma_quantizer());
            let error = sse::<4, 4>(original, stride, &samples, 4);
            let end = usize::from(residual.ends[block]);
            let tokens = self.analysis.token_costs.block(BlockKind::Luma, 1, &residual.levels[block], end);
            let cost = self.lagrangian.squared(error, bits + tokens);
            if cost < best.1 {
                best = (index, cost);
            }
        }
        best.0
    }

    /// The surroundings of a macroblock's luma; outside the frame stand the values that prediction sees there.
    fn canvas(&mut self, place: &Place) -> Canvas {
        let plane = self.analysis.layout.planes[0];
        let columns = self.analysis.layout.columns;
        let samples = &*self.buffer.samples_mut();
        let at = plane.origin + 16 * place.row * plane.stride + 16 * place.column;
        let mut canvas = Canvas { samples: [0; CANVAS_STRIDE * 17] };
        let (has_above, has_left) = (place.row > 0, place.column > 0);
        let first_row = &mut canvas.samples[..CANVAS_STRIDE];
        first_row[7] = match (has_above, has_left) {
            (false, _) => ABOVE_FRAME,
            (true, false) => LEFT_OF_FRAME,
            (true, true) => samples[at - plane.stride - 1],
        };
        if has_above {
            let above = at - plane.stride;
            first_row[8..24].copy_from_slice(&samples[above..above + 16]);
            if place.column + 1 < columns {
                first_row[24..28].copy_from_slice(&samples[above + 16..above + 20]);
            } else {
                first_row[24..28].fill(samples[above + 15]);
            }
        } else {
            first_row[8..28].fill(ABOVE_FRAME);
        }
        // What stands above to the right of the macroblock serves the right subblocks of all four rows.
        let above_right: [u8; 4] = canvas.samples[24..28].try_into().expect("four samples");
        for row in [4, 8, 12] {
            canvas.samples[CANVAS_STRIDE * row + 24..][..4].copy_from_slice(&above_right);
        }
        for row in 0..16 {
            let value = if has_left { samples[at + row * plane.stride - 1] } else { LEFT_OF_FRAME };
            canvas.samples[CANVAS_ORIGIN + row * CANVAS_STRIDE - 1] = value;
        }
        canvas
    }
}

impl Canvas {
    /// The eight samples above a subblock, the four to its left, and the one between them.
    fn edges(&self, at: usize) -> ([u8; 8], [u8; 4], u8) {
        let above = *self.samples[at - CANVAS_STRIDE..].first_chunk().expect("a row above");
        let left = std::array::from_fn(|row| self.samples[at + row * CANVAS_STRIDE - 1]);
        (above, left, self.samples[at - CANVAS_STRIDE - 1])
    }
}

fn intra_info(luma_mode: LumaMode, chroma_mode: LumaMode) -> MacroblockInfo {
    MacroblockInfo {
        luma_mode,
        chroma_mode,
        reference: ReferenceFrame::Intra,
        motion_vector: MotionVector::ZERO,
        segment: 0,
        partitioning: 0,
        skip: false,
        has_coefficients: false,
        subblock_modes: [SubblockMode::Dc; 16],
        subblock_vectors: [MotionVector::ZERO; 16],
    }
}
