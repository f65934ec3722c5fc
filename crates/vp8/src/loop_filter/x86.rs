//! The loop filter's edges in SSE2, which is part of x86-64. `portable` is the scalar version with the same functions
//! and results.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::limits::{Edge, Limits, Runs};

/// The samples p3, p2, p1, p0, q0, q1, q2, q3 around an edge, at 16 positions.
type Lines = [__m128i; 8];

const P3: usize = 0;
const P2: usize = 1;
const P1: usize = 2;
const P0: usize = 3;
const Q0: usize = 4;
const Q1: usize = 5;
const Q2: usize = 6;
const Q3: usize = 7;

/// Filters 16 positions of a horizontal edge: `at` is the first sample after it.
#[inline]
pub(crate) fn luma_rows(samples: &mut [u8], at: usize, stride: usize, edge: Edge, limits: &Limits) {
    let around = &mut samples[at - 4 * stride..at + 3 * stride + 16];
    // SAFETY: SSE2 is part of x86-64. `around` contains the eight rows of 16 samples: slicing checked its bounds.
    unsafe {
        let start = around.as_mut_ptr();
        let mut lines: Lines = std::array::from_fn(|line| _mm_loadu_si128(start.add(line * stride).cast()));
        for line in filter(&mut lines, edge, limits) {
            _mm_storeu_si128(start.add(line * stride).cast(), lines[line]);
        }
    }
}

/// Filters 8 positions of a horizontal edge in both chroma planes: `runs` are the first samples after it.
#[inline]
pub(crate) fn chroma_rows(samples: &mut [u8], runs: Runs, stride: usize, edge: Edge, limits: &Limits) {
    for at in runs {
        assert!(at >= 4 * stride && at + 3 * stride + 8 <= samples.len());
    }
    // SAFETY: SSE2 is part of x86-64. The assertions check that `samples` contains eight rows of 8 samples around both
    // runs.
    unsafe {
        let start = samples.as_mut_ptr();
        let [u, v] = runs.map(|at| start.add(at - 4 * stride));
        let mut lines: Lines = std::array::from_fn(|line| {
            _mm_unpacklo_epi64(
                _mm_loadl_epi64(u.add(line * stride).cast()),
                _mm_loadl_epi64(v.add(line * stride).cast()),
            )
        });
        for line in filter(&mut lines, edge, limits) {
            _mm_storel_epi64(u.add(line * stride).cast(), lines[line]);
            _mm_storel_epi64(v.add(line * stride).cast(), _mm_unpackhi_epi64(lines[line], lines[line]));
        }
    }
}

/// Filters the vertical edges of a macroblock's luma, whose first sample is at `at`. `outer` is the type of the left
/// edge, `inner` that of the three inner edges; `None` means no filtering.
#[inline]
pub(crate) fn luma_columns(
    samples: &mut [u8],
    at: usize,
    stride: usize,
    outer: Option<Edge>,
    inner: Option<Edge>,
    limits: &Limits,
) {
    let around = &mut samples[at - 4..at + 15 * stride + 16];
    // SAFETY: `around` contains the 16 rows of 20 samples: slicing checked its bounds.
    unsafe {
        let start = around.as_mut_ptr().add(4);
        let row = |place: usize| start.add(place * stride);
        let Some(inner) = inner else {
            if let Some(outer) = outer {
                outer_columns(row, outer, limits);
            }
            return;
        };
        let mut lines = [_mm_setzero_si128(); 20];
        lines[4..].copy_from_slice(&transposed(std::array::from_fn(|place| _mm_loadu_si128(row(place).cast()))));
        if let Some(outer) = outer {
            lines[..4].copy_from_slice(&load_four_columns(row));
            filter_at(&mut lines, 0, outer, limits);
            store_four_columns((&lines[..4]).try_into().expect("four lines"), |place| row(place).sub(4));
        }
        for first in [4, 8, 12] {
            filter_at(&mut lines, first, inner, limits);
        }
        for (place, line) in transposed(std::array::from_fn(|column| lines[4 + column])).into_iter().enumerate() {
            _mm_storeu_si128(row(place).cast(), line);
        }
    }
}

