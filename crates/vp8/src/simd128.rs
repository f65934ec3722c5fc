//! Operations of SIMD128, the vector instructions of WebAssembly, that several kernels share.

use std::arch::wasm32::*;

/// Absolute differences of sixteen samples.
#[inline(always)]
pub(crate) fn absolute_differences(a: v128, b: v128) -> v128 {
    v128_or(u8x16_sub_sat(a, b), u8x16_sub_sat(b, a))
}

/// The lower halves of `a` and `b` with their elements of `BYTES` bytes in turn, then the upper halves.
#[inline(always)]
pub(crate) fn interleaved<const BYTES: usize>(a: v128, b: v128) -> [v128; 2] {
    const { assert!(BYTES == 1 || BYTES == 2 || BYTES == 4 || BYTES == 8) };
    match BYTES {
        1 => [
            i8x16_shuffle::<0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23>(a, b),
            i8x16_shuffle::<8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31>(a, b),
        ],
        2 => [i16x8_shuffle::<0, 8, 1, 9, 2, 10, 3, 11>(a, b), i16x8_shuffle::<4, 12, 5, 13, 6, 14, 7, 15>(a, b)],
        4 => [i32x4_shuffle::<0, 4, 1, 5>(a, b), i32x4_shuffle::<2, 6, 3, 7>(a, b)],
        _ => [i64x2_shuffle::<0, 2>(a, b), i64x2_shuffle::<1, 3>(a, b)],
    }
}

/// Sum of four 32-bit numbers.
#[inline(always)]
pub(crate) fn sum_of_four(values: v128) -> u32 {
    let two = i32x4_add(values, i64x2_shuffle::<1, 0>(values, values));
    (i32x4_extract_lane::<0>(two) as u32).wrapping_add(i32x4_extract_lane::<1>(two) as u32)
}

/// Transposes two adjacent blocks of 4x4 words.
#[inline(always)]
pub(crate) fn transposed([r0, r1, r2, r3]: [v128; 4]) -> [v128; 4] {
    let ([a01, b01], [a23, b23]) = (interleaved::<2>(r0, r1), interleaved::<2>(r2, r3));
    let ([a_first, a_last], [b_first, b_last]) = (interleaved::<4>(a01, a23), interleaved::<4>(b01, b23));
    let ([c0, c1], [c2, c3]) = (interleaved::<8>(a_first, b_first), interleaved::<8>(a_last, b_last));
    [c0, c1, c2, c3]
}
