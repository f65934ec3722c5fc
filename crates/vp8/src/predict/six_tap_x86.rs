//! The six-tap filter in AVX2. `inter::six_tap` is the scalar version with the same results.
#![allow(unsafe_code)]

use std::arch::x86_64::*;
use std::mem::MaybeUninit;

use crate::tables::SIX_TAPS;

/// Rows above a block and columns before it that the filter reads, and rows around it in total.
const BEFORE: usize = 2;
const AROUND: usize = 5;
/// Bytes of a row that the loads may read, from the first column before the block on.
const fn row_reach(width: usize) -> usize {
    if width == 16 { 24 } else { 16 }
}

/// Predicts a block of `W` x `H` at index `at` of `source` into `out`. Returns false, without a prediction, if the
/// processor lacks AVX2 or the loads would leave `source`.
#[inline]
pub(super) fn six_tap<const W: usize, const H: usize>(
    source: &[u8],
    at: usize,
    stride: usize,
    fractions: (usize, usize),
    out: &mut [u8],
    out_stride: usize,
) -> bool {
    const { assert!((W == 4 || W == 8 || W == 16) && H.is_multiple_of(4) && H <= 16) };
    let above = if fractions.1 == 0 { 0 } else { BEFORE };
    let below = if fractions.1 == 0 { 0 } else { AROUND - BEFORE };
    let reach = at + (H - 1 + below) * stride + row_reach(W) - BEFORE;
    if at < above * stride + BEFORE || reach > source.len() || !is_x86_feature_detected!("avx2") {
        return false;
    }
    let out = &mut out[..(H - 1) * out_stride + W];
    // SAFETY: the processor has AVX2. The checks above keep all reads in `source`; `out` has been cut to contain all
    // writes.
    unsafe { filter::<W, H>(source.as_ptr().add(at), stride, fractions, out.as_mut_ptr(), out_stride) };
    true
}

/// Pairs of taps for one multiply-add instruction. No sum of two products overflows 16 bits.
#[derive(Clone, Copy)]
struct Taps([__m256i; 3]);

impl Taps {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new(fraction: usize) -> Self {
        let taps = &SIX_TAPS[fraction];
        let pair = |a: usize, b: usize| _mm256_set1_epi16(taps[b] << 8 | (taps[a] & 0xff));
        Self([pair(0, 5), pair(1, 3), pair(2, 4)])
    }

    /// Filters samples of two interleaved rows, in the order of the pairs. The results are 16 bits wide.
    ///
    /// Only the last sum can overflow 16 bits, and only upwards. It then saturates, and the result is 255 in both
    /// cases.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn weigh(self, pairs: [__m256i; 3]) -> __m256i {
        let weighed = |pair: usize| _mm256_maddubs_epi16(pairs[pair], self.0[pair]);
        let sum = _mm256_add_epi16(_mm256_add_epi16(weighed(0), weighed(1)), _mm256_set1_epi16(64));
        _mm256_srai_epi16::<7>(_mm256_adds_epi16(sum, weighed(2)))
    }
}

