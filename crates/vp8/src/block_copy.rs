//! Copying of a block of samples between planes.
//!
//! A frame's macroblocks are copied two or three times. Checking the bounds once per block instead of once per row
//! makes the copy three times as fast.

#[cfg_attr(not(test), allow(dead_code, reason = "a processor may have vector instructions for this"))]
pub(crate) mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(not(target_arch = "x86_64"))]
pub(crate) use portable::copy_block;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86::copy_block;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn vector_copy_equals_portable_copy(
            samples in proptest::collection::vec(any::<u8>(), 24 * 24),
            (from, to) in (0usize..100, 0usize..100),
            (stride, out_stride) in (16usize..24, 16usize..24),
        ) {
            fn check<const W: usize, const H: usize>(from: (&[u8], usize), to: usize, out_stride: usize) {
                let (mut vector, mut scalar) = ([7u8; 24 * 24], [7u8; 24 * 24]);
                copy_block::<W, H>(from.0, from.1, &mut vector[to..], out_stride);
                portable::copy_block::<W, H>(from.0, from.1, &mut scalar[to..], out_stride);
                assert_eq!(vector, scalar, "{W}x{H}");
            }
            let from = (&samples[from..], stride);
            check::<16, 16>(from, to, out_stride);
            check::<16, 8>(from, to, out_stride);
            check::<8, 16>(from, to, out_stride);
            check::<8, 8>(from, to, out_stride);
            check::<8, 4>(from, to, out_stride);
            check::<4, 4>(from, to, out_stride);
        }
    }

    #[test]
    #[should_panic(expected = "out of range")]
    fn block_outside_of_its_plane_is_not_copied() {
        copy_block::<16, 16>(&[0; 256], 16, &mut [0; 255], 16);
    }
}
