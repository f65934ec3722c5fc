//! The forward transforms: the encoder's side of RFC 6386, section 14, scaled to match the decoder's inverse
//! transforms.

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
pub(crate) use neon::{forward_dct, forward_dct_pair};
#[cfg(target_arch = "aarch64")]
pub(crate) use portable::forward_wht;
#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64", simd128)))]
pub(crate) use portable::{forward_dct, forward_dct_pair, forward_wht};
#[cfg(simd128)]
pub(crate) use simd128::{forward_dct, forward_dct_pair, forward_wht};
#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{forward_dct, forward_dct_pair, forward_wht};

/// [`forward_dct`] of all blocks of a `W` x `W` plane of a macroblock, row by row. `output` has one element per block.
/// The rows of `prediction` are contiguous.
#[inline]
pub(crate) fn forward_dct_plane<const W: usize>(
    source: &[u8],
    source_stride: usize,
    prediction: &[u8],
    output: &mut [[i16; 16]],
) {
    #[cfg(target_arch = "x86_64")]
    if x86::forward_dct_plane::<W>(source, source_stride, prediction, output) {
        return;
    }
    for (index, pair) in output.as_chunks_mut().0.iter_mut().enumerate() {
        let (x, y) = (8 * index % W, 8 * index / W * 4);
        forward_dct_pair(&source[y * source_stride + x..], source_stride, &prediction[y * W + x..], W, pair);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::{inverse_dct_add, inverse_wht};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn inverse_dct_restores_the_source(source in any::<[u8; 16]>(), prediction in any::<[u8; 16]>()) {
            let mut coefficients = [0; 16];
            forward_dct(&source, 4, &prediction, 4, &mut coefficients);
            let mut restored = prediction;
            inverse_dct_add(&coefficients, &mut restored, 4);
            for (a, b) in source.iter().zip(restored) {
                prop_assert!(a.abs_diff(b) <= 1, "{source:?} {restored:?}");
            }
        }

        #[test]
        fn inverse_wht_restores_the_dcs(dcs in proptest::array::uniform16(-2048i16..2048)) {
            let mut coefficients = [0; 16];
            forward_wht(&dcs, &mut coefficients);
            for (a, b) in dcs.iter().zip(inverse_wht(&coefficients)) {
                prop_assert!((a - b).abs() <= 2, "{dcs:?}");
            }
        }

        #[test]
        fn vector_wht_equals_portable_wht(
            dcs in proptest::array::uniform16(-2048i16..2048),
            extreme: bool,
        ) {
            let dcs = if extreme { dcs.map(|dc| if dc < 0 { -2048 } else { 2047 }) } else { dcs };
            let mut coefficients = [[0; 16]; 2];
            portable::forward_wht(&dcs, &mut coefficients[0]);
            forward_wht(&dcs, &mut coefficients[1]);
            prop_assert_eq!(coefficients[0], coefficients[1]);
        }

        #[test]
        fn vector_dct_equals_portable_dct(
            source in proptest::collection::vec(any::<u8>(), 3 * 9 + 8),
            prediction in proptest::collection::vec(any::<u8>(), 3 * 11 + 8),
            extreme: bool,
        ) {
            let spread = |samples: Vec<u8>| -> Vec<u8> {
                samples.into_iter().map(|n| if extreme { 255 * (n >> 7) } else { n }).collect()
            };
            let (source, prediction) = (spread(source), spread(prediction));
            let (mut one, mut pair) = ([[0; 16]; 2], [[[0; 16]; 2]; 2]);
            portable::forward_dct(&source, 9, &prediction, 11, &mut one[0]);
            forward_dct(&source, 9, &prediction, 11, &mut one[1]);
            prop_assert_eq!(one[0], one[1]);
            portable::forward_dct_pair(&source, 9, &prediction, 11, &mut pair[0]);
            forward_dct_pair(&source, 9, &prediction, 11, &mut pair[1]);
            prop_assert_eq!(pair[0], pair[1]);
            prop_assert_eq!(pair[0][0], one[0]);
        }

        #[test]
        fn plane_transform_equals_single_blocks(
            source in proptest::collection::vec(any::<u8>(), 15 * 19 + 16),
            prediction in proptest::array::uniform32(any::<[u8; 8]>()),
            extreme: bool,
        ) {
            let spread = |samples: &[u8]| -> Vec<u8> {
                samples.iter().map(|&n| if extreme { 255 * (n >> 7) } else { n }).collect()
            };
            let (source, prediction) = (spread(&source), spread(prediction.as_flattened()));
            let mut whole = [[0; 16]; 16];
            let mut one = [0; 16];
            forward_dct_plane::<16>(&source, 19, &prediction, &mut whole);
            for (index, block) in whole.iter().enumerate() {
                let (x, y) = (4 * (index % 4), 4 * (index / 4));
                portable::forward_dct(&source[19 * y + x..], 19, &prediction[16 * y + x..], 16, &mut one);
                prop_assert_eq!(block, &one);
            }
            forward_dct_plane::<8>(&source, 19, &prediction, &mut whole[..4]);
            for (index, block) in whole[..4].iter().enumerate() {
                let (x, y) = (4 * (index % 2), 4 * (index / 2));
                portable::forward_dct(&source[19 * y + x..], 19, &prediction[8 * y + x..], 8, &mut one);
                prop_assert_eq!(block, &one);
            }
        }
    }
}
