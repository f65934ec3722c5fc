//! The inverse DCT of two blocks at once in SSE2, which is part of x86-64. `portable` is the scalar version with the
//! same functions and results.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::angles::{COSINE, SINE};

/// Inverse DCTs of two blocks, added to the 4x8 samples at the start of `samples`.
#[inline]
pub(crate) fn inverse_dct_add_pair(blocks: &[[i16; 16]; 2], samples: &mut [u8], stride: usize) {
    let samples = &mut samples[..3 * stride + 8];
    // SAFETY: SSE2 is part of x86-64. `samples` has been cut to contain the rows of 8 samples.
    unsafe {
        let rows = inverse_dct(load(&blocks[0]), load(&blocks[1]));
        for (y, row) in rows.into_iter().enumerate() {
            let at = samples.as_mut_ptr().add(y * stride);
            _mm_storel_epi64(at.cast(), add(_mm_loadl_epi64(at.cast()), row));
        }
    }
}

/// Inverse DCT of a block, added to the 4x4 samples at the start of `samples`.
#[inline]
pub(crate) fn inverse_dct_add(block: &[i16; 16], samples: &mut [u8], stride: usize) {
    let samples = &mut samples[..3 * stride + 4];
    // SAFETY: SSE2 is part of x86-64. `samples` has been cut to contain the rows of 4 samples.
    unsafe {
        let rows = inverse_dct(load(block), [_mm_setzero_si128(); 2]);
        for (y, row) in rows.into_iter().enumerate() {
            let at = samples.as_mut_ptr().add(y * stride).cast::<i32>();
            at.write_unaligned(_mm_cvtsi128_si32(add(_mm_cvtsi32_si128(at.read_unaligned()), row)));
        }
    }
}

/// Inverse DCTs of two blocks with DC coefficients only, added to the 4x8 samples at the start of `samples`.
#[inline]
pub(crate) fn inverse_dct_add_dc_pair(dc: [i16; 2], samples: &mut [u8], stride: usize) {
    let samples = &mut samples[..3 * stride + 8];
    let [a, b] = dc.map(|dc| dc.wrapping_add(4) >> 3);
    // SAFETY: SSE2 is part of x86-64. `samples` has been cut to contain the rows of 8 samples.
    unsafe {
        let row = _mm_unpacklo_epi64(_mm_set1_epi16(a), _mm_set1_epi16(b));
        for y in 0..4 {
            let at = samples.as_mut_ptr().add(y * stride);
            _mm_storel_epi64(at.cast(), add(_mm_loadl_epi64(at.cast()), row));
        }
    }
}

/// Loads rows 0 and 1, and rows 2 and 3, of a block.
#[inline(always)]
fn load(block: &[i16; 16]) -> [__m128i; 2] {
    let (first, second) = block.split_at(8);
    // SAFETY: SSE2 is part of x86-64. Both halves are 16 bytes.
    unsafe { [_mm_loadu_si128(first.as_ptr().cast()), _mm_loadu_si128(second.as_ptr().cast())] }
}

/// Adds a residual to eight samples in the lower half.
#[inline(always)]
fn add(samples: __m128i, residual: __m128i) -> __m128i {
    // SAFETY: SSE2 is part of x86-64.
    unsafe {
        let wide = _mm_unpacklo_epi8(samples, _mm_setzero_si128());
        let sum = _mm_add_epi16(wide, residual);
        _mm_packus_epi16(sum, sum)
    }
}

/// Residuals of two blocks; each row holds a row of both.
#[inline(always)]
fn inverse_dct(a: [__m128i; 2], b: [__m128i; 2]) -> [__m128i; 4] {
    // SAFETY: SSE2 is part of x86-64.
    unsafe {
        let rows = [
            _mm_unpacklo_epi64(a[0], b[0]),
            _mm_unpackhi_epi64(a[0], b[0]),
            _mm_unpacklo_epi64(a[1], b[1]),
            _mm_unpackhi_epi64(a[1], b[1]),
        ];
        let residual = transposed(butterfly(transposed(butterfly(rows))));
        residual.map(|row| _mm_srai_epi16::<3>(_mm_add_epi16(row, _mm_set1_epi16(4))))
    }
}

/// One-dimensional inverse DCT of eight columns.
#[inline(always)]
fn butterfly([i0, i1, i2, i3]: [__m128i; 4]) -> [__m128i; 4] {
    // SAFETY: SSE2 is part of x86-64.
    unsafe {
        let times_cosine = |value| _mm_add_epi16(value, _mm_mulhi_epi16(value, _mm_set1_epi16(COSINE as i16)));
        // As a signed number, the factor is too small by exactly one.
        let times_sine = |value| _mm_add_epi16(value, _mm_mulhi_epi16(value, _mm_set1_epi16(SINE as i16)));
        let (a, b) = (_mm_add_epi16(i0, i2), _mm_sub_epi16(i0, i2));
        let c = _mm_sub_epi16(times_sine(i1), times_cosine(i3));
        let d = _mm_add_epi16(times_cosine(i1), times_sine(i3));
        [_mm_add_epi16(a, d), _mm_add_epi16(b, c), _mm_sub_epi16(b, c), _mm_sub_epi16(a, d)]
    }
}

/// Transposes two adjacent blocks.
#[inline(always)]
fn transposed([r0, r1, r2, r3]: [__m128i; 4]) -> [__m128i; 4] {
    // SAFETY: SSE2 is part of x86-64.
    unsafe {
        let (a01, b01) = (_mm_unpacklo_epi16(r0, r1), _mm_unpackhi_epi16(r0, r1));
        let (a23, b23) = (_mm_unpacklo_epi16(r2, r3), _mm_unpackhi_epi16(r2, r3));
        let (a_first, a_last) = (_mm_unpacklo_epi32(a01, a23), _mm_unpackhi_epi32(a01, a23));
        let (b_first, b_last) = (_mm_unpacklo_epi32(b01, b23), _mm_unpackhi_epi32(b01, b23));
        [
            _mm_unpacklo_epi64(a_first, b_first),
            _mm_unpackhi_epi64(a_first, b_first),
            _mm_unpacklo_epi64(a_last, b_last),
            _mm_unpackhi_epi64(a_last, b_last),
        ]
    }
}
