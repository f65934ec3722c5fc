//! Distances between two blocks of samples in SIMD128 of WebAssembly. `portable` is the scalar version with the same
//! functions and results.
#![allow(unsafe_code)]

use std::arch::wasm32::*;

use super::portable;
pub(crate) use super::portable::{compare_subblocks, row_squared_error};
use crate::simd128::{absolute_differences, sum_of_four, transposed};

/// Sum of absolute differences over a `W` x `H` block.
#[inline]
pub(crate) fn sad<const W: usize, const H: usize>(a: &[u8], a_stride: usize, b: &[u8], b_stride: usize) -> u32 {
    const { assert!(H <= 128) };
    if W == 4 {
        return portable::sad::<W, H>(a, a_stride, b, b_stride);
    }
    let (a, b) = (&a[..(H - 1) * a_stride + W], &b[..(H - 1) * b_stride + W]);
    let mut total = u16x8_splat(0);
    for y in 0..H {
        // SAFETY: both slices have been cut to contain the rows of `W` samples.
        let (a, b) = unsafe { (row::<W>(a.as_ptr().add(y * a_stride)), row::<W>(b.as_ptr().add(y * b_stride))) };
        total = i16x8_add(total, u16x8_extadd_pairwise_u8x16(absolute_differences(a, b)));
    }
    sum_of_four(u32x4_extadd_pairwise_u16x8(total))
}

/// [`sad`] at several positions of a reference. Each is the index of a block's first sample.
#[inline]
pub(crate) fn sad_each<const W: usize, const H: usize, const N: usize>(
    source: &[u8],
    source_stride: usize,
    reference: &[u8],
    reference_stride: usize,
    places: [usize; N],
) -> [u32; N] {
    places.map(|at| sad::<W, H>(source, source_stride, &reference[at..], reference_stride))
}

/// Sum of absolute differences between a block and interpolated samples of a reference.
#[inline]
pub(crate) fn sad_between<const W: usize, const H: usize>(
    source: &[u8],
    source_stride: usize,
    reference: &[u8],
    reference_stride: usize,
    (x, y): (usize, usize),
) -> u32 {
    const { assert!((W == 8 || W == 16) && H <= 128) };
    let source = &source[..(H - 1) * source_stride + W];
    let rows = H - 1 + usize::from(y > 0);
    let reference = &reference[..rows * reference_stride + W + usize::from(x > 0)];
    let line = |y: usize| {
        // SAFETY: `reference` has been cut to contain the rows of `W` samples. If `x` is not zero, it has one more
        // sample per row. If the block's `y` is not zero, it has one more row.
        unsafe {
            let at = reference.as_ptr().add(y * reference_stride);
            let left = row::<W>(at);
            if x == 0 { left } else { quarter_means(left, row::<W>(at.add(1)), x) }
        }
    };
    let mut total = u16x8_splat(0);
    let mut upper = line(0);
    for row_index in 0..H {
        let place = if y == 0 {
            line(row_index)
        } else {
            let lower = line(row_index + 1);
            let place = quarter_means(upper, lower, y);
            upper = lower;
            place
        };
        // SAFETY: `source` has been cut to contain the rows of `W` samples.
        let source = unsafe { row::<W>(source.as_ptr().add(row_index * source_stride)) };
        total = i16x8_add(total, u16x8_extadd_pairwise_u8x16(absolute_differences(source, place)));
    }
    sum_of_four(u32x4_extadd_pairwise_u16x8(total))
}

/// Interpolates at `quarters` quarters from `a` to `b`.
#[inline(always)]
fn quarter_means(a: v128, b: v128, quarters: usize) -> v128 {
    let middle = u8x16_avgr(a, b);
    match quarters {
        0 => a,
        1 => u8x16_avgr(a, middle),
        2 => middle,
        _ => u8x16_avgr(middle, b),
    }
}

/// Loads `W` samples, followed by zeros.
///
/// # Safety
/// `W` bytes can be read from `at`.
#[inline(always)]
unsafe fn row<const W: usize>(at: *const u8) -> v128 {
    // SAFETY: the caller guarantees access to the bytes.
    unsafe { if W == 16 { v128_load(at.cast()) } else { v128_load64_zero(at.cast()) } }
}

