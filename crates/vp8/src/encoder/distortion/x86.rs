//! Distances between two blocks of samples in SSE2, which is part of x86-64. Some use AVX2 if available. `portable` is
//! the scalar version with the same functions and results.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::subblock_differences::SubblockDifferences;
use super::{portable, two_rows};

/// Sum of absolute differences over a `W` x `H` block.
#[inline]
pub(crate) fn sad<const W: usize, const H: usize>(a: &[u8], a_stride: usize, b: &[u8], b_stride: usize) -> u32 {
    if W == 4 {
        return portable::sad::<W, H>(a, a_stride, b, b_stride);
    }
    let (a, b) = (&a[..(H - 1) * a_stride + W], &b[..(H - 1) * b_stride + W]);
    // SAFETY: SSE2 is part of x86-64. Both slices have been cut to contain the rows of `W` samples.
    unsafe {
        let mut total = _mm_setzero_si128();
        for y in 0..H {
            let (a, b) = (a.as_ptr().add(y * a_stride), b.as_ptr().add(y * b_stride));
            total = _mm_add_epi32(total, _mm_sad_epu8(row::<W>(a), row::<W>(b)));
        }
        sum_of_halves::<W>(total)
    }
}

/// [`sad`] at several positions of a reference. Each is the index of a block's first sample. The source is read once.
#[inline]
pub(crate) fn sad_each<const W: usize, const H: usize, const N: usize>(
    source: &[u8],
    source_stride: usize,
    reference: &[u8],
    reference_stride: usize,
    places: [usize; N],
) -> [u32; N] {
    const { assert!(W == 8 || W == 16) };
    if !is_x86_feature_detected!("avx2") {
        return places.map(|at| sad::<W, H>(source, source_stride, &reference[at..], reference_stride));
    }
    let source = &source[..(H - 1) * source_stride + W];
    let blocks = places.map(|at| reference[at..at + (H - 1) * reference_stride + W].as_ptr());
    // SAFETY: the processor has AVX2. The slices have been cut to contain the rows of `W` samples.
    unsafe { two_rows::sad_each::<W, H, N>(source.as_ptr(), source_stride, blocks, reference_stride) }
}

/// Sum of absolute differences between a block and interpolated samples of a reference.
#[inline]
pub(crate) fn sad_between<const W: usize, const H: usize>(
    source: &[u8],
    source_stride: usize,
    reference: &[u8],
    reference_stride: usize,
    fractions: (usize, usize),
) -> u32 {
    let across = |x| match x {
        0 => between_rows::<W, H, 0>,
        1 => between_rows::<W, H, 1>,
        2 => between_rows::<W, H, 2>,
        _ => between_rows::<W, H, 3>,
    };
    across(fractions.0)(source, source_stride, reference, reference_stride, fractions.1)
}

/// [`sad_between`] at `X` quarters to the right.
fn between_rows<const W: usize, const H: usize, const X: usize>(
    source: &[u8],
    source_stride: usize,
    reference: &[u8],
    reference_stride: usize,
    y: usize,
) -> u32 {
    match y {
        0 => between::<W, H, X, 0>(source, source_stride, reference, reference_stride),
        1 => between::<W, H, X, 1>(source, source_stride, reference, reference_stride),
        2 => between::<W, H, X, 2>(source, source_stride, reference, reference_stride),
        _ => between::<W, H, X, 3>(source, source_stride, reference, reference_stride),
    }
}

