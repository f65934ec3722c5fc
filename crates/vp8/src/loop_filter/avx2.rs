//! The normal loop filter of a whole macroblock in AVX2.
//!
//! Chroma edges are filtered in one register with the luma edge that has the same limits. `x86` filters single edges.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::limits::{Edge, Limits};
use super::x86::{self, load_eight_columns, load_four_columns, store_eight_columns, store_four_columns, transposed};

/// The samples p3, p2, p1, p0, q0, q1, q2, q3 around an edge. There are 16 positions of luma and 8 of each chroma
/// plane.
type Lines = [__m256i; 8];

const P3: usize = 0;
const P2: usize = 1;
const P1: usize = 2;
const P0: usize = 3;
const Q0: usize = 4;
const Q1: usize = 5;
const Q2: usize = 6;
const Q3: usize = 7;

/// Position of a macroblock: the first sample of each plane, and the strides of luma and chroma.
#[derive(Debug, Clone, Copy)]
pub(super) struct Places {
    pub(super) first: [usize; 3],
    pub(super) strides: [usize; 2],
}

/// Filters a macroblock's edges if the processor has AVX2, and returns whether it has. `left` and `above` say whether
/// there is a neighbour on that side, `inner` whether inner edges are filtered.
#[inline]
pub(super) fn filter_macroblock(
    samples: &mut [u8],
    places: Places,
    (left, above): (bool, bool),
    inner: bool,
    limits: &Limits,
) -> bool {
    if !is_x86_feature_detected!("avx2") {
        return false;
    }
    for (first, stride, size) in [(0, 0, 16), (1, 1, 8), (2, 1, 8)] {
        let (at, stride) = (places.first[first], places.strides[stride]);
        let reach = if above { 4 * stride } else { 4 };
        assert!(stride >= size + 4 && at >= reach && at + (size - 1) * stride + size <= samples.len());
    }
    let start = samples.as_mut_ptr();
    // SAFETY: the processor has AVX2. The assertions check that `samples` contains the macroblock, four samples before
    // each row, and, if needed, four rows above.
    unsafe {
        let [luma, u, v] = places.first.map(|at| start.add(at));
        columns([luma, u, v], places.strides, left, inner, limits);
        rows([luma, u, v], places.strides, above, inner, limits);
    }
    true
}

/// Combines a register of luma and one of chroma.
#[inline]
#[target_feature(enable = "avx2")]
fn beside(luma: __m128i, chroma: __m128i) -> __m256i {
    _mm256_set_m128i(chroma, luma)
}

#[inline]
#[target_feature(enable = "avx2")]
fn luma_of(both: __m256i) -> __m128i {
    _mm256_castsi256_si128(both)
}

#[inline]
#[target_feature(enable = "avx2")]
fn chroma_of(both: __m256i) -> __m128i {
    _mm256_extracti128_si256::<1>(both)
}

/// Filters the vertical edges.
///
/// # Safety
/// The samples of the macroblock, and four before each row, can be read and written.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn columns([luma, u, v]: [*mut u8; 3], strides: [usize; 2], left: bool, inner: bool, limits: &Limits) {
    // SAFETY: the caller guarantees access to the samples.
    unsafe {
        let luma_row = |place: usize| luma.add(place * strides[0]);
        let chroma_row = |place: usize| if place < 8 { u } else { v }.add(place % 8 * strides[1]);
        let zero = _mm256_setzero_si256();
        if !inner {
            if left {
                let luma = load_eight_columns(|place| luma_row(place).sub(4));
                let chroma = load_eight_columns(|place| chroma_row(place).sub(4));
                let mut lines = [zero; 8];
                for (line, (luma, chroma)) in lines.iter_mut().zip(luma.into_iter().zip(chroma)) {
                    *line = beside(luma, chroma);
                }
                macroblock_edge(&mut lines, limits);
                store_eight_columns(&lines.map(|line| luma_of(line)), |place| luma_row(place).sub(4));
                store_eight_columns(&lines.map(|line| chroma_of(line)), |place| chroma_row(place).sub(4));
            }
            return;
        }
        let mut luma = transposed(std::array::from_fn(|place| _mm_loadu_si128(luma_row(place).cast())));
        let mut chroma = load_eight_columns(chroma_row);
        let mut lines = [zero; 8];
        for line in 0..4 {
            lines[4 + line] = beside(luma[line], chroma[line]);
        }
        if left {
            let (luma, chroma) = (load_four_columns(luma_row), load_four_columns(chroma_row));
            for line in 0..4 {
                lines[line] = beside(luma[line], chroma[line]);
            }
            macroblock_edge(&mut lines, limits);
            let [p3, p2, p1, p0, ..] = lines;
            let before = [p3, p2, p1, p0];
            store_four_columns(&before.map(|line| luma_of(line)), |place| luma_row(place).sub(4));
            store_four_columns(&before.map(|line| chroma_of(line)), |place| chroma_row(place).sub(4));
        }
        for line in 0..4 {
            lines[line] = lines[4 + line];
        }
        for line in 0..4 {
            lines[4 + line] = beside(luma[4 + line], chroma[4 + line]);
        }
        subblock_edge(&mut lines, limits);
        for (line, both) in lines.into_iter().enumerate() {
            (luma[line], chroma[line]) = (luma_of(both), chroma_of(both));
        }
        x86::filter_at(&mut luma, 4, Edge::Subblock, limits);
        x86::filter_at(&mut luma, 8, Edge::Subblock, limits);
        for (place, row) in transposed(luma).into_iter().enumerate() {
            _mm_storeu_si128(luma_row(place).cast(), row);
        }
        store_eight_columns(&chroma, chroma_row);
    }
}

