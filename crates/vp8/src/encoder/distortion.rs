//! Distances between two blocks of samples.
//!
//! The functions are free functions over slices and strides, with one version per instruction set.

#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg_attr(not(test), allow(dead_code, reason = "a processor may have vector instructions for all functions"))]
pub(crate) mod portable;
#[cfg(simd128)]
mod simd128;
mod subblock_differences;
#[cfg(target_arch = "x86_64")]
mod two_rows;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(target_arch = "aarch64")]
pub(crate) use neon::{compare_subblocks, row_squared_error, sad, sad_between, sad_each, satd, satd_4x4, sse};
#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64", simd128)))]
pub(crate) use portable::{compare_subblocks, row_squared_error, sad, sad_between, sad_each, satd, satd_4x4, sse};
#[cfg(simd128)]
pub(crate) use simd128::{compare_subblocks, row_squared_error, sad, sad_between, sad_each, satd, satd_4x4, sse};
#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{compare_subblocks, row_squared_error, sad, sad_between, sad_each, satd, satd_4x4, sse};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Noise: sixteen rows of samples, 20 apart.
    fn noise(seed: u32) -> Vec<u8> {
        (0..20 * 16u32).map(|i| (i.wrapping_mul(2_654_435_761).wrapping_add(seed * 977) >> 13) as u8).collect()
    }

    #[test]
    fn sums_match_their_definitions() {
        let (a, b) = (noise(1), noise(2));
        let differences = |w: usize, h: usize| {
            let (a, b) = (a.clone(), b.clone());
            (0..w * h).map(move |i| u32::from(a[i / w * 20 + i % w].abs_diff(b[i / w * 20 + i % w])))
        };
        assert_eq!(sad::<16, 16>(&a, 20, &b, 20), differences(16, 16).sum::<u32>());
        assert_eq!(sad::<8, 16>(&a, 20, &b, 20), differences(8, 16).sum::<u32>());
        assert_eq!(sse::<16, 8>(&a, 20, &b, 20), differences(16, 8).map(|d| d * d).sum::<u32>());
        assert_eq!(sse::<4, 4>(&a, 20, &b, 20), differences(4, 4).map(|d| d * d).sum::<u32>());
    }

    #[test]
    fn satd_of_a_block_is_the_sum_over_its_subblocks() {
        let (a, b) = (noise(3), noise(4));
        let mut one_by_one = 0;
        for at in (0..16).step_by(4).flat_map(|y| (0..16).step_by(4).map(move |x| 20 * y + x)) {
            one_by_one += portable::satd_4x4(&a[at..], 20, &b[at..], 20);
        }
        assert_eq!(satd::<16, 16>(&a, 20, &b, 20), one_by_one);
        assert_eq!(satd_4x4(&[10; 16], 4, &[7; 16], 4), 8 * 3);
    }

    /// Arbitrary samples, or only the two extreme values.
    fn samples() -> impl Strategy<Value = Vec<u8>> {
        (any::<bool>(), proptest::collection::vec(any::<u8>(), 24 * 18)).prop_map(|(extreme, samples)| {
            samples.into_iter().map(|n| if extreme { 255 * (n >> 7) } else { n }).collect()
        })
    }

    proptest! {
        #[test]
        fn vector_distances_equal_portable_distances(
            (a, b) in (samples(), samples()),
            (x, y) in (0usize..4, 0usize..4),
            limit in 0u32..6_000_000,
        ) {
            fn check<const W: usize, const H: usize>(a: &[u8], b: &[u8]) {
                // Slices that contain only what the functions may read.
                let (a, b) = (&a[..20 * (H - 1) + W], &b[..24 * (H - 1) + W]);
                assert_eq!(sad::<W, H>(a, 20, b, 24), portable::sad::<W, H>(a, 20, b, 24), "{W}x{H}");
                assert_eq!(sse::<W, H>(a, 20, b, 24), portable::sse::<W, H>(a, 20, b, 24), "{W}x{H}");
                assert_eq!(satd::<W, H>(a, 20, b, 24), portable::satd::<W, H>(a, 20, b, 24), "{W}x{H}");
            }
            fn check_between<const W: usize, const H: usize>(a: &[u8], b: &[u8], fractions: (usize, usize)) {
                assert_eq!(
                    sad_between::<W, H>(a, 20, b, 24, fractions),
                    portable::sad_between::<W, H>(a, 20, b, 24, fractions),
                    "{W}x{H} at {fractions:?}"
                );
            }
            fn check_each<const W: usize, const H: usize>(a: &[u8], b: &[u8]) {
                let (source, places) = (&a[..20 * (H - 1) + W], [0, 3, 9, 24]);
                assert_eq!(
                    sad_each::<W, H, 4>(source, 20, b, 24, places),
                    portable::sad_each::<W, H, 4>(source, 20, b, 24, places),
                    "{W}x{H}"
                );
            }
            check_each::<16, 16>(&a, &b);
            check_each::<8, 8>(&a, &b);
            check::<16, 16>(&a, &b);
            check::<8, 8>(&a, &b);
            check::<4, 4>(&a, &b);
            prop_assert_eq!(row_squared_error(&a[..75], &b[..75]), portable::row_squared_error(&a[..75], &b[..75]));
            let (large, small) = (20 * 15 + 16, 20 * 7 + 8);
            prop_assert_eq!(
                compare_subblocks::<16, 16, 16>(&a[..large], 20, &b, 20, limit),
                portable::compare_subblocks::<16, 16, 16>(&a, 20, &b, 20, limit)
            );
            prop_assert_eq!(
                compare_subblocks::<8, 8, 4>(&a[..small], 20, &b, 20, limit),
                portable::compare_subblocks::<8, 8, 4>(&a, 20, &b, 20, limit)
            );
            check_between::<16, 16>(&a, &b, (x, y));
            check_between::<8, 8>(&a, &b, (x, y));
            prop_assert_eq!(satd_4x4(&a, 20, &b, 24), portable::satd_4x4(&a, 20, &b, 24));
        }
    }
}