/// [`sad_between`] at `X` quarters to the right and `Y` down.
#[inline(always)]
fn between<const W: usize, const H: usize, const X: usize, const Y: usize>(
    source: &[u8],
    source_stride: usize,
    reference: &[u8],
    reference_stride: usize,
) -> u32 {
    const { assert!(W == 8 || W == 16) };
    let source = &source[..(H - 1) * source_stride + W];
    let rows = H - 1 + (Y > 0) as usize;
    let reference = &reference[..rows * reference_stride + W + (X > 0) as usize];
    if W == 16 && H.is_multiple_of(2) && is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2. The slices have been cut to contain all reads.
        return unsafe {
            two_rows::between::<H, X, Y>(source.as_ptr(), source_stride, reference.as_ptr(), reference_stride)
        };
    }
    // SAFETY: SSE2 is part of x86-64. The slices have been cut to contain the rows of `W` samples. If `X` is not zero,
    // the reference has one more sample per row. If `Y` is not zero, it has one more row.
    unsafe {
        let line = |y: usize| {
            let at = reference.as_ptr().add(y * reference_stride);
            let left = row::<W>(at);
            if X == 0 { left } else { quarter_means::<X>(left, row::<W>(at.add(1))) }
        };
        let mut total = _mm_setzero_si128();
        let mut upper = line(0);
        for y in 0..H {
            let place = if Y == 0 {
                line(y)
            } else {
                let lower = line(y + 1);
                let place = quarter_means::<Y>(upper, lower);
                upper = lower;
                place
            };
            let source = row::<W>(source.as_ptr().add(y * source_stride));
            total = _mm_add_epi32(total, _mm_sad_epu8(source, place));
        }
        sum_of_halves::<W>(total)
    }
}

/// Interpolates at `QUARTERS` quarters from `a` to `b`.
#[inline(always)]
fn quarter_means<const QUARTERS: usize>(a: __m128i, b: __m128i) -> __m128i {
    // SAFETY: SSE2 is part of x86-64.
    unsafe {
        let middle = _mm_avg_epu8(a, b);
        match QUARTERS {
            0 => a,
            1 => _mm_avg_epu8(a, middle),
            2 => middle,
            _ => _mm_avg_epu8(middle, b),
        }
    }
}

/// Loads `W` samples, followed by zeros.
///
/// # Safety
/// `W` bytes can be read from `at`.
#[inline(always)]
unsafe fn row<const W: usize>(at: *const u8) -> __m128i {
    // SAFETY: SSE2 is part of x86-64; the caller guarantees access to the bytes.
    unsafe { if W == 16 { _mm_loadu_si128(at.cast()) } else { _mm_loadl_epi64(at.cast()) } }
}

/// Sum of both halves for rows of 16 samples, or the lower half for rows of eight.
#[inline(always)]
fn sum_of_halves<const W: usize>(sums: __m128i) -> u32 {
    // SAFETY: SSE2 is part of x86-64.
    unsafe {
        let sums = if W == 16 { _mm_add_epi32(sums, _mm_unpackhi_epi64(sums, sums)) } else { sums };
        _mm_cvtsi128_si32(sums) as u32
    }
}

/// Sum of four lanes.
#[inline(always)]
fn sum_of_four(sums: __m128i) -> u32 {
    // SAFETY: SSE2 is part of x86-64.
    unsafe {
        let pairs = _mm_add_epi32(sums, _mm_unpackhi_epi64(sums, sums));
        _mm_cvtsi128_si32(_mm_add_epi32(pairs, _mm_shuffle_epi32::<1>(pairs))) as u32
    }
}

/// Sum of squared differences over a `W` x `H` block.
#[inline]
pub(crate) fn sse<const W: usize, const H: usize>(a: &[u8], a_stride: usize, b: &[u8], b_stride: usize) -> u32 {
    if W == 4 {
        return portable::sse::<W, H>(a, a_stride, b, b_stride);
    }
    let (a, b) = (&a[..(H - 1) * a_stride + W], &b[..(H - 1) * b_stride + W]);
    // SAFETY: SSE2 is part of x86-64. Both slices have been cut to contain the rows of `W` samples.
    unsafe {
        let zero = _mm_setzero_si128();
        let mut total = zero;
        for y in 0..H {
            let (a, b) = (row::<W>(a.as_ptr().add(y * a_stride)), row::<W>(b.as_ptr().add(y * b_stride)));
            let difference = _mm_or_si128(_mm_subs_epu8(a, b), _mm_subs_epu8(b, a));
            let low = _mm_unpacklo_epi8(difference, zero);
            total = _mm_add_epi32(total, _mm_madd_epi16(low, low));
            if W == 16 {
                let high = _mm_unpackhi_epi8(difference, zero);
                total = _mm_add_epi32(total, _mm_madd_epi16(high, high));
            }
        }
        sum_of_four(total)
    }
}

