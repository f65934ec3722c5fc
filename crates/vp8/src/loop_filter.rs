//! The loop filter (RFC 6386, section 15): applied to the whole frame once all of it is reconstructed.

mod edges;
mod transpose;

use crate::frame::FrameLayout;
use crate::header::{LoopFilterDeltas, LoopFilterHeader, Segmentation};
use crate::macroblock::{LumaMode, MacroblockInfo, ReferenceFrame};

/// How strongly a macroblock is filtered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limits {
    /// Of the difference over a macroblock's edge.
    macroblock_edge: u8,
    /// Of the difference over a subblock's edge.
    subblock_edge: u8,
    /// Of differences between neighbours on one side.
    interior: u8,
    /// Above this difference next to the edge only the two nearest samples change.
    high_variance: u8,
}

impl Limits {
    fn new(level: i32, sharpness: u8, key_frame: bool) -> Self {
        let mut interior = level >> (i32::from(sharpness > 0) + i32::from(sharpness > 4));
        if sharpness > 0 {
            interior = interior.min(9 - i32::from(sharpness));
        }
        let interior = interior.max(1);
        let high_variance = match (key_frame, level) {
            (true, 40..) => 2,
            (true, 15..) => 1,
            (false, 40..) => 3,
            (false, 20..) => 2,
            (false, 15..) => 1,
            _ => 0,
        };
        Self {
            macroblock_edge: ((level + 2) * 2 + interior) as u8,
            subblock_edge: (level * 2 + interior) as u8,
            interior: interior as u8,
            high_variance,
        }
    }
}

/// The filter level of a macroblock (section 9.6), 0-63.
fn level_of(
    info: &MacroblockInfo,
    header: &LoopFilterHeader,
    deltas: &LoopFilterDeltas,
    segmentation: &Segmentation,
) -> i32 {
    let mut level = i32::from(header.level);
    if segmentation.enabled {
        let value = i32::from(segmentation.filter_levels[usize::from(info.segment)]);
        level = if segmentation.absolute { value } else { level + value }.clamp(0, 63);
    }
    if deltas.enabled {
        level += i32::from(deltas.references[info.reference as usize]);
        level += match (info.reference, info.luma_mode) {
            (ReferenceFrame::Intra, LumaMode::Subblocks) => i32::from(deltas.modes[0]),
            (ReferenceFrame::Intra, _) => 0,
            (_, LumaMode::Zero) => i32::from(deltas.modes[1]),
            (_, LumaMode::Split) => i32::from(deltas.modes[3]),
            _ => i32::from(deltas.modes[2]),
        };
    }
    level.clamp(0, 63)
}

/// Filters a reconstructed frame in place.
pub(crate) fn filter_frame(
    samples: &mut [u8],
    layout: &FrameLayout,
    macroblocks: &[MacroblockInfo],
    key_frame: bool,
    header: &LoopFilterHeader,
    deltas: &LoopFilterDeltas,
    segmentation: &Segmentation,
) {
    if header.level == 0 {
        return;
    }
    for row in 0..layout.rows {
        for column in 0..layout.columns {
            let info = &macroblocks[row * layout.columns + column];
            let level = level_of(info, header, deltas, segmentation);
            if level == 0 {
                continue;
            }
            let limits = Limits::new(level, header.sharpness, key_frame);
            let inner = info.has_coefficients || !info.luma_mode.has_second_order();
            if header.simple {
                filter_macroblock_simply(samples, layout, column, row, &limits, inner);
            } else {
                filter_macroblock(samples, layout, column, row, &limits, inner);
            }
        }
    }
}

/// Where two runs of eight places along an edge begin, which are filtered together: in one plane behind each other, or
/// in both chroma planes at the same place.
type Runs = [usize; 2];

/// Filters an edge between rows: the first sample of each of `runs` lies behind it. `CHANGED` lines change on either
/// side; a run has `LENGTH` places, and the runs have 16 together.
#[inline(always)]
fn between_rows<const CHANGED: usize, const LENGTH: usize>(
    samples: &mut [u8],
    runs: &[usize],
    stride: usize,
    filter: impl FnOnce(&mut edges::Lines),
) {
    let mut lines = edges::Lines::default();
    for (run, &at) in runs.iter().enumerate() {
        let around = &samples[at - 4 * stride..at + 3 * stride + LENGTH];
        for (line, to) in lines.iter_mut().enumerate() {
            to[LENGTH * run..LENGTH * (run + 1)].copy_from_slice(&around[line * stride..line * stride + LENGTH]);
        }
    }
    filter(&mut lines);
    for (run, &at) in runs.iter().enumerate() {
        let around = &mut samples[at - 4 * stride..at + 3 * stride + LENGTH];
        for line in 4 - CHANGED..4 + CHANGED {
            around[line * stride..line * stride + LENGTH]
                .copy_from_slice(&lines[line][LENGTH * run..LENGTH * (run + 1)]);
        }
    }
}