/// The same for both chroma planes with their first samples at `runs`. They have one inner edge.
#[inline]
pub(crate) fn chroma_columns(
    samples: &mut [u8],
    runs: Runs,
    stride: usize,
    outer: Option<Edge>,
    inner: Option<Edge>,
    limits: &Limits,
) {
    for at in runs {
        assert!(at >= 4 && at + 7 * stride + 8 <= samples.len());
    }
    // SAFETY: the assertions check that `samples` contains eight rows of 12 samples of both planes.
    unsafe {
        let start = samples.as_mut_ptr();
        let row = |place: usize| start.add(runs[place / 8] + place % 8 * stride);
        let Some(inner) = inner else {
            if let Some(outer) = outer {
                outer_columns(row, outer, limits);
            }
            return;
        };
        let mut lines = [_mm_setzero_si128(); 12];
        lines[4..].copy_from_slice(&load_eight_columns(row));
        if let Some(outer) = outer {
            lines[..4].copy_from_slice(&load_four_columns(row));
            filter_at(&mut lines, 0, outer, limits);
            store_four_columns((&lines[..4]).try_into().expect("four lines"), |place| row(place).sub(4));
        }
        filter_at(&mut lines, 4, inner, limits);
        store_eight_columns((&lines[4..]).try_into().expect("eight lines"), row);
    }
}

/// Filters a vertical edge. `row` returns the sample to its right at each of 16 positions.
///
/// # Safety
/// Four samples before and four after the edge can be read and written in each row.
#[inline(always)]
unsafe fn outer_columns(row: impl Fn(usize) -> *mut u8, edge: Edge, limits: &Limits) {
    // SAFETY: the caller guarantees access to the samples.
    unsafe {
        let mut lines = load_eight_columns(|place| row(place).sub(4));
        filter(&mut lines, edge, limits);
        store_eight_columns(&lines, |place| row(place).sub(4));
    }
}

/// Filters the edge after line `first + 3`.
#[inline(always)]
pub(super) fn filter_at(lines: &mut [__m128i], first: usize, edge: Edge, limits: &Limits) {
    if let Some(lines) = lines[first..].first_chunk_mut::<8>() {
        filter(lines, edge, limits);
    }
}

/// Loads eight columns of 16 rows as lines.
///
/// # Safety
/// Eight samples can be read from each pointer that `row` returns.
#[inline(always)]
pub(super) unsafe fn load_eight_columns(row: impl Fn(usize) -> *mut u8) -> [__m128i; 8] {
    // SAFETY: SSE2 is part of x86-64; the caller guarantees access to the samples.
    unsafe {
        let load = |place: usize| _mm_loadl_epi64(row(place).cast());
        let pairs = std::array::from_fn(|place| _mm_unpacklo_epi8(load(place), load(place + 8)));
        interleave(interleave(interleave(pairs)))
    }
}

/// Inverse of [`load_eight_columns`].
///
/// # Safety
/// Eight samples can be written at each pointer that `row` returns.
#[inline(always)]
pub(super) unsafe fn store_eight_columns(lines: &[__m128i; 8], row: impl Fn(usize) -> *mut u8) {
    // SAFETY: SSE2 is part of x86-64; the caller guarantees access to the samples.
    unsafe {
        for (pair, rows) in interleave(interleave(interleave(*lines))).into_iter().enumerate() {
            _mm_storel_epi64(row(2 * pair).cast(), rows);
            _mm_storel_epi64(row(2 * pair + 1).cast(), _mm_unpackhi_epi64(rows, rows));
        }
    }
}

