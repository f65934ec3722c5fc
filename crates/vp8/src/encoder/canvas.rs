//! What a frame in the making has become so far: all that coding writes.

use super::analysis::Analysis;
use super::macroblocks::Macroblocks;
use super::mode_counts::ModeCounts;
use super::residual::EdgeContext;
use super::tokens::TokenBuffer;
use super::trial::{Place, Trial};
use crate::frame::FrameBuffer;
use crate::neighbours::NearVectors;

/// A frame in the making. Macroblocks are added row by row; those that are there are what the next are decided by.
pub(super) struct Canvas {
    /// The reconstruction; not filtered before all of it is there.
    pub(super) buffer: FrameBuffer,
    pub(super) macroblocks: Macroblocks,
    pub(super) tokens: TokenBuffer,
    pub(super) counts: ModeCounts,
    above: Vec<EdgeContext>,
    left: EdgeContext,
}

impl Canvas {
    /// An empty frame.
    pub(super) fn new(analysis: &Analysis) -> Self {
        let layout = analysis.layout;
        let count = layout.columns * layout.rows;
        let arena = &analysis.arena;
        Self {
            buffer: arena.frame(layout),
            macroblocks: Macroblocks::new(layout.columns, layout.rows, arena.macroblocks().take(count)),
            tokens: TokenBuffer::new(arena.tokens().take(count * 32)),
            counts: ModeCounts::default(),
            above: vec![EdgeContext::default(); layout.columns],
            left: EdgeContext::default(),
        }
    }

    /// The place of the next macroblock.
    pub(super) fn place(&mut self, column: usize, row: usize, key_frame: bool) -> Place {
        if column == 0 {
            self.left = EdgeContext::default();
        }
        let near = if key_frame { NearVectors::NONE } else { self.macroblocks.near_vectors(column, row) };
        Place { column, row, above: self.above[column], left: self.left, near }
    }

    /// Adds the macroblock at `place`, coded as it was chosen to be.
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
            chosen.residual.leave(second_order, above, left);
            self.tokens.push(chosen.residual.tokens());
        }
        // Before the samples: their lines are seldom in the cache, and what reads these flags waits for older stores.
        self.counts.add(&chosen.info, key_frame);
        self.macroblocks.push(chosen.info, &chosen.partition_vectors, place.near);
        let planes = self.buffer.layout().planes;
        let samples = self.buffer.samples_mut();
        let start = planes[0].origin + 16 * place.row * planes[0].stride + 16 * place.column;
        for (y, row) in chosen.luma.chunks_exact(16).enumerate() {
            samples[start + y * planes[0].stride..][..16].copy_from_slice(row);
        }
        for (plane, chroma) in planes[1..].iter().zip(&chosen.chroma) {
            let start = plane.origin + 8 * place.row * plane.stride + 8 * place.column;
            for (y, row) in chroma.chunks_exact(8).enumerate() {
                samples[start + y * plane.stride..][..8].copy_from_slice(row);
            }
        }
    }
}
