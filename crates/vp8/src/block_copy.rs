//! Copying a block of samples from one place to another. A frame's macroblocks are copied two or three times on their way;
//! to ask for each row whether it lies in its plane took twice as long as to copy it.

#[cfg_attr(not(test), allow(dead_code, reason = "a processor may have vector instructions for it"))]
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
        fn vector_instructions_copy_as_the_portable_code_does(
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
    fn a_block_that_does_not_lie_in_its_plane_is_not_copied() {
        copy_block::<16, 16>(&[0; 256], 16, &mut [0; 255], 16);
    }
}