/// Filters the horizontal edges.
///
/// # Safety
/// The samples of the macroblock can be read and written. If `above` is set, so can four rows above it.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn rows([luma, u, v]: [*mut u8; 3], strides: [usize; 2], above: bool, inner: bool, limits: &Limits) {
    // SAFETY: the caller guarantees access to the samples.
    unsafe {
        let luma_row = |row: isize| luma.offset(row * strides[0] as isize);
        let chroma_rows = |row: isize| [u, v].map(|plane| plane.offset(row * strides[1] as isize));
        let load = |row: isize| {
            let [u, v] = chroma_rows(row).map(|at| _mm_loadl_epi64(at.cast()));
            beside(_mm_loadu_si128(luma_row(row).cast()), _mm_unpacklo_epi64(u, v))
        };
        let store_chroma = |row: isize, both: __m256i| {
            let (chroma, [u, v]) = (chroma_of(both), chroma_rows(row));
            _mm_storel_epi64(u.cast(), chroma);
            _mm_storel_epi64(v.cast(), _mm_unpackhi_epi64(chroma, chroma));
        };
        let store_luma = |row: isize, line: __m128i| _mm_storeu_si128(luma_row(row).cast(), line);
        let store = |row: isize, both: __m256i| {
            store_luma(row, luma_of(both));
            store_chroma(row, both);
        };
        if !above && !inner {
            return;
        }
        let mut lines = [_mm256_setzero_si256(); 8];
        for (row, line) in (0..).zip(&mut lines[Q0..]) {
            *line = load(row);
        }
        if above {
            for (row, line) in (-4..).zip(&mut lines[..Q0]) {
                *line = load(row);
            }
            macroblock_edge(&mut lines, limits);
            let changed = if inner { P2..Q0 } else { P2..Q3 };
            for (row, line) in (-3..).zip(&lines[changed]) {
                store(row, *line);
            }
        }
        if !inner {
            return;
        }
        // The lines below one edge are the lines above the next.
        for row in 0..4 {
            lines[row] = lines[4 + row];
        }
        for row in 0..4 {
            lines[4 + row] = load(row as isize + 4);
        }
        subblock_edge(&mut lines, limits);
        for (row, line) in (0..).zip(&lines[..Q0]) {
            store(row, *line);
        }
        for (row, line) in (4..).zip(&lines[Q0..Q2]) {
            store_chroma(row, *line);
        }
        let mut luma = lines.map(|line| luma_of(line));
        for first in [4, 8] {
            for row in 0..4 {
                luma[row] = luma[4 + row];
            }
            for row in 0..4 {
                luma[4 + row] = _mm_loadu_si128(luma_row((first + 4 + row) as isize).cast());
            }
            x86::filter_at(&mut luma, 0, Edge::Subblock, limits);
            let changed = if first == 4 { P3..Q0 } else { P3..Q2 };
            for row in changed {
                store_luma((first + row) as isize, luma[row]);
            }
        }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn difference(a: __m256i, b: __m256i) -> __m256i {
    _mm256_or_si256(_mm256_subs_epu8(a, b), _mm256_subs_epu8(b, a))
}

/// All bits set where `value` is at most `limit`.
#[inline]
#[target_feature(enable = "avx2")]
fn at_most(value: __m256i, limit: u8) -> __m256i {
    _mm256_cmpeq_epi8(_mm256_max_epu8(value, _mm256_set1_epi8(limit as i8)), _mm256_set1_epi8(limit as i8))
}

/// Two masks: where the edge is smooth enough to be filtered, and where the variance next to it is low.
#[inline]
#[target_feature(enable = "avx2")]
fn examine(lines: &Lines, edge: u8, limits: &Limits) -> (__m256i, __m256i) {
    let next_to_edge = _mm256_max_epu8(difference(lines[P1], lines[P0]), difference(lines[Q1], lines[Q0]));
    let before = _mm256_max_epu8(difference(lines[P3], lines[P2]), difference(lines[P2], lines[P1]));
    let behind = _mm256_max_epu8(difference(lines[Q3], lines[Q2]), difference(lines[Q2], lines[Q1]));
    let interior = _mm256_max_epu8(next_to_edge, _mm256_max_epu8(before, behind));
    let near = difference(lines[P0], lines[Q0]);
    let far = _mm256_and_si256(difference(lines[P1], lines[Q1]), _mm256_set1_epi8(-2));
    let step = _mm256_adds_epu8(_mm256_adds_epu8(near, near), _mm256_srli_epi16::<1>(far));
    let smooth = _mm256_and_si256(at_most(interior, limits.interior), at_most(step, edge));
    (smooth, at_most(next_to_edge, limits.high_variance))
}

/// Converts samples to signed values, and back.
#[inline]
#[target_feature(enable = "avx2")]
fn signed(samples: __m256i) -> __m256i {
    _mm256_xor_si256(samples, _mm256_set1_epi8(-128))
}

/// Shifts signed bytes to the right by 3.
#[inline]
#[target_feature(enable = "avx2")]
fn eighth(value: __m256i) -> __m256i {
    let sign = _mm256_set1_epi8(16);
    let shifted = _mm256_and_si256(_mm256_srli_epi16::<3>(value), _mm256_set1_epi8(31));
    _mm256_sub_epi8(_mm256_xor_si256(shifted, sign), sign)
}

#[inline]
#[target_feature(enable = "avx2")]
fn add_thrice(value: __m256i, difference: __m256i) -> __m256i {
    _mm256_adds_epi8(_mm256_adds_epi8(_mm256_adds_epi8(value, difference), difference), difference)
}

/// Moves p0 and q0 towards each other. Returns the change of q0.
#[inline]
#[target_feature(enable = "avx2")]
fn move_nearest(p0: &mut __m256i, q0: &mut __m256i, base: __m256i) -> __m256i {
    let behind = eighth(_mm256_adds_epi8(base, _mm256_set1_epi8(4)));
    *p0 = _mm256_adds_epi8(*p0, eighth(_mm256_adds_epi8(base, _mm256_set1_epi8(3))));
    *q0 = _mm256_subs_epi8(*q0, behind);
    behind
}

#[inline]
#[target_feature(enable = "avx2")]
fn subblock_edge(lines: &mut Lines, limits: &Limits) {
    let (smooth, even) = examine(lines, limits.subblock_edge, limits);
    let (mut p1, mut p0) = (signed(lines[P1]), signed(lines[P0]));
    let (mut q0, mut q1) = (signed(lines[Q0]), signed(lines[Q1]));
    let outer = _mm256_andnot_si256(even, _mm256_subs_epi8(p1, q1));
    let base = _mm256_and_si256(add_thrice(outer, _mm256_subs_epi8(q0, p0)), smooth);
    let moved = move_nearest(&mut p0, &mut q0, base);
    // Half of the change, rounded up: the average with zero, computed on unsigned values.
    let half = signed(_mm256_avg_epu8(signed(moved), _mm256_set1_epi8(-128)));
    let half = _mm256_and_si256(half, even);
    p1 = _mm256_adds_epi8(p1, half);
    q1 = _mm256_subs_epi8(q1, half);
    (lines[P1], lines[P0], lines[Q0], lines[Q1]) = (signed(p1), signed(p0), signed(q0), signed(q1));
}

#[inline]
#[target_feature(enable = "avx2")]
fn macroblock_edge(lines: &mut Lines, limits: &Limits) {
    let (smooth, even) = examine(lines, limits.macroblock_edge, limits);
    let (mut p2, mut p1, mut p0) = (signed(lines[P2]), signed(lines[P1]), signed(lines[P0]));
    let (mut q0, mut q1, mut q2) = (signed(lines[Q0]), signed(lines[Q1]), signed(lines[Q2]));
    let base = _mm256_and_si256(add_thrice(_mm256_subs_epi8(p1, q1), _mm256_subs_epi8(q0, p0)), smooth);
    move_nearest(&mut p0, &mut q0, _mm256_andnot_si256(even, base));
    // The value is in the upper byte. Multiplication by 9 in the upper byte gives (9 * 256 * value) >> 8.
    let plain = _mm256_and_si256(base, even);
    let (zero, nine) = (_mm256_setzero_si256(), _mm256_set1_epi16(9 << 8));
    let low = _mm256_mulhi_epi16(_mm256_unpacklo_epi8(zero, plain), nine);
    let high = _mm256_mulhi_epi16(_mm256_unpackhi_epi8(zero, plain), nine);
    let mut sum = [_mm256_set1_epi16(63); 2];
    for (p, q) in [(&mut p2, &mut q2), (&mut p1, &mut q1), (&mut p0, &mut q0)] {
        sum = [_mm256_add_epi16(sum[0], low), _mm256_add_epi16(sum[1], high)];
        let change = _mm256_packs_epi16(_mm256_srai_epi16::<7>(sum[0]), _mm256_srai_epi16::<7>(sum[1]));
        *p = _mm256_adds_epi8(*p, change);
        *q = _mm256_subs_epi8(*q, change);
    }
    (lines[P2], lines[P1], lines[P0]) = (signed(p2), signed(p1), signed(p0));
    (lines[Q0], lines[Q1], lines[Q2]) = (signed(q0), signed(q1), signed(q2));
}