/// Loads the four columns before the pointers that `row` returns for 16 rows, as lines.
///
/// # Safety
/// These samples can be read.
#[inline(always)]
pub(super) unsafe fn load_four_columns(row: impl Fn(usize) -> *mut u8) -> [__m128i; 4] {
    // SAFETY: SSE2 is part of x86-64; the caller guarantees access to the samples.
    unsafe {
        let load = |place: usize| _mm_cvtsi32_si128(row(place).sub(4).cast::<i32>().read_unaligned());
        // The first register interleaves rows 0, 4, 8 and 12, the second one rows 1, 5, 9 and 13.
        let quarters: [__m128i; 4] = std::array::from_fn(|place| {
            let even = _mm_unpacklo_epi8(load(place), load(place + 8));
            let odd = _mm_unpacklo_epi8(load(place + 4), load(place + 12));
            _mm_unpacklo_epi8(even, odd)
        });
        let low = [_mm_unpacklo_epi8(quarters[0], quarters[2]), _mm_unpacklo_epi8(quarters[1], quarters[3])];
        let high = [_mm_unpackhi_epi8(quarters[0], quarters[2]), _mm_unpackhi_epi8(quarters[1], quarters[3])];
        [
            _mm_unpacklo_epi8(low[0], low[1]),
            _mm_unpackhi_epi8(low[0], low[1]),
            _mm_unpacklo_epi8(high[0], high[1]),
            _mm_unpackhi_epi8(high[0], high[1]),
        ]
    }
}

/// Stores four lines as columns. `row` returns the start of each of 16 rows.
///
/// # Safety
/// Four samples can be written at each of these pointers.
#[inline(always)]
pub(super) unsafe fn store_four_columns(lines: &[__m128i; 4], row: impl Fn(usize) -> *mut u8) {
    // SAFETY: SSE2 is part of x86-64; the caller guarantees access to the samples.
    unsafe {
        let left = [_mm_unpacklo_epi8(lines[0], lines[1]), _mm_unpackhi_epi8(lines[0], lines[1])];
        let right = [_mm_unpacklo_epi8(lines[2], lines[3]), _mm_unpackhi_epi8(lines[2], lines[3])];
        for half in 0..2 {
            let four = [_mm_unpacklo_epi16(left[half], right[half]), _mm_unpackhi_epi16(left[half], right[half])];
            for (index, rows) in four.into_iter().enumerate() {
                let place = 8 * half + 4 * index;
                let store = |place: usize, samples: __m128i| {
                    row(place).cast::<i32>().write_unaligned(_mm_cvtsi128_si32(samples));
                };
                store(place, rows);
                store(place + 1, _mm_srli_si128::<4>(rows));
                store(place + 2, _mm_srli_si128::<8>(rows));
                store(place + 3, _mm_srli_si128::<12>(rows));
            }
        }
    }
}

/// Interleaves register `i` with register `i + 4`: the halves become registers `2 i` and `2 i + 1`. Three rounds
/// transpose eight lines to pairs of rows, or pairs of rows to eight lines.
#[inline(always)]
fn interleave(r: [__m128i; 8]) -> [__m128i; 8] {
    // SAFETY: SSE2 is part of x86-64.
    unsafe {
        [
            _mm_unpacklo_epi8(r[0], r[4]),
            _mm_unpackhi_epi8(r[0], r[4]),
            _mm_unpacklo_epi8(r[1], r[5]),
            _mm_unpackhi_epi8(r[1], r[5]),
            _mm_unpacklo_epi8(r[2], r[6]),
            _mm_unpackhi_epi8(r[2], r[6]),
            _mm_unpacklo_epi8(r[3], r[7]),
            _mm_unpackhi_epi8(r[3], r[7]),
        ]
    }
}

/// Transposes 16 rows of 16 samples: four rounds of interleaving register `i` with register `i + 8`.
#[inline(always)]
pub(super) fn transposed(mut r: [__m128i; 16]) -> [__m128i; 16] {
    for _ in 0..4 {
        let before = r;
        // The compiler always unrolls this loop, but `array::from_fn` only in some builds.
        for i in 0..8 {
            // SAFETY: SSE2 is part of x86-64.
            (r[2 * i], r[2 * i + 1]) =
                unsafe { (_mm_unpacklo_epi8(before[i], before[i + 8]), _mm_unpackhi_epi8(before[i], before[i + 8])) };
        }
    }
    r
}

