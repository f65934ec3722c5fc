//! The inverse DCT of two blocks at once in SIMD128 of WebAssembly. `portable` is the scalar version with the same
//! functions and results.
#![allow(unsafe_code)]

use std::arch::wasm32::*;

use super::angles::{COSINE, SINE};
use crate::simd128::{interleaved, transposed};

/// Inverse DCTs of two blocks, added to the 4x8 samples at the start of `samples`.
#[inline]
pub(crate) fn inverse_dct_add_pair(blocks: &[[i16; 16]; 2], samples: &mut [u8], stride: usize) {
    add_rows(inverse_dct(load(&blocks[0]), load(&blocks[1])), samples, stride);
}

/// Inverse DCT of a block, added to the 4x4 samples at the start of `samples`.
#[inline]
pub(crate) fn inverse_dct_add(block: &[i16; 16], samples: &mut [u8], stride: usize) {
    let samples = &mut samples[..3 * stride + 4];
    let rows = inverse_dct(load(block), [i16x8_splat(0); 2]);
    for (y, row) in rows.into_iter().enumerate() {
        // SAFETY: `samples` has been cut to contain the rows of 4 samples.
        unsafe {
            let at = samples.as_mut_ptr().add(y * stride);
            let sum = i16x8_add(u16x8_extend_low_u8x16(v128_load32_zero(at.cast())), row);
            v128_store32_lane::<0>(u8x16_narrow_i16x8(sum, sum), at.cast());
        }
    }
}

/// Inverse DCTs of two blocks with DC coefficients only, added to the 4x8 samples at the start of `samples`.
#[inline]
pub(crate) fn inverse_dct_add_dc_pair(dc: [i16; 2], samples: &mut [u8], stride: usize) {
    let [a, b] = dc.map(|dc| i16x8_splat(dc.wrapping_add(4) >> 3));
    add_rows([i64x2_shuffle::<0, 2>(a, b); 4], samples, stride);
}

/// Adds residuals to four rows of eight samples.
#[inline(always)]
fn add_rows(rows: [v128; 4], samples: &mut [u8], stride: usize) {
    let samples = &mut samples[..3 * stride + 8];
    for (y, row) in rows.into_iter().enumerate() {
        // SAFETY: `samples` has been cut to contain the rows of 8 samples.
        unsafe {
            let at = samples.as_mut_ptr().add(y * stride);
            let sum = i16x8_add(u16x8_load_extend_u8x8(at), row);
            v128_store64_lane::<0>(u8x16_narrow_i16x8(sum, sum), at.cast());
        }
    }
}

/// Loads rows 0 and 1, and rows 2 and 3, of a block.
#[inline(always)]
fn load(block: &[i16; 16]) -> [v128; 2] {
    let halves = block.as_ptr().cast::<v128>();
    // SAFETY: both halves of the block are 16 bytes.
    unsafe { [v128_load(halves), v128_load(halves.add(1))] }
}

/// Residuals of two blocks; each row holds a row of both.
#[inline(always)]
fn inverse_dct(a: [v128; 2], b: [v128; 2]) -> [v128; 4] {
    let ([r0, r1], [r2, r3]) = (interleaved::<8>(a[0], b[0]), interleaved::<8>(a[1], b[1]));
    let residual = transposed(butterfly(transposed(butterfly([r0, r1, r2, r3]))));
    residual.map(|row| i16x8_shr(i16x8_add(row, i16x8_splat(4)), 3))
}

/// One-dimensional inverse DCT of eight columns.
#[inline(always)]
fn butterfly([i0, i1, i2, i3]: [v128; 4]) -> [v128; 4] {
    // The upper halves of products.
    let high = |value, factor: i32| {
        let factor = i16x8_splat(factor as i16);
        let (low, high) = (i32x4_extmul_low_i16x8(value, factor), i32x4_extmul_high_i16x8(value, factor));
        i16x8_shuffle::<1, 3, 5, 7, 9, 11, 13, 15>(low, high)
    };
    let times_cosine = |value| i16x8_add(value, high(value, COSINE));
    // As a signed number, the factor is too small by exactly one.
    let times_sine = |value| i16x8_add(value, high(value, SINE));
    let (a, b) = (i16x8_add(i0, i2), i16x8_sub(i0, i2));
    let c = i16x8_sub(times_sine(i1), times_cosine(i3));
    let d = i16x8_add(times_cosine(i1), times_sine(i3));
    [i16x8_add(a, d), i16x8_add(b, c), i16x8_sub(b, c), i16x8_sub(a, d)]
}
