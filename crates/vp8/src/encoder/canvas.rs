//! The output of coding: a frame under construction, row by row.
//!
//! A [`CanvasRow`] is the part that the decisions of one row of macroblocks read and extend. It owns the samples of its row.
//! Of the row above it reads what [`Coded`] keeps. So two rows can be under construction at the same time.

use super::lanes::Lanes;
use super::macroblocks::{BATCH, Batches, Coded, Cost};
use super::mode_counts::ModeCounts;
use super::residual::EdgeContext;
use super::tokens::LaneTokens;
use super::trial::{Place, Trial};
use crate::block_copy::copy_block;
use crate::frame::FrameLayout;
use crate::macroblock::{MacroblockInfo, ReferenceFrame};
use crate::motion_vector::VectorBounds;
use crate::neighbours::{NearVectors, find_near_vectors};
use crate::predict::intra::{ABOVE_FRAME, Edges, LEFT_OF_FRAME};

/// A row of macroblocks under construction. They are added from left to right.
pub(super) struct CanvasRow<'a> {
    row: usize,
    layout: FrameLayout,
    key_frame: bool,
    /// The complete batches of the frame.
    batches: &'a Batches,
    /// The batch under construction.
    batch: [Coded; BATCH],
    /// Lines of luma, U and V, unfiltered, from the first sample of the row on.
    samples: [&'a mut [u8]; 3],
    pub(super) counts: ModeCounts,
    left: EdgeContext,
}

impl<'a> CanvasRow<'a> {
    /// An empty row.
    pub(super) fn new(
        row: usize,
        layout: FrameLayout,
        key_frame: bool,
        batches: &'a Batches,
        samples: [&'a mut [u8]; 3],
    ) -> Self {
        let (counts, left) = (ModeCounts::default(), EdgeContext::default());
        Self { row, layout, key_frame, batches, batch: [Coded::NONE; BATCH], samples, counts, left }
    }

    /// Position and context of the next macroblock. Waits until the row above is complete there and to the right.
    pub(super) fn place(&self, column: usize, lanes: &Lanes) -> Place {
        let FrameLayout { columns, rows, .. } = self.layout;
        let row = self.row;
        let above = if row > 0 {
            let right = (column + 1).min(columns - 1);
            if column == 0 || right.is_multiple_of(BATCH) {
                lanes.wait(self.batches.batch(right, row - 1));
            }
            self.above(column).context
        } else {
            EdgeContext::NONE
        };
        let near = if self.key_frame {
            NearVectors::NONE
        } else {
            // The encoder uses no sign bias, so the near vectors are the same for all references.
            let [above, left, above_left] = self.neighbours(column);
            let bounds = VectorBounds::at(column, row, columns, rows);
            find_near_vectors(above, left, above_left, ReferenceFrame::Last, &[false; 4], &bounds)
        };
        Place { column, row, above, left: self.left, near }
    }

    /// The macroblock above `column`.
    // One copy of this and of `neighbours` makes the page 1 kB smaller.
    #[inline(never)]
    fn above(&self, column: usize) -> &Coded {
        self.batches.at(column, self.row - 1)
    }

    /// The neighbours above, to the left, and above to the left.
    #[inline(never)]
    pub(super) fn neighbours(&self, column: usize) -> [&MacroblockInfo; 3] {
        let outside = &MacroblockInfo::OUTSIDE;
        let above = |column: usize| if self.row > 0 { &self.above(column).info } else { outside };
        let Some(before) = column.checked_sub(1) else { return [above(column), outside, outside] };
        let left = &self.batch[before % BATCH].info;
        [above(column), left, above(before)]
    }

    /// Samples around a macroblock's luma.
    pub(super) fn luma_edges(&self, column: usize) -> Edges<16> {
        self.edges(0, column, |above| &above.luma)
    }

    /// Samples around both chroma blocks of a macroblock.
    pub(super) fn chroma_edges(&self, column: usize) -> [Edges<8>; 2] {
        [0, 1].map(|index| self.edges(index + 1, column, |above| &above.chroma[index]))
    }

    // Inlined where it is used, it would make the page 2 kB larger.
    /// Samples around a block of a plane. `lowest` selects the lowest line of a macroblock above.
    #[inline(never)]
    fn edges<const N: usize>(&self, plane: usize, column: usize, lowest: impl Fn(&Coded) -> &[u8; N]) -> Edges<N> {
        let (has_above, has_left) = (self.row > 0, column > 0);
        let (samples, stride) = (&self.samples[plane], self.layout.planes[plane].stride);
        let mut left = [LEFT_OF_FRAME; N];
        if let Some(before) = (N * column).checked_sub(1) {
            for (sample, line) in left.iter_mut().zip(samples.chunks(stride)) {
                *sample = line[before];
            }
        }
        let corner = match (has_above, has_left) {
            (true, true) => lowest(self.above(column - 1))[N - 1],
            (true, false) => LEFT_OF_FRAME,
            (false, _) => ABOVE_FRAME,
        };
        let above = if has_above { *lowest(self.above(column)) } else { [ABOVE_FRAME; N] };
        Edges { above, left, corner, has_above, has_left }
    }

    /// The four samples above and to the right of a macroblock's luma.
    pub(super) fn above_right(&self, column: usize) -> [u8; 4] {
        if self.row == 0 {
            [ABOVE_FRAME; 4]
        } else if column + 1 < self.layout.columns {
            *self.above(column + 1).luma.first_chunk().expect("four samples")
        } else {
            [self.above(column).luma[15]; 4]
        }
    }

    /// Adds the macroblock at `place` as `chosen`, whose coefficients have this `cost`. Its tokens go to those of the lane.
    pub(super) fn add(
        &mut self,
        place: &Place,
        chosen: &mut Trial,
        cost: Cost,
        tokens: &mut LaneTokens,
        lanes: &Lanes,
    ) {
        let second_order = chosen.info.luma_mode.has_second_order();
        let empty = chosen.residual.is_empty();
        chosen.info.skip = empty;
        chosen.info.has_coefficients = !empty;
        let (mut context, left) = (place.above, &mut self.left);
        if empty {
            context.clear(second_order);
            left.clear(second_order);
        } else {
            chosen.residual.update_contexts(second_order, &mut context, left);
            tokens.push(chosen.residual.tokens());
        }
        // Before the samples: their cache lines are often missing, and reads of these flags would wait for the stores.
        self.counts.add(&chosen.info, self.key_frame);
        let column = place.column;
        self.batch[column % BATCH] = Coded {
            info: chosen.info,
            near: place.near,
            partition_vectors: chosen.partition_vectors,
            quantizes_to_zero: chosen.quantizes_to_zero,
            cost,
            context,
            luma: *chosen.luma.last_chunk().expect("the last line of luma"),
            chroma: chosen.chroma.map(|plane| *plane.last_chunk().expect("the last line of chroma")),
        };
        if (column + 1).is_multiple_of(BATCH) || column + 1 == self.layout.columns {
            lanes.publish(self.batches.batch(column, place.row), self.batch);
        }
        let [luma, u, v] = &mut self.samples;
        let [luma_plane, u_plane, v_plane] = self.layout.planes;
        copy_block::<16, 16>(&chosen.luma, 16, &mut luma[16 * column..], luma_plane.stride);
        copy_block::<8, 8>(&chosen.chroma[0], 8, &mut u[8 * column..], u_plane.stride);
        copy_block::<8, 8>(&chosen.chroma[1], 8, &mut v[8 * column..], v_plane.stride);
    }
}