/// Sum of squared differences over a `W` x `H` block.
#[inline]
pub(crate) fn sse<const W: usize, const H: usize>(a: &[u8], a_stride: usize, b: &[u8], b_stride: usize) -> u32 {
    if W == 4 {
        return portable::sse::<W, H>(a, a_stride, b, b_stride);
    }
    let (a, b) = (&a[..(H - 1) * a_stride + W], &b[..(H - 1) * b_stride + W]);
    let mut total = u32x4_splat(0);
    for y in 0..H {
        // SAFETY: both slices have been cut to contain the rows of `W` samples.
        let (a, b) = unsafe { (row::<W>(a.as_ptr().add(y * a_stride)), row::<W>(b.as_ptr().add(y * b_stride))) };
        let difference = absolute_differences(a, b);
        let low = u16x8_extend_low_u8x16(difference);
        total = i32x4_add(total, i32x4_dot_i16x8(low, low));
        if W == 16 {
            let high = u16x8_extend_high_u8x16(difference);
            total = i32x4_add(total, i32x4_dot_i16x8(high, high));
        }
    }
    sum_of_four(total)
}

/// Sum of absolute Hadamard-transformed differences of a 4x4 block.
#[inline]
pub(crate) fn satd_4x4(a: &[u8], a_stride: usize, b: &[u8], b_stride: usize) -> u32 {
    let (a, b) = (&a[..3 * a_stride + 4], &b[..3 * b_stride + 4]);
    let rows = [0, 1, 2, 3].map(|y| {
        // SAFETY: both slices have been cut to contain the rows of four samples.
        let [a, b] = unsafe {
            [a.as_ptr().add(y * a_stride), b.as_ptr().add(y * b_stride)].map(|at| v128_load32_zero(at.cast()))
        };
        i16x8_sub(u16x8_extend_low_u8x16(a), u16x8_extend_low_u8x16(b))
    });
    sum_of_four(u32x4_extadd_pairwise_u16x8(transformed(rows)))
}

/// Sum of [`satd_4x4`] over a `W` x `H` block.
#[inline]
pub(crate) fn satd<const W: usize, const H: usize>(a: &[u8], a_stride: usize, b: &[u8], b_stride: usize) -> u32 {
    if W == 4 && H == 4 {
        return satd_4x4(a, a_stride, b, b_stride);
    }
    if !(W == 16 || W == 8) || !H.is_multiple_of(4) || H > 16 {
        return portable::satd::<W, H>(a, a_stride, b, b_stride);
    }
    let (a, b) = (&a[..(H - 1) * a_stride + W], &b[..(H - 1) * b_stride + W]);
    // At most 16 times the largest result of `transformed`, which fits.
    let mut total = u16x8_splat(0);
    for y in (0..H).step_by(4) {
        for x in (0..W).step_by(8) {
            let rows = [0, 1, 2, 3].map(|line| {
                let y = y + line;
                // SAFETY: both slices have been cut to contain the rows of `W` samples.
                let [a, b] = unsafe {
                    [a.as_ptr().add(y * a_stride + x), b.as_ptr().add(y * b_stride + x)]
                        .map(|at| u16x8_load_extend_u8x8(at))
                };
                i16x8_sub(a, b)
            });
            total = i16x8_add(total, transformed(rows));
        }
    }
    sum_of_four(u32x4_extadd_pairwise_u16x8(total))
}

/// Hadamard transforms of two adjacent 4x4 blocks. The sum of the results is half the sum of the transforms' absolute
/// values. No result exceeds 4080.
#[inline(always)]
fn transformed([r0, r1, r2, r3]: [v128; 4]) -> v128 {
    let (s, d) = (i16x8_add(r0, r1), i16x8_sub(r0, r1));
    let (t, e) = (i16x8_add(r2, r3), i16x8_sub(r2, r3));
    let rows = [i16x8_add(s, t), i16x8_sub(s, t), i16x8_add(d, e), i16x8_sub(d, e)];
    let [c0, c1, c2, c3] = transposed(rows);
    // |p + q| + |p - q| is twice the larger of |p| and |q|. The factor of two cancels.
    let larger = |p: v128, q: v128| i16x8_max(i16x8_abs(p), i16x8_abs(q));
    i16x8_add(larger(i16x8_add(c0, c1), i16x8_add(c2, c3)), larger(i16x8_sub(c0, c1), i16x8_sub(c2, c3)))
}
