//! Reconstruction of macroblocks: prediction plus residual.

use std::ops::Range;

use super::residual::{BlockContent, Residual};
use crate::frame::{Frame, FrameLayout};
use crate::macroblock::{LumaMode, MacroblockInfo, ReferenceFrame};
use crate::motion_vector::MotionVector;
use crate::predict::inter::{Interpolation, predict};
use crate::predict::intra::{ABOVE_FRAME, Edges, LEFT_OF_FRAME, predict_block, predict_subblock};
use crate::state::References;
use crate::transform::{inverse_dct_add, inverse_dct_add_dc_pair, inverse_dct_add_pair};

/// Inputs of a frame's reconstruction.
pub(crate) struct Reconstruction<'a> {
    pub(crate) layout: FrameLayout,
    pub(crate) references: Option<&'a References>,
    pub(crate) interpolation: Interpolation,
    pub(crate) full_sample_chroma: bool,
}

/// Adjacent macroblocks that copy one reference without motion and residual. They are frequent in static backgrounds,
/// so whole lines are copied at once.
#[derive(Debug, Default)]
pub(super) struct StillRun {
    /// Column of the first macroblock, and the reference.
    first: Option<(usize, ReferenceFrame)>,
}

/// A complete run.
#[derive(Debug)]
pub(super) struct Still {
    columns: Range<usize>,
    reference: ReferenceFrame,
}

impl StillRun {
    /// Appends the macroblock at `column`, which has no residual, if it belongs to the run. Returns whether it does.
    #[inline]
    pub(super) fn takes(&mut self, column: usize, info: &MacroblockInfo) -> bool {
        if info.reference == ReferenceFrame::Intra || info.luma_mode == LumaMode::Split || !info.motion_vector.is_zero()
        {
            return false;
        }
        self.first.get_or_insert((column, info.reference)).1 == info.reference
    }

    /// Ends the run before `column` and returns it, if there is one.
    #[inline]
    pub(super) fn end(&mut self, column: usize) -> Option<Still> {
        self.first.take().map(|(first, reference)| Still { columns: first..column, reference })
    }
}

impl Reconstruction<'_> {
    /// Copies a run of static macroblocks in a row.
    #[inline]
    pub(super) fn still(&self, samples: &mut [u8], row: usize, run: Option<Still>) {
        let (Some(Still { columns, reference }), Some(references)) = (run, self.references) else { return };
        let reference = reference_of(references, reference).samples();
        for (plane, size) in self.layout.planes.iter().zip([16, 8, 8]) {
            let (first, width) = (plane.origin + size * columns.start, size * columns.len());
            for y in size * row..size * (row + 1) {
                let line = first + y * plane.stride..first + y * plane.stride + width;
                samples[line.clone()].copy_from_slice(&reference[line]);
            }
        }
    }

    /// Predicts a macroblock into `samples` and adds its residual.
    pub(crate) fn macroblock(
        &mut self,
        samples: &mut [u8],
        column: usize,
        row: usize,
        info: &MacroblockInfo,
        residual: Option<&Residual>,
    ) {
        if info.reference == ReferenceFrame::Intra {
            self.predict_chroma(samples, column, row, info.chroma_mode);
            if info.luma_mode == LumaMode::Subblocks {
                self.subblocks(samples, column, row, info, residual);
                self.add(samples, column, row, residual, 16..24);
                return;
            }
            let plane = self.layout.planes[0];
            let at = plane.origin + 16 * row * plane.stride + 16 * column;
            let edges = Edges::<16>::gather(samples, plane.stride, at, row > 0, column > 0);
            predict_block(info.luma_mode, &edges, &mut samples[at..], plane.stride);
        } else {
            self.predict_inter(samples, column, row, info);
        }
        self.add(samples, column, row, residual, 0..24);
    }

    fn add(
        &self,
        samples: &mut [u8],
        column: usize,
        row: usize,
        residual: Option<&Residual>,
        blocks: std::ops::Range<usize>,
    ) {
        let Some(residual) = residual else { return };
        // Blocks are processed in horizontal pairs.
        for block in blocks.step_by(2) {
            let (plane, size, x, y) = match block {
                0..16 => (0, 16, block & 3, block >> 2),
                16..20 => (1, 8, 0, block >> 1 & 1),
                _ => (2, 8, 0, block >> 1 & 1),
            };
            let plane = &self.layout.planes[plane];
            let at = plane.origin + (size * row + 4 * y) * plane.stride + size * column + 4 * x;
            add_pair(residual, block, &mut samples[at..], plane.stride);
        }
    }

    fn predict_chroma(&self, samples: &mut [u8], column: usize, row: usize, mode: LumaMode) {
        for plane in &self.layout.planes[1..] {
            let at = plane.origin + 8 * row * plane.stride + 8 * column;
            let edges = Edges::<8>::gather(samples, plane.stride, at, row > 0, column > 0);
            predict_block(mode, &edges, &mut samples[at..], plane.stride);
        }
    }

    /// Predicts and reconstructs each subblock before the next, because subblocks are predicted from each other.
    fn subblocks(
        &self,
        samples: &mut [u8],
        column: usize,
        row: usize,
        info: &MacroblockInfo,
        residual: Option<&Residual>,
    ) {
        let plane = &self.layout.planes[0];
        let stride = plane.stride;
        let start = plane.origin + 16 * row * stride + 16 * column;
        // All four rows of subblocks use the samples above and to the right of the macroblock for the right column.
        let above_right: [u8; 4] = match (row > 0, column + 1 < self.layout.columns) {
            (false, _) => [ABOVE_FRAME; 4],
            (true, true) => *samples[start - stride + 16..].first_chunk().expect("a row lies above"),
            (true, false) => [samples[start - stride + 15]; 4],
        };
        for block in 0..16 {
            let (x, y) = (block & 3, block >> 2);
            let at = start + 4 * y * stride + 4 * x;
            let has_above = row > 0 || y > 0;
            let has_left = column > 0 || x > 0;
            let edges = Edges::<4>::gather(samples, stride, at, has_above, has_left);
            let right = match (x, y) {
                (3, _) => above_right,
                (_, 0) if row == 0 => [ABOVE_FRAME; 4],
                _ => *samples[at - stride + 4..].first_chunk().expect("a row lies above"),
            };
            let mut above = [0; 8];
            above[..4].copy_from_slice(&edges.above);
            above[4..].copy_from_slice(&right);
            let corner = match (has_above, has_left) {
                (false, _) => ABOVE_FRAME,
                (true, false) => LEFT_OF_FRAME,
                _ => edges.corner,
            };
            predict_subblock(info.subblock_modes[block], &above, &edges.left, corner, &mut samples[at..], stride);
            if let Some(residual) = residual {
                add_block(residual, block, &mut samples[at..], stride);
            }
        }
    }

    fn predict_inter(&self, samples: &mut [u8], column: usize, row: usize, info: &MacroblockInfo) {
        let Some(references) = self.references else { return };
        let reference = reference_of(references, info.reference).samples();
        predict_inter(
            samples,
            &self.layout,
            reference,
            (column, row),
            info,
            self.interpolation,
            self.full_sample_chroma,
        );
    }
}

