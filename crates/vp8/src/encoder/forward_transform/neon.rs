//! The forward DCT of two blocks at once in NEON, which is part of aarch64. `portable` is the scalar version with the
//! same functions and results.
#![allow(unsafe_code)]

use std::arch::aarch64::*;

use super::angles::{COSINE, SINE};
use crate::transform::transposed;

/// Forward DCT of `source - prediction`, a 4x4 block.
#[inline]
pub(crate) fn forward_dct(
    source: &[u8],
    source_stride: usize,
    prediction: &[u8],
    prediction_stride: usize,
    output: &mut [i16; 16],
) {
    let (source, prediction) = (&source[..3 * source_stride + 4], &prediction[..3 * prediction_stride + 4]);
    // SAFETY: NEON is part of aarch64. Both slices have been cut to contain the rows of four samples.
    let rows = [0, 1, 2, 3].map(|y| unsafe {
        let four = |at: *const u8| vcreate_u8(u64::from(at.cast::<u32>().read_unaligned()));
        let source = four(source.as_ptr().add(y * source_stride));
        vreinterpretq_s16_u16(vsubl_u8(source, four(prediction.as_ptr().add(y * prediction_stride))))
    });
    for (row, output) in transform(rows).into_iter().zip(output.as_chunks_mut::<4>().0) {
        // SAFETY: NEON is part of aarch64. The store writes four words.
        unsafe { vst1_s16(output.as_mut_ptr(), vget_low_s16(row)) };
    }
}

/// [`forward_dct`] of two adjacent blocks.
#[inline]
pub(crate) fn forward_dct_pair(
    source: &[u8],
    source_stride: usize,
    prediction: &[u8],
    prediction_stride: usize,
    output: &mut [[i16; 16]; 2],
) {
    let (source, prediction) = (&source[..3 * source_stride + 8], &prediction[..3 * prediction_stride + 8]);
    // SAFETY: NEON is part of aarch64. Both slices have been cut to contain the rows of eight samples.
    let rows = [0, 1, 2, 3].map(|y| unsafe {
        let source = vld1_u8(source.as_ptr().add(y * source_stride));
        vreinterpretq_s16_u16(vsubl_u8(source, vld1_u8(prediction.as_ptr().add(y * prediction_stride))))
    });
    let [first, second] = output;
    let rows = transform(rows).into_iter();
    for ((row, first), second) in rows.zip(first.as_chunks_mut::<4>().0).zip(second.as_chunks_mut::<4>().0) {
        // SAFETY: NEON is part of aarch64. Each store writes four words.
        unsafe {
            vst1_s16(first.as_mut_ptr(), vget_low_s16(row));
            vst1_s16(second.as_mut_ptr(), vget_high_s16(row));
        }
    }
}

/// Transforms the differences of two adjacent blocks, row by row.
#[inline(always)]
fn transform(rows: [int16x8_t; 4]) -> [int16x8_t; 4] {
    // SAFETY: NEON is part of aarch64.
    unsafe {
        let [sum, difference, sines, cosines] = step::<9>(rows);
        let columns = transposed([vshlq_n_s16::<3>(sum), sines, vshlq_n_s16::<3>(difference), cosines]);
        let [sum, difference, sines, cosines] = step::<16>(columns);
        // Each register holds one coefficient of every row.
        transposed([vrshrq_n_s16::<4>(sum), sines, vrshrq_n_s16::<4>(difference), cosines])
    }
}

/// One dimension of the DCT. Returns the sum, the outer minus the inner inputs, and two rotations of differences. The
/// rotations are divided by 2 to the power of `SHIFT`.
///
/// All values fit into 16 bits: differences are at most 255, and at most 8160 after one dimension.
#[inline(always)]
fn step<const SHIFT: i32>([d0, d1, d2, d3]: [int16x8_t; 4]) -> [int16x8_t; 4] {
    // SAFETY: NEON is part of aarch64.
    unsafe {
        let (outer, inner) = (vaddq_s16(d0, d3), vaddq_s16(d1, d2));
        let (inner_difference, outer_difference) = (vsubq_s16(d1, d2), vsubq_s16(d0, d3));
        let turned = |inner: i32, outer: i32| {
            let one = |inner_half, outer_half| {
                let product = vmull_n_s16(inner_half, inner as i16);
                vrshrn_n_s32::<SHIFT>(vmlal_n_s16(product, outer_half, outer as i16))
            };
            vcombine_s16(
                one(vget_low_s16(inner_difference), vget_low_s16(outer_difference)),
                one(vget_high_s16(inner_difference), vget_high_s16(outer_difference)),
            )
        };
        [vaddq_s16(outer, inner), vsubq_s16(outer, inner), turned(SINE, COSINE), turned(-COSINE, SINE)]
    }
}
