//! The output of coding: a frame under construction.

use super::analysis::Analysis;
use super::frame_quantizers::DeadZones;
use super::macroblocks::Macroblocks;
use super::mode_counts::ModeCounts;
use super::residual::EdgeContext;
use super::tokens::TokenBuffer;
use super::trial::{Place, Trial};
use crate::block_copy::copy_block;
use crate::frame::{FrameBuffer, PlaneLayout};
use crate::neighbours::NearVectors;

/// A frame under construction. Macroblocks are added row by row; later decisions use those already added.
pub(super) struct Canvas {
    /// The reconstruction, which stays unfiltered until it is complete.
    pub(super) buffer: FrameBuffer,
    pub(super) macroblocks: Macroblocks,
    pub(super) tokens: TokenBuffer,
    pub(super) counts: ModeCounts,
    /// The widest dead zones of all macroblocks.
    pub(super) dead_zones: DeadZones,
    above: Vec<EdgeContext>,
    left: EdgeContext,
}

impl Canvas {
    /// Creates an empty frame with the initial `dead_zones`.
    pub(super) fn new(analysis: &Analysis, dead_zones: DeadZones) -> Self {
        let layout = analysis.layout;
        let count = layout.columns * layout.rows;
        let arena = &analysis.arena;
        Self {
            buffer: arena.frame(layout),
            macroblocks: Macroblocks::new(layout.columns, layout.rows, arena.macroblocks().take(count)),
            tokens: TokenBuffer::new(arena.tokens().take(count * 32)),
            counts: ModeCounts::default(),
            dead_zones,
            above: vec![EdgeContext::default(); layout.columns],
            left: EdgeContext::default(),
        }
    }

    /// Position and context of the next macroblock.
    pub(super) fn place(&mut self, column: usize, row: usize, key_frame: bool) -> Place {
        if column == 0 {
            self.left = EdgeContext::default();
        }
        let near = if key_frame { NearVectors::NONE } else { self.macroblocks.near_vectors(column, row) };
        Place { column, row, above: self.above[column], left: self.left, near }
    }

    /// Adds the macroblock at `place` as `chosen`.
    pub(super) fn add(&mut self, place: &Place, chosen: &mut Trial, key_frame: bool) {
        let second_order = chosen.info.luma_mode.has_second_order();
        let empty = chosen.residual.is_empty();
        chosen.info.skip = empty;
        chosen.info.has_coefficients = !empty;
        let (above, left) = (&mut self.above[place.column], &mut self.left);
        if empty {
            above.clear(second_order);
            left.clear(second_order);
        } else {
            chosen.residual.update_contexts(second_order, above, left);
            self.tokens.push(chosen.residual.tokens());
        }
        // Before the samples: their cache lines are often missing, and reads of these flags would wait for the stores.
        self.counts.add(&chosen.info, key_frame);
        self.macroblocks.push(chosen.info, &chosen.partition_vectors, place.near, chosen.quantizes_to_zero);
        let [luma, u, v] = self.buffer.layout().planes;
        let samples = self.buffer.samples_mut();
        put::<16>(samples, &luma, place, &chosen.luma);
        put::<8>(samples, &u, place, &chosen.chroma[0]);
        put::<8>(samples, &v, place, &chosen.chroma[1]);
    }
}

/// Copies the `W` x `W` samples of a macroblock into a plane.
#[inline]
fn put<const W: usize>(samples: &mut [u8], plane: &PlaneLayout, place: &Place, block: &[u8]) {
    let start = plane.origin + W * place.row * plane.stride + W * place.column;
    copy_block::<W, W>(block, W, &mut samples[start..], plane.stride);
}
