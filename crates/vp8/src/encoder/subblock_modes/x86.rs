//! Evaluation of a subblock's modes in AVX2, two modes per register. `portable` is the scalar version with the same
//! results.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::judged::{Judged, SubblockEdges};
use super::portable;

/// Predicts the subblock at the start of `source` in all modes and computes their SATDs.
#[inline]
pub(crate) fn judge(source: &[u8], stride: usize, edges: &SubblockEdges) -> Judged {
    if !is_x86_feature_detected!("avx2") {
        return portable::judge(source, stride, edges);
    }
    // SAFETY: the processor has AVX2.
    unsafe { judge_all(&source[..3 * stride + 4], stride, edges) }
}

/// Indices from here on are means of two samples of the edge, those below are means of three.
const TWO: u8 = 16;
/// Index of the first sample of the edge itself.
const FIRST: u8 = 13;

/// Index of the mean for each sample of a prediction, from the third mode on (RFC 6386, section 12.3).
///
/// The edge runs from the bottom left, through the corner, to the top right. `predict_subblock` is the readable form.
const PLACES: [[u8; 16]; 8] = {
    const fn two(place: u8) -> u8 {
        TWO + place
    }
    [
        [5, 6, 7, 8, 5, 6, 7, 8, 5, 6, 7, 8, 5, 6, 7, 8],
        [3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0],
        [6, 7, 8, 9, 7, 8, 9, 10, 8, 9, 10, 11, 9, 10, 11, 12],
        [4, 5, 6, 7, 3, 4, 5, 6, 2, 3, 4, 5, 1, 2, 3, 4],
        [two(4), two(5), two(6), two(7), 4, 5, 6, 7, 3, two(4), two(5), two(6), 2, 4, 5, 6],
        [two(5), two(6), two(7), two(8), 6, 7, 8, 9, two(6), two(7), two(8), 10, 7, 8, 9, 11],
        [two(3), 4, 5, 6, two(2), 3, two(3), 4, two(1), 2, two(2), 3, two(0), 1, two(1), 2],
        [two(2), 2, two(1), 1, two(1), 1, two(0), 0, two(0), 0, FIRST, FIRST, FIRST, FIRST, FIRST, FIRST],
    ]
};

/// Shuffles for the modes of [`PLACES`], one for means of three and one for means of two. Samples of the other kind
/// become zero.
const SHUFFLES: [[[u8; 16]; 8]; 2] = {
    let mut shuffles = [[[0x80; 16]; 8]; 2];
    let mut mode = 0;
    while mode < 8 {
        let mut sample = 0;
        while sample < 16 {
            let place = PLACES[mode][sample];
            shuffles[(place / TWO) as usize][mode][sample] = place % TWO;
            sample += 1;
        }
        mode += 1;
    }
    shuffles
};

#[target_feature(enable = "avx2")]
fn judge_all(source: &[u8], stride: usize, (above, left, corner): &SubblockEdges) -> Judged {
    // SAFETY: all loads and stores are arrays, or four samples of rows inside the slice.
    unsafe {
        let mut line = [above[7]; 16];
        for (sample, &left) in line.iter_mut().zip(left.iter().rev()) {
            *sample = left;
        }
        line[4] = *corner;
        line[5..13].copy_from_slice(above);
        let edge = _mm_loadu_si128(line.as_ptr().cast());
        // At both ends, the last sample is repeated.
        let before = _mm_insert_epi8::<0>(_mm_slli_si128::<1>(edge), i32::from(line[0]));
        let behind = _mm_srli_si128::<1>(edge);
        let two = _mm_avg_epu8(edge, behind);
        let odd = _mm_and_si128(_mm_xor_si128(before, behind), _mm_set1_epi8(1));
        let three = _mm_avg_epu8(_mm_sub_epi8(_mm_avg_epu8(before, behind), odd), edge);
        let three = _mm_insert_epi8::<{ FIRST as i32 }>(three, i32::from(line[0]));
        let (two, three) = (_mm256_broadcastsi128_si256(two), _mm256_broadcastsi128_si256(three));

        let mut judged = Judged { predictions: [[0; 16]; 10], errors: [0; 10] };
        let sum: u32 = above[..4].iter().chain(left).map(|&sample| u32::from(sample)).sum();
        let mean = _mm_set1_epi8(((sum + 4) >> 3) as i8);
        let pairs = judged.predictions.as_flattened_mut().as_chunks_mut::<32>().0;
        let mut predictions = [_mm256_inserti128_si256::<1>(_mm256_castsi128_si256(mean), true_motion(&line)); 5];
        for (pair, prediction) in predictions[1..].iter_mut().enumerate() {
            let shuffle = |kind: usize| _mm256_loadu_si256(SHUFFLES[kind][2 * pair..].as_ptr().cast());
            *prediction = _mm256_or_si256(_mm256_shuffle_epi8(three, shuffle(0)), _mm256_shuffle_epi8(two, shuffle(1)));
        }
        for (pair, prediction) in pairs.iter_mut().zip(predictions) {
            _mm256_storeu_si256(pair.as_mut_ptr().cast(), prediction);
        }

        let rows = [0, 1, 2, 3].map(|y| source.as_ptr().add(y * stride).cast::<i32>().read_unaligned());
        let source = _mm256_broadcastsi128_si256(_mm_loadu_si128(rows.as_ptr().cast()));
        let source = pairs_of(source);
        let [a, b, c, d, e] = predictions.map(|prediction| error(source, pairs_of(prediction)));
        // Errors of the first modes of four pairs and of the second ones, then those of the last pair.
        let sums = _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, d));
        let last = _mm256_hadd_epi32(e, e);
        let last = _mm256_hadd_epi32(last, last);
        let mut errors = [[0u32; 4]; 4];
        _mm256_storeu_si256(errors.as_mut_ptr().cast(), sums);
        _mm256_storeu_si256(errors[2..].as_mut_ptr().cast(), last);
        let [first, second, first_of_last, second_of_last] = errors;
        for ((both, first), second) in judged.errors.as_chunks_mut::<2>().0.iter_mut().zip(first).zip(second) {
            *both = [first, second];
        }
        (judged.errors[8], judged.errors[9]) = (first_of_last[0], second_of_last[0]);
        judged
    }
}