/// Sum of absolute Hadamard-transformed differences of a 4x4 block.
#[inline]
pub(crate) fn satd_4x4(a: &[u8], a_stride: usize, b: &[u8], b_stride: usize) -> u32 {
    let (a, b) = (&a[..3 * a_stride + 4], &b[..3 * b_stride + 4]);
    // SAFETY: SSE2 is part of x86-64. Both slices have been cut to contain the rows of four samples.
    unsafe {
        let zero = _mm_setzero_si128();
        // Loads row `y` and the next one, widened to 16 bits.
        let two = |samples: &[u8], stride: usize, y: usize| {
            let at = samples.as_ptr().add(y * stride);
            let (first, second) = (at.cast::<i32>().read_unaligned(), at.add(stride).cast::<i32>().read_unaligned());
            let both = _mm_unpacklo_epi32(_mm_cvtsi32_si128(first), _mm_cvtsi32_si128(second));
            _mm_unpacklo_epi8(both, zero)
        };
        let upper = _mm_sub_epi16(two(a, a_stride, 0), two(b, b_stride, 0));
        let lower = _mm_sub_epi16(two(a, a_stride, 2), two(b, b_stride, 2));
        let (sum, difference) = (_mm_add_epi16(upper, lower), _mm_sub_epi16(upper, lower));
        let (even, odd) = (_mm_unpacklo_epi64(sum, difference), _mm_unpackhi_epi64(sum, difference));
        let columns = [_mm_add_epi16(even, odd), _mm_sub_epi16(even, odd)];
        let mut total = zero;
        for column in columns {
            // Columns 0 and 2, 1 and 3: the sums in the lower half of each row, the negated differences in the upper
            // half.
            let swapped = _mm_shuffle_epi32::<0b10_11_00_01>(column);
            let low_half = _mm_set1_epi64x(0xffff_ffff);
            let (sums, differences) = (_mm_add_epi16(column, swapped), _mm_sub_epi16(column, swapped));
            let both = _mm_or_si128(_mm_and_si128(low_half, sums), _mm_andnot_si128(low_half, differences));
            let magnitude = _mm_max_epi16(both, _mm_sub_epi16(zero, both));
            // |p + q| + |p - q| is twice the larger of |p| and |q|. The factor of two cancels.
            let larger = _mm_max_epi16(magnitude, _mm_srli_epi32::<16>(magnitude));
            total = _mm_add_epi32(total, _mm_and_si128(larger, _mm_set1_epi32(0xffff)));
        }
        sum_of_four(total)
    }
}

/// Sum of [`satd_4x4`] over a `W` x `H` block.
#[inline]
pub(crate) fn satd<const W: usize, const H: usize>(a: &[u8], a_stride: usize, b: &[u8], b_stride: usize) -> u32 {
    if W == 4 && H == 4 {
        return satd_4x4(a, a_stride, b, b_stride);
    }
    if !(W == 16 && H.is_multiple_of(4) || W == 8 && H == 8) || !is_x86_feature_detected!("avx2") {
        return portable::satd::<W, H>(a, a_stride, b, b_stride);
    }
    let (a, b) = (&a[..(H - 1) * a_stride + W], &b[..(H - 1) * b_stride + W]);
    // SAFETY: the processor has AVX2. Both slices have been cut to contain the rows of `W` samples.
    unsafe {
        if W == 16 {
            satd_16::<H>(a.as_ptr(), a_stride, b.as_ptr(), b_stride)
        } else {
            satd_8x8(a.as_ptr(), a_stride, b.as_ptr(), b_stride)
        }
    }
}

/// # Safety
/// `H` rows of 16 samples can be read from `a` and from `b`.
#[target_feature(enable = "avx2")]
unsafe fn satd_16<const H: usize>(a: *const u8, a_stride: usize, b: *const u8, b_stride: usize) -> u32 {
    let (plus, minus) = (_mm_set1_epi8(1), _mm_set1_epi16(0xff01u16 as i16));
    let signs = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(plus), minus);
    let mut total = _mm256_setzero_si256();
    for y in (0..H).step_by(4) {
        // SAFETY: the caller guarantees the rows.
        let row = |line: usize| unsafe {
            // Sums and differences of neighbouring samples.
            let pairs = |at: *const u8| {
                let row = _mm_loadu_si128(at.cast());
                _mm256_maddubs_epi16(_mm256_broadcastsi128_si256(row), signs)
            };
            _mm256_sub_epi16(pairs(a.add((y + line) * a_stride)), pairs(b.add((y + line) * b_stride)))
        };
        total = _mm256_add_epi32(total, transformed([row(0), row(1), row(2), row(3)]));
    }
    sum_of_eight(total)
}

