//! The inverse transforms (RFC 6386, section 14).

/// sqrt(2) cos(pi / 8) - 1 and sqrt(2) sin(pi / 8), in 16 fractional bits (section 14.3).
const COSINE: i32 = 20_091;
const SINE: i32 = 35_468;

/// The transforms count in 16 bits and wrap, as the vector instructions do; what an encoder makes of eight-bit samples
/// never gets there.
#[inline(always)]
fn times_cosine(value: i16) -> i16 {
    value.wrapping_add(((i32::from(value) * COSINE) >> 16) as i16)
}

#[inline(always)]
fn times_sine(value: i16) -> i16 {
    value.wrapping_add(((i32::from(value) * (SINE - 65_536)) >> 16) as i16)
}

/// Inverse DCT along the first index, for four places at once.
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

/// The same where only the first coefficient is not zero.
#[inline]
pub(crate) fn inverse_dct_add_dc(dc: i16, samples: &mut [u8], stride: usize) {
    let residual = dc.wrapping_add(4) >> 3;
    let samples = &mut samples[..3 * stride + 4];
    for y in 0..4 {
        for sample in &mut samples[y * stride..y * stride + 4] {
            *sample = (i16::from(*sample).wrapping_add(residual)).clamp(0, 255) as u8;
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