/// Filters the lines around an edge. Returns the range of lines that may have changed.
#[inline(always)]
fn filter(lines: &mut Lines, edge: Edge, limits: &Limits) -> std::ops::Range<usize> {
    match edge {
        Edge::Macroblock => {
            macroblock_edge(lines, limits);
            P2..Q2 + 1
        }
        Edge::Subblock => {
            subblock_edge(lines, limits);
            P1..Q1 + 1
        }
        Edge::Simple(limit) => {
            simple_edge(lines, limit);
            P0..Q0 + 1
        }
    }
}

#[inline(always)]
fn difference(a: __m128i, b: __m128i) -> __m128i {
    // SAFETY: SSE2 is part of x86-64.
    unsafe { _mm_or_si128(_mm_subs_epu8(a, b), _mm_subs_epu8(b, a)) }
}

/// All bits set where `value` is at most `limit`.
#[inline(always)]
fn at_most(value: __m128i, limit: u8) -> __m128i {
    // SAFETY: SSE2 is part of x86-64.
    unsafe { _mm_cmpeq_epi8(_mm_subs_epu8(value, _mm_set1_epi8(limit as i8)), _mm_setzero_si128()) }
}

#[inline(always)]
fn step_over(lines: &Lines) -> __m128i {
    // SAFETY: SSE2 is part of x86-64.
    unsafe {
        let near = difference(lines[P0], lines[Q0]);
        let far = _mm_srli_epi16::<1>(_mm_and_si128(difference(lines[P1], lines[Q1]), _mm_set1_epi8(-2)));
        _mm_adds_epu8(_mm_adds_epu8(near, near), far)
    }
}

/// Two masks: where the edge is smooth enough to be filtered, and where the variance next to it is low.
#[inline(always)]
fn examine(lines: &Lines, edge: u8, limits: &Limits) -> (__m128i, __m128i) {
    // SAFETY: SSE2 is part of x86-64.
    unsafe {
        let next_to_edge = _mm_max_epu8(difference(lines[P1], lines[P0]), difference(lines[Q1], lines[Q0]));
        let before = _mm_max_epu8(difference(lines[P3], lines[P2]), difference(lines[P2], lines[P1]));
        let behind = _mm_max_epu8(difference(lines[Q3], lines[Q2]), difference(lines[Q2], lines[Q1]));
        let interior = _mm_max_epu8(next_to_edge, _mm_max_epu8(before, behind));
        let smooth = _mm_and_si128(at_most(interior, limits.interior), at_most(step_over(lines), edge));
        (smooth, at_most(next_to_edge, limits.high_variance))
    }
}

/// Converts samples to signed values, and back.
#[inline(always)]
fn signed(samples: __m128i) -> __m128i {
    // SAFETY: SSE2 is part of x86-64.
    unsafe { _mm_xor_si128(samples, _mm_set1_epi8(-128)) }
}

/// Shifts signed bytes to the right by 3 and widens them to 16 bits: the lower and the upper half.
#[inline(always)]
fn eighth(value: __m128i) -> [__m128i; 2] {
    // SAFETY: SSE2 is part of x86-64.
    unsafe {
        let zero = _mm_setzero_si128();
        [_mm_srai_epi16::<11>(_mm_unpacklo_epi8(zero, value)), _mm_srai_epi16::<11>(_mm_unpackhi_epi8(zero, value))]
    }
}

#[inline(always)]
fn add_thrice(value: __m128i, difference: __m128i) -> __m128i {
    // SAFETY: SSE2 is part of x86-64.
    unsafe { _mm_adds_epi8(_mm_adds_epi8(_mm_adds_epi8(value, difference), difference), difference) }
}

/// Moves p0 and q0 towards each other. Returns the change of q0, widened to 16 bits.
#[inline(always)]
fn move_nearest(p0: &mut __m128i, q0: &mut __m128i, base: __m128i) -> [__m128i; 2] {
    // SAFETY: SSE2 is part of x86-64.
    unsafe {
        let behind = eighth(_mm_adds_epi8(base, _mm_set1_epi8(4)));
        let before = eighth(_mm_adds_epi8(base, _mm_set1_epi8(3)));
        *p0 = _mm_adds_epi8(*p0, _mm_packs_epi16(before[0], before[1]));
        *q0 = _mm_subs_epi8(*q0, _mm_packs_epi16(behind[0], behind[1]));
        behind
    }
}

