//! The loop filter (RFC 6386, section 15), applied to a frame after all of it is reconstructed.
//!
//! [`FrameFilter`] filters a decoded frame. The encoder uses [`filter_strip`] to try filter levels on a part of a
//! frame.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg_attr(not(test), allow(dead_code, reason = "a processor may have vector instructions for all functions"))]
mod edges;
mod limits;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg_attr(not(test), allow(dead_code, reason = "a processor may have vector instructions for all functions"))]
pub(crate) mod portable;
#[cfg(simd128)]
mod simd128;
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::frame::FrameLayout;
use crate::header::{LoopFilterDeltas, LoopFilterHeader, Segmentation};
use crate::macroblock::{LumaMode, MacroblockInfo, ReferenceFrame};
pub(crate) use limits::{Edge, Limits};
#[cfg(target_arch = "aarch64")]
pub(crate) use neon::{chroma_columns, chroma_rows, luma_columns, luma_rows};
#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64", simd128)))]
pub(crate) use portable::{chroma_columns, chroma_rows, luma_columns, luma_rows};
#[cfg(simd128)]
pub(crate) use simd128::{chroma_columns, chroma_rows, luma_columns, luma_rows};
#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{chroma_columns, chroma_rows, luma_columns, luma_rows};

/// Filter level of a macroblock (section 9.6), 0 to 63.
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

/// Filter parameters of a frame: everything needed to filter it later, without its macroblocks.
#[derive(Debug)]
pub(crate) struct FrameFilter {
    key_frame: bool,
    header: LoopFilterHeader,
    /// For each macroblock, row by row: its level, and whether its inner edges are filtered.
    macroblocks: Vec<(u8, bool)>,
}

impl FrameFilter {
    /// Collects the filter parameters of a frame with these macroblocks.
    pub(crate) fn new(
        macroblocks: &[MacroblockInfo],
        key_frame: bool,
        header: &LoopFilterHeader,
        deltas: &LoopFilterDeltas,
        segmentation: &Segmentation,
    ) -> Self {
        let of = |info| (level_of(info, header, deltas, segmentation) as u8, has_inner_edges(info));
        let macroblocks = if header.level == 0 { Vec::new() } else { macroblocks.iter().map(of).collect() };
        Self { key_frame, header: *header, macroblocks }
    }

    /// Filters a fully reconstructed frame in place. A row of macroblocks changes the last three lines of the row
    /// above.
    pub(crate) fn apply(&self, samples: &mut [u8], layout: &FrameLayout) {
        for (row, macroblocks) in self.macroblocks.chunks_exact(layout.columns).enumerate() {
            for (column, &(level, inner)) in macroblocks.iter().enumerate().filter(|(_, (level, _))| *level > 0) {
                let limits = Limits::new(i32::from(level), self.header.sharpness, self.key_frame);
                if self.header.simple {
                    filter_macroblock_simply(samples, layout, column, row, &limits, inner);
                } else {
                    filter_macroblock(samples, layout, column, row, &limits, inner);
                }
            }
        }
    }
}

/// Whether the edges inside a macroblock are filtered.
fn has_inner_edges(info: &MacroblockInfo) -> bool {
    info.has_coefficients || !info.luma_mode.has_second_order()
}

/// Filters the luma of adjacent macroblocks with the normal filter, starting at sample `at`. The top edge is filtered
/// only if `below` says that there are macroblocks above.
#[allow(clippy::too_many_arguments)] // The header fields that control the filter.
pub(crate) fn filter_strip(
    samples: &mut [u8],
    at: usize,
    stride: usize,
    macroblocks: &[MacroblockInfo],
    below: bool,
    key_frame: bool,
    header: &LoopFilterHeader,
    deltas: &LoopFilterDeltas,
    segmentation: &Segmentation,
) {
    for (column, info) in macroblocks.iter().enumerate() {
        if let Some((limits, inner)) = filtering_of(info, key_frame, header, deltas, segmentation) {
            filter_luma(samples, at + 16 * column, stride, (column > 0, below), &limits, inner);
        }
    }
}