/// The reference of an inter macroblock.
fn reference_of(references: &References, kind: ReferenceFrame) -> &Frame {
    match kind {
        ReferenceFrame::Golden => &references.golden,
        ReferenceFrame::AltRef => &references.altref,
        _ => &references.last,
    }
}

/// Predicts a macroblock's three planes from `reference`, whose layout is that of `samples`.
pub(crate) fn predict_inter(
    samples: &mut [u8],
    layout: &FrameLayout,
    reference: &[u8],
    (column, row): (usize, usize),
    info: &MacroblockInfo,
    interpolation: Interpolation,
    full_sample_chroma: bool,
) {
    let luma = &layout.planes[0];
    let (x, y) = (16 * column, 16 * row);
    let chroma_vector = |x: i32, y: i32| if full_sample_chroma { (x & !7, y & !7) } else { (x, y) };
    if info.luma_mode != LumaMode::Split {
        let (vector_x, vector_y) = (i32::from(info.motion_vector.x), i32::from(info.motion_vector.y));
        let out = &mut samples[luma.origin + y * luma.stride + x..];
        let vector = (2 * vector_x, 2 * vector_y);
        predict::<16, 16>(reference, luma, (x as i32, y as i32), vector, interpolation, out, luma.stride);
        let (x, y) = (8 * column, 8 * row);
        for plane in &layout.planes[1..] {
            let out = &mut samples[plane.origin + y * plane.stride + x..];
            let vector = chroma_vector(vector_x, vector_y);
            predict::<8, 8>(reference, plane, (x as i32, y as i32), vector, interpolation, out, plane.stride);
        }
        return;
    }
    for block in 0..16 {
        let vector = info.subblock_vectors[block];
        let (x, y) = (x + 4 * (block & 3), y + 4 * (block >> 2));
        let out = &mut samples[luma.origin + y * luma.stride + x..];
        let vector = (2 * i32::from(vector.x), 2 * i32::from(vector.y));
        predict::<4, 4>(reference, luma, (x as i32, y as i32), vector, interpolation, out, luma.stride);
    }
    for block in 0..4 {
        let first = 8 * (block >> 1) + 2 * (block & 1);
        let four = [first, first + 1, first + 4, first + 5].map(|index| info.subblock_vectors[index]);
        let sum = |component: fn(&MotionVector) -> i16| {
            let sum: i32 = four.iter().map(|vector| i32::from(component(vector))).sum();
            // A quarter of the sum, rounded to nearest, with halves away from zero.
            if sum < 0 { -((2 - sum) >> 2) } else { (sum + 2) >> 2 }
        };
        let (vector_x, vector_y) = chroma_vector(sum(|vector| vector.x), sum(|vector| vector.y));
        let (x, y) = (8 * column + 4 * (block & 1), 8 * row + 4 * (block >> 1));
        for plane in &layout.planes[1..] {
            let out = &mut samples[plane.origin + y * plane.stride + x..];
            let vector = (vector_x, vector_y);
            predict::<4, 4>(reference, plane, (x as i32, y as i32), vector, interpolation, out, plane.stride);
        }
    }
}

#[inline]
fn add_pair(residual: &Residual, block: usize, samples: &mut [u8], stride: usize) {
    let pair = residual.coefficients[block..].first_chunk().expect("blocks come in pairs");
    match (residual.content[block], residual.content[block + 1]) {
        (BlockContent::Empty, BlockContent::Empty) => {}
        (BlockContent::Full, _) | (_, BlockContent::Full) => inverse_dct_add_pair(pair, samples, stride),
        // An empty block's coefficients are all zero.
        _ => inverse_dct_add_dc_pair([pair[0][0], pair[1][0]], samples, stride),
    }
}

#[inline]
fn add_block(residual: &Residual, block: usize, samples: &mut [u8], stride: usize) {
    if residual.content[block] != BlockContent::Empty {
        inverse_dct_add(&residual.coefficients[block], samples, stride);
    }
}
