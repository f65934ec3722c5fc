//! Distances in AVX2: two rows of 16 samples per register, or 32 samples of one row. `portable` is the scalar version
//! with the same functions and results.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::portable;

/// [`portable::sad_each`].
///
/// # Safety
/// `H` rows of `W` samples can be read from `source` and from each of `blocks`.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn sad_each<const W: usize, const H: usize, const N: usize>(
    source: *const u8,
    source_stride: usize,
    blocks: [*const u8; N],
    stride: usize,
) -> [u32; N] {
    // SAFETY: the caller guarantees access to the samples.
    let row = |at: *const u8| unsafe { if W == 16 { _mm_loadu_si128(at.cast()) } else { _mm_loadl_epi64(at.cast()) } };
    let mut totals = [_mm_setzero_si128(); N];
    for y in 0..H {
        // SAFETY: the caller guarantees `H` rows.
        let source = row(unsafe { source.add(y * source_stride) });
        for (total, block) in totals.iter_mut().zip(blocks) {
            // SAFETY: the caller guarantees `H` rows.
            let sums = _mm_sad_epu8(source, row(unsafe { block.add(y * stride) }));
            *total = _mm_add_epi32(*total, sums);
        }
    }
    totals.map(|total| {
        let total = if W == 16 { _mm_add_epi32(total, _mm_unpackhi_epi64(total, total)) } else { total };
        _mm_cvtsi128_si32(total) as u32
    })
}

/// [`portable::sad_between`] for 16 columns, `X` quarters to the right and `Y` down.
///
/// # Safety
/// `H` rows (an even number) of 16 samples can be read from `source` and from `reference`. If `X` is not zero,
/// `reference` has one more sample per row. If `Y` is not zero, it has one more row.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn between<const H: usize, const X: usize, const Y: usize>(
    source: *const u8,
    source_stride: usize,
    reference: *const u8,
    stride: usize,
) -> u32 {
    // SAFETY: the caller guarantees access to the samples.
    let row = |at: *const u8| unsafe { _mm_loadu_si128(at.cast()) };
    // SAFETY: the caller guarantees both rows.
    let two = |at: *const u8, stride: usize| unsafe {
        _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(row(at)), row(at.add(stride)))
    };
    // SAFETY: the caller guarantees the rows and, if `X` is not zero, one more sample per row.
    let lines = |y: usize| unsafe {
        let at = reference.add(y * stride);
        if X == 0 { two(at, stride) } else { quarter_means::<X>(two(at, stride), two(at.add(1), stride)) }
    };
    let mut total = _mm256_setzero_si256();
    let mut upper = lines(0);
    for y in (0..H).step_by(2) {
        let next = if y + 2 < H {
            lines(y + 2)
        } else if Y == 0 {
            upper
        } else {
            // No row follows the last pair. SAFETY: the caller guarantees row `H`.
            unsafe {
                let at = reference.add(H * stride);
                let last = _mm256_castsi128_si256(row(at));
                if X == 0 { last } else { quarter_means::<X>(last, _mm256_castsi128_si256(row(at.add(1)))) }
            }
        };
        let place =
            if Y == 0 { upper } else { quarter_means::<Y>(upper, _mm256_permute2x128_si256::<0x21>(upper, next)) };
        // SAFETY: the caller guarantees `H` rows.
        let source = two(unsafe { source.add(y * source_stride) }, source_stride);
        total = _mm256_add_epi32(total, _mm256_sad_epu8(source, place));
        upper = next;
    }
    let sums = _mm_add_epi32(_mm256_castsi256_si128(total), _mm256_extracti128_si256::<1>(total));
    _mm_cvtsi128_si32(_mm_add_epi32(sums, _mm_unpackhi_epi64(sums, sums))) as u32
}

/// Interpolates at `QUARTERS` quarters from `a` to `b`.
#[inline]
#[target_feature(enable = "avx2")]
fn quarter_means<const QUARTERS: usize>(a: __m256i, b: __m256i) -> __m256i {
    let middle = _mm256_avg_epu8(a, b);
    match QUARTERS {
        0 => a,
        1 => _mm256_avg_epu8(a, middle),
        2 => middle,
        _ => _mm256_avg_epu8(middle, b),
    }
}

/// [`portable::row_squared_error`].
#[target_feature(enable = "avx2")]
pub(super) fn row_squared_error(a: &[u8], b: &[u8]) -> u32 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<32>(), b.as_chunks::<32>());
    let zero = _mm256_setzero_si256();
    let mut total = zero;
    for (a, b) in a.iter().zip(b) {
        // SAFETY: both are arrays of 32 bytes.
        let (a, b) = unsafe { (_mm256_loadu_si256(a.as_ptr().cast()), _mm256_loadu_si256(b.as_ptr().cast())) };
        let difference = _mm256_or_si256(_mm256_subs_epu8(a, b), _mm256_subs_epu8(b, a));
        let (low, high) = (_mm256_unpacklo_epi8(difference, zero), _mm256_unpackhi_epi8(difference, zero));
        let squares = _mm256_add_epi32(_mm256_madd_epi16(low, low), _mm256_madd_epi16(high, high));
        total = _mm256_add_epi32(total, squares);
    }
    let four = _mm_add_epi32(_mm256_castsi256_si128(total), _mm256_extracti128_si256::<1>(total));
    let two = _mm_add_epi32(four, _mm_unpackhi_epi64(four, four));
    let sum = _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32::<1>(two))) as u32;
    sum + portable::row_squared_error(a_rest, b_rest)
}
