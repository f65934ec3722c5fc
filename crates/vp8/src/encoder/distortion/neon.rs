//! Distances between two blocks of samples in NEON, which is part of aarch64. `portable` is the scalar version with the
//! same functions and results.
#![allow(unsafe_code)]

use std::arch::aarch64::*;

use super::portable;
use super::subblock_differences::SubblockDifferences;

/// Sum of absolute differences over a `W` x `H` block.
#[inline]
pub(crate) fn sad<const W: usize, const H: usize>(a: &[u8], a_stride: usize, b: &[u8], b_stride: usize) -> u32 {
    const { assert!(H <= 128) };
    if W == 4 {
        return portable::sad::<W, H>(a, a_stride, b, b_stride);
    }
    let (a, b) = (&a[..(H - 1) * a_stride + W], &b[..(H - 1) * b_stride + W]);
    // SAFETY: NEON is part of aarch64. Both slices have been cut to contain the rows of `W` samples.
    unsafe {
        let mut total = vdupq_n_u16(0);
        for y in 0..H {
            let (a, b) = (row::<W>(a.as_ptr().add(y * a_stride)), row::<W>(b.as_ptr().add(y * b_stride)));
            total = vpadalq_u8(total, vabdq_u8(a, b));
        }
        vaddlvq_u16(total)
    }
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
    // SAFETY: NEON is part of aarch64. The slices have been cut to contain the rows of `W` samples. If `x` is not zero,
    // the reference has one more sample per row. If `y` is not zero, it has one more row.
    unsafe {
        let line = |y: usize| {
            let at = reference.as_ptr().add(y * reference_stride);
            let left = row::<W>(at);
            if x == 0 { left } else { quarter_means(left, row::<W>(at.add(1)), x) }
        };
        let mut total = vdupq_n_u16(0);
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
            let source = row::<W>(source.as_ptr().add(row_index * source_stride));
            total = vpadalq_u8(total, vabdq_u8(source, place));
        }
        vaddlvq_u16(total)
    }
}

/// Interpolates at `quarters` quarters from `a` to `b`.
#[inline(always)]
fn quarter_means(a: uint8x16_t, b: uint8x16_t, quarters: usize) -> uint8x16_t {
    // SAFETY: NEON is part of aarch64.
    unsafe {
        let middle = vrhaddq_u8(a, b);
        match quarters {
            0 => a,
            1 => vrhaddq_u8(a, middle),
            2 => middle,
            _ => vrhaddq_u8(middle, b),
        }
    }
}

/// Loads `W` samples, followed by zeros.
///
/// # Safety
/// `W` bytes can be read from `at`.
#[inline(always)]
unsafe fn row<const W: usize>(at: *const u8) -> uint8x16_t {
    // SAFETY: NEON is part of aarch64; the caller guarantees access to the bytes.
    unsafe { if W == 16 { vld1q_u8(at) } else { vcombine_u8(vld1_u8(at), vdup_n_u8(0)) } }
}

/// Adds the squares of the differences of sixteen samples to four sums.
#[inline(always)]
fn add_squares(total: uint32x4_t, a: uint8x16_t, b: uint8x16_t) -> uint32x4_t {
    // SAFETY: NEON is part of aarch64.
    unsafe {
        let difference = vabdq_u8(a, b);
        let low = vget_low_u8(difference);
        vpadalq_u16(vpadalq_u16(total, vmull_u8(low, low)), vmull_high_u8(difference, difference))
    }
}

/// Sum of squared differences over a `W` x `H` block.
#[inline]
pub(crate) fn sse<const W: usize, const H: usize>(a: &[u8], a_stride: usize, b: &[u8], b_stride: usize) -> u32 {
    if W == 4 {
        return portable::sse::<W, H>(a, a_stride, b, b_stride);
    }
    let (a, b) = (&a[..(H - 1) * a_stride + W], &b[..(H - 1) * b_stride + W]);
    // SAFETY: NEON is part of aarch64. Both slices have been cut to contain the rows of `W` samples.
    unsafe {
        let mut total = vdupq_n_u32(0);
        for y in 0..H {
            let (a, b) = (row::<W>(a.as_ptr().add(y * a_stride)), row::<W>(b.as_ptr().add(y * b_stride)));
            total = add_squares(total, a, b);
        }
        vaddvq_u32(total)
    }
}

/// Sum of absolute Hadamard-transformed differences of a 4x4 block.
#[inline]
pub(crate) fn satd_4x4(a: &[u8], a_stride: usize, b: &[u8], b_stride: usize) -> u32 {
    let (a, b) = (&a[..3 * a_stride + 4], &b[..3 * b_stride + 4]);
    // SAFETY: NEON is part of aarch64. Both slices have been cut to contain the rows of four samples.
    unsafe {
        let rows = [0, 1, 2, 3].map(|y| {
            let four = |at: *const u8| vcreate_u8(u64::from(at.cast::<u32>().read_unaligned()));
            let (a, b) = (four(a.as_ptr().add(y * a_stride)), four(b.as_ptr().add(y * b_stride)));
            vreinterpretq_s16_u16(vsubl_u8(a, b))
        });
        vaddlvq_u16(transformed(rows))
    }
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
    // SAFETY: NEON is part of aarch64. Both slices have been cut to contain the rows of `W` samples.
    unsafe {
        // At most 16 times the largest result of `transformed`, which fits.
        let mut total = vdupq_n_u16(0);
        for y in (0..H).step_by(4) {
            for x in (0..W).step_by(8) {
                let rows =
                    differences(a.as_ptr().add(y * a_stride + x), a_stride, b.as_ptr().add(y * b_stride + x), b_stride);
                total = vaddq_u16(total, transformed(rows));
            }
        }
        vaddlvq_u16(total)
    }
}

