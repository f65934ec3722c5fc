//! The loop filter's edges in SSE2, which is part of x86-64. `portable` is the scalar twin: same functions, same results.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::{Edge, Limits, Runs};

/// The samples p3, p2, p1, p0, q0, q1, q2, q3 around an edge, 16 places along it.
type Lines = [__m128i; 8];

const P3: usize = 0;
const P2: usize = 1;
const P1: usize = 2;
const P0: usize = 3;
const Q0: usize = 4;
const Q1: usize = 5;
const Q2: usize = 6;
const Q3: usize = 7;

/// Filters 16 places of an edge between rows: `at` is the first sample behind it.
#[inline]
pub(super) fn luma_rows(samples: &mut [u8], at: usize, stride: usize, edge: Edge, limits: &Limits) {
    let around = &mut samples[at - 4 * stride..at + 3 * stride + 16];
    // SAFETY: SSE2 is always there on x86-64. The eight rows of 16 samples lie in `around`, whose bounds were checked.
    unsafe {
        let start = around.as_mut_ptr();
        let mut lines: Lines = std::array::from_fn(|line| _mm_loadu_si128(start.add(line * stride).cast()));
        for line in filter(&mut lines, edge, limits) {
            _mm_storeu_si128(start.add(line * stride).cast(), lines[line]);
        }
    }
}