#[inline(always)]
fn subblock_edge(lines: &mut Lines, limits: &Limits) {
    let (smooth, even) = examine(lines, limits.subblock_edge, limits);
    let [mut p1, mut p0, mut q0, mut q1] = [P1, P0, Q0, Q1].map(|line| signed(lines[line]));
    // SAFETY: SSE2 is part of x86-64.
    unsafe {
        let outer = _mm_andnot_si128(even, _mm_subs_epi8(p1, q1));
        let base = _mm_and_si128(add_thrice(outer, _mm_subs_epi8(q0, p0)), smooth);
        let moved = move_nearest(&mut p0, &mut q0, base);
        let one = _mm_set1_epi16(1);
        let half = moved.map(|moved| _mm_srai_epi16::<1>(_mm_add_epi16(moved, one)));
        let half = _mm_and_si128(_mm_packs_epi16(half[0], half[1]), even);
        p1 = _mm_adds_epi8(p1, half);
        q1 = _mm_subs_epi8(q1, half);
    }
    for (line, value) in [(P1, p1), (P0, p0), (Q0, q0), (Q1, q1)] {
        lines[line] = signed(value);
    }
}

#[inline(always)]
fn macroblock_edge(lines: &mut Lines, limits: &Limits) {
    let (smooth, even) = examine(lines, limits.macroblock_edge, limits);
    let [mut p2, mut p1, mut p0, mut q0, mut q1, mut q2] = [P2, P1, P0, Q0, Q1, Q2].map(|line| signed(lines[line]));
    // SAFETY: SSE2 is part of x86-64.
    unsafe {
        let base = _mm_and_si128(add_thrice(_mm_subs_epi8(p1, q1), _mm_subs_epi8(q0, p0)), smooth);
        move_nearest(&mut p0, &mut q0, _mm_andnot_si128(even, base));
        // The value is in the upper byte. Multiplication by 9 in the upper byte gives (9 * 256 * value) >> 8.
        let plain = _mm_and_si128(base, even);
        let zero = _mm_setzero_si128();
        let nine = _mm_set1_epi16(9 << 8);
        let nine_times = [
            _mm_mulhi_epi16(_mm_unpacklo_epi8(zero, plain), nine),
            _mm_mulhi_epi16(_mm_unpackhi_epi8(zero, plain), nine),
        ];
        let mut sum = [_mm_set1_epi16(63); 2];
        for (p, q) in [(&mut p2, &mut q2), (&mut p1, &mut q1), (&mut p0, &mut q0)] {
            sum = [_mm_add_epi16(sum[0], nine_times[0]), _mm_add_epi16(sum[1], nine_times[1])];
            let change = _mm_packs_epi16(_mm_srai_epi16::<7>(sum[0]), _mm_srai_epi16::<7>(sum[1]));
            *p = _mm_adds_epi8(*p, change);
            *q = _mm_subs_epi8(*q, change);
        }
    }
    for (line, value) in [(P2, p2), (P1, p1), (P0, p0), (Q0, q0), (Q1, q1), (Q2, q2)] {
        lines[line] = signed(value);
    }
}

#[inline(always)]
fn simple_edge(lines: &mut Lines, limit: u8) {
    let smooth = at_most(step_over(lines), limit);
    let [p1, mut p0, mut q0, q1] = [P1, P0, Q0, Q1].map(|line| signed(lines[line]));
    // SAFETY: SSE2 is part of x86-64.
    unsafe {
        let base = _mm_and_si128(add_thrice(_mm_subs_epi8(p1, q1), _mm_subs_epi8(q0, p0)), smooth);
        move_nearest(&mut p0, &mut q0, base);
    }
    lines[P0] = signed(p0);
    lines[Q0] = signed(q0);
}
