//! The inverse transforms (RFC 6386, section 14).

/// sqrt(2) cos(pi / 8) - 1 and sqrt(2) sin(pi / 8), in 16 fractional bits (section 14.3).
const COSINE: i32 = 20_091;
const SINE: i32 = 35_468;

#[inline(always)]
fn times_cosine(value: i32) -> i32 {
    value + ((value * COSINE) >> 16)
}

#[inline(always)]
fn times_sine(value: i32) -> i32 {
    (value * SINE) >> 16
}

/// One-dimensional inverse DCT of four values.
#[inline(always)]
fn butterfly(input: [i32; 4]) -> [i32; 4] {
    let (a, b) = (input[0] + input[2], input[0] - input[2]);
    let c = times_sine(input[1]) - times_cosine(input[3]);
    let d = times_cosine(input[1]) + times_sine(input[3]);
    [a + d, b + c, b - c, a - d]
}

/// Inverse DCT of `coefficients` (raster order), added to the 4x4 samples at the start of `samples`.
#[inline]
pub(crate) fn inverse_dct_add(coefficients: &[i16; 16], samples: &mut [u8], stride: usize) {
    let mut columns = [[0i32; 4]; 4];
    for x in 0..4 {
        let column = butterfly(std::array::from_fn(|y| i32::from(coefficients[4 * y + x])));
        for y in 0..4 {
            columns[y][x] = column[y];
        }
    }
    for (y, row) in columns.into_iter().enumerate() {
        let residual = butterfly(row);
        let out = &mut samples[y * stride..y * stride + 4];
        for (sample, value) in out.iter_mut().zip(residual) {
            *sample = (i32::from(*sample) + ((value + 4) >> 3)).clamp(0, 255) as u8;
        }
    }
}

/// The same where only the first coefficient is not zero.
#[inline]
pub(crate) fn inverse_dct_add_dc(dc: i16, samples: &mut [u8], stride: usize) {
    let residual = (i32::from(dc) + 4) >> 3;
    for y in 0..4 {
        for sample in &mut samples[y * stride..y * stride + 4] {
            *sample = (i32::from(*sample) + residual).clamp(0, 255) as u8;
        }
    }
}

/// Inverse Walsh-Hadamard transform of the second-order block; value `i` is the DC coefficient of subblock `i`.
#[inline]
pub(crate) fn inverse_wht(coefficients: &[i16; 16]) -> [i16; 16] {
    let mut columns = [0i32; 16];
    for x in 0..4 {
        let input: [i32; 4] = std::array::from_fn(|y| i32::from(coefficients[4 * y + x]));
        let (a, b) = (input[0] + input[3], input[1] + input[2]);
        let (c, d) = (input[1] - input[2], input[0] - input[3]);
        columns[x] = a + b;
        columns[4 + x] = c + d;
        columns[8 + x] = a - b;
        columns[12 + x] = d - c;
    }
    let mut output = [0i16; 16];
    for y in 0..4 {
        let row = &columns[4 * y..4 * y + 4];
        let (a, b) = (row[0] + row[3], row[1] + row[2]);
        let (c, d) = (row[1] - row[2], row[0] - row[3]);
        for (x, value) in [a + b, c + d, a - b, d - c].into_iter().enumerate() {
            output[4 * y + x] = ((value + 3) >> 3) as i16;
        }
    }
    output
}
