//! Prediction from reference frames (RFC 6386, section 18).
//!
//! A reference has no limits: outside, the nearest sample of its macroblock-aligned edge is repeated. Frames store a
//! border of [`BORDER`] such samples. A block beyond the border is gathered sample by sample.

use crate::block_copy::copy_block;
use crate::frame::{BORDER, PlaneLayout};
use crate::tables::SIX_TAPS;

/// Interpolation filter for fractional positions, selected by the stream's version (section 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interpolation {
    SixTap,
    Bilinear,
}

/// Samples that the six-tap filter reads before and after a block.
const BEFORE: usize = 2;
const BEHIND: usize = 3;
/// Largest block, including the samples around it that the filter reads.
const LARGEST: usize = 16 + BEFORE + BEHIND;

/// Predicts a `W` x `H` block of one plane into `out`. (`x`, `y`) is the block's position in the plane. The vector is
/// in eighths of a sample.
#[inline]
pub(crate) fn predict<const W: usize, const H: usize>(
    reference: &[u8],
    plane: &PlaneLayout,
    (x, y): (i32, i32),
    (vector_x, vector_y): (i32, i32),
    interpolation: Interpolation,
    out: &mut [u8],
    out_stride: usize,
) {
    let (x, y) = (x + (vector_x >> 3), y + (vector_y >> 3));
    let (fraction_x, fraction_y) = ((vector_x & 7) as usize, (vector_y & 7) as usize);
    let border = BORDER as i32;
    let (before, behind) = (BEFORE as i32, BEHIND as i32);
    let inside = x - before >= -border
        && y - before >= -border
        && x + W as i32 + behind <= plane.width as i32 + border
        && y + H as i32 + behind <= plane.height as i32 + border;
    if inside {
        let at = (plane.origin as i64 + i64::from(y) * plane.stride as i64 + i64::from(x)) as usize;
        filter::<W, H>(reference, at, plane.stride, (fraction_x, fraction_y), interpolation, out, out_stride);
    } else {
        // Vector instructions read a few bytes past the block.
        let mut block = [0u8; LARGEST * LARGEST + 16];
        for row in 0..H + BEFORE + BEHIND {
            let source_y = (y - before + row as i32).clamp(0, plane.height as i32 - 1) as usize;
            let line = &reference[plane.origin + source_y * plane.stride..][..plane.width];
            for column in 0..W + BEFORE + BEHIND {
                let source_x = (x - before + column as i32).clamp(0, plane.width as i32 - 1) as usize;
                block[row * LARGEST + column] = line[source_x];
            }
        }
        let at = BEFORE * LARGEST + BEFORE;
        filter::<W, H>(&block, at, LARGEST, (fraction_x, fraction_y), interpolation, out, out_stride);
    }
}

/// Predicts a block that starts at index `at` of `source`, which includes the samples around it that the filter reads.
#[inline]
pub(crate) fn filter<const W: usize, const H: usize>(
    source: &[u8],
    at: usize,
    stride: usize,
    (fraction_x, fraction_y): (usize, usize),
    interpolation: Interpolation,
    out: &mut [u8],
    out_stride: usize,
) {
    match (interpolation, fraction_x, fraction_y) {
        (_, 0, 0) => copy_block::<W, H>(&source[at..], stride, out, out_stride),
        (Interpolation::SixTap, ..) => {
            #[cfg(target_arch = "x86_64")]
            if super::six_tap_x86::six_tap::<W, H>(source, at, stride, (fraction_x, fraction_y), out, out_stride) {
                return;
            }
            #[cfg(target_arch = "aarch64")]
            super::six_tap_neon::six_tap::<W, H>(source, at, stride, (fraction_x, fraction_y), out, out_stride);
            #[cfg(simd128)]
            super::six_tap_simd128::six_tap::<W, H>(source, at, stride, (fraction_x, fraction_y), out, out_stride);
            #[cfg(not(any(target_arch = "aarch64", simd128)))]
            six_tap::<W, H>(source, at, stride, (fraction_x, fraction_y), out, out_stride);
        }
        (Interpolation::Bilinear, ..) => {
            bilinear::<W, H>(source, at, stride, (fraction_x, fraction_y), out, out_stride);
        }
    }
}

/// The six-tap filter: horizontally, then vertically. A fraction of zero copies the samples.
#[cfg_attr(not(test), allow(dead_code, reason = "a processor may have vector instructions for all functions"))]
pub(crate) fn six_tap<const W: usize, const H: usize>(
    source: &[u8],
    at: usize,
    stride: usize,
    (fraction_x, fraction_y): (usize, usize),
    out: &mut [u8],
    out_stride: usize,
) {
    if fraction_y == 0 {
        for y in 0..H {
            let from = &source[at + y * stride - BEFORE..];
            let six =
                std::array::from_fn(|tap| from[tap..].first_chunk::<W>().expect("a row with the samples around it"));
            *row_mut::<W>(out, y * out_stride) = weigh_six(six, &SIX_TAPS[fraction_x]);
        }
        return;
    }
    let mut middle = [[0u8; W]; LARGEST];
    let first = at - BEFORE * stride;
    for (y, line) in middle.iter_mut().enumerate().take(H + BEFORE + BEHIND) {
        *line = if fraction_x == 0 {
            *source[first + y * stride..].first_chunk::<W>().expect("a row")
        } else {
            let from = &source[first + y * stride - BEFORE..];
            let six =
                std::array::from_fn(|tap| from[tap..].first_chunk::<W>().expect("a row with the samples around it"));
            weigh_six(six, &SIX_TAPS[fraction_x])
        };
    }
    for y in 0..H {
        let six = std::array::from_fn(|tap| &middle[y + tap]);
        *row_mut::<W>(out, y * out_stride) = weigh_six(six, &SIX_TAPS[fraction_y]);
    }
}