/// Filter limits of a macroblock and whether its inner edges are filtered; `None` for level 0.
#[inline]
fn filtering_of(
    info: &MacroblockInfo,
    key_frame: bool,
    header: &LoopFilterHeader,
    deltas: &LoopFilterDeltas,
    segmentation: &Segmentation,
) -> Option<(Limits, bool)> {
    let level = level_of(info, header, deltas, segmentation);
    (level > 0).then(|| (Limits::new(level, header.sharpness, key_frame), has_inner_edges(info)))
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
    let (outer, inside) = (Edge::Simple(limits.macroblock_edge), Edge::Simple(limits.subblock_edge));
    luma_columns(samples, at, stride, (column > 0).then_some(outer), inner.then_some(inside), limits);
    if row > 0 {
        luma_rows(samples, at, stride, outer, limits);
    }
    if inner {
        for y in [4, 8, 12] {
            luma_rows(samples, at + y * stride, stride, inside, limits);
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
    let [luma, u, v] = &layout.planes;
    let offset = 8 * row * u.stride + 8 * column;
    let first = [luma.origin + 16 * row * luma.stride + 16 * column, u.origin + offset, v.origin + offset];
    filter_planes(samples, first, [luma.stride, u.stride], (column > 0, row > 0), limits, inner);
}

/// Filters a macroblock in all planes; `first` has the index of its first sample in each plane.
///
/// The order is: left edge, inner vertical edges, top edge, inner horizontal edges (section 15.2). `outer` says whether
/// the left and the top edge are filtered. The second stride is that of both chroma planes, which are filtered
/// together.
pub(crate) fn filter_planes(
    samples: &mut [u8],
    first: [usize; 3],
    strides: [usize; 2],
    outer: (bool, bool),
    limits: &Limits,
    inner: bool,
) {
    #[cfg(target_arch = "x86_64")]
    if avx2::filter_macroblock(samples, avx2::Places { first, strides }, outer, inner, limits) {
        return;
    }
    let ([luma, u, v], stride) = (first, strides[1]);
    filter_luma(samples, luma, strides[0], outer, limits, inner);
    let (left, inside) = (outer.0.then_some(Edge::Macroblock), inner.then_some(Edge::Subblock));
    chroma_columns(samples, [u, v], stride, left, inside, limits);
    if outer.1 {
        chroma_rows(samples, [u, v], stride, Edge::Macroblock, limits);
    }
    if inner {
        chroma_rows(samples, [u + 4 * stride, v + 4 * stride], stride, Edge::Subblock, limits);
    }
}

/// Filters the luma of a macroblock whose first sample is at `at`. `outer` says whether its left and its top edge are
/// filtered.
fn filter_luma(samples: &mut [u8], at: usize, stride: usize, outer: (bool, bool), limits: &Limits, inner: bool) {
    let (left, inside) = (outer.0.then_some(Edge::Macroblock), inner.then_some(Edge::Subblock));
    luma_columns(samples, at, stride, left, inside, limits);
    if outer.1 {
        luma_rows(samples, at, stride, Edge::Macroblock, limits);
    }
    if inner {
        for y in [4, 8, 12] {
            luma_rows(samples, at + y * stride, stride, Edge::Subblock, limits);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A plane whose samples differ by a random spread, so that the filters change some samples.
    fn plane() -> impl Strategy<Value = Vec<u8>> {
        (any::<u8>(), 0u8..=255, proptest::collection::vec(any::<u8>(), 32 * 32)).prop_map(|(base, spread, noise)| {
            noise.into_iter().map(|n| base.saturating_add((u16::from(n) * u16::from(spread) / 255) as u8)).collect()
        })
    }

    #[cfg(target_arch = "x86_64")]
    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]
        #[test]
        fn macroblock_filter_equals_filtering_single_edges(
            planes in [plane(), plane()],
            (level, sharpness, key) in (1i32..64, 0u8..8, any::<bool>()),
            (left, above, inner) in any::<(bool, bool, bool)>(),
        ) {
            let limits = Limits::new(level, sharpness, key);
            let mut whole = planes.concat();
            let mut edges = whole.clone();
            let (luma, chroma) = (8 * 32 + 5, [40 * 32 + 5, 40 * 32 + 20]);
            let places = avx2::Places { first: [luma, chroma[0], chroma[1]], strides: [32, 32] };
            if avx2::filter_macroblock(&mut whole, places, (left, above), inner, &limits) {
                let outer = left.then_some(Edge::Macroblock);
                let inside = inner.then_some(Edge::Subblock);
                portable::luma_columns(&mut edges, luma, 32, outer, inside, &limits);
                portable::chroma_columns(&mut edges, chroma, 32, outer, inside, &limits);
                if above {
                    portable::luma_rows(&mut edges, luma, 32, Edge::Macroblock, &limits);
                    portable::chroma_rows(&mut edges, chroma, 32, Edge::Macroblock, &limits);
                }
                if inner {
                    for y in [4, 8, 12] {
                        portable::luma_rows(&mut edges, luma + y * 32, 32, Edge::Subblock, &limits);
                    }
                    portable::chroma_rows(&mut edges, chroma.map(|at| at + 4 * 32), 32, Edge::Subblock, &limits);
                }
                prop_assert_eq!(whole, edges);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn vector_filter_equals_portable_filter(
            plane in plane(),
            (limit, level, sharpness, key) in (0u8..=142, 1i32..64, 0u8..8, any::<bool>()),
            (has_outer, has_inner) in any::<(bool, bool)>(),
        ) {
            let limits = Limits::new(level, sharpness, key);
            let edges = [
                (Edge::Macroblock, Edge::Subblock),
                (Edge::Simple(limit), Edge::Simple(limit / 2)),
            ];
            for (outer, inner) in edges {
                let each = (outer, has_outer.then_some(outer), has_inner.then_some(inner));
                type Filter = fn(&mut [u8], (Edge, Option<Edge>, Option<Edge>), &Limits);
                let pairs: [[Filter; 2]; 4] = [
                    [
                        |s, e, l| luma_rows(s, 8 * 32 + 5, 32, e.0, l),
                        |s, e, l| portable::luma_rows(s, 8 * 32 + 5, 32, e.0, l),
                    ],
                    [
                        |s, e, l| chroma_rows(s, [4 * 32 + 1, 17 * 32 + 9], 32, e.0, l),
                        |s, e, l| portable::chroma_rows(s, [4 * 32 + 1, 17 * 32 + 9], 32, e.0, l),
                    ],
                    [
                        |s, e, l| luma_columns(s, 2 * 32 + 5, 32, e.1, e.2, l),
                        |s, e, l| portable::luma_columns(s, 2 * 32 + 5, 32, e.1, e.2, l),
                    ],
                    [
                        |s, e, l| chroma_columns(s, [32 + 5, 19 * 32 + 24], 32, e.1, e.2, l),
                        |s, e, l| portable::chroma_columns(s, [32 + 5, 19 * 32 + 24], 32, e.1, e.2, l),
                    ],
                ];
                for [vector, scalar] in pairs {
                    let (mut a, mut b) = (plane.clone(), plane.clone());
                    vector(&mut a, each, &limits);
                    scalar(&mut b, each, &limits);
                    prop_assert_eq!(a, b);
                }
            }
        }
    }
}
