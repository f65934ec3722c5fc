//! AVX2 kernels of the picture comparison. `portable` has the scalar version of each. Sums are integers below 2^31,
//! quotients are IEEE divisions of equal operands, and the order of additions is the same. So both versions give equal
//! bits.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::{BLOCK, BlockRow, WINDOW_CONSTANTS, portable};

/// Number of samples, or of 32-bit windows, in one register.
const BYTES: usize = 32;
const LANES: usize = 8;

/// See [`portable::row_squared_error`].
pub(super) fn row_squared_error(first: &[u8], second: &[u8]) -> u32 {
    if !is_x86_feature_detected!("avx2") {
        return portable::row_squared_error(first, second);
    }
    // SAFETY: the processor has AVX2.
    unsafe { row_squared_error_avx2(first, second) }
}

/// See [`portable::sum_blocks`].
pub(super) fn sum_blocks(first: [&[u8]; BLOCK], second: [&[u8]; BLOCK], row: &mut BlockRow) {
    if !is_x86_feature_detected!("avx2") {
        return portable::sum_blocks(first, second, row);
    }
    // SAFETY: the processor has AVX2.
    unsafe { sum_blocks_avx2(first, second, row) }
}

/// See [`portable::add_windows`].
pub(super) fn add_windows(above: &BlockRow, below: &BlockRow, total: &mut f64) {
    if !is_x86_feature_detected!("avx2") {
        return portable::add_windows(above, below, total);
    }
    // SAFETY: the processor has AVX2.
    unsafe { add_windows_avx2(above, below, total) }
}

/// Widens 32 samples to 16 bits. Each half of the register gives its lower and its upper eight.
#[target_feature(enable = "avx2")]
fn widened(samples: __m256i) -> [__m256i; 2] {
    let zero = _mm256_setzero_si256();
    [_mm256_unpacklo_epi8(samples, zero), _mm256_unpackhi_epi8(samples, zero)]
}

#[target_feature(enable = "avx2")]
fn row_squared_error_avx2(first: &[u8], second: &[u8]) -> u32 {
    let length = first.len().min(second.len());
    let whole = length / BYTES * BYTES;
    let mut sums = _mm256_setzero_si256();
    for at in (0..whole).step_by(BYTES) {
        // SAFETY: `at + BYTES` is at most `whole`, and both slices have at least `whole` samples.
        let (a, b) = unsafe {
            (_mm256_loadu_si256(first.as_ptr().add(at).cast()), _mm256_loadu_si256(second.as_ptr().add(at).cast()))
        };
        let difference = _mm256_or_si256(_mm256_subs_epu8(a, b), _mm256_subs_epu8(b, a));
        for part in widened(difference) {
            sums = _mm256_add_epi32(sums, _mm256_madd_epi16(part, part));
        }
    }
    let mut lanes = [0u32; LANES];
    // SAFETY: the array has the size of a register.
    unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), sums) };
    lanes.iter().sum::<u32>() + portable::row_squared_error(&first[whole..length], &second[whole..length])
}

#[target_feature(enable = "avx2")]
fn sum_blocks_avx2(first: [&[u8]; BLOCK], second: [&[u8]; BLOCK], row: &mut BlockRow) {
    let length = first.iter().chain(&second).map(|line| line.len()).min().unwrap_or(0).min(BLOCK * row.blocks);
    let whole = length / BYTES * BYTES;
    let (ones_of_bytes, ones) = (_mm256_set1_epi8(1), _mm256_set1_epi16(1));
    for at in (0..whole).step_by(BYTES) {
        let mut plain = [_mm256_setzero_si256(); 2];
        let mut squares = [_mm256_setzero_si256(); 2];
        let mut products = [_mm256_setzero_si256(); 2];
        for (a, b) in first.iter().zip(&second) {
            // SAFETY: `at + BYTES` is at most `whole`, and every line has at least `whole` samples.
            let (a, b) = unsafe {
                (_mm256_loadu_si256(a.as_ptr().add(at).cast()), _mm256_loadu_si256(b.as_ptr().add(at).cast()))
            };
            // Pairs of samples over four lines: at most 8 * 255.
            plain[0] = _mm256_add_epi16(plain[0], _mm256_maddubs_epi16(a, ones_of_bytes));
            plain[1] = _mm256_add_epi16(plain[1], _mm256_maddubs_epi16(b, ones_of_bytes));
            for (half, (a, b)) in widened(a).into_iter().zip(widened(b)).enumerate() {
                let both = _mm256_add_epi32(_mm256_madd_epi16(a, a), _mm256_madd_epi16(b, b));
                squares[half] = _mm256_add_epi32(squares[half], both);
                products[half] = _mm256_add_epi32(products[half], _mm256_madd_epi16(a, b));
            }
        }
        let block = at / BLOCK;
        let sums = [
            (&mut row.first, _mm256_madd_epi16(plain[0], ones)),
            (&mut row.second, _mm256_madd_epi16(plain[1], ones)),
            // Pair sums become sums of four, in order.
            (&mut row.squares, _mm256_hadd_epi32(squares[0], squares[1])),
            (&mut row.products, _mm256_hadd_epi32(products[0], products[1])),
        ];
        for (to, sums) in sums {
            let to = &mut to[block..block + LANES];
            // SAFETY: the slice has the size of a register.
            unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), sums) };
        }
    }
    let done = whole / BLOCK;
    if done < row.blocks {
        let mut rest = BlockRow::new(row.blocks - done);
        portable::sum_blocks(first.map(|line| &line[whole..]), second.map(|line| &line[whole..]), &mut rest);
        (0..rest.blocks).for_each(|x| row.set(done + x, rest.get(x)));
    }
}