/// # Safety
/// Eight rows of eight samples can be read from `a` and from `b`.
#[target_feature(enable = "avx2")]
unsafe fn satd_8x8(a: *const u8, a_stride: usize, b: *const u8, b_stride: usize) -> u32 {
    let signs = _mm256_set_epi64x(SIGNS_MINUS, SIGNS_PLUS, SIGNS_MINUS, SIGNS_PLUS);
    // SAFETY: the caller guarantees the rows.
    let row = |line: usize| unsafe {
        // Sums and differences for one row of the upper and one row of the lower half.
        let pairs = |at: *const u8, stride: usize| {
            let twice = |y: usize| {
                let row = _mm_loadl_epi64(at.add(y * stride).cast());
                _mm_unpacklo_epi64(row, row)
            };
            let rows = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(twice(line)), twice(line + 4));
            _mm256_maddubs_epi16(rows, signs)
        };
        _mm256_sub_epi16(pairs(a, a_stride), pairs(b, b_stride))
    };
    sum_of_eight(transformed([row(0), row(1), row(2), row(3)]))
}

/// Eight factors of one, and eight alternating factors of one and minus one.
const SIGNS_PLUS: i64 = 0x0101_0101_0101_0101;
const SIGNS_MINUS: i64 = 0xff01_ff01_ff01_ff01u64 as i64;

/// Completes the transform: the vertical part, and the second step of the horizontal part with the sum of absolute
/// values.
#[inline]
#[target_feature(enable = "avx2")]
fn transformed([r0, r1, r2, r3]: [__m256i; 4]) -> __m256i {
    let (s, d) = (_mm256_add_epi16(r0, r1), _mm256_sub_epi16(r0, r1));
    let (t, e) = (_mm256_add_epi16(r2, r3), _mm256_sub_epi16(r2, r3));
    // |p + q| + |p - q| is twice the larger of |p| and |q|. The factor of two cancels.
    let larger = |x: __m256i, y: __m256i| {
        let (x, y) = (_mm256_abs_epi16(x), _mm256_abs_epi16(y));
        let first = _mm256_blend_epi16::<0xaa>(x, _mm256_slli_epi32::<16>(y));
        let second = _mm256_blend_epi16::<0xaa>(_mm256_srli_epi32::<16>(x), y);
        _mm256_max_epi16(first, second)
    };
    let upper = larger(_mm256_add_epi16(s, t), _mm256_sub_epi16(s, t));
    let lower = larger(_mm256_add_epi16(d, e), _mm256_sub_epi16(d, e));
    _mm256_madd_epi16(_mm256_add_epi16(upper, lower), _mm256_set1_epi16(1))
}

#[inline]
#[target_feature(enable = "avx2")]
fn sum_of_eight(sums: __m256i) -> u32 {
    sum_of_four(_mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256::<1>(sums)))
}

/// Compares the `N` subblocks of a `W` x `H` block with their prediction.
#[inline]
pub(crate) fn compare_subblocks<const W: usize, const H: usize, const N: usize>(
    a: &[u8],
    a_stride: usize,
    b: &[u8],
    b_stride: usize,
    limit: u32,
) -> SubblockDifferences<N> {
    const { assert!(16 * N == W * H) };
    if !(W == 16 && H.is_multiple_of(4) || W == 8 && H == 8) || !is_x86_feature_detected!("avx2") {
        return portable::compare_subblocks::<W, H, N>(a, a_stride, b, b_stride, limit);
    }
    let (a, b) = (&a[..(H - 1) * a_stride + W], &b[..(H - 1) * b_stride + W]);
    // SAFETY: the processor has AVX2. Both slices have been cut to contain the rows of `W` samples.
    unsafe { compare::<W, H, N>(a.as_ptr(), a_stride, b.as_ptr(), b_stride, limit) }
}