/// Differences of two adjacent 4x4 blocks.
///
/// # Safety
/// Four rows of eight samples can be read from `a` and from `b`.
#[inline(always)]
unsafe fn differences(a: *const u8, a_stride: usize, b: *const u8, b_stride: usize) -> [int16x8_t; 4] {
    // SAFETY: NEON is part of aarch64; the caller vouches for the rows.
    [0, 1, 2, 3]
        .map(|y| unsafe { vreinterpretq_s16_u16(vsubl_u8(vld1_u8(a.add(y * a_stride)), vld1_u8(b.add(y * b_stride)))) })
}

/// Hadamard transforms of two adjacent 4x4 blocks. The sum of the results is half the sum of the transforms' absolute
/// values. No result exceeds 4080.
#[inline(always)]
fn transformed([r0, r1, r2, r3]: [int16x8_t; 4]) -> uint16x8_t {
    // SAFETY: NEON is part of aarch64.
    unsafe {
        let (s, d) = (vaddq_s16(r0, r1), vsubq_s16(r0, r1));
        let (t, e) = (vaddq_s16(r2, r3), vsubq_s16(r2, r3));
        // Takes two rows. First sums and differences of neighbours, then the last step across.
        let across = |a: int16x8_t, b: int16x8_t| {
            let (even, odd) = (vtrn1q_s16(a, b), vtrn2q_s16(a, b));
            let (sums, differences) = (vaddq_s16(even, odd), vsubq_s16(even, odd));
            let (sums, differences) =
                (vreinterpretq_s32_s16(vabsq_s16(sums)), vreinterpretq_s32_s16(vabsq_s16(differences)));
            let left = vreinterpretq_u16_s32(vtrn1q_s32(sums, differences));
            let right = vreinterpretq_u16_s32(vtrn2q_s32(sums, differences));
            // |p + q| + |p - q| is twice the larger of |p| and |q|. The factor of two cancels.
            vmaxq_u16(left, right)
        };
        vaddq_u16(across(vaddq_s16(s, t), vsubq_s16(s, t)), across(vaddq_s16(d, e), vsubq_s16(d, e)))
    }
}

/// Compares the `N` subblocks of a `W` x `H` block with their prediction.
#[inline]
pub(crate) fn compare_subblocks<const W: usize, const H: usize, const N: usize>(
    a: &[u8],
    a_stride: usize,
    b: &[u8],
    b_stride: usize,
    limit: u32,
) -> SubblockDifferences<N> {
    const { assert!(16 * N == W * H && W.is_multiple_of(8) && H.is_multiple_of(4)) };
    let (a, b) = (&a[..(H - 1) * a_stride + W], &b[..(H - 1) * b_stride + W]);
    let mut compared = SubblockDifferences { sums: [0; N], squared: 0, varied: 0 };
    for (pair, sums) in compared.sums.as_chunks_mut::<2>().0.iter_mut().enumerate() {
        let (x, y) = (8 * pair % W, 4 * (8 * pair / W));
        // SAFETY: NEON is part of aarch64. Both slices have been cut to contain the rows of `W` samples.
        let (two_sums, squares) = unsafe {
            let rows =
                differences(a.as_ptr().add(y * a_stride + x), a_stride, b.as_ptr().add(y * b_stride + x), b_stride);
            let sum = vaddq_s16(vaddq_s16(rows[0], rows[1]), vaddq_s16(rows[2], rows[3]));
            let mut squares = [vdupq_n_s32(0); 2];
            for row in rows {
                squares[0] = vmlal_s16(squares[0], vget_low_s16(row), vget_low_s16(row));
                squares[1] = vmlal_high_s16(squares[1], row, row);
            }
            ([vaddv_s16(vget_low_s16(sum)), vaddv_s16(vget_high_s16(sum))], squares.map(|four| vaddvq_s32(four)))
        };
        *sums = two_sums;
        for (sum, squares) in two_sums.into_iter().zip(squares) {
            compared.squared += squares as u32;
            let varied = (16 * squares - i32::from(sum) * i32::from(sum)) as u32;
            compared.varied += if varied >= limit { varied } else { 0 };
        }
    }
    compared
}

/// Sum of squared differences of two rows. A row has at most 16383 samples, so the sum fits.
pub(crate) fn row_squared_error(a: &[u8], b: &[u8]) -> u32 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<16>(), b.as_chunks::<16>());
    // SAFETY: NEON is part of aarch64. The loads read arrays of 16 bytes.
    let sum = unsafe {
        let mut total = vdupq_n_u32(0);
        for (a, b) in a.iter().zip(b) {
            total = add_squares(total, vld1q_u8(a.as_ptr()), vld1q_u8(b.as_ptr()));
        }
        vaddvq_u32(total)
    };
    sum + portable::row_squared_error(a_rest, b_rest)
}