/// Sums of the windows from block `x` on, each of two blocks in both rows.
#[target_feature(enable = "avx2")]
fn window_sums(above: &[i32], below: &[i32], x: usize) -> __m256i {
    let (above, below) = (&above[x..=x + LANES], &below[x..=x + LANES]);
    // SAFETY: both slices are one number longer than a register.
    unsafe {
        let at = |from: &[i32], shift: usize| _mm256_loadu_si256(from.as_ptr().add(shift).cast());
        let left = _mm256_add_epi32(at(above, 0), at(below, 0));
        _mm256_add_epi32(left, _mm256_add_epi32(at(above, 1), at(below, 1)))
    }
}

/// Quotient of products of integers, for four windows.
#[target_feature(enable = "avx2")]
fn quotients([a, b, c, d]: [__m128i; 4]) -> __m256d {
    let numerator = _mm256_mul_pd(_mm256_cvtepi32_pd(a), _mm256_cvtepi32_pd(b));
    let denominator = _mm256_mul_pd(_mm256_cvtepi32_pd(c), _mm256_cvtepi32_pd(d));
    _mm256_div_pd(numerator, denominator)
}

#[target_feature(enable = "avx2")]
fn add_windows_avx2(above: &BlockRow, below: &BlockRow, total: &mut f64) {
    let (c1, c2) = WINDOW_CONSTANTS;
    let (c1, c2) = (_mm256_set1_epi32(c1 as i32), _mm256_set1_epi32(c2 as i32));
    let windows = above.blocks.saturating_sub(1);
    for x in (0..windows).step_by(LANES) {
        let first = window_sums(&above.first, &below.first, x);
        let second = window_sums(&above.second, &below.second, x);
        // Times the 64 samples of a window. No value reaches 2^31, see `Sums::ssim`.
        let squares = _mm256_slli_epi32::<6>(window_sums(&above.squares, &below.squares, x));
        let products = _mm256_slli_epi32::<6>(window_sums(&above.products, &below.products, x));
        let both = _mm256_mullo_epi32(first, second);
        let powers = _mm256_add_epi32(_mm256_mullo_epi32(first, first), _mm256_mullo_epi32(second, second));
        let parts = [
            _mm256_add_epi32(_mm256_slli_epi32::<1>(both), c1),
            _mm256_add_epi32(_mm256_slli_epi32::<1>(_mm256_sub_epi32(products, both)), c2),
            _mm256_add_epi32(powers, c1),
            _mm256_add_epi32(_mm256_sub_epi32(squares, powers), c2),
        ];
        let mut values = [0.0f64; LANES];
        let (lower, upper) = values.split_at_mut(LANES / 2);
        // SAFETY: each half has the size of a register.
        unsafe {
            _mm256_storeu_pd(lower.as_mut_ptr(), quotients(parts.map(|part| _mm256_castsi256_si128(part))));
            _mm256_storeu_pd(upper.as_mut_ptr(), quotients(parts.map(|part| _mm256_extracti128_si256::<1>(part))));
        }
        for value in &values[..LANES.min(windows - x)] {
            *total += value;
        }
    }
}
