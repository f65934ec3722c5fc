//! Turning the samples around an edge between columns into lines along it, and back.

use super::edges::Lines;

/// Lines from 16 rows of eight samples each.
#[inline(always)]
pub(super) fn gather(rows: &[[u8; 8]; 16]) -> Lines {
    #[cfg(target_arch = "x86_64")]
    return sse2::gather(rows);
    #[cfg(not(target_arch = "x86_64"))]
    scalar::gather(rows)
}

/// The rows that [`gather`] made into lines.
#[inline(always)]
pub(super) fn scatter(lines: &Lines) -> [[u8; 8]; 16] {
    #[cfg(target_arch = "x86_64")]
    return sse2::scatter(lines);
    #[cfg(not(target_arch = "x86_64"))]
    scalar::scatter(lines)
}

#[cfg(any(test, not(target_arch = "x86_64")))]
mod scalar {
    use super::Lines;

    pub(super) fn gather(rows: &[[u8; 8]; 16]) -> Lines {
        std::array::from_fn(|line| std::array::from_fn(|place| rows[place][line]))
    }

    pub(super) fn scatter(lines: &Lines) -> [[u8; 8]; 16] {
        std::array::from_fn(|place| std::array::from_fn(|line| lines[line][place]))
    }
}

/// By interleaving: two registers that are interleaved byte by byte are two rows of pairs; after four (three) rounds of
/// it all that belongs to one line (row) stands together. SSE2 is part of x86-64.
#[cfg(target_arch = "x86_64")]
mod sse2 {
    #![allow(unsafe_code)]

    use super::Lines;
    use std::arch::x86_64::{
        __m128i, _mm_loadl_epi64, _mm_loadu_si128, _mm_setzero_si128, _mm_storeu_si128, _mm_unpackhi_epi8,
        _mm_unpacklo_epi8,
    };

    #[inline(always)]
    pub(super) fn gather(rows: &[[u8; 8]; 16]) -> Lines {
        let mut lines = Lines::default();
        // SAFETY: SSE2 is always there on x86-64. Each load reads the eight bytes of one row, each store writes the 16
        // of one line; neither needs alignment.
        unsafe {
            let load = |row: usize| _mm_loadl_epi64(rows[row].as_ptr().cast());
            let mut pairs = [_mm_setzero_si128(); 8];
            for (row, pair) in pairs.iter_mut().enumerate() {
                *pair = _mm_unpacklo_epi8(load(row), load(row + 8));
            }
            let (low, high) = interleave_quarters(&pairs);
            for (half, quarters) in [low, high].into_iter().enumerate() {
                for (quarter, [even, odd]) in interleave_halves(&quarters).into_iter().enumerate() {
                    let line = 4 * half + 2 * quarter;
                    _mm_storeu_si128(lines[line].as_mut_ptr().cast(), _mm_unpacklo_epi8(even, odd));
                    _mm_storeu_si128(lines[line + 1].as_mut_ptr().cast(), _mm_unpackhi_epi8(even, odd));
                }
            }
        }
        lines
    }

    #[inline(always)]
    pub(super) fn scatter(lines: &Lines) -> [[u8; 8]; 16] {
        let mut rows = [[0u8; 8]; 16];
        // SAFETY: SSE2 is always there on x86-64. Each load reads the 16 bytes of one line, each store writes two rows
        // that lie behind each other in the array; neither needs alignment.
        unsafe {
            let loaded: [__m128i; 8] = std::array::from_fn(|line| _mm_loadu_si128(lines[line].as_ptr().cast()));
            let (low, high) = interleave_quarters(&loaded);
            for (half, quarters) in [low, high].into_iter().enumerate() {
                for (quarter, [even, odd]) in interleave_halves(&quarters).into_iter().enumerate() {
                    let row = 8 * half + 4 * quarter;
                    let four: &mut [[u8; 8]] = &mut rows[row..row + 4];
                    _mm_storeu_si128(four[..2].as_mut_ptr().cast(), _mm_unpacklo_epi8(even, odd));
                    _mm_storeu_si128(four[2..].as_mut_ptr().cast(), _mm_unpackhi_epi8(even, odd));
                }
            }
        }
        rows
    }

    /// Register `i` interleaved with register `i + 4`: lower and upper halves of the results.
    #[inline(always)]
    unsafe fn interleave_quarters(registers: &[__m128i; 8]) -> ([__m128i; 4], [__m128i; 4]) {
        // SAFETY: SSE2 is always there on x86-64.
        unsafe {
            (
                std::array::from_fn(|i| _mm_unpacklo_epi8(registers[i], registers[i + 4])),
                std::array::from_fn(|i| _mm_unpackhi_epi8(registers[i], registers[i + 4])),
            )
        }
    }

    /// Register `i` interleaved with register `i + 2`: those of the lower halves, then those of the upper ones.
    #[inline(always)]
    unsafe fn interleave_halves(registers: &[__m128i; 4]) -> [[__m128i; 2]; 2] {
        // SAFETY: SSE2 is always there on x86-64.
        unsafe {
            [
                std::array::from_fn(|i| _mm_unpacklo_epi8(registers[i], registers[i + 2])),
                std::array::from_fn(|i| _mm_unpackhi_epi8(registers[i], registers[i + 2])),
            ]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_the_columns_of_the_rows_and_scatter_undoes_gather() {
        let rows: [[u8; 8]; 16] = std::array::from_fn(|y| std::array::from_fn(|x| (8 * y + x) as u8));
        let lines = gather(&rows);
        assert_eq!(lines, scalar::gather(&rows));
        assert_eq!(scatter(&lines), rows);
        assert_eq!(scalar::scatter(&lines), rows);
    }
}
