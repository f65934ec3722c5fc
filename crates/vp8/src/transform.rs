//! The inverse transforms (RFC 6386, section 14).
//!
//! The inverse DCT computes in 16 bits and wraps on overflow, as vector instructions do. Residuals of eight-bit samples
//! never overflow.

mod angles;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg_attr(not(test), allow(dead_code, reason = "a processor may have vector instructions for all functions"))]
pub(crate) mod portable;
#[cfg(simd128)]
mod simd128;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(target_arch = "aarch64")]
pub(crate) use neon::{inverse_dct_add, inverse_dct_add_dc_pair, inverse_dct_add_pair, transposed};
#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64", simd128)))]
pub(crate) use portable::{inverse_dct_add, inverse_dct_add_dc_pair, inverse_dct_add_pair};
#[cfg(simd128)]
pub(crate) use simd128::{inverse_dct_add, inverse_dct_add_dc_pair, inverse_dct_add_pair};
#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{inverse_dct_add, inverse_dct_add_dc_pair, inverse_dct_add_pair};

/// Inverse Walsh-Hadamard transform of the Y2 block. Value `i` is the DC coefficient of subblock `i`.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn vector_transform_equals_portable_transform(
            blocks in any::<[[i16; 16]; 2]>(),
            shift in 0u32..12,
            samples in proptest::collection::vec(any::<u8>(), 48),
        ) {
            let blocks = blocks.map(|block| block.map(|value| value >> shift));
            type Transform = fn(&[[i16; 16]; 2], &mut [u8]);
            let pairs: [[Transform; 2]; 3] = [
                [|b, s| inverse_dct_add(&b[0], s, 11), |b, s| portable::inverse_dct_add(&b[0], s, 11)],
                [|b, s| inverse_dct_add_pair(b, s, 11), |b, s| portable::inverse_dct_add_pair(b, s, 11)],
                [
                    |b, s| inverse_dct_add_dc_pair([b[0][0], b[1][0]], s, 11),
                    |b, s| portable::inverse_dct_add_dc_pair([b[0][0], b[1][0]], s, 11),
                ],
            ];
            for [vector, scalar] in pairs {
                let (mut a, mut b) = (samples.clone(), samples.clone());
                vector(&blocks, &mut a);
                scalar(&blocks, &mut b);
                prop_assert_eq!(a, b);
            }
        }
    }
}