/// # Safety
/// The rows of the block and the samples around them can be read from `source`. Its rows can be written at `out`.
#[target_feature(enable = "avx2")]
unsafe fn filter<const W: usize, const H: usize>(
    source: *const u8,
    stride: usize,
    (fraction_x, fraction_y): (usize, usize),
    out: *mut u8,
    out_stride: usize,
) {
    // Rows after horizontal filtering, without gaps. The last loads and stores extend beyond them.
    let mut middle = MaybeUninit::<[u8; 16 * (16 + AROUND) + 32]>::uninit();
    let middle: *mut u8 = middle.as_mut_ptr().cast();
    // SAFETY: `middle` has room for 21 rows of 16 bytes and 32 bytes more. No row stores more than 16 bytes beyond its
    // end. Every byte is written before it is read, except for bytes whose results are unused. The caller guarantees
    // the rest.
    unsafe {
        if W * H < 32 {
            // Such a block is smaller than one load.
            middle.write_bytes(0, 64);
        }
        let (first, rows) = if fraction_y == 0 { (source, H) } else { (source.sub(BEFORE * stride), H + AROUND) };
        if fraction_x == 0 {
            for y in 0..rows {
                middle.add(W * y).copy_from_nonoverlapping(first.add(y * stride), W);
            }
        } else {
            along_rows::<W>(first.sub(BEFORE), stride, rows, Taps::new(fraction_x), middle);
        }
        if fraction_y == 0 {
            for y in 0..H {
                out.add(y * out_stride).copy_from_nonoverlapping(middle.add(W * y), W);
            }
            return;
        }
        let taps = Taps::new(fraction_y);
        // Rows have no gaps, so 32 positions are filtered at once, across row boundaries.
        let mut place = 0;
        while place < W * H {
            let row = |tap: usize| _mm256_loadu_si256(middle.add(place + W * tap).cast());
            let (outer, odd, even) = ((row(0), row(5)), (row(1), row(3)), (row(2), row(4)));
            let low = |(a, b): (__m256i, __m256i)| _mm256_unpacklo_epi8(a, b);
            let high = |(a, b): (__m256i, __m256i)| _mm256_unpackhi_epi8(a, b);
            let low = taps.weigh([low(outer), low(odd), low(even)]);
            let high = taps.weigh([high(outer), high(odd), high(even)]);
            let filtered = _mm256_packus_epi16(low, high);
            let mut rows = [0u8; 32];
            _mm256_storeu_si256(rows.as_mut_ptr().cast(), filtered);
            for (y, row) in rows.chunks_exact(W).enumerate().take(H - place / W) {
                out.add((place / W + y) * out_stride).copy_from_nonoverlapping(row.as_ptr(), W);
            }
            place += 32;
        }
    }
}

/// Filters `rows` rows horizontally. `source` is two samples before the first one.
///
/// # Safety
/// From `source` on, [`row_reach`] bytes of each row can be read. At `middle`, the rows and 16 bytes more can be
/// written.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn along_rows<const W: usize>(source: *const u8, stride: usize, rows: usize, taps: Taps, middle: *mut u8) {
    let order = |a: i8, b: i8| {
        let each = [0, 1, 2, 3, 4, 5, 6, 7].map(|place: i8| i16::from(place + b) << 8 | i16::from(place + a));
        // SAFETY: both types are 16 bytes without padding.
        _mm256_broadcastsi128_si256(unsafe { std::mem::transmute::<[i16; 8], __m128i>(each) })
    };
    let (outer, odd, even) = (order(0, 5), order(1, 3), order(2, 4));
    let weigh = |samples: __m256i| {
        let ordered = |order: __m256i| _mm256_shuffle_epi8(samples, order);
        taps.weigh([ordered(outer), ordered(odd), ordered(even)])
    };
    // SAFETY: the caller guarantees access to the samples.
    unsafe {
        let load = |at: *const u8| _mm_loadu_si128(at.cast());
        if W == 16 {
            for y in 0..rows {
                let from = source.add(y * stride);
                let filtered =
                    weigh(_mm256_inserti128_si256::<1>(_mm256_castsi128_si256(load(from)), load(from.add(8))));
                let both = _mm_packus_epi16(_mm256_castsi256_si128(filtered), _mm256_extracti128_si256::<1>(filtered));
                _mm_storeu_si128(middle.add(16 * y).cast(), both);
            }
            return;
        }
        for y in (0..rows).step_by(2) {
            let from = source.add(y * stride);
            // If the number of rows is odd, the last one is filtered twice.
            let next = if y + 1 < rows { from.add(stride) } else { from };
            let filtered = weigh(_mm256_inserti128_si256::<1>(_mm256_castsi128_si256(load(from)), load(next)));
            let (first, second) = (_mm256_castsi256_si128(filtered), _mm256_extracti128_si256::<1>(filtered));
            if W == 8 {
                _mm_storeu_si128(middle.add(8 * y).cast(), _mm_packus_epi16(first, second));
            } else {
                let both = _mm_packus_epi16(_mm_unpacklo_epi64(first, second), first);
                _mm_storel_epi64(middle.add(4 * y).cast(), both);
            }
        }
    }
}
