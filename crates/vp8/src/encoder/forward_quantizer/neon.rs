//! Quantization of a block in NEON, which is part of aarch64. `ForwardQuantizer::quantize_portably` is the scalar
//! version with the same results.
#![allow(unsafe_code)]

use std::arch::aarch64::*;

use super::portable::{ForwardQuantizer, MAX_LEVEL};
use crate::tables::ZIGZAG;

/// [`ForwardQuantizer::quantize`] in NEON.
#[inline]
pub(super) fn quantize(
    quantizer: &ForwardQuantizer,
    coefficients: &[i16; 16],
    levels: &mut [i16; 16],
    restored: &mut [i16; 16],
) -> u8 {
    // SAFETY: NEON is part of aarch64. All reads and writes are halves of arrays of 16 words, or arrays of 16 bytes.
    unsafe {
        let narrow = [0, 8].map(|half| {
            let coefficients = vld1q_s16(coefficients.as_ptr().add(half));
            let magnitude = vreinterpretq_u16_s16(vabsq_s16(coefficients));
            let rounded = vqaddq_u16(magnitude, vld1q_u16(quantizer.rounding.as_ptr().add(half)));
            let reciprocal = vld1q_u16(quantizer.reciprocal.as_ptr().add(half));
            let products =
                [vmull_u16(vget_low_u16(rounded), vget_low_u16(reciprocal)), vmull_high_u16(rounded, reciprocal)];
            let [low, high] = products.map(|four| vshrn_n_u32::<16>(four));
            let magnitude = vminq_u16(vcombine_u16(low, high), vdupq_n_u16(MAX_LEVEL));
            let sign = vshrq_n_s16::<15>(coefficients);
            let level = vsubq_s16(veorq_s16(vreinterpretq_s16_u16(magnitude), sign), sign);
            vst1q_s16(levels.as_mut_ptr().add(half), level);
            let step = vld1q_s16(quantizer.step.as_ptr().add(half));
            vst1q_s16(restored.as_mut_ptr().add(half), vmulq_s16(level, step));
            vqmovn_s16(level)
        });
        // One byte per level in zigzag order, then four bits per level that are set if it is nonzero.
        let bytes = vreinterpretq_u8_s8(vcombine_s8(narrow[0], narrow[1]));
        let scanned = vqtbl1q_u8(bytes, vld1q_u8(ZIGZAG.as_ptr()));
        let set = vshrn_n_u16::<4>(vreinterpretq_u16_u8(vtstq_u8(scanned, scanned)));
        16 - (vget_lane_u64::<0>(vreinterpret_u64_u8(set)).leading_zeros() / 4) as u8
    }
}

/// [`ForwardQuantizer::quantize_all`] in NEON.
#[inline]
pub(super) fn quantize_all(
    quantizer: &ForwardQuantizer,
    coefficients: &[[i16; 16]],
    levels: &mut [[i16; 16]],
    restored: &mut [[i16; 16]],
    ends: &mut [u8],
) -> u32 {
    // SAFETY: NEON is part of aarch64. All reads are halves of arrays of 16 words.
    unsafe {
        let mut gains = vdupq_n_s32(0);
        for (((coefficients, levels), restored), end) in coefficients.iter().zip(levels).zip(restored).zip(ends) {
            *end = quantize(quantizer, coefficients, levels, restored);
            for half in [0, 8] {
                let coefficients = vld1q_s16(coefficients.as_ptr().add(half));
                let restored = vld1q_s16(restored.as_ptr().add(half));
                let other = vsubq_s16(vaddq_s16(coefficients, coefficients), restored);
                gains = vmlal_s16(gains, vget_low_s16(restored), vget_low_s16(other));
                gains = vmlal_high_s16(gains, restored, other);
            }
        }
        vaddvq_s32(gains).max(0) as u32
    }
}
