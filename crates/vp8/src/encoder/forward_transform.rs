//! The forward transforms: the encoder's side of RFC 6386, section 14, scaled so that the decoder's inverses undo them.

/// sqrt(2) * sin(pi / 8), in 1/4096.
const SINE: i32 = 2217;
/// sqrt(2) * cos(pi / 8), in 1/4096.
const COSINE: i32 = 5352;

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
    let mut rows = [[0i32; 4]; 4];
    for (y, row) in rows.iter_mut().enumerate() {
        let s = &source[y * source_stride..][..4];
        let p = &prediction[y * prediction_stride..][..4];
        let d: [i32; 4] = std::array::from_fn(|x| i32::from(s[x]) - i32::from(p[x]));
        let (outer, inner) = (d[0] + d[3], d[1] + d[2]);
        let (inner_difference, outer_difference) = (d[1] - d[2], d[0] - d[3]);
        // Three fraction bits are kept between the passes.
        *row = [
            (outer + inner) * 8,
            (inner_difference * SINE + outer_difference * COSINE + 256) >> 9,
            (outer - inner) * 8,
            (outer_difference * SINE - inner_difference * COSINE + 256) >> 9,
        ];
    }
    for x in 0..4 {
        let (outer, inner) = (rows[0][x] + rows[3][x], rows[1][x] + rows[2][x]);
        let (inner_difference, outer_difference) = (rows[1][x] - rows[2][x], rows[0][x] - rows[3][x]);
        output[x] = ((outer + inner + 8) >> 4) as i16;
        output[4 + x] = ((inner_difference * SINE + outer_difference * COSINE + (1 << 15)) >> 16) as i16;
        output[8 + x] = ((outer - inner + 8) >> 4) as i16;
        output[12 + x] = ((outer_difference * SINE - inner_difference * COSINE + (1 << 15)) >> 16) as i16;
    }
}

/// The 4x4 Walsh-Hadamard transform of the sixteen luma DCs of a macroblock.
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
            // Halved, rounding away from zero as little as towards it.
            output[4 * y + x] = ((sum + i32::from(sum > 0)) >> 1) as i16;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::{inverse_dct_add, inverse_wht};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_inverse_gives_the_source_back(source in any::<[u8; 16]>(), prediction in any::<[u8; 16]>()) {
            let mut coefficients = [0; 16];
            forward_dct(&source, 4, &prediction, 4, &mut coefficients);
            let mut restored = prediction;
            inverse_dct_add(&coefficients, &mut restored, 4);
            for (a, b) in source.iter().zip(restored) {
                prop_assert!(a.abs_diff(b) <= 1, "{source:?} {restored:?}");
            }
        }

        #[test]
        fn the_inverse_gives_the_dcs_back(dcs in proptest::array::uniform16(-2048i16..2048)) {
            let mut coefficients = [0; 16];
            forward_wht(&dcs, &mut coefficients);
            for (a, b) in dcs.iter().zip(inverse_wht(&coefficients)) {
                prop_assert!((a - b).abs() <= 2, "{dcs:?}");
            }
        }
    }
}
