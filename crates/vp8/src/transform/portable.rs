//! The inverse DCT in portable code.

use super::angles::{COSINE, SINE};

#[inline(always)]
fn times_cosine(value: i16) -> i16 {
    value.wrapping_add(((i32::from(value) * COSINE) >> 16) as i16)
}

#[inline(always)]
fn times_sine(value: i16) -> i16 {
    value.wrapping_add(((i32::from(value) * (SINE - 65_536)) >> 16) as i16)
}

/// One-dimensional inverse DCT along the first index, at four positions.
#[inline(always)]
fn butterfly(input: [[i16; 4]; 4]) -> [[i16; 4]; 4] {
    let mut output = [[0i16; 4]; 4];
    for lane in 0..4 {
        let [i0, i1, i2, i3] = [input[0][lane], input[1][lane], input[2][lane], input[3][lane]];
        let (a, b) = (i0.wrapping_add(i2), i0.wrapping_sub(i2));
        let c = times_sine(i1).wrapping_sub(times_cosine(i3));
        let d = times_cosine(i1).wrapping_add(times_sine(i3));
        output[0][lane] = a.wrapping_add(d);
        output[1][lane] = b.wrapping_add(c);
        output[2][lane] = b.wrapping_sub(c);
        output[3][lane] = a.wrapping_sub(d);
    }
    output
}

#[inline(always)]
fn transposed(rows: [[i16; 4]; 4]) -> [[i16; 4]; 4] {
    std::array::from_fn(|y| std::array::from_fn(|x| rows[x][y]))
}

/// Inverse DCT of `coefficients` (raster order), added to the 4x4 samples at the start of `samples`.
#[inline]
pub(crate) fn inverse_dct_add(coefficients: &[i16; 16], samples: &mut [u8], stride: usize) {
    let rows = std::array::from_fn(|y| std::array::from_fn(|x| coefficients[4 * y + x]));
    let residual = transposed(butterfly(transposed(butterfly(rows))));
    let samples = &mut samples[..3 * stride + 4];
    for (y, row) in residual.into_iter().enumerate() {
        let out = &mut samples[y * stride..y * stride + 4];
        for (sample, value) in out.iter_mut().zip(row) {
            *sample = (i16::from(*sample).wrapping_add(value.wrapping_add(4) >> 3)).clamp(0, 255) as u8;
        }
    }
}

/// Inverse DCTs of two blocks, added to the 4x8 samples at the start of `samples`.
pub(crate) fn inverse_dct_add_pair(blocks: &[[i16; 16]; 2], samples: &mut [u8], stride: usize) {
    inverse_dct_add(&blocks[0], samples, stride);
    inverse_dct_add(&blocks[1], &mut samples[4..], stride);
}

/// Inverse DCTs of two blocks with DC coefficients only, added to the 4x8 samples at the start of `samples`.
pub(crate) fn inverse_dct_add_dc_pair(dc: [i16; 2], samples: &mut [u8], stride: usize) {
    for (row, _) in samples.chunks_mut(stride).zip(0..4) {
        for (x, sample) in row[..8].iter_mut().enumerate() {
            let residual = dc[x / 4].wrapping_add(4) >> 3;
            *sample = i16::from(*sample).wrapping_add(residual).clamp(0, 255) as u8;
        }
    }
}