/// Filters an edge between rows of both chroma planes, 8 places of each: `runs` are the first samples behind it.
#[inline]
pub(super) fn chroma_rows(samples: &mut [u8], runs: Runs, stride: usize, edge: Edge, limits: &Limits) {
    for at in runs {
        assert!(at >= 4 * stride && at + 3 * stride + 8 <= samples.len());
    }
    // SAFETY: SSE2 is always there on x86-64. The eight rows of 8 samples around both runs lie in `samples`, as checked.
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

/// Filters an edge between columns: `runs` are the topmost of eight samples each to its right.
#[inline]
pub(super) fn columns(samples: &mut [u8], runs: Runs, stride: usize, edge: Edge, limits: &Limits) {
    for at in runs {
        assert!(at >= 4 && at + 7 * stride + 4 <= samples.len());
    }
    // SAFETY: SSE2 is always there on x86-64. The eight rows of 8 samples around both runs lie in `samples`, as checked.
    unsafe {
        let start = samples.as_mut_ptr();
        let [first, second] = runs.map(|at| start.add(at - 4));
        // Two registers that are interleaved byte by byte are two rows of pairs; after four rounds all that belongs to
        // one line stands together, and after three more all that belongs to one row.
        let pairs: [__m128i; 8] = std::array::from_fn(|row| {
            _mm_unpacklo_epi8(
                _mm_loadl_epi64(first.add(row * stride).cast()),
                _mm_loadl_epi64(second.add(row * stride).cast()),
            )
        });
        let mut lines = interleave(interleave(interleave(pairs)));
        let changed = filter(&mut lines, edge, limits);
        if changed.len() <= 4 {
            store_four_columns(&lines, [first.add(2), second.add(2)], stride);
            return;
        }
        let rows = interleave(interleave(interleave(lines)));
        for (index, rows) in rows.into_iter().enumerate() {
            let run = if index < 4 { first } else { second };
            let to = run.add(2 * (index & 3) * stride);
            _mm_storel_epi64(to.cast(), rows);
            _mm_storel_epi64(to.add(stride).cast(), _mm_unpackhi_epi64(rows, rows));
        }
    }
}

/// Register `i` interleaved with register `i + 4`: lower and upper half become registers `2 i` and `2 i + 1`.
#[inline(always)]
fn interleave(r: [__m128i; 8]) -> [__m128i; 8] {
    // SAFETY: SSE2 is always there on x86-64.
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

/// Stores lines p1 to q1 as columns.
///
/// # Safety
/// From each of `runs` on, eight rows of four samples can be written.
#[inline(always)]
unsafe fn store_four_columns(lines: &Lines, runs: [*mut u8; 2], stride: usize) {
    // SAFETY: SSE2 is always there on x86-64; the caller vouches for the samples.
    unsafe {
        let outer = [_mm_unpacklo_epi8(lines[P1], lines[P0]), _mm_unpackhi_epi8(lines[P1], lines[P0])];
        let inner = [_mm_unpacklo_epi8(lines[Q0], lines[Q1]), _mm_unpackhi_epi8(lines[Q0], lines[Q1])];
        for (half, run) in runs.into_iter().enumerate() {
            let four = [_mm_unpacklo_epi16(outer[half], inner[half]), _mm_unpackhi_epi16(outer[half], inner[half])];
            for (index, rows) in four.into_iter().enumerate() {
                let to = run.add(4 * index * stride);
                to.cast::<i32>().write_unaligned(_mm_cvtsi128_si32(rows));
                to.add(stride).cast::<i32>().write_unaligned(_mm_cvtsi128_si32(_mm_srli_si128::<4>(rows)));
                to.add(2 * stride).cast::<i32>().write_unaligned(_mm_cvtsi128_si32(_mm_srli_si128::<8>(rows)));
                to.add(3 * stride).cast::<i32>().write_unaligned(_mm_cvtsi128_si32(_mm_srli_si128::<12>(rows)));
            }
        }
    }
}

/// Filters the lines around an edge; gives which of them may have changed.
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
    // SAFETY: SSE2 is always there on x86-64.
    unsafe { _mm_or_si128(_mm_subs_epu8(a, b), _mm_subs_epu8(b, a)) }
}

/// All bits set where `value` is at most `limit`.
#[inline(always)]
fn at_most(value: __m128i, limit: u8) -> __m128i {
    // SAFETY: SSE2 is always there on x86-64.
    unsafe { _mm_cmpeq_epi8(_mm_subs_epu8(value, _mm_set1_epi8(limit as i8)), _mm_setzero_si128()) }
}

#[inline(always)]
fn step_over(lines: &Lines) -> __m128i {
    // SAFETY: SSE2 is always there on x86-64.
    unsafe {
        let near = difference(lines[P0], lines[Q0]);
        let far = _mm_srli_epi16::<1>(_mm_and_si128(difference(lines[P1], lines[Q1]), _mm_set1_epi8(-2)));
        _mm_adds_epu8(_mm_adds_epu8(near, near), far)
    }
}

/// Where it is smooth enough to be filtered, and where it does not vary much next to the edge, as masks.
#[inline(always)]
fn examine(lines: &Lines, edge: u8, limits: &Limits) -> (__m128i, __m128i) {
    // SAFETY: SSE2 is always there on x86-64.
    unsafe {
        let next_to_edge = _mm_max_epu8(difference(lines[P1], lines[P0]), difference(lines[Q1], lines[Q0]));
        let before = _mm_max_epu8(difference(lines[P3], lines[P2]), difference(lines[P2], lines[P1]));
        let behind = _mm_max_epu8(difference(lines[Q3], lines[Q2]), difference(lines[Q2], lines[Q1]));
        let interior = _mm_max_epu8(next_to_edge, _mm_max_epu8(before, behind));
        let smooth = _mm_and_si128(at_most(interior, limits.interior), at_most(step_over(lines), edge));
        (smooth, at_most(next_to_edge, limits.high_variance))
    }
}

/// Samples as signed values, and back.
#[inline(always)]
fn signed(samples: __m128i) -> __m128i {
    // SAFETY: SSE2 is always there on x86-64.
    unsafe { _mm_xor_si128(samples, _mm_set1_epi8(-128)) }
}

/// Eight-bit values shifted by 3 to the right, sixteen-bit wide: those of the lower and of the upper half.
#[inline(always)]
fn eighth(value: __m128i) -> [__m128i; 2] {
    // SAFETY: SSE2 is always there on x86-64.
    unsafe {
        let zero = _mm_setzero_si128();
        [_mm_srai_epi16::<11>(_mm_unpacklo_epi8(zero, value)), _mm_srai_epi16::<11>(_mm_unpackhi_epi8(zero, value))]
    }
}

#[inline(always)]
fn add_thrice(value: __m128i, difference: __m128i) -> __m128i {
    // SAFETY: SSE2 is always there on x86-64.
    unsafe { _mm_adds_epi8(_mm_adds_epi8(_mm_adds_epi8(value, difference), difference), difference) }
}

/// Moves p0 and q0 towards each other; gives by how much q0 moved, sixteen-bit wide.
#[inline(always)]
fn move_nearest(p0: &mut __m128i, q0: &mut __m128i, base: __m128i) -> [__m128i; 2] {
    // SAFETY: SSE2 is always there on x86-64.
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
    // SAFETY: SSE2 is always there on x86-64.
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
    // SAFETY: SSE2 is always there on x86-64.
    unsafe {
        let base = _mm_and_si128(add_thrice(_mm_subs_epi8(p1, q1), _mm_subs_epi8(q0, p0)), smooth);
        move_nearest(&mut p0, &mut q0, _mm_andnot_si128(even, base));
        // The value in the upper byte, times 9 in the upper byte again: (9 * 256 * value) >> 8.
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
    // SAFETY: SSE2 is always there on x86-64.
    unsafe {
        let base = _mm_and_si128(add_thrice(_mm_subs_epi8(p1, q1), _mm_subs_epi8(q0, p0)), smooth);
        move_nearest(&mut p0, &mut q0, base);
    }
    lines[P0] = signed(p0);
    lines[Q0] = signed(q0);
}
