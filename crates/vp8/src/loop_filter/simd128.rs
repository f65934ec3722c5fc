//! The loop filter's edges in SIMD128 of WebAssembly. `portable` is the scalar version with the same functions and
//! results.
#![allow(unsafe_code)]

use std::arch::wasm32::*;

use super::limits::{Edge, Limits, Runs};
use crate::simd128::{absolute_differences, interleaved};

/// The samples p3, p2, p1, p0, q0, q1, q2, q3 around an edge, at 16 positions.
type Lines = [v128; 8];

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
    // SAFETY: `around` contains the eight rows of 16 samples: slicing checked its bounds.
    unsafe {
        let start = around.as_mut_ptr();
        let mut lines: Lines = std::array::from_fn(|line| v128_load(start.add(line * stride).cast()));
        for line in filter(&mut lines, edge, limits) {
            v128_store(start.add(line * stride).cast(), lines[line]);
        }
    }
}

/// Filters 8 positions of a horizontal edge in both chroma planes: `runs` are the first samples after it.
#[inline]
pub(crate) fn chroma_rows(samples: &mut [u8], runs: Runs, stride: usize, edge: Edge, limits: &Limits) {
    for at in runs {
        assert!(at >= 4 * stride && at + 3 * stride + 8 <= samples.len());
    }
    // SAFETY: the assertions check that `samples` contains eight rows of 8 samples around both runs.
    unsafe {
        let start = samples.as_mut_ptr();
        let [u, v] = runs.map(|at| start.add(at - 4 * stride));
        let mut lines: Lines = std::array::from_fn(|line| {
            let first = v128_load64_zero(u.add(line * stride).cast());
            v128_load64_lane::<1>(first, v.add(line * stride).cast())
        });
        for line in filter(&mut lines, edge, limits) {
            v128_store64_lane::<0>(lines[line], u.add(line * stride).cast());
            v128_store64_lane::<1>(lines[line], v.add(line * stride).cast());
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
    for (x, edge) in [(0, outer), (4, inner), (8, inner), (12, inner)] {
        if let Some(edge) = edge {
            columns(samples, [at + x, at + x + 8 * stride], stride, edge, limits);
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
    for (x, edge) in [(0, outer), (4, inner)] {
        if let Some(edge) = edge {
            columns(samples, runs.map(|at| at + x), stride, edge, limits);
        }
    }
}

/// Filters a vertical edge. `runs` are the topmost samples of two columns of eight to its right.
#[inline(always)]
fn columns(samples: &mut [u8], runs: Runs, stride: usize, edge: Edge, limits: &Limits) {
    for at in runs {
        assert!(at >= 4 && at + 7 * stride + 4 <= samples.len());
    }
    // SAFETY: the assertions check that `samples` contains eight rows of 8 samples around both runs.
    unsafe {
        let start = samples.as_mut_ptr();
        let [upper, lower] = runs.map(|at| start.add(at - 4));
        let rows = |at: *const u8| [0, 1, 2, 3, 4, 5, 6, 7].map(|row| v128_load64_zero(at.add(row * stride).cast()));
        let mut lines = columns_of([rows(upper), rows(lower)]);
        filter(&mut lines, edge, limits);
        let [a, b, c, d, e, f, g, h] = rows_of(lines);
        for (at, pairs) in [(upper, [a, b, c, d]), (lower, [e, f, g, h])] {
            for (pair, rows) in pairs.into_iter().enumerate() {
                v128_store64_lane::<0>(rows, at.add(2 * pair * stride).cast());
                v128_store64_lane::<1>(rows, at.add((2 * pair + 1) * stride).cast());
            }
        }
    }
}

/// The columns of sixteen rows of eight samples. Each step interleaves registers that are half as far apart as before.
#[inline(always)]
fn columns_of([upper, lower]: [[v128; 8]; 2]) -> Lines {
    let eighth = |i: usize| interleaved::<1>(upper[i], lower[i])[0];
    let quarter = |i: usize| interleaved::<1>(eighth(i), eighth(i + 4));
    let ([a0, b0], [a1, b1], [a2, b2], [a3, b3]) = (quarter(0), quarter(1), quarter(2), quarter(3));
    let ([c0, d0], [c1, d1]) = (interleaved::<1>(a0, a2), interleaved::<1>(a1, a3));
    let ([e0, f0], [e1, f1]) = (interleaved::<1>(b0, b2), interleaved::<1>(b1, b3));
    let ([p3, p2], [p1, p0]) = (interleaved::<1>(c0, c1), interleaved::<1>(d0, d1));
    let ([q0, q1], [q2, q3]) = (interleaved::<1>(e0, e1), interleaved::<1>(f0, f1));
    [p3, p2, p1, p0, q0, q1, q2, q3]
}

/// Inverse of [`columns_of`]: each register holds two rows.
#[inline(always)]
fn rows_of([p3, p2, p1, p0, q0, q1, q2, q3]: Lines) -> [v128; 8] {
    let ([a, e], [b, f]) = (interleaved::<1>(p3, p2), interleaved::<1>(p1, p0));
    let ([c, g], [d, h]) = (interleaved::<1>(q0, q1), interleaved::<1>(q2, q3));
    let four = |a, b, c, d| {
        let ([left_upper, left_lower], [right_upper, right_lower]) = (interleaved::<2>(a, b), interleaved::<2>(c, d));
        let ([r0, r1], [r2, r3]) =
            (interleaved::<4>(left_upper, right_upper), interleaved::<4>(left_lower, right_lower));
        [r0, r1, r2, r3]
    };
    let ([r0, r1, r2, r3], [r4, r5, r6, r7]) = (four(a, b, c, d), four(e, f, g, h));
    [r0, r1, r2, r3, r4, r5, r6, r7]
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
fn step_over(lines: &Lines) -> v128 {
    let near = absolute_differences(lines[P0], lines[Q0]);
    u8x16_add_sat(u8x16_add_sat(near, near), u8x16_shr(absolute_differences(lines[P1], lines[Q1]), 1))
}

/// Two masks: where the edge is smooth enough to be filtered, and where the variance next to it is low.
#[inline(always)]
fn examine(lines: &Lines, edge: u8, limits: &Limits) -> (v128, v128) {
    let apart = |a: usize, b: usize| absolute_differences(lines[a], lines[b]);
    let next_to_edge = u8x16_max(apart(P1, P0), apart(Q1, Q0));
    let before = u8x16_max(apart(P3, P2), apart(P2, P1));
    let behind = u8x16_max(apart(Q3, Q2), apart(Q2, Q1));
    let interior = u8x16_max(next_to_edge, u8x16_max(before, behind));
    let at_most = |value, limit| u8x16_le(value, u8x16_splat(limit));
    let smooth = v128_and(at_most(interior, limits.interior), at_most(step_over(lines), edge));
    (smooth, at_most(next_to_edge, limits.high_variance))
}

/// Converts samples to signed values. It is its own inverse.
#[inline(always)]
fn signed(samples: v128) -> v128 {
    v128_xor(samples, u8x16_splat(0x80))
}

#[inline(always)]
fn add_thrice(value: v128, difference: v128) -> v128 {
    i8x16_add_sat(i8x16_add_sat(i8x16_add_sat(value, difference), difference), difference)
}

/// Moves p0 and q0 towards each other. Returns the change of q0.
#[inline(always)]
fn move_nearest(p0: &mut v128, q0: &mut v128, base: v128) -> v128 {
    let behind = i8x16_shr(i8x16_add_sat(base, i8x16_splat(4)), 3);
    let before = i8x16_shr(i8x16_add_sat(base, i8x16_splat(3)), 3);
    *p0 = i8x16_add_sat(*p0, before);
    *q0 = i8x16_sub_sat(*q0, behind);
    behind
}

#[inline(always)]
fn subblock_edge(lines: &mut Lines, limits: &Limits) {
    let (smooth, even) = examine(lines, limits.subblock_edge, limits);
    let [mut p1, mut p0, mut q0, mut q1] = [P1, P0, Q0, Q1].map(|line| signed(lines[line]));
    let outer = v128_andnot(i8x16_sub_sat(p1, q1), even);
    let base = v128_and(add_thrice(outer, i8x16_sub_sat(q0, p0)), smooth);
    let moved = move_nearest(&mut p0, &mut q0, base);
    let half = v128_and(i8x16_shr(i8x16_add(moved, i8x16_splat(1)), 1), even);
    p1 = i8x16_add_sat(p1, half);
    q1 = i8x16_sub_sat(q1, half);
    for (line, value) in [(P1, p1), (P0, p0), (Q0, q0), (Q1, q1)] {
        lines[line] = signed(value);
    }
}

#[inline(always)]
fn macroblock_edge(lines: &mut Lines, limits: &Limits) {
    let (smooth, even) = examine(lines, limits.macroblock_edge, limits);
    let [mut p2, mut p1, mut p0, mut q0, mut q1, mut q2] = [P2, P1, P0, Q0, Q1, Q2].map(|line| signed(lines[line]));
    let base = v128_and(add_thrice(i8x16_sub_sat(p1, q1), i8x16_sub_sat(q0, p0)), smooth);
    move_nearest(&mut p0, &mut q0, v128_andnot(base, even));
    let plain = v128_and(base, even);
    let nine = i8x16_splat(9);
    let nine_times = [i16x8_extmul_low_i8x16(plain, nine), i16x8_extmul_high_i8x16(plain, nine)];
    let mut sum = [i16x8_splat(63); 2];
    for (p, q) in [(&mut p2, &mut q2), (&mut p1, &mut q1), (&mut p0, &mut q0)] {
        sum = [i16x8_add(sum[0], nine_times[0]), i16x8_add(sum[1], nine_times[1])];
        let change = i8x16_narrow_i16x8(i16x8_shr(sum[0], 7), i16x8_shr(sum[1], 7));
        *p = i8x16_add_sat(*p, change);
        *q = i8x16_sub_sat(*q, change);
    }
    for (line, value) in [(P2, p2), (P1, p1), (P0, p0), (Q0, q0), (Q1, q1), (Q2, q2)] {
        lines[line] = signed(value);
    }
}

#[inline(always)]
fn simple_edge(lines: &mut Lines, limit: u8) {
    let [p1, mut p0, mut q0, q1] = [P1, P0, Q0, Q1].map(|line| signed(lines[line]));
    let smooth = u8x16_le(step_over(lines), u8x16_splat(limit));
    let base = v128_and(add_thrice(i8x16_sub_sat(p1, q1), i8x16_sub_sat(q0, p0)), smooth);
    move_nearest(&mut p0, &mut q0, base);
    lines[P0] = signed(p0);
    lines[Q0] = signed(q0);
}
