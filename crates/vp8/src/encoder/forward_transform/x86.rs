//! The forward DCT of two blocks at once and the Walsh-Hadamard transform in SSE2, which is part of x86-64.
//!
//! If the processor has AVX2, four blocks of a macroblock's plane are transformed at once. `portable` is the scalar
//! version with the same functions and results.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::angles::{COSINE, SINE};

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
    // SAFETY: SSE2 is part of x86-64. Both slices have been cut to contain the rows of four samples.
    unsafe {
        let rows = [0, 1, 2, 3].map(|y| {
            let load = |at: *const u8| widened(_mm_cvtsi32_si128(at.cast::<i32>().read_unaligned()));
            let source = load(source.as_ptr().add(y * source_stride));
            _mm_sub_epi16(source, load(prediction.as_ptr().add(y * prediction_stride)))
        });
        store(transform(rows)[0], output);
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
    // SAFETY: SSE2 is part of x86-64. Both slices have been cut to contain the rows of eight samples.
    unsafe {
        let rows = [0, 1, 2, 3].map(|y| {
            let load = |at: *const u8| widened(_mm_loadl_epi64(at.cast()));
            let source = load(source.as_ptr().add(y * source_stride));
            _mm_sub_epi16(source, load(prediction.as_ptr().add(y * prediction_stride)))
        });
        let blocks = transform(rows);
        store(blocks[0], &mut output[0]);
        store(blocks[1], &mut output[1]);
    }
}

/// The 4x4 Walsh-Hadamard transform of the 16 luma DC coefficients of a macroblock. Their magnitudes must be at most
/// 2048, so that sums of sixteen fit.
#[inline]
pub(crate) fn forward_wht(input: &[i16; 16], output: &mut [i16; 16]) {
    // SAFETY: SSE2 is part of x86-64. Both arrays have 32 bytes.
    unsafe {
        let [input, output] = [input.as_ptr().cast_mut(), output.as_mut_ptr()].map(|at| at.cast::<__m128i>());
        let rows = butterflies(_mm_loadu_si128(input), _mm_loadu_si128(input.add(1)));
        let [first, second] = transposed_pairs(rows);
        let columns = butterflies(first, second);
        for (at, values) in transposed_pairs(columns).into_iter().enumerate() {
            // Same rounding as in `portable`.
            let positive = _mm_cmpgt_epi16(values, _mm_setzero_si128());
            _mm_storeu_si128(output.add(at), _mm_srai_epi16::<1>(_mm_sub_epi16(values, positive)));
        }
    }
}

/// Sums and differences of the Walsh-Hadamard transform for four rows of four, two in each register.
#[inline]
#[target_feature(enable = "sse2")]
fn butterflies(first: __m128i, second: __m128i) -> [__m128i; 2] {
    let swapped = |rows: __m128i| _mm_shuffle_epi32::<0b01_00_11_10>(rows);
    let outer_first = swapped(second);
    // `sums` holds a and b, `differences` holds d and c.
    let (sums, differences) = (_mm_add_epi16(first, outer_first), _mm_sub_epi16(first, outer_first));
    let (others, other_differences) = (swapped(sums), swapped(differences));
    [
        _mm_unpacklo_epi64(_mm_add_epi16(sums, others), _mm_add_epi16(differences, other_differences)),
        _mm_unpacklo_epi64(_mm_sub_epi16(sums, others), _mm_sub_epi16(differences, other_differences)),
    ]
}

/// Transposes four rows of four, two in each register.
#[inline]
#[target_feature(enable = "sse2")]
fn transposed_pairs([first, second]: [__m128i; 2]) -> [__m128i; 2] {
    // Interleaves rows 0 and 2, and rows 1 and 3, then all four.
    let (even, odd) = (_mm_unpacklo_epi16(first, second), _mm_unpackhi_epi16(first, second));
    [_mm_unpacklo_epi16(even, odd), _mm_unpackhi_epi16(even, odd)]
}

/// [`super::forward_dct_plane`] for four blocks at once. Returns false, without output, if the processor lacks AVX2.
#[inline]
pub(super) fn forward_dct_plane<const W: usize>(
    source: &[u8],
    source_stride: usize,
    prediction: &[u8],
    output: &mut [[i16; 16]],
) -> bool {
    const { assert!(W == 8 || W == 16) };
    if !is_x86_feature_detected!("avx2") {
        return false;
    }
    let (source, prediction) = (&source[..(W - 1) * source_stride + W], &prediction[..W * W]);
    let output = &mut output[..W * W / 16];
    // SAFETY: the processor has AVX2. The slices have been cut to contain all rows of `W` samples.
    unsafe { plane_in_fours::<W>(source.as_ptr(), source_stride, prediction.as_ptr(), output) };
    true
}