/// The `W` samples from index `at` on.
#[inline(always)]
fn row_mut<const W: usize>(samples: &mut [u8], at: usize) -> &mut [u8; W] {
    samples[at..].first_chunk_mut().expect("a block lies in its plane")
}

/// Weights six rows by the taps of a filter, which have a sum of 128.
///
/// 16 bits suffice. Every product fits, and so does every sum without one of the two inner taps: inner taps are never
/// negative, the next ones never positive. A complete sum that does not fit saturates, and the result is 255 in both
/// cases.
#[inline(always)]
fn weigh_six<const W: usize>(rows: [&[u8; W]; 6], taps: &[i16; 6]) -> [u8; W] {
    let mut weighed = [0; W];
    for (x, sample) in weighed.iter_mut().enumerate() {
        let product = |tap: usize| i16::from(rows[tap][x]).wrapping_mul(taps[tap]);
        let outer = product(0).wrapping_add(product(5)).wrapping_add(product(1)).wrapping_add(product(4));
        let sum = outer.wrapping_add(64).wrapping_add(product(2)).saturating_add(product(3));
        *sample = (sum >> 7).clamp(0, 255) as u8;
    }
    weighed
}

/// The bilinear filter: horizontally, then vertically.
fn bilinear<const W: usize, const H: usize>(
    source: &[u8],
    at: usize,
    stride: usize,
    (fraction_x, fraction_y): (usize, usize),
    out: &mut [u8],
    out_stride: usize,
) {
    let mut middle = [[0u8; W]; LARGEST];
    for (y, line) in middle.iter_mut().enumerate().take(H + 1) {
        let from = &source[at + y * stride..];
        let two = [0, 1].map(|tap| from[tap..].first_chunk::<W>().expect("a row and the sample after it"));
        *line = weigh_two(two, fraction_x);
    }
    for y in 0..H {
        *row_mut::<W>(out, y * out_stride) = weigh_two([&middle[y], &middle[y + 1]], fraction_y);
    }
}

/// Interpolates two rows at `fraction` eighths from the first to the second.
#[inline(always)]
fn weigh_two<const W: usize>([first, second]: [&[u8; W]; 2], fraction: usize) -> [u8; W] {
    let weight = 16 * fraction as u16;
    let mut weighed = [0; W];
    for (x, sample) in weighed.iter_mut().enumerate() {
        *sample = ((u16::from(first[x]) * (128 - weight) + u16::from(second[x]) * weight + 64) >> 7) as u8;
    }
    weighed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saturated_sums_equal_wider_sums() {
        let mut random = 1u32;
        for round in 0..20_000 {
            let rows: [[u8; 4]; 6] = std::array::from_fn(|_| {
                std::array::from_fn(|_| {
                    random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    // Extreme values can overflow.
                    match random >> 30 {
                        0 => 0,
                        1 => 255,
                        _ => (random >> 16) as u8,
                    }
                })
            });
            let taps = &SIX_TAPS[round % 8];
            let expected: [u8; 4] = std::array::from_fn(|x| {
                let sum: i32 = (0..6).map(|tap| i32::from(rows[tap][x]) * i32::from(taps[tap])).sum();
                ((sum + 64) >> 7).clamp(0, 255) as u8
            });
            assert_eq!(weigh_six(rows.each_ref(), taps), expected);
        }
    }

    proptest::proptest! {
        #[test]
        fn vector_filter_equals_portable_filter(
            samples in proptest::collection::vec(proptest::prelude::any::<u8>(), 32 * 24),
            extreme: bool,
            (fraction_x, fraction_y) in (0usize..8, 0usize..8),
            at in 2 * 32 + 2usize..2 * 32 + 8,
        ) {
            fn check<const W: usize, const H: usize>(samples: &[u8], at: usize, fractions: (usize, usize)) {
                let (mut vector, mut scalar) = ([7u8; 20 * 16], [7u8; 20 * 16]);
                filter::<W, H>(samples, at, 32, fractions, Interpolation::SixTap, &mut vector, 20);
                six_tap::<W, H>(samples, at, 32, fractions, &mut scalar, 20);
                assert_eq!(vector, scalar, "{W}x{H}");
            }
            let samples: Vec<u8> =
                if extreme { samples.into_iter().map(|n| if n < 128 { 0 } else { 255 }).collect() } else { samples };
            let fractions = (fraction_x, fraction_y);
            check::<16, 16>(&samples, at, fractions);
            check::<8, 8>(&samples, at, fractions);
            check::<8, 4>(&samples, at, fractions);
            check::<4, 4>(&samples, at, fractions);
            check::<16, 8>(&samples, at, fractions);
            check::<8, 16>(&samples, at, fractions);
        }
    }
}
