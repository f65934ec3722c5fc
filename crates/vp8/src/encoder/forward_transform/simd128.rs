//! The forward DCT of two blocks at once in SIMD128 of WebAssembly. `portable` is the scalar version with the same
//! functions and results.
#![allow(unsafe_code)]

use std::arch::wasm32::*;

use super::angles::{COSINE, SINE};
pub(crate) use super::portable::forward_wht;
use crate::simd128::{interleaved, transposed};

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
    let rows = [0, 1, 2, 3].map(|y| {
        // SAFETY: both slices have been cut to contain the rows of four samples.
        let [source, prediction] = unsafe {
            [source.as_ptr().add(y * source_stride), prediction.as_ptr().add(y * prediction_stride)]
                .map(|at| v128_load32_zero(at.cast()))
        };
        i16x8_sub(u16x8_extend_low_u8x16(source), u16x8_extend_low_u8x16(prediction))
    });
    for (row, output) in transform(rows).into_iter().zip(output.as_chunks_mut::<4>().0) {
        // SAFETY: the store writes four words.
        unsafe { v128_store64_lane::<0>(row, output.as_mut_ptr().cast()) };
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
    let rows = [0, 1, 2, 3].map(|y| {
        // SAFETY: both slices have been cut to contain the rows of eight samples.
        let [source, prediction] = unsafe {
            [source.as_ptr().add(y * source_stride), prediction.as_ptr().add(y * prediction_stride)]
                .map(|at| u16x8_load_extend_u8x8(at))
        };
        i16x8_sub(source, prediction)
    });
    let [first, second] = output;
    let rows = transform(rows).into_iter();
    for ((row, first), second) in rows.zip(first.as_chunks_mut::<4>().0).zip(second.as_chunks_mut::<4>().0) {
        // SAFETY: each store writes four words.
        unsafe {
            v128_store64_lane::<0>(row, first.as_mut_ptr().cast());
            v128_store64_lane::<1>(row, second.as_mut_ptr().cast());
        }
    }
}

/// Transforms the differences of two adjacent blocks, row by row.
#[inline(always)]
fn transform(rows: [v128; 4]) -> [v128; 4] {
    let [sum, difference, sines, cosines] = step::<9>(rows);
    let columns = transposed([i16x8_shl(sum, 3), sines, i16x8_shl(difference, 3), cosines]);
    let [sum, difference, sines, cosines] = step::<16>(columns);
    let rounded = |value| i16x8_shr(i16x8_add(value, i16x8_splat(8)), 4);
    // Each register holds one coefficient of every row.
    transposed([rounded(sum), sines, rounded(difference), cosines])
}

/// One dimension of the DCT. Returns the sum, the outer minus the inner inputs, and two rotations of differences. The
/// rotations are divided by 2 to the power of `SHIFT`.
///
/// All values fit into 16 bits: differences are at most 255, and at most 8160 after one dimension.
#[inline(always)]
fn step<const SHIFT: u32>([d0, d1, d2, d3]: [v128; 4]) -> [v128; 4] {
    let (outer, inner) = (i16x8_add(d0, d3), i16x8_add(d1, d2));
    let (inner_difference, outer_difference) = (i16x8_sub(d1, d2), i16x8_sub(d0, d3));
    // Pairs of an inner and an outer difference.
    let pairs = interleaved::<2>(inner_difference, outer_difference);
    let turned = |inner: i32, outer: i32| {
        let factors = i32x4_splat(outer << 16 | inner & 0xffff);
        let [low, high] = pairs.map(|pairs| {
            let sum = i32x4_dot_i16x8(pairs, factors);
            i32x4_shr(i32x4_add(sum, i32x4_splat(1 << (SHIFT - 1))), SHIFT)
        });
        i16x8_narrow_i32x4(low, high)
    };
    [i16x8_add(outer, inner), i16x8_sub(outer, inner), turned(SINE, COSINE), turned(-COSINE, SINE)]
}
