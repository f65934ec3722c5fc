//! The forward DCT on any processor.

use super::angles::{COSINE, SINE};

/// The 4x4 discrete cosine transform of `source - prediction`: the inverse gives the difference back, a DC of `c`
/// standing for `c / 8` in every sample.
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
        // Three fraction bits are kept between the passes.
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

/// [`forward_dct`] of two blocks beside each other.
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
