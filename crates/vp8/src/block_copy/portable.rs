//! The kernels in portable code.

/// Copies `H` rows of `W` samples from rows `from_stride` apart to rows `to_stride` apart.
pub(crate) fn copy_block<const W: usize, const H: usize>(
    from: &[u8],
    from_stride: usize,
    to: &mut [u8],
    to_stride: usize,
) {
    for y in 0..H {
        to[y * to_stride..][..W].copy_from_slice(&from[y * from_stride..][..W]);
    }
}
