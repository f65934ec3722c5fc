//! Quantization of a block in SIMD128 of WebAssembly. `ForwardQuantizer::quantize_portably` is the scalar version with
//! the same results.
#![allow(unsafe_code)]

use std::arch::wasm32::*;

use super::portable::{ForwardQuantizer, MAX_LEVEL};
use crate::simd128::sum_of_four;
use crate::tables::ZIGZAG;

/// [`ForwardQuantizer::quantize`] in SIMD128.
#[inline]
pub(super) fn quantize(
    quantizer: &ForwardQuantizer,
    coefficients: &[i16; 16],
    levels: &mut [i16; 16],
    restored: &mut [i16; 16],
) -> u8 {
    let coefficients = halves(coefficients);
    let (rounding, reciprocal) = (halves(&quantizer.rounding), halves(&quantizer.reciprocal));
    let step = halves(&quantizer.step);
    let level = [0, 1].map(|half| {
        let rounded = u16x8_add_sat(i16x8_abs(coefficients[half]), rounding[half]);
        let products =
            [u32x4_extmul_low_u16x8(rounded, reciprocal[half]), u32x4_extmul_high_u16x8(rounded, reciprocal[half])];
        // The upper halves of the products.
        let magnitude = i16x8_shuffle::<1, 3, 5, 7, 9, 11, 13, 15>(products[0], products[1]);
        let magnitude = u16x8_min(magnitude, u16x8_splat(MAX_LEVEL));
        let sign = i16x8_shr(coefficients[half], 15);
        i16x8_sub(v128_xor(magnitude, sign), sign)
    });
    for half in [0, 1] {
        // SAFETY: both arrays have two halves of eight words.
        unsafe {
            v128_store(levels.as_mut_ptr().cast::<v128>().add(half), level[half]);
            v128_store(restored.as_mut_ptr().cast::<v128>().add(half), i16x8_mul(level[half], step[half]));
        }
    }
    // One byte per level in zigzag order.
    let bytes = i8x16_narrow_i16x8(level[0], level[1]);
    // SAFETY: the scan has 16 bytes.
    let scanned = i8x16_swizzle(bytes, unsafe { v128_load(ZIGZAG.as_ptr().cast()) });
    let nonzero = i8x16_bitmask(i8x16_ne(scanned, i8x16_splat(0)));
    16 - nonzero.leading_zeros() as u8
}

/// [`ForwardQuantizer::quantize_all`] in SIMD128.
#[inline]
pub(super) fn quantize_all(
    quantizer: &ForwardQuantizer,
    coefficients: &[[i16; 16]],
    levels: &mut [[i16; 16]],
    restored: &mut [[i16; 16]],
    ends: &mut [u8],
) -> u32 {
    let mut gains = i32x4_splat(0);
    for (((coefficients, levels), restored), end) in coefficients.iter().zip(levels).zip(restored).zip(ends) {
        *end = quantize(quantizer, coefficients, levels, restored);
        for (coefficients, restored) in halves(coefficients).into_iter().zip(halves(restored)) {
            let other = i16x8_sub(i16x8_add(coefficients, coefficients), restored);
            gains = i32x4_add(gains, i32x4_dot_i16x8(restored, other));
        }
    }
    (sum_of_four(gains) as i32).max(0) as u32
}

/// Loads 16 words.
#[inline(always)]
fn halves<T>(words: &[T; 16]) -> [v128; 2] {
    const { assert!(size_of::<T>() == 2) };
    let words = words.as_ptr().cast::<v128>();
    // SAFETY: the array has two halves of eight words.
    unsafe { [v128_load(words), v128_load(words.add(1))] }
}
