//! The loop filter (RFC 6386, section 15): applied to the whole frame once all of it is reconstructed.

use crate::frame::FrameLayout;
use crate::header::{LoopFilterDeltas, LoopFilterHeader, Segmentation};
use crate::macroblock::{LumaMode, MacroblockInfo, ReferenceFrame};

/// How strongly a macroblock is filtered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limits {
    /// Of the difference over a macroblock's edge.
    macroblock_edge: i32,
    /// Of the difference over a subblock's edge.
    subblock_edge: i32,
    /// Of differences between neighbours on one side.
    interior: i32,
    /// Above this difference next to the edge only the two nearest samples change.
    high_variance: i32,
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
            macroblock_edge: (level + 2) * 2 + interior,
            subblock_edge: level * 2 + interior,
            interior,
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

fn filter_macroblock_simply(
    samples: &mut [u8],
    layout: &FrameLayout,
    column: usize,
    row: usize,
    limits: &Limits,
    inner: bool,
) {
    let plane = &layout.planes[0];
    let at = plane.origin + 16 * row * plane.stride + 16 * column;
    if column > 0 {
        filter_edge_simply(samples, at, 1, plane.stride, limits.macroblock_edge);
    }
    if inner {
        for edge in [4, 8, 12] {
            filter_edge_simply(samples, at + edge, 1, plane.stride, limits.subblock_edge);
        }
    }
    if row > 0 {
        filter_edge_simply(samples, at, plane.stride, 1, limits.macroblock_edge);
    }
    if inner {
        for edge in [4, 8, 12] {
            filter_edge_simply(samples, at + edge * plane.stride, plane.stride, 1, limits.subblock_edge);
        }
    }
}

fn filter_macroblock(
    samples: &mut [u8],
    layout: &FrameLayout,
    column: usize,
    row: usize,
    limits: &Limits,
    inner: bool,
) {
    for (index, plane) in layout.planes.iter().enumerate() {
        let (size, edges): (usize, &[usize]) = if index == 0 { (16, &[4, 8, 12]) } else { (8, &[4]) };
        let at = plane.origin + size * row * plane.stride + size * column;
        if column > 0 {
            filter_macroblock_edge(samples, at, 1, plane.stride, size, limits);
        }
        if inner {
            for edge in edges {
                filter_subblock_edge(samples, at + edge, 1, plane.stride, size, limits);
            }
        }
        if row > 0 {
            filter_macroblock_edge(samples, at, plane.stride, 1, size, limits);
        }
        if inner {
            for edge in edges {
                filter_subblock_edge(samples, at + edge * plane.stride, plane.stride, 1, size, limits);
            }
        }
    }
}

#[inline(always)]
fn signed(sample: u8) -> i32 {
    i32::from(sample) - 128
}

#[inline(always)]
fn unsigned(value: i32) -> u8 {
    (value.clamp(-128, 127) + 128) as u8
}

#[inline(always)]
fn clamped(value: i32) -> i32 {
    value.clamp(-128, 127)
}

#[inline(always)]
fn difference(a: u8, b: u8) -> i32 {
    i32::from(a.abs_diff(b))
}

/// Moves the two samples next to the edge towards each other; gives by how much the second moved.
#[inline(always)]
fn adjust(samples: &mut [u8], at: usize, step: usize, use_outer: bool) -> i32 {
    let (p1, p0) = (signed(samples[at - 2 * step]), signed(samples[at - step]));
    let (q0, q1) = (signed(samples[at]), signed(samples[at + step]));
    let base = clamped((if use_outer { clamped(p1 - q1) } else { 0 }) + 3 * (q0 - p0));
    let second = clamped(base + 3) >> 3;
    let first = clamped(base + 4) >> 3;
    samples[at] = unsigned(q0 - first);
    samples[at - step] = unsigned(p0 + second);
    first
}

/// The simple filter over an edge of 16 samples. `step` leads across the edge, `along` along it.
fn filter_edge_simply(samples: &mut [u8], at: usize, step: usize, along: usize, limit: i32) {
    for index in 0..16 {
        let at = at + index * along;
        let across = difference(samples[at - step], samples[at]) * 2;
        let outer = difference(samples[at - 2 * step], samples[at + step]) >> 1;
        if across + outer <= limit {
            adjust(samples, at, step, true);
        }
    }
}

/// Whether the samples around an edge are smooth enough to be filtered, and whether they vary much next to it.
#[inline(always)]
fn examine(samples: &[u8], at: usize, step: usize, edge_limit: i32, limits: &Limits) -> Option<bool> {
    let sample = |offset: isize| samples[at.wrapping_add_signed(offset * step as isize)];
    let [p3, p2, p1, p0] = [sample(-4), sample(-3), sample(-2), sample(-1)];
    let [q0, q1, q2, q3] = [sample(0), sample(1), sample(2), sample(3)];
    let smooth = difference(p0, q0) * 2 + (difference(p1, q1) >> 1) <= edge_limit
        && difference(p3, p2) <= limits.interior
        && difference(p2, p1) <= limits.interior
        && difference(p1, p0) <= limits.interior
        && difference(q1, q0) <= limits.interior
        && difference(q2, q1) <= limits.interior
        && difference(q3, q2) <= limits.interior;
    let high = difference(p1, p0) > limits.high_variance || difference(q1, q0) > limits.high_variance;
    smooth.then_some(high)
}

fn filter_subblock_edge(samples: &mut [u8], at: usize, step: usize, along: usize, length: usize, limits: &Limits) {
    for index in 0..length {
        let at = at + index * along;
        let Some(high_variance) = examine(samples, at, step, limits.subblock_edge, limits) else { continue };
        let first = adjust(samples, at, step, high_variance);
        if !high_variance {
            let outer = (first + 1) >> 1;
            samples[at + step] = unsigned(signed(samples[at + step]) - outer);
            samples[at - 2 * step] = unsigned(signed(samples[at - 2 * step]) + outer);
        }
    }
}

fn filter_macroblock_edge(samples: &mut [u8], at: usize, step: usize, along: usize, length: usize, limits: &Limits) {
    for index in 0..length {
        let at = at + index * along;
        let Some(high_variance) = examine(samples, at, step, limits.macroblock_edge, limits) else { continue };
        if high_variance {
            adjust(samples, at, step, true);
            continue;
        }
        let (p1, p0) = (signed(samples[at - 2 * step]), signed(samples[at - step]));
        let (q0, q1) = (signed(samples[at]), signed(samples[at + step]));
        let base = clamped(clamped(p1 - q1) + 3 * (q0 - p0));
        for (distance, weight) in [(0, 27), (1, 18), (2, 9)] {
            let change = clamped((weight * base + 63) >> 7);
            let (behind, before) = (at + distance * step, at - (distance + 1) * step);
            samples[behind] = unsigned(signed(samples[behind]) - change);
            samples[before] = unsigned(signed(samples[before]) + change);
        }
    }
}
