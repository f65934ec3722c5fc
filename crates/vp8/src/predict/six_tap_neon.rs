//! The six-tap filter in NEON, which is part of aarch64. `inter::six_tap` is the scalar version with the same results.
#![allow(unsafe_code)]

use std::arch::aarch64::*;

use crate::tables::SIX_TAPS;

/// Samples that the filter reads before and after a block.
const BEFORE: usize = 2;
const BEHIND: usize = 3;

/// Predicts a block of `W` x `H` at index `at` of `source` into `out`.
#[inline]
pub(super) fn six_tap<const W: usize, const H: usize>(
    source: &[u8],
    at: usize,
    stride: usize,
    (fraction_x, fraction_y): (usize, usize),
    out: &mut [u8],
    out_stride: usize,
) {
    const { assert!((W == 4 || W == 8 || W == 16) && H <= 16) };
    let around = |fraction: usize| if fraction == 0 { (0, 0) } else { (BEFORE, BEHIND) };
    let ((left, right), (above, below)) = (around(fraction_x), around(fraction_y));
    let rows = above + H + below;
    let source = &source[at - above * stride - left..at + (H - 1 + below) * stride + W + right];
    let out = &mut out[..(H - 1) * out_stride + W];
    // SAFETY: NEON is part of aarch64. `source` and `out` have been cut to contain all rows that are read and written.
    unsafe {
        // Rows after horizontal filtering.
        let mut middle = [vdupq_n_u8(0); 16 + BEFORE + BEHIND];
        let along = Taps::new(fraction_x);
        for (y, line) in middle[..rows].iter_mut().enumerate() {
            let from = source.as_ptr().add(y * stride);
            *line = if fraction_x == 0 {
                load::<W>(from)
            } else {
                along.weigh::<W>([0, 1, 2, 3, 4, 5].map(|tap| load::<W>(from.add(tap))))
            };
        }
        let down = Taps::new(fraction_y);
        for y in 0..H {
            let line = if fraction_y == 0 {
                middle[y]
            } else {
                down.weigh::<W>([0, 1, 2, 3, 4, 5].map(|tap| middle[y + tap]))
            };
            store::<W>(out.as_mut_ptr().add(y * out_stride), line);
        }
    }
}

/// Magnitudes of a filter's taps: the second and the fifth are never positive, the others never negative.
#[derive(Clone, Copy)]
struct Taps([uint8x8_t; 6]);

impl Taps {
    #[inline(always)]
    fn new(fraction: usize) -> Self {
        // SAFETY: NEON is part of aarch64.
        Self(SIX_TAPS[fraction].map(|tap| unsafe { vdup_n_u8(tap.unsigned_abs() as u8) }))
    }

    /// Filters six rows of `W` samples to one.
    #[inline(always)]
    fn weigh<const W: usize>(self, rows: [uint8x16_t; 6]) -> uint8x16_t {
        // SAFETY: NEON is part of aarch64.
        unsafe {
            let low = self.weigh_eight(rows.map(|row| vget_low_u8(row)));
            let high = if W == 16 { self.weigh_eight(rows.map(|row| vget_high_u8(row))) } else { low };
            vcombine_u8(low, high)
        }
    }

    /// Only the last 16-bit sum can overflow, and only upwards. It then saturates, and the result is 255 in both cases.
    #[inline(always)]
    fn weigh_eight(self, rows: [uint8x8_t; 6]) -> uint8x8_t {
        let Self(taps) = self;
        // SAFETY: NEON is part of aarch64.
        unsafe {
            let sum = vmlal_u8(vmull_u8(rows[0], taps[0]), rows[5], taps[5]);
            let sum = vmlal_u8(sum, rows[2], taps[2]);
            let sum = vmlsl_u8(vmlsl_u8(sum, rows[1], taps[1]), rows[4], taps[4]);
            let last = vreinterpretq_s16_u16(vmull_u8(rows[3], taps[3]));
            vqrshrun_n_s16::<7>(vqaddq_s16(vreinterpretq_s16_u16(sum), last))
        }
    }
}

/// # Safety
/// `W` bytes can be read from `at`.
#[inline(always)]
unsafe fn load<const W: usize>(at: *const u8) -> uint8x16_t {
    // SAFETY: NEON is part of aarch64; the caller guarantees access to the bytes.
    unsafe {
        match W {
            16 => vld1q_u8(at),
            8 => vcombine_u8(vld1_u8(at), vdup_n_u8(0)),
            _ => vcombine_u8(vcreate_u8(u64::from(at.cast::<u32>().read_unaligned())), vdup_n_u8(0)),
        }
    }
}

/// # Safety
/// `W` bytes can be written at `at`.
#[inline(always)]
unsafe fn store<const W: usize>(at: *mut u8, samples: uint8x16_t) {
    // SAFETY: NEON is part of aarch64; the caller guarantees access to the bytes.
    unsafe {
        match W {
            16 => vst1q_u8(at, samples),
            8 => vst1_u8(at, vget_low_u8(samples)),
            _ => at.cast::<u32>().write_unaligned(vgetq_lane_u32::<0>(vreinterpretq_u32_u8(samples))),
        }
    }
}
