//! The inverse DCT of two blocks at once in NEON, which is part of aarch64. `portable` is the scalar version with the
//! same functions and results.
#![allow(unsafe_code)]

use std::arch::aarch64::*;

use super::angles::{COSINE, SINE};

/// Inverse DCTs of two blocks, added to the 4x8 samples at the start of `samples`.
#[inline]
pub(crate) fn inverse_dct_add_pair(blocks: &[[i16; 16]; 2], samples: &mut [u8], stride: usize) {
    let samples = &mut samples[..3 * stride + 8];
    // SAFETY: NEON is part of aarch64. `samples` has been cut to contain the rows of 8 samples.
    unsafe {
        let rows = inverse_dct(load(&blocks[0]), load(&blocks[1]));
        for (y, row) in rows.into_iter().enumerate() {
            let at = samples.as_mut_ptr().add(y * stride);
            vst1_u8(at, add(vld1_u8(at), row));
        }
    }
}

/// Inverse DCT of a block, added to the 4x4 samples at the start of `samples`.
#[inline]
pub(crate) fn inverse_dct_add(block: &[i16; 16], samples: &mut [u8], stride: usize) {
    let samples = &mut samples[..3 * stride + 4];
    // SAFETY: NEON is part of aarch64. `samples` has been cut to contain the rows of 4 samples.
    unsafe {
        let rows = inverse_dct(load(block), [vdup_n_s16(0); 4]);
        for (y, row) in rows.into_iter().enumerate() {
            let at = samples.as_mut_ptr().add(y * stride).cast::<u32>();
            let sum = add(vcreate_u8(u64::from(at.read_unaligned())), row);
            at.write_unaligned(vget_lane_u32::<0>(vreinterpret_u32_u8(sum)));
        }
    }
}

/// Inverse DCTs of two blocks with DC coefficients only, added to the 4x8 samples at the start of `samples`.
#[inline]
pub(crate) fn inverse_dct_add_dc_pair(dc: [i16; 2], samples: &mut [u8], stride: usize) {
    let samples = &mut samples[..3 * stride + 8];
    let [a, b] = dc.map(|dc| dc.wrapping_add(4) >> 3);
    // SAFETY: NEON is part of aarch64. `samples` has been cut to contain the rows of 8 samples.
    unsafe {
        let row = vcombine_s16(vdup_n_s16(a), vdup_n_s16(b));
        for y in 0..4 {
            let at = samples.as_mut_ptr().add(y * stride);
            vst1_u8(at, add(vld1_u8(at), row));
        }
    }
}

/// Loads the rows of a block.
#[inline(always)]
fn load(block: &[i16; 16]) -> [int16x4_t; 4] {
    // SAFETY: NEON is part of aarch64. The four rows are the 16 coefficients of the block.
    [0, 4, 8, 12].map(|at| unsafe { vld1_s16(block.as_ptr().add(at)) })
}

/// Adds a residual to eight samples.
#[inline(always)]
fn add(samples: uint8x8_t, residual: int16x8_t) -> uint8x8_t {
    // SAFETY: NEON is part of aarch64.
    unsafe { vqmovun_s16(vaddq_s16(vreinterpretq_s16_u16(vmovl_u8(samples)), residual)) }
}

/// Residuals of two blocks; each row holds a row of both.
#[inline(always)]
fn inverse_dct(a: [int16x4_t; 4], b: [int16x4_t; 4]) -> [int16x8_t; 4] {
    // SAFETY: NEON is part of aarch64.
    unsafe {
        let rows = [0, 1, 2, 3].map(|y| vcombine_s16(a[y], b[y]));
        let residual = transposed(butterfly(transposed(butterfly(rows))));
        // NEON's rounding shift would not wrap on overflow.
        residual.map(|row| vshrq_n_s16::<3>(vaddq_s16(row, vdupq_n_s16(4))))
    }
}

/// One-dimensional inverse DCT of eight columns.
#[inline(always)]
fn butterfly([i0, i1, i2, i3]: [int16x8_t; 4]) -> [int16x8_t; 4] {
    // SAFETY: NEON is part of aarch64.
    unsafe {
        // NEON doubles the high half of a product.
        let high = |value, factor: i32| vshrq_n_s16::<1>(vqdmulhq_n_s16(value, factor as i16));
        let times_cosine = |value| vaddq_s16(value, high(value, COSINE));
        // As a signed number, the factor is too small by exactly one.
        let times_sine = |value| vaddq_s16(value, high(value, SINE));
        let (a, b) = (vaddq_s16(i0, i2), vsubq_s16(i0, i2));
        let c = vsubq_s16(times_sine(i1), times_cosine(i3));
        let d = vaddq_s16(times_cosine(i1), times_sine(i3));
        [vaddq_s16(a, d), vaddq_s16(b, c), vsubq_s16(b, c), vsubq_s16(a, d)]
    }
}

/// Transposes two adjacent blocks.
#[inline(always)]
pub(crate) fn transposed([r0, r1, r2, r3]: [int16x8_t; 4]) -> [int16x8_t; 4] {
    // SAFETY: NEON is part of aarch64.
    unsafe {
        let two = |a, b| [vreinterpretq_s32_s16(vtrn1q_s16(a, b)), vreinterpretq_s32_s16(vtrn2q_s16(a, b))];
        let ([even_01, odd_01], [even_23, odd_23]) = (two(r0, r1), two(r2, r3));
        [
            vtrn1q_s32(even_01, even_23),
            vtrn1q_s32(odd_01, odd_23),
            vtrn2q_s32(even_01, even_23),
            vtrn2q_s32(odd_01, odd_23),
        ]
        .map(|row| vreinterpretq_s16_s32(row))
    }
}
