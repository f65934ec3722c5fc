//! The forward transforms in portable code.

use super::angles::{COSINE, SINE};

/// The 4x4 DCT of `source - prediction`. The decoder's inverse restores the difference. A DC coefficient of `c` stands
/// for `c / 8` in every sample.
#[inline]
pub(crate) fn forward_dct(
    source: &[u8],
    source_stride: usize,
    prediction: &[u8],
    prediction_stride: usize,
    output: &mut [i16; 16],
) {
    let mut columns = [[0i32; 4]; 4];
    for (x, column) in columns.iter_mut().enumerate() {
        let d: [i32; 4] = std::array::from_fn(|y| {
            i32::from(source[y * source_stride + x]) - i32::from(prediction[y * prediction_stride + x])
        });
        let (outer, inner) = (d[0] + d[3], d[1] + d[2]);
        let (inner_difference, outer_difference) = (d[1] - d[2], d[0] - d[3]);
        // Three fractional bits are kept between the passes.
        *column = [
            (outer + inner) * 8,
            (inner_difference * SINE + outer_difference * COSINE + 256) >> 9,
            (outer - inner) * 8,
            (outer_difference * SINE - inner_difference * COSINE + 256) >> 9,
        ];
    }
    for y in 0..4 {
        let (outer, inner) = (columns[0][y] + columns[3][y], columns[1][y] + columns[2][y]);
        let (inner_difference, outer_difference) = (columns[1][y] - columns[2][y], columns[0][y] - columns[3][y]);
        output[4 * y] = ((outer + inner + 8) >> 4) as i16;
        output[4 * y + 1] = ((inner_difference * SINE + outer_difference * COSINE + (1 << 15)) >> 16) as i16;
        output[4 * y + 2] = ((outer - inner + 8) >> 4) as i16;
        output[4 * y + 3] = ((outer_difference * SINE - inner_difference * COSINE + (1 << 15)) >> 16) as i16;
    }
}

/// [`forward_dct`] of two adjacent blocks.
#[inline]
pub(crate) fn forward_dct_pair(
    source: &[u8],
    source_stride: usize,
    prediction: &[u8],
    prediction_stride: usize,
    output: &mut [[i16; 16]; 2],
) {
    for (block, output) in output.iter_mut().enumerate() {
        forward_dct(&source[4 * block..], source_stride, &prediction[4 * block..], prediction_stride, output);
    }
}

/// The 4x4 Walsh-Hadamard transform of the 16 luma DC coefficients of a macroblock. Their magnitudes must be at most
/// 2048.
#[inline]
pub(crate) fn forward_wht(input: &[i16; 16], output: &mut [i16; 16]) {
    let mut rows = [0i32; 16];
    for y in 0..4 {
        let v: [i32; 4] = std::array::from_fn(|x| i32::from(input[4 * y + x]));
        let (a, b, c, d) = (v[0] + v[3], v[1] + v[2], v[1] - v[2], v[0] - v[3]);
        rows[4 * y] = a + b;
        rows[4 * y + 1] = c + d;
        rows[4 * y + 2] = a - b;
        rows[4 * y + 3] = d - c;
    }
    for x in 0..4 {
        let v: [i32; 4] = std::array::from_fn(|y| rows[4 * y + x]);
        let (a, b, c, d) = (v[0] + v[3], v[1] + v[2], v[1] - v[2], v[0] - v[3]);
        for (y, sum) in [a + b, c + d, a - b, d - c].into_iter().enumerate() {
            // Halves the sum and rounds halves away from zero.
            output[4 * y + x] = ((sum + i32::from(sum > 0)) >> 1) as i16;
        }
    }
}
