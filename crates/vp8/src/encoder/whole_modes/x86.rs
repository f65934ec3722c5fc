//! SATD of whole-block modes in AVX2. `portable` is the scalar version with the same results.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::portable;
use crate::predict::intra::{Edges, mean};

/// SATD of a 16x16 block in each whole-block mode.
#[inline]
pub(crate) fn luma_errors(source: &[u8], stride: usize, edges: &Edges<16>) -> [u32; 4] {
    // SAFETY: the second operand runs only if the processor has AVX2.
    if !is_x86_feature_detected!("avx2") || !unsafe { stays_in_range(edges) } {
        return portable::luma_errors(source, stride, edges);
    }
    let source = &source[..15 * stride + 16];
    // SAFETY: the processor has AVX2. The slice has been cut to contain the rows of 16 samples.
    unsafe { errors(source.as_ptr(), stride, edges) }
}

/// Whether the extremes of the edges show that no sample of a `TrueMotion` prediction needs clamping.
#[target_feature(enable = "avx2")]
fn stays_in_range(edges: &Edges<16>) -> bool {
    let extremes = |edge: &[u8; 16]| {
        // SAFETY: the edge has 16 bytes.
        let samples = unsafe { _mm_loadu_si128(edge.as_ptr().cast()) };
        let least = |samples: __m128i| {
            let pairs = _mm_min_epu8(samples, _mm_srli_epi16::<8>(samples));
            _mm_cvtsi128_si32(_mm_minpos_epu16(pairs)) & 0xff
        };
        (least(samples), 255 - least(_mm_xor_si128(samples, _mm_set1_epi8(-1))))
    };
    let (above, left) = (extremes(&edges.above), extremes(&edges.left));
    let corner = i32::from(edges.corner);
    above.0 + left.0 >= corner && above.1 + left.1 <= 255 + corner
}

/// Computes the SATDs in strips of four rows of 16 samples. The last horizontal step of the transform is merged with
/// the sum of absolute values.
///
/// The first half of a register holds sums of neighbouring samples, the second half their differences. The first
/// register holds the sums of columns. A prediction that repeats a row changes only this one.
///
/// # Safety
/// 16 rows of 16 samples can be read from `source`.
#[target_feature(enable = "avx2")]
unsafe fn errors(source: *const u8, stride: usize, edges: &Edges<16>) -> [u32; 4] {
    let (plus, minus) = (_mm_set1_epi8(1), _mm_set1_epi16(0xff01u16 as i16));
    let signs = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(plus), minus);
    // A value that is equal in all columns contributes sums, but no differences.
    let even = |value: i16| _mm256_zextsi128_si256(_mm_set1_epi16(value));
    // SAFETY: the caller guarantees the rows; the row above has 16 bytes.
    let pairs =
        |at: *const u8| unsafe { _mm256_maddubs_epi16(_mm256_broadcastsi128_si256(_mm_loadu_si128(at.cast())), signs) };
    let above = _mm256_slli_epi16::<2>(pairs(edges.above.as_ptr()));
    let dc = even(8 * i16::from(mean(edges)));
    let corner = 8 * i16::from(edges.corner);
    let mut totals = [_mm256_setzero_si256(); 4];
    for (strip, left) in edges.left.as_chunks::<4>().0.iter().enumerate() {
        let row = |line: usize| {
            // SAFETY: the caller guarantees 16 rows.
            pairs(unsafe { source.add((4 * strip + line) * stride) })
        };
        let [u0, u1, u2, u3] = columns(row(0), row(1), row(2), row(3));
        let left = left.map(|sample| 2 * i16::from(sample));
        let (s, d, t, e) = (left[0] + left[1], left[0] - left[1], left[2] + left[3], left[2] - left[3]);
        let l1 = _mm256_sub_epi16(u1, even(s - t));
        let lower = larger(u2, u3);
        let lower_left = larger(_mm256_sub_epi16(u2, even(d + e)), _mm256_sub_epi16(u3, even(d - e)));
        let beside = _mm256_sub_epi16(u0, above);
        let each = [
            (larger(_mm256_sub_epi16(u0, dc), u1), lower),
            (larger(beside, u1), lower),
            (larger(_mm256_sub_epi16(u0, even(s + t)), l1), lower_left),
            (larger(_mm256_sub_epi16(beside, even(s + t - corner)), l1), lower_left),
        ];
        // Each value is at most 2040, so the sum of all four strips fits into 16 bits.
        for (total, (upper, lower)) in totals.iter_mut().zip(each) {
            *total = _mm256_add_epi16(*total, _mm256_add_epi16(upper, lower));
        }
    }
    // The sums of all four modes, in order.
    let one = _mm256_set1_epi16(1);
    let [a, b, c, d] = totals.map(|total| _mm256_madd_epi16(total, one));
    let sums = _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, d));
    let sums = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256::<1>(sums));
    let mut errors = [0u32; 4];
    // SAFETY: the array has 16 bytes.
    unsafe { _mm_storeu_si128(errors.as_mut_ptr().cast(), sums) };
    errors
}

/// Vertical transform of four rows.
#[inline]
#[target_feature(enable = "avx2")]
fn columns(r0: __m256i, r1: __m256i, r2: __m256i, r3: __m256i) -> [__m256i; 4] {
    let (s, d) = (_mm256_add_epi16(r0, r1), _mm256_sub_epi16(r0, r1));
    let (t, e) = (_mm256_add_epi16(r2, r3), _mm256_sub_epi16(r2, r3));
    [_mm256_add_epi16(s, t), _mm256_sub_epi16(s, t), _mm256_add_epi16(d, e), _mm256_sub_epi16(d, e)]
}

/// For each pair (p, q) of neighbouring values: the larger of |p| and |q|. This is half of |p + q| + |p - q|, the
/// result of the last horizontal step.
#[inline]
#[target_feature(enable = "avx2")]
fn larger(x: __m256i, y: __m256i) -> __m256i {
    let (x, y) = (_mm256_abs_epi16(x), _mm256_abs_epi16(y));
    let first = _mm256_blend_epi16::<0xaa>(x, _mm256_slli_epi32::<16>(y));
    let second = _mm256_blend_epi16::<0xaa>(_mm256_srli_epi32::<16>(x), y);
    _mm256_max_epi16(first, second)
}
