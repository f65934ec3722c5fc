//! The loop filter's edges in NEON, which is part of aarch64. `portable` is the scalar version with the same functions
//! and results.
#![allow(unsafe_code)]

use std::arch::aarch64::*;

use super::limits::{Edge, Limits, Runs};

/// The samples p3, p2, p1, p0, q0, q1, q2, q3 around an edge, at 16 positions.
type Lines = [uint8x16_t; 8];

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
    // SAFETY: NEON is part of aarch64. `around` contains the eight rows of 16 samples: slicing checked its bounds.
    unsafe {
        let start = around.as_mut_ptr();
        let mut lines: Lines = std::array::from_fn(|line| vld1q_u8(start.add(line * stride)));
        for line in filter(&mut lines, edge, limits) {
            vst1q_u8(start.add(line * stride), lines[line]);
        }
    }
}

/// Filters 8 positions of a horizontal edge in both chroma planes: `runs` are the first samples after it.
#[inline]
pub(crate) fn chroma_rows(samples: &mut [u8], runs: Runs, stride: usize, edge: Edge, limits: &Limits) {
    for at in runs {
        assert!(at >= 4 * stride && at + 3 * stride + 8 <= samples.len());
    }
    // SAFETY: NEON is part of aarch64. The assertions check that `samples` contains eight rows of 8 samples around both
    // runs.
    unsafe {
        let start = samples.as_mut_ptr();
        let [u, v] = runs.map(|at| start.add(at - 4 * stride));
        let mut lines: Lines =
            std::array::from_fn(|line| vcombine_u8(vld1_u8(u.add(line * stride)), vld1_u8(v.add(line * stride))));
        for line in filter(&mut lines, edge, limits) {
            vst1_u8(u.add(line * stride), vget_low_u8(lines[line]));
            vst1_u8(v.add(line * stride), vget_high_u8(lines[line]));
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
    // SAFETY: NEON is part of aarch64. The assertions check that `samples` contains eight rows of 8 samples around both
    // runs.
    unsafe {
        let start = samples.as_mut_ptr();
        let [upper, lower] = runs.map(|at| start.add(at - 4));
        let rows =
            std::array::from_fn(|row| vcombine_u8(vld1_u8(upper.add(row * stride)), vld1_u8(lower.add(row * stride))));
        let mut lines = transposed(rows);
        filter(&mut lines, edge, limits);
        for (row, samples) in transposed(lines).into_iter().enumerate() {
            vst1_u8(upper.add(row * stride), vget_low_u8(samples));
            vst1_u8(lower.add(row * stride), vget_high_u8(samples));
        }
    }
}

/// Transposes two adjacent blocks of 8x8 samples. It swaps single samples of adjacent rows, then pairs in rows two
/// apart, then fours.
#[inline(always)]
fn transposed(r: [uint8x16_t; 8]) -> [uint8x16_t; 8] {
    // SAFETY: NEON is part of aarch64.
    unsafe {
        let ones = |a, b| [vreinterpretq_u16_u8(vtrn1q_u8(a, b)), vreinterpretq_u16_u8(vtrn2q_u8(a, b))];
        let twos = |a, b| [vreinterpretq_u32_u16(vtrn1q_u16(a, b)), vreinterpretq_u32_u16(vtrn2q_u16(a, b))];
        let fours = |a, b| [vreinterpretq_u8_u32(vtrn1q_u32(a, b)), vreinterpretq_u8_u32(vtrn2q_u32(a, b))];
        let ([a0, a1], [a2, a3]) = (ones(r[0], r[1]), ones(r[2], r[3]));
        let ([a4, a5], [a6, a7]) = (ones(r[4], r[5]), ones(r[6], r[7]));
        let ([b0, b2], [b1, b3]) = (twos(a0, a2), twos(a1, a3));
        let ([b4, b6], [b5, b7]) = (twos(a4, a6), twos(a5, a7));
        let ([c0, c4], [c1, c5]) = (fours(b0, b4), fours(b1, b5));
        let ([c2, c6], [c3, c7]) = (fours(b2, b6), fours(b3, b7));
        [c0, c1, c2, c3, c4, c5, c6, c7]
    }
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
fn step_over(lines: &Lines) -> uint8x16_t {
    // SAFETY: NEON is part of aarch64.
    unsafe {
        let near = vabdq_u8(lines[P0], lines[Q0]);
        vqaddq_u8(vqaddq_u8(near, near), vshrq_n_u8::<1>(vabdq_u8(lines[P1], lines[Q1])))
    }
}

/// Two masks: where the edge is smooth enough to be filtered, and where the variance next to it is low.
#[inline(always)]
fn examine(lines: &Lines, edge: u8, limits: &Limits) -> (int8x16_t, int8x16_t) {
    // SAFETY: NEON is part of aarch64.
    unsafe {
        let next_to_edge = vmaxq_u8(vabdq_u8(lines[P1], lines[P0]), vabdq_u8(lines[Q1], lines[Q0]));
        let before = vmaxq_u8(vabdq_u8(lines[P3], lines[P2]), vabdq_u8(lines[P2], lines[P1]));
        let behind = vmaxq_u8(vabdq_u8(lines[Q3], lines[Q2]), vabdq_u8(lines[Q2], lines[Q1]));
        let interior = vmaxq_u8(next_to_edge, vmaxq_u8(before, behind));
        let at_most = |value, limit| vcleq_u8(value, vdupq_n_u8(limit));
        let smooth = vandq_u8(at_most(interior, limits.interior), at_most(step_over(lines), edge));
        (vreinterpretq_s8_u8(smooth), vreinterpretq_s8_u8(at_most(next_to_edge, limits.high_variance)))
    }
}

/// Converts samples to signed values.
#[inline(always)]
fn signed(samples: uint8x16_t) -> int8x16_t {
    // SAFETY: NEON is part of aarch64.
    unsafe { vreinterpretq_s8_u8(veorq_u8(samples, vdupq_n_u8(0x80))) }
}

/// Inverse of [`signed`].
#[inline(always)]
fn unsigned(values: int8x16_t) -> uint8x16_t {
    // SAFETY: NEON is part of aarch64.
    unsafe { veorq_u8(vreinterpretq_u8_s8(values), vdupq_n_u8(0x80)) }
}

#[inline(always)]
fn add_thrice(value: int8x16_t, difference: int8x16_t) -> int8x16_t {
    // SAFETY: NEON is part of aarch64.
    unsafe { vqaddq_s8(vqaddq_s8(vqaddq_s8(value, difference), difference), difference) }
}

/// Moves p0 and q0 towards each other. Returns the change of q0.
#[inline(always)]
fn move_nearest(p0: &mut int8x16_t, q0: &mut int8x16_t, base: int8x16_t) -> int8x16_t {
    // SAFETY: NEON is part of aarch64.
    unsafe {
        let behind = vshrq_n_s8::<3>(vqaddq_s8(base, vdupq_n_s8(4)));
        let before = vshrq_n_s8::<3>(vqaddq_s8(base, vdupq_n_s8(3)));
        *p0 = vqaddq_s8(*p0, before);
        *q0 = vqsubq_s8(*q0, behind);
        behind
    }
}

#[inline(always)]
fn subblock_edge(lines: &mut Lines, limits: &Limits) {
    let (smooth, even) = examine(lines, limits.subblock_edge, limits);
    let [mut p1, mut p0, mut q0, mut q1] = [P1, P0, Q0, Q1].map(|line| signed(lines[line]));
    // SAFETY: NEON is part of aarch64.
    unsafe {
        let outer = vbicq_s8(vqsubq_s8(p1, q1), even);
        let base = vandq_s8(add_thrice(outer, vqsubq_s8(q0, p0)), smooth);
        let moved = move_nearest(&mut p0, &mut q0, base);
        let half = vandq_s8(vrshrq_n_s8::<1>(moved), even);
        p1 = vqaddq_s8(p1, half);
        q1 = vqsubq_s8(q1, half);
    }
    for (line, value) in [(P1, p1), (P0, p0), (Q0, q0), (Q1, q1)] {
        lines[line] = unsigned(value);
    }
}

#[inline(always)]
fn macroblock_edge(lines: &mut Lines, limits: &Limits) {
    let (smooth, even) = examine(lines, limits.macroblock_edge, limits);
    let [mut p2, mut p1, mut p0, mut q0, mut q1, mut q2] = [P2, P1, P0, Q0, Q1, Q2].map(|line| signed(lines[line]));
    // SAFETY: NEON is part of aarch64.
    unsafe {
        let base = vandq_s8(add_thrice(vqsubq_s8(p1, q1), vqsubq_s8(q0, p0)), smooth);
        move_nearest(&mut p0, &mut q0, vbicq_s8(base, even));
        let plain = vandq_s8(base, even);
        let nine = vdup_n_s8(9);
        let nine_times = [vmull_s8(vget_low_s8(plain), nine), vmull_s8(vget_high_s8(plain), nine)];
        let mut sum = [vdupq_n_s16(63); 2];
        for (p, q) in [(&mut p2, &mut q2), (&mut p1, &mut q1), (&mut p0, &mut q0)] {
            sum = [vaddq_s16(sum[0], nine_times[0]), vaddq_s16(sum[1], nine_times[1])];
            let change = vcombine_s8(vqshrn_n_s16::<7>(sum[0]), vqshrn_n_s16::<7>(sum[1]));
            *p = vqaddq_s8(*p, change);
            *q = vqsubq_s8(*q, change);
        }
    }
    for (line, value) in [(P2, p2), (P1, p1), (P0, p0), (Q0, q0), (Q1, q1), (Q2, q2)] {
        lines[line] = unsigned(value);
    }
}

#[inline(always)]
fn simple_edge(lines: &mut Lines, limit: u8) {
    let [p1, mut p0, mut q0, q1] = [P1, P0, Q0, Q1].map(|line| signed(lines[line]));
    // SAFETY: NEON is part of aarch64.
    unsafe {
        let smooth = vreinterpretq_s8_u8(vcleq_u8(step_over(lines), vdupq_n_u8(limit)));
        let base = vandq_s8(add_thrice(vqsubq_s8(p1, q1), vqsubq_s8(q0, p0)), smooth);
        move_nearest(&mut p0, &mut q0, base);
    }
    lines[P0] = unsigned(p0);
    lines[Q0] = unsigned(q0);
}