/// # Safety
/// `H` rows of `W` samples can be read from `a` and from `b`.
#[target_feature(enable = "avx2")]
unsafe fn compare<const W: usize, const H: usize, const N: usize>(
    a: *const u8,
    a_stride: usize,
    b: *const u8,
    b_stride: usize,
    limit: u32,
) -> SubblockDifferences<N> {
    // Four subblocks at a time: side by side, or two above two.
    let mut sums = [0i16; N];
    let (mut total, mut above) = (_mm256_setzero_si256(), _mm256_setzero_si256());
    let below = _mm256_set1_epi32(limit.min(i32::MAX as u32) as i32 - 1);
    for (strip, sums) in sums.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        // SAFETY: the caller guarantees the rows.
        let difference = |line: usize| unsafe {
            let samples = |at: *const u8, stride: usize| {
                if W == 16 {
                    _mm_loadu_si128(at.add((4 * strip + line) * stride).cast())
                } else {
                    let (upper, lower) = (at.add(line * stride), at.add((line + 4) * stride));
                    _mm_unpacklo_epi64(_mm_loadl_epi64(upper.cast()), _mm_loadl_epi64(lower.cast()))
                }
            };
            _mm256_sub_epi16(_mm256_cvtepu8_epi16(samples(a, a_stride)), _mm256_cvtepu8_epi16(samples(b, b_stride)))
        };
        let (mut sum, mut squares) = (_mm256_setzero_si256(), _mm256_setzero_si256());
        for line in 0..4 {
            let difference = difference(line);
            sum = _mm256_add_epi16(sum, difference);
            squares = _mm256_add_epi32(squares, _mm256_madd_epi16(difference, difference));
        }
        total = _mm256_add_epi32(total, squares);
        // Each subblock has two adjacent lanes. Both receive the sum.
        let folded = |pairs: __m256i| _mm256_add_epi32(pairs, _mm256_shuffle_epi32::<0b10_11_00_01>(pairs));
        let sum = folded(_mm256_madd_epi16(sum, _mm256_set1_epi16(1)));
        let varied = _mm256_sub_epi32(_mm256_slli_epi32::<4>(folded(squares)), _mm256_mullo_epi32(sum, sum));
        above = _mm256_add_epi32(above, _mm256_and_si256(varied, _mm256_cmpgt_epi32(varied, below)));
        let (low, high) = (_mm256_castsi256_si128(sum), _mm256_extracti128_si256::<1>(sum));
        *sums = [
            _mm_cvtsi128_si32(low) as i16,
            _mm_extract_epi32::<2>(low) as i16,
            _mm_cvtsi128_si32(high) as i16,
            _mm_extract_epi32::<2>(high) as i16,
        ];
    }
    // Both lanes of a subblock have the same value.
    SubblockDifferences { sums, squared: sum_of_eight(total), varied: sum_of_eight(above) / 2 }
}

/// Sum of squared differences of two rows. A row has at most 16383 samples, so the sum fits.
pub(crate) fn row_squared_error(a: &[u8], b: &[u8]) -> u32 {
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { two_rows::row_squared_error(a, b) };
    }
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<16>(), b.as_chunks::<16>());
    // SAFETY: SSE2 is part of x86-64. The loads read arrays of 16 bytes.
    let sum = unsafe {
        let zero = _mm_setzero_si128();
        let mut total = zero;
        for (a, b) in a.iter().zip(b) {
            let (a, b) = (row::<16>(a.as_ptr()), row::<16>(b.as_ptr()));
            let difference = _mm_or_si128(_mm_subs_epu8(a, b), _mm_subs_epu8(b, a));
            let (low, high) = (_mm_unpacklo_epi8(difference, zero), _mm_unpackhi_epi8(difference, zero));
            total = _mm_add_epi32(total, _mm_add_epi32(_mm_madd_epi16(low, low), _mm_madd_epi16(high, high)));
        }
        sum_of_four(total)
    };
    sum + portable::row_squared_error(a_rest, b_rest)
}