/// Filters an edge between columns: `runs` are the topmost samples to its right.
#[inline(always)]
fn between_columns(samples: &mut [u8], runs: Runs, stride: usize, filter: impl FnOnce(&mut edges::Lines)) {
    let mut rows = [[0u8; 8]; 16];
    for (half, at) in runs.into_iter().enumerate() {
        let around = &samples[at - 4..at + 7 * stride + 4];
        for y in 0..8 {
            rows[8 * half + y].copy_from_slice(&around[y * stride..y * stride + 8]);
        }
    }
    let mut lines = transpose::gather(&rows);
    filter(&mut lines);
    let rows = transpose::scatter(&lines);
    for (half, at) in runs.into_iter().enumerate() {
        let around = &mut samples[at - 4..at + 7 * stride + 4];
        for y in 0..8 {
            around[y * stride..y * stride + 8].copy_from_slice(&rows[8 * half + y]);
        }
    }
}

fn filter_macroblock_simply(
    samples: &mut [u8],
    layout: &FrameLayout,
    column: usize,
    row: usize,
    limits: &Limits,
    inner: bool,
) {
    let plane = &layout.planes[0];
    let stride = plane.stride;
    let at = plane.origin + 16 * row * stride + 16 * column;
    let mut vertical = |x: usize, limit: u8| {
        let runs = [at + x, at + x + 8 * stride];
        between_columns(samples, runs, stride, |lines| edges::simple_edge(lines, limit));
    };
    if column > 0 {
        vertical(0, limits.macroblock_edge);
    }
    if inner {
        [4, 8, 12].into_iter().for_each(|x| vertical(x, limits.subblock_edge));
    }
    let mut horizontal = |y: usize, limit: u8| {
        between_rows::<1, 16>(samples, &[at + y * stride], stride, |lines| edges::simple_edge(lines, limit));
    };
    if row > 0 {
        horizontal(0, limits.macroblock_edge);
    }
    if inner {
        [4, 8, 12].into_iter().for_each(|y| horizontal(y, limits.subblock_edge));
    }
}

/// Filters a macroblock: in each plane the left edge, the inner ones from the left, the top edge, the inner ones from
/// the top (section 15.2). Chroma planes go through it together.
fn filter_macroblock(
    samples: &mut [u8],
    layout: &FrameLayout,
    column: usize,
    row: usize,
    limits: &Limits,
    inner: bool,
) {
    let [luma, u, v] = &layout.planes;
    let at = luma.origin + 16 * row * luma.stride + 16 * column;
    let offset = 8 * row * u.stride + 8 * column;
    let luma_rows = [at, at + 8 * luma.stride];
    let chroma = [u.origin + offset, v.origin + offset];
    let shifted = |runs: Runs, by: usize| runs.map(|at| at + by);
    if column > 0 {
        for (runs, stride) in [(luma_rows, luma.stride), (chroma, u.stride)] {
            between_columns(samples, runs, stride, |lines| edges::macroblock_edge(lines, limits));
        }
    }
    if inner {
        for x in [4, 8, 12] {
            let runs = shifted(luma_rows, x);
            between_columns(samples, runs, luma.stride, |lines| edges::subblock_edge(lines, limits));
        }
        between_columns(samples, shifted(chroma, 4), u.stride, |lines| edges::subblock_edge(lines, limits));
    }
    if row > 0 {
        between_rows::<3, 16>(samples, &[at], luma.stride, |lines| edges::macroblock_edge(lines, limits));
        between_rows::<3, 8>(samples, &chroma, u.stride, |lines| edges::macroblock_edge(lines, limits));
    }
    if inner {
        for y in [4, 8, 12] {
            let at = at + y * luma.stride;
            between_rows::<2, 16>(samples, &[at], luma.stride, |lines| edges::subblock_edge(lines, limits));
        }
        let runs = shifted(chroma, 4 * u.stride);
        between_rows::<2, 8>(samples, &runs, u.stride, |lines| edges::subblock_edge(lines, limits));
    }
}