/// # Safety
/// `W` rows of `W` samples can be read from `source`, and `W * W` samples from `prediction`.
#[target_feature(enable = "avx2")]
unsafe fn plane_in_fours<const W: usize>(
    source: *const u8,
    source_stride: usize,
    prediction: *const u8,
    output: &mut [[i16; 16]],
) {
    for (index, four) in output.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        // Four blocks are sixteen adjacent columns, or eight columns and the eight below them.
        let rows = std::array::from_fn(|y| {
            // SAFETY: the caller guarantees the rows.
            unsafe {
                if W == 16 {
                    let y = 4 * index + y;
                    let load = |at: *const u8| _mm256_cvtepu8_epi16(_mm_loadu_si128(at.cast()));
                    _mm256_sub_epi16(load(source.add(y * source_stride)), load(prediction.add(W * y)))
                } else {
                    let y = 8 * index + y;
                    let load = |at: *const u8, stride: usize| {
                        let two = [at.add(y * stride), at.add((y + 4) * stride)].map(|at| _mm_loadl_epi64(at.cast()));
                        _mm256_cvtepu8_epi16(_mm_unpacklo_epi64(two[0], two[1]))
                    };
                    _mm256_sub_epi16(load(source, source_stride), load(prediction, W))
                }
            }
        });
        let blocks = transform_four(rows);
        let [first, second] = blocks.map(|[upper, lower]| _mm256_permute2x128_si256::<0x20>(upper, lower));
        let [third, fourth] = blocks.map(|[upper, lower]| _mm256_permute2x128_si256::<0x31>(upper, lower));
        for (block, coefficients) in four.iter_mut().zip([first, second, third, fourth]) {
            // SAFETY: a block has 32 bytes.
            unsafe { _mm256_storeu_si256(block.as_mut_ptr().cast(), coefficients) };
        }
    }
}

/// [`transform`] in both halves of the registers. Returns the upper and lower rows of the first block of each half,
/// then those of the second.
#[inline]
#[target_feature(enable = "avx2")]
fn transform_four(rows: [__m256i; 4]) -> [[__m256i; 2]; 2] {
    let [sum, difference, sines, cosines] = step_four::<9>(rows);
    let blocks = [_mm256_slli_epi16::<3>(sum), sines, _mm256_slli_epi16::<3>(difference), cosines];
    let [[a_first, a_last], [b_first, b_last]] = four_behind_each_other(blocks);
    let columns = [
        _mm256_unpacklo_epi64(a_first, b_first),
        _mm256_unpackhi_epi64(a_first, b_first),
        _mm256_unpacklo_epi64(a_last, b_last),
        _mm256_unpackhi_epi64(a_last, b_last),
    ];
    let [sum, difference, sines, cosines] = step_four::<16>(columns);
    let eight = _mm256_set1_epi16(8);
    let rounded = |value| _mm256_srai_epi16::<4>(_mm256_add_epi16(value, eight));
    four_behind_each_other([rounded(sum), sines, rounded(difference), cosines])
}

/// [`step`] in both halves.
#[inline]
#[target_feature(enable = "avx2")]
fn step_four<const SHIFT: i32>([d0, d1, d2, d3]: [__m256i; 4]) -> [__m256i; 4] {
    let (outer, inner) = (_mm256_add_epi16(d0, d3), _mm256_add_epi16(d1, d2));
    let (inner_difference, outer_difference) = (_mm256_sub_epi16(d1, d2), _mm256_sub_epi16(d0, d3));
    let low = _mm256_unpacklo_epi16(inner_difference, outer_difference);
    let high = _mm256_unpackhi_epi16(inner_difference, outer_difference);
    let turned = |inner: i32, outer: i32| {
        let factors = _mm256_set1_epi32(outer << 16 | (inner & 0xffff));
        let rounding = _mm256_set1_epi32(1 << (SHIFT - 1));
        let one = |pairs| _mm256_srai_epi32::<SHIFT>(_mm256_add_epi32(_mm256_madd_epi16(pairs, factors), rounding));
        _mm256_packs_epi32(one(low), one(high))
    };
    let (sum, difference) = (_mm256_add_epi16(outer, inner), _mm256_sub_epi16(outer, inner));
    [sum, difference, turned(SINE, COSINE), turned(-COSINE, SINE)]
}

/// [`behind_each_other`] in both halves.
#[inline]
#[target_feature(enable = "avx2")]
fn four_behind_each_other([r0, r1, r2, r3]: [__m256i; 4]) -> [[__m256i; 2]; 2] {
    let (a01, b01) = (_mm256_unpacklo_epi16(r0, r1), _mm256_unpackhi_epi16(r0, r1));
    let (a23, b23) = (_mm256_unpacklo_epi16(r2, r3), _mm256_unpackhi_epi16(r2, r3));
    [
        [_mm256_unpacklo_epi32(a01, a23), _mm256_unpackhi_epi32(a01, a23)],
        [_mm256_unpacklo_epi32(b01, b23), _mm256_unpackhi_epi32(b01, b23)],
    ]
}

