//! Packing of the tokens of a block in AVX2. `portable` is the scalar version with the same results.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use crate::encoder::packed_token::{BLOCKS, BlockKind, END_OF_BLOCK, FIRST_CATEGORY, PackedToken, row_of};
use crate::tables::{CATEGORY_BASES, COEFFICIENT_BANDS, ZIGZAG};

/// [`portable::append`](super::portable::append) in AVX2; `None` if the processor lacks it.
#[inline]
pub(super) fn append(
    kind: BlockKind,
    levels: &[[i16; 16]],
    ends: &[u8],
    contexts: &[u8],
    tokens: &mut [PackedToken; 16 * BLOCKS],
    count: usize,
) -> Option<usize> {
    if !is_x86_feature_detected!("avx2") {
        return None;
    }
    // SAFETY: the processor has AVX2.
    Some(unsafe { append_blocks(kind, levels, ends, contexts, tokens, count) })
}

/// Tables for positions in zigzag order, starting at `first`. They give the bytes of each level and three times its
/// band, shifted to the row field.
struct Scan {
    /// Byte indices for the first eight positions, from the lower and from the upper raster half. Then the same for the
    /// other eight.
    bytes: [[u8; 16]; 4],
    bands: [[u16; 8]; 2],
}

const NOTHING: u8 = 0x80;

const fn scan(first: usize) -> Scan {
    let mut scan = Scan { bytes: [[NOTHING; 16]; 4], bands: [[0; 8]; 2] };
    let mut lane = 0;
    while lane + first < 16 {
        let raster = ZIGZAG[lane + first] as usize;
        let bytes = &mut scan.bytes[2 * (lane / 8) + raster / 8];
        bytes[2 * (lane % 8)] = (2 * (raster % 8)) as u8;
        bytes[2 * (lane % 8) + 1] = (2 * (raster % 8) + 1) as u8;
        scan.bands[lane / 8][lane % 8] = (3 * COEFFICIENT_BANDS[lane + first] as u16) << ROW_SHIFT;
        lane += 1;
    }
    scan
}

const SCANS: [Scan; 2] = [scan(0), scan(1)];
const LANES: [[i16; 8]; 2] = [[0, 1, 2, 3, 4, 5, 6, 7], [8, 9, 10, 11, 12, 13, 14, 15]];
/// Bit positions of the fields of a [`PackedToken`].
const ROW_SHIFT: i32 = 4;
const AFTER_ZERO_SHIFT: i32 = 11;
const SIGN_SHIFT: i32 = 12;
const MAGNITUDE_SHIFT: i32 = 13;

#[target_feature(enable = "avx2")]
fn append_blocks(
    kind: BlockKind,
    levels: &[[i16; 16]],
    ends: &[u8],
    contexts: &[u8],
    tokens: &mut [PackedToken; 16 * BLOCKS],
    mut count: usize,
) -> usize {
    let first = kind.first();
    let scan = &SCANS[first];
    let kind_row = _mm_set1_epi16((row_of(kind, 0, 0) << ROW_SHIFT) as i16);
    for ((levels, &end), &context) in levels.iter().zip(ends).zip(contexts) {
        let end = usize::from(end);
        if end <= first {
            tokens[count] = PackedToken::new(row_of(kind, first, usize::from(context)), END_OF_BLOCK, false, 0);
            count += 1;
            continue;
        }
        let lanes = end - first;
        // SAFETY: the levels of a block have 32 bytes.
        let (low, high) =
            unsafe { (_mm_loadu_si128(levels.as_ptr().cast()), _mm_loadu_si128(levels.as_ptr().add(8).cast())) };
        let mut before = i32::from(context);
        let mut zero_before = 0;
        for half in 0..1 + lanes / 8 {
            if half == 2 {
                break;
            }
            let place = &mut tokens[count + 8 * half..][..8];
            // SAFETY: each table has 16 bytes, and `place` has room for eight tokens of 4 bytes.
            unsafe {
                let load = |values: *const u8| _mm_loadu_si128(values.cast());
                let from_low = _mm_shuffle_epi8(low, load(scan.bytes[2 * half].as_ptr()));
                let from_high = _mm_shuffle_epi8(high, load(scan.bytes[2 * half + 1].as_ptr()));
                let level = _mm_or_si128(from_low, from_high);
                let magnitude = _mm_abs_epi16(level);
                let mut token = _mm_min_epi16(magnitude, _mm_set1_epi16(FIRST_CATEGORY as i16));
                for least in &CATEGORY_BASES[1..] {
                    token = _mm_sub_epi16(token, _mm_cmpgt_epi16(magnitude, _mm_set1_epi16(*least as i16 - 1)));
                }
                // For each position, the context that results from the previous position.
                let context = _mm_min_epi16(magnitude, _mm_set1_epi16(2));
                let contexts = _mm_insert_epi16::<0>(_mm_slli_si128::<2>(context), before);
                let zero = _mm_srli_epi16::<15>(_mm_cmpeq_epi16(magnitude, _mm_setzero_si128()));
                let zeros = _mm_insert_epi16::<0>(_mm_slli_si128::<2>(zero), zero_before);
                before = _mm_extract_epi16::<7>(context);
                zero_before = _mm_extract_epi16::<7>(zero);
                let ends_here = _mm_cmpeq_epi16(load(LANES[half].as_ptr().cast()), _mm_set1_epi16(lanes as i16));
                let token = _mm_or_si128(token, _mm_and_si128(ends_here, _mm_set1_epi16(END_OF_BLOCK as i16)));
                let row = _mm_add_epi16(
                    _mm_add_epi16(kind_row, load(scan.bands[half].as_ptr().cast())),
                    _mm_slli_epi16::<ROW_SHIFT>(contexts),
                );
                let index = _mm_or_si128(_mm_or_si128(token, row), _mm_slli_epi16::<AFTER_ZERO_SHIFT>(zeros));
                let sign = _mm_slli_epi16::<SIGN_SHIFT>(_mm_srli_epi16::<15>(level));
                let word = _mm_or_si128(_mm_or_si128(index, sign), _mm_slli_epi16::<MAGNITUDE_SHIFT>(magnitude));
                let above = _mm_srli_epi16::<{ 16 - MAGNITUDE_SHIFT }>(magnitude);
                let to = place.as_mut_ptr().cast::<__m128i>();
                _mm_storeu_si128(to, _mm_unpacklo_epi16(word, above));
                _mm_storeu_si128(to.add(1), _mm_unpackhi_epi16(word, above));
            }
        }
        count += lanes + usize::from(end < 16);
    }
    count
}