/// `TrueMotion` prediction: the samples above plus the differences of the left samples from the corner.
#[inline]
#[target_feature(enable = "avx2")]
fn true_motion(line: &[u8; 16]) -> __m128i {
    let change = |place: usize| i16::from(line[place]) - i16::from(line[4]);
    let above = _mm_set1_epi64x(i64::from(u32::from_le_bytes([line[5], line[6], line[7], line[8]])));
    let above = _mm_unpacklo_epi8(above, _mm_setzero_si128());
    let above = _mm_unpacklo_epi64(above, above);
    let rows = |upper: i16, lower: i16| {
        let left = _mm_unpacklo_epi64(_mm_set1_epi16(upper), _mm_set1_epi16(lower));
        _mm_add_epi16(above, left)
    };
    _mm_packus_epi16(rows(change(3), change(2)), rows(change(1), change(0)))
}

/// Sums and differences of neighbouring samples.
#[inline]
#[target_feature(enable = "avx2")]
fn pairs_of(samples: __m256i) -> [__m256i; 2] {
    let signs = _mm256_set1_epi16(0xff01u16 as i16);
    [_mm256_maddubs_epi16(samples, _mm256_set1_epi8(1)), _mm256_maddubs_epi16(samples, signs)]
}

/// SATD of two blocks in four parts, and that of two others in the upper half.
#[inline]
#[target_feature(enable = "avx2")]
fn error(a: [__m256i; 2], b: [__m256i; 2]) -> __m256i {
    let (sums, differences) = (_mm256_sub_epi16(a[0], b[0]), _mm256_sub_epi16(a[1], b[1]));
    // Rows 0 and 1 of both, then rows 2 and 3.
    let (upper, lower) = (_mm256_unpacklo_epi64(sums, differences), _mm256_unpackhi_epi64(sums, differences));
    let (plus, minus) = (_mm256_add_epi16(upper, lower), _mm256_sub_epi16(upper, lower));
    let (first, second) = (_mm256_unpacklo_epi32(plus, minus), _mm256_unpackhi_epi32(plus, minus));
    let (even, odd) = (_mm256_unpacklo_epi64(first, second), _mm256_unpackhi_epi64(first, second));
    let x = _mm256_abs_epi16(_mm256_add_epi16(even, odd));
    let y = _mm256_abs_epi16(_mm256_sub_epi16(even, odd));
    // |p + q| + |p - q| is twice the larger of |p| and |q|. The factor of two cancels.
    let p = _mm256_blend_epi16::<0xaa>(x, _mm256_slli_epi32::<16>(y));
    let q = _mm256_blend_epi16::<0xaa>(_mm256_srli_epi32::<16>(x), y);
    _mm256_madd_epi16(_mm256_max_epi16(p, q), _mm256_set1_epi16(1))
}
