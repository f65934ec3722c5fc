//! SSE2 version, for every x86-64 processor. `portable` is the scalar version.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

/// Copies `H` rows of `W` samples from rows `from_stride` apart to rows `to_stride` apart.
#[inline]
pub(crate) fn copy_block<const W: usize, const H: usize>(
    from: &[u8],
    from_stride: usize,
    to: &mut [u8],
    to_stride: usize,
) {
    const { assert!((W == 4 || W == 8 || W == 16) && H > 0) };
    let (from, to) = (&from[..(H - 1) * from_stride + W], &mut to[..(H - 1) * to_stride + W]);
    let (from, to) = (from.as_ptr(), to.as_mut_ptr());
    for y in 0..H {
        // SAFETY: both slices have been cut to contain the rows of `W` samples.
        unsafe {
            let (from, to) = (from.add(y * from_stride), to.add(y * to_stride));
            match W {
                16 => _mm_storeu_si128(to.cast(), _mm_loadu_si128(from.cast())),
                8 => _mm_storel_epi64(to.cast(), _mm_loadl_epi64(from.cast())),
                _ => _mm_storeu_si32(to, _mm_loadu_si32(from)),
            }
        }
    }
}
