//! Arithmetic of the loop filter (RFC 6386, sections 15.2 and 15.3) for 16 positions along an edge.
//!
//! [`Lines`] holds four lines before the edge and four after it, 16 samples each. All computation uses 8 or 16 bits and
//! no branches, so that the compiler can vectorise it.

use super::limits::Limits;

/// The samples p3, p2, p1, p0, q0, q1, q2, q3 around an edge.
pub(super) type Lines = [[u8; 16]; 8];

const P3: usize = 0;
const P2: usize = 1;
const P1: usize = 2;
const P0: usize = 3;
const Q0: usize = 4;
const Q1: usize = 5;
const Q2: usize = 6;
const Q3: usize = 7;

/// All bits set if the condition holds.
#[inline(always)]
fn mask(condition: bool) -> u8 {
    if condition { 0xff } else { 0 }
}

#[inline(always)]
fn signed(sample: u8) -> i8 {
    (sample ^ 0x80) as i8
}

#[inline(always)]
fn unsigned(value: i8) -> u8 {
    value as u8 ^ 0x80
}

/// Difference across the edge. Above 255 it saturates, which exceeds every limit.
#[inline(always)]
fn step_over(p1: u8, p0: u8, q0: u8, q1: u8) -> u8 {
    let inner = p0.abs_diff(q0);
    inner.saturating_add(inner).saturating_add(p1.abs_diff(q1) >> 1)
}

/// Two masks: whether position `i` is smooth enough to be filtered, and whether the variance next to the edge is high.
#[inline(always)]
fn examine(lines: &Lines, i: usize, edge: u8, limits: &Limits) -> (u8, u8) {
    let [p3, p2, p1, p0] = [lines[P3][i], lines[P2][i], lines[P1][i], lines[P0][i]];
    let [q0, q1, q2, q3] = [lines[Q0][i], lines[Q1][i], lines[Q2][i], lines[Q3][i]];
    let next_to_edge = p1.abs_diff(p0).max(q1.abs_diff(q0));
    let interior = next_to_edge.max(p3.abs_diff(p2)).max(p2.abs_diff(p1)).max(q2.abs_diff(q1)).max(q3.abs_diff(q2));
    let smooth = mask(step_over(p1, p0, q0, q1) <= edge) & mask(interior <= limits.interior);
    (smooth, mask(next_to_edge > limits.high_variance))
}

/// `value + 3 * difference`, clamped. Clamping after each step gives the same result, because all steps have one sign.
#[inline(always)]
fn add_thrice(value: i8, difference: i8) -> i8 {
    value.saturating_add(difference).saturating_add(difference).saturating_add(difference)
}

/// Filters an edge between subblocks. Lines p1 to q1 change.
#[inline(always)]
pub(super) fn subblock_edge(lines: &mut Lines, limits: &Limits) {
    for i in 0..16 {
        let (smooth, high) = examine(lines, i, limits.subblock_edge, limits);
        let (p1, p0) = (signed(lines[P1][i]), signed(lines[P0][i]));
        let (q0, q1) = (signed(lines[Q0][i]), signed(lines[Q1][i]));
        let outer = p1.saturating_sub(q1) & high as i8;
        let base = add_thrice(outer, q0.saturating_sub(p0)) & smooth as i8;
        let behind = base.saturating_add(4) >> 3;
        let before = base.saturating_add(3) >> 3;
        let half = (behind + 1) >> 1 & !high as i8;
        lines[P1][i] = unsigned(p1.saturating_add(half));
        lines[P0][i] = unsigned(p0.saturating_add(before));
        lines[Q0][i] = unsigned(q0.saturating_sub(behind));
        lines[Q1][i] = unsigned(q1.saturating_sub(half));
    }
}

/// Filters an edge between macroblocks. Lines p2 to q2 change.
#[inline(always)]
pub(super) fn macroblock_edge(lines: &mut Lines, limits: &Limits) {
    let mut plain = [0i8; 16];
    for i in 0..16 {
        let (smooth, high) = examine(lines, i, limits.macroblock_edge, limits);
        let (p1, p0) = (signed(lines[P1][i]), signed(lines[P0][i]));
        let (q0, q1) = (signed(lines[Q0][i]), signed(lines[Q1][i]));
        let base = add_thrice(p1.saturating_sub(q1), q0.saturating_sub(p0)) & smooth as i8;
        let varied = base & high as i8;
        lines[P0][i] = unsigned(p0.saturating_add(varied.saturating_add(3) >> 3));
        lines[Q0][i] = unsigned(q0.saturating_sub(varied.saturating_add(4) >> 3));
        plain[i] = base & !high as i8;
    }
    for (before, behind, weight) in [(P0, Q0, 27), (P1, Q1, 18), (P2, Q2, 9)] {
        for i in 0..16 {
            // The change is at most 27 * 128 / 128, so it fits into eight bits.
            let change = ((weight * i16::from(plain[i]) + 63) >> 7) as i8;
            lines[before][i] = unsigned(signed(lines[before][i]).saturating_add(change));
            lines[behind][i] = unsigned(signed(lines[behind][i]).saturating_sub(change));
        }
    }
}

/// The simple filter: it uses lines p1 to q1 and changes p0 and q0.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "one index runs over several lines, lane by lane")]
pub(super) fn simple_edge(lines: &mut Lines, limit: u8) {
    for i in 0..16 {
        let smooth = mask(step_over(lines[P1][i], lines[P0][i], lines[Q0][i], lines[Q1][i]) <= limit);
        let (p1, p0) = (signed(lines[P1][i]), signed(lines[P0][i]));
        let (q0, q1) = (signed(lines[Q0][i]), signed(lines[Q1][i]));
        let base = add_thrice(p1.saturating_sub(q1), q0.saturating_sub(p0)) & smooth as i8;
        lines[P0][i] = unsigned(p0.saturating_add(base.saturating_add(3) >> 3));
        lines[Q0][i] = unsigned(q0.saturating_sub(base.saturating_add(4) >> 3));
    }
}