/// Widens eight samples to words.
#[inline(always)]
fn widened(samples: __m128i) -> __m128i {
    // SAFETY: SSE2 is part of x86-64.
    unsafe { _mm_unpacklo_epi8(samples, _mm_setzero_si128()) }
}

#[inline(always)]
fn store(rows: [__m128i; 2], output: &mut [i16; 16]) {
    let (upper, lower) = output.split_at_mut(8);
    // SAFETY: SSE2 is part of x86-64. Both halves have 16 bytes.
    unsafe {
        _mm_storeu_si128(upper.as_mut_ptr().cast(), rows[0]);
        _mm_storeu_si128(lower.as_mut_ptr().cast(), rows[1]);
    }
}

/// Transforms the differences of two adjacent blocks. Returns the upper and the lower rows of each.
#[inline(always)]
fn transform(rows: [__m128i; 4]) -> [[__m128i; 2]; 2] {
    // SAFETY: SSE2 is part of x86-64.
    unsafe {
        let [sum, sines, difference, cosines] = {
            let [sum, difference, sines, cosines] = step::<9>(rows);
            [_mm_slli_epi16::<3>(sum), sines, _mm_slli_epi16::<3>(difference), cosines]
        };
        let columns = transposed([sum, sines, difference, cosines]);
        let [sum, difference, sines, cosines] = step::<16>(columns);
        let rounded = |value| _mm_srai_epi16::<4>(_mm_add_epi16(value, _mm_set1_epi16(8)));
        // Each register holds one coefficient of every row. Transposing again makes the rows contiguous.
        behind_each_other([rounded(sum), sines, rounded(difference), cosines])
    }
}

/// One dimension of the DCT. Returns the sum, the outer minus the inner inputs, and two rotations of differences. The
/// rotations are divided by 2 to the power of `SHIFT`.
///
/// All values fit into 16 bits: differences are at most 255, and at most 8160 after one dimension.
#[inline(always)]
fn step<const SHIFT: i32>([d0, d1, d2, d3]: [__m128i; 4]) -> [__m128i; 4] {
    // SAFETY: SSE2 is part of x86-64.
    unsafe {
        let (outer, inner) = (_mm_add_epi16(d0, d3), _mm_add_epi16(d1, d2));
        let (inner_difference, outer_difference) = (_mm_sub_epi16(d1, d2), _mm_sub_epi16(d0, d3));
        let low = _mm_unpacklo_epi16(inner_difference, outer_difference);
        let high = _mm_unpackhi_epi16(inner_difference, outer_difference);
        let turned = |inner: i32, outer: i32| {
            let factors = _mm_set1_epi32(outer << 16 | (inner & 0xffff));
            let rounding = _mm_set1_epi32(1 << (SHIFT - 1));
            let one = |pairs| _mm_srai_epi32::<SHIFT>(_mm_add_epi32(_mm_madd_epi16(pairs, factors), rounding));
            _mm_packs_epi32(one(low), one(high))
        };
        let (sum, difference) = (_mm_add_epi16(outer, inner), _mm_sub_epi16(outer, inner));
        [sum, difference, turned(SINE, COSINE), turned(-COSINE, SINE)]
    }
}

/// Transposes two adjacent blocks, which stay adjacent.
#[inline(always)]
fn transposed(rows: [__m128i; 4]) -> [__m128i; 4] {
    let [[a_first, a_last], [b_first, b_last]] = behind_each_other(rows);
    // SAFETY: SSE2 is part of x86-64.
    unsafe {
        [
            _mm_unpacklo_epi64(a_first, b_first),
            _mm_unpackhi_epi64(a_first, b_first),
            _mm_unpacklo_epi64(a_last, b_last),
            _mm_unpackhi_epi64(a_last, b_last),
        ]
    }
}

/// Transposes two adjacent blocks. Returns the first two and the last two rows of each.
#[inline(always)]
fn behind_each_other([r0, r1, r2, r3]: [__m128i; 4]) -> [[__m128i; 2]; 2] {
    // SAFETY: SSE2 is part of x86-64.
    unsafe {
        let (a01, b01) = (_mm_unpacklo_epi16(r0, r1), _mm_unpackhi_epi16(r0, r1));
        let (a23, b23) = (_mm_unpacklo_epi16(r2, r3), _mm_unpackhi_epi16(r2, r3));
        [
            [_mm_unpacklo_epi32(a01, a23), _mm_unpackhi_epi32(a01, a23)],
            [_mm_unpacklo_epi32(b01, b23), _mm_unpackhi_epi32(b01, b23)],
        ]
    }
}
