//! Prediction from reference frames (RFC 6386, section 18).
//!
//! A reference extends without end: beyond its macroblock-aligned edge stands the nearest sample of the edge. Frames
//! carry a border of [`BORDER`] such samples; a block that reaches beyond that is gathered sample by sample.

use crate::frame::{BORDER, PlaneLayout};
use crate::tables::SIX_TAPS;

/// Which filter makes the samples between samples (section 5: by the stream's version).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interpolation {
    SixTap,
    Bilinear,
}

/// Samples that the six-tap filter reads before and behind a block.
const BEFORE: usize = 2;
const BEHIND: usize = 3;
/// The largest block with what the filter reads around it.
const LARGEST: usize = 16 + BEFORE + BEHIND;

/// Predicts a `W` x `H` block of one plane into `out`. (`x`, `y`) is the block's place in the plane; the vector is in
/// eighths of a sample.
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
        let mut block = [0u8; LARGEST * LARGEST];
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

#[inline]
fn filter<const W: usize, const H: usize>(
    source: &[u8],
    at: usize,
    stride: usize,
    (fraction_x, fraction_y): (usize, usize),
    interpolation: Interpolation,
    out: &mut [u8],
    out_stride: usize,
) {
    match (interpolation, fraction_x, fraction_y) {
        (_, 0, 0) => {
            for row in 0..H {
                let from = at + row * stride;
                out[row * out_stride..row * out_stride + W].copy_from_slice(&source[from..from + W]);
            }
        }
        (Interpolation::SixTap, ..) => six_tap::<W, H>(source, at, stride, (fraction_x, fraction_y), out, out_stride),
        (Interpolation::Bilinear, ..) => {
            bilinear::<W, H>(source, at, stride, (fraction_x, fraction_y), out, out_stride);
        }
    }
}

/// The six-tap filter, first along rows, then along columns; a fraction of zero passes samples through.
fn six_tap<const W: usize, const H: usize>(
    source: &[u8],
    at: usize,
    stride: usize,
    (fraction_x, fraction_y): (usize, usize),
    out: &mut [u8],
    out_stride: usize,
) {
    let mut middle = [[0u8; W]; LARGEST];
    let taps = SIX_TAPS[fraction_x];
    let (first, count) = if fraction_y == 0 { (BEFORE, H) } else { (0, H + BEFORE + BEHIND) };
    for (row, line) in middle.iter_mut().enumerate().skip(first).take(count) {
        let from = at + row * stride - BEFORE * stride;
        if fraction_x == 0 {
            line.copy_from_slice(&source[from..from + W]);
            continue;
        }
        let samples = &source[from - BEFORE..from + W + BEHIND];
        for x in 0..W {
            let mut sum = 64i32;
            for (tap, &weight) in taps.iter().enumerate() {
                sum += i32::from(samples[x + tap]) * i32::from(weight);
            }
            line[x] = (sum >> 7).clamp(0, 255) as u8;
        }
    }
    let taps = SIX_TAPS[fraction_y];
    for y in 0..H {
        let line = &mut out[y * out_stride..y * out_stride + W];
        if fraction_y == 0 {
            line.copy_from_slice(&middle[y + BEFORE]);
            continue;
        }
        for (x, sample) in line.iter_mut().enumerate() {
            let mut sum = 64i32;
            for (tap, &weight) in taps.iter().enumerate() {
                sum += i32::from(middle[y + tap][x]) * i32::from(weight);
            }
            *sample = (sum >> 7).clamp(0, 255) as u8;
        }
    }
}

/// The bilinear filter, first along rows, then along columns.
fn bilinear<const W: usize, const H: usize>(
    source: &[u8],
    at: usize,
    stride: usize,
    (fraction_x, fraction_y): (usize, usize),
    out: &mut [u8],
    out_stride: usize,
) {
    let mut middle = [[0u8; W]; LARGEST];
    let weigh = |a: u8, b: u8, fraction: usize| {
        let second = 16 * fraction as u32;
        ((u32::from(a) * (128 - second) + u32::from(b) * second + 64) >> 7) as u8
    };
    for (row, line) in middle.iter_mut().enumerate().take(H + 1) {
        let samples = &source[at + row * stride..at + row * stride + W + 1];
        for x in 0..W {
            line[x] = weigh(samples[x], samples[x + 1], fraction_x);
        }
    }
    for y in 0..H {
        for x in 0..W {
            out[y * out_stride + x] = weigh(middle[y][x], middle[y + 1][x], fraction_y);
        }
    }
}
