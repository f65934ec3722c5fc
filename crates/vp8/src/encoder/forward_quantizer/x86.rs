//! Quantization of a block in AVX2. `ForwardQuantizer::quantize_portably` is the scalar version with the same results.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::portable::{ForwardQuantizer, MAX_LEVEL};
use crate::tables::ZIGZAG;

/// [`ForwardQuantizer::quantize`] in AVX2; `None` if the processor lacks it.
#[inline]
pub(super) fn quantize(
    quantizer: &ForwardQuantizer,
    coefficients: &[i16; 16],
    levels: &mut [i16; 16],
    restored: &mut [i16; 16],
) -> Option<u8> {
    if !is_x86_feature_detected!("avx2") {
        return None;
    }
    // SAFETY: the processor has AVX2.
    Some(unsafe { quantize_block(quantizer, coefficients, levels, restored) })
}

/// [`ForwardQuantizer::quantize_all`] in AVX2; `None` if the processor lacks it.
#[inline]
pub(super) fn quantize_all(
    quantizer: &ForwardQuantizer,
    coefficients: &[[i16; 16]],
    levels: &mut [[i16; 16]],
    restored: &mut [[i16; 16]],
    ends: &mut [u8],
) -> Option<u32> {
    if !is_x86_feature_detected!("avx2") {
        return None;
    }
    // SAFETY: the processor has AVX2.
    Some(unsafe { quantize_blocks(quantizer, coefficients, levels, restored, ends) })
}

#[target_feature(enable = "avx2")]
fn quantize_blocks(
    quantizer: &ForwardQuantizer,
    coefficients: &[[i16; 16]],
    levels: &mut [[i16; 16]],
    restored: &mut [[i16; 16]],
    ends: &mut [u8],
) -> u32 {
    let mut gains = _mm256_setzero_si256();
    for (((coefficients, levels), restored), end) in coefficients.iter().zip(levels).zip(restored).zip(ends) {
        *end = quantize_block(quantizer, coefficients, levels, restored);
        // SAFETY: both arrays have 32 bytes.
        let (coefficients, restored) =
            unsafe { (_mm256_loadu_si256(coefficients.as_ptr().cast()), _mm256_loadu_si256(restored.as_ptr().cast())) };
        let other = _mm256_sub_epi16(_mm256_add_epi16(coefficients, coefficients), restored);
        gains = _mm256_add_epi32(gains, _mm256_madd_epi16(restored, other));
    }
    let four = _mm_add_epi32(_mm256_castsi256_si128(gains), _mm256_extracti128_si256::<1>(gains));
    let two = _mm_add_epi32(four, _mm_unpackhi_epi64(four, four));
    _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32::<1>(two))).max(0) as u32
}

#[inline]
#[target_feature(enable = "avx2")]
fn quantize_block(
    quantizer: &ForwardQuantizer,
    coefficients: &[i16; 16],
    levels: &mut [i16; 16],
    restored: &mut [i16; 16],
) -> u8 {
    // SAFETY: all arrays have the 32 or 16 bytes that are read and written.
    unsafe {
        let load = |values: *const u8| _mm256_loadu_si256(values.cast());
        let coefficients = load(coefficients.as_ptr().cast());
        let magnitude = _mm256_abs_epi16(coefficients);
        let rounded = _mm256_adds_epu16(magnitude, load(quantizer.rounding.as_ptr().cast()));
        let magnitude = _mm256_mulhi_epu16(rounded, load(quantizer.reciprocal.as_ptr().cast()));
        let magnitude = _mm256_min_epu16(magnitude, _mm256_set1_epi16(MAX_LEVEL as i16));
        let level = _mm256_sign_epi16(magnitude, coefficients);
        _mm256_storeu_si256(levels.as_mut_ptr().cast(), level);
        let step = load(quantizer.step.as_ptr().cast());
        _mm256_storeu_si256(restored.as_mut_ptr().cast(), _mm256_mullo_epi16(level, step));
        // One byte per level, in zigzag order.
        let bytes = _mm256_permute4x64_epi64::<0b1000>(_mm256_packs_epi16(level, _mm256_setzero_si256()));
        let scanned = _mm_shuffle_epi8(_mm256_castsi256_si128(bytes), _mm_loadu_si128(ZIGZAG.as_ptr().cast()));
        let zeros = _mm_movemask_epi8(_mm_cmpeq_epi8(scanned, _mm_setzero_si128())) as u16;
        16 - (!zeros).leading_zeros() as u8
    }
}
