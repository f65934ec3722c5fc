//! The six-tap filter in SIMD128 of WebAssembly. `inter::six_tap` is the scalar version with the same results.
#![allow(unsafe_code)]

use std::arch::wasm32::*;

use crate::tables::SIX_TAPS;

/// Samples that the filter reads before and after a block.
const BEFORE: usize = 2;
const BEHIND: usize = 3;

/// A row of at most sixteen samples, as words. The upper half is only used by rows of sixteen.
type Row = [v128; 2];

/// Predicts a block of `W` x `H` at index `at` of `source` into `out`.
#[inline]
pub(super) fn six_tap<const W: usize, const H: usize>(
    source: &[u8],
    at: usize,
    stride: usize,
    (fraction_x, fraction_y): (usize, usize),
    out: &mut [u8],
    out_stride: usize,
) {
    const { assert!((W == 4 || W == 8 || W == 16) && H <= 16) };
    let around = |fraction: usize| if fraction == 0 { (0, 0) } else { (BEFORE, BEHIND) };
    let ((left, right), (above, below)) = (around(fraction_x), around(fraction_y));
    let rows = above + H + below;
    let source = &source[at - above * stride - left..at + (H - 1 + below) * stride + W + right];
    let out = &mut out[..(H - 1) * out_stride + W];
    // Rows after horizontal filtering.
    let mut middle = [[u16x8_splat(0); 2]; 16 + BEFORE + BEHIND];
    for (y, line) in middle[..rows].iter_mut().enumerate() {
        // SAFETY: `source` has been cut to contain all rows that are read.
        *line = unsafe {
            let from = source.as_ptr().add(y * stride);
            if fraction_x == 0 {
                load::<W>(from)
            } else {
                weigh::<W>(fraction_x, [0, 1, 2, 3, 4, 5].map(|tap| load::<W>(from.add(tap))))
            }
        };
    }
    for y in 0..H {
        let line = if fraction_y == 0 {
            middle[y]
        } else {
            weigh::<W>(fraction_y, [0, 1, 2, 3, 4, 5].map(|tap| middle[y + tap]))
        };
        let samples = u8x16_narrow_i16x8(line[0], line[1]);
        // SAFETY: `out` has been cut to contain all rows that are written.
        unsafe {
            let at = out.as_mut_ptr().add(y * out_stride);
            match W {
                16 => v128_store(at.cast(), samples),
                8 => v128_store64_lane::<0>(samples, at.cast()),
                _ => v128_store32_lane::<0>(samples, at.cast()),
            }
        }
    }
}

/// Filters six rows of `W` samples to one.
#[inline(always)]
fn weigh<const W: usize>(fraction: usize, rows: [Row; 6]) -> Row {
    let taps = SIX_TAPS[fraction].map(|tap| i16x8_splat(tap));
    let weigh_half = |half: usize| {
        let product = |tap: usize| i16x8_mul(rows[tap][half], taps[tap]);
        let outer = i16x8_add(i16x8_add(product(0), product(5)), i16x8_add(product(1), product(4)));
        let sum = i16x8_add(i16x8_add(outer, product(2)), i16x8_splat(64));
        // Only the last sum can overflow, and only upwards. It then saturates, and the result is 255 in both cases.
        let value = i16x8_shr(i16x8_add_sat(sum, product(3)), 7);
        i16x8_min(i16x8_max(value, i16x8_splat(0)), i16x8_splat(255))
    };
    let low = weigh_half(0);
    [low, if W == 16 { weigh_half(1) } else { low }]
}

/// # Safety
/// `W` bytes can be read from `at`.
#[inline(always)]
unsafe fn load<const W: usize>(at: *const u8) -> Row {
    // SAFETY: the caller guarantees access to the bytes.
    unsafe {
        match W {
            16 => [u16x8_load_extend_u8x8(at), u16x8_load_extend_u8x8(at.add(8))],
            8 => [u16x8_load_extend_u8x8(at); 2],
            _ => [u16x8_extend_low_u8x16(v128_load32_zero(at.cast())); 2],
        }
    }
}
