//! Lagrangian weights of bits against errors.

/// Weights of bits against errors at one quantizer. All costs are errors times 256, so that a bit cost (1/256 bit) only
/// needs a multiplication.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lagrangian {
    /// Squared error that is worth one bit, times 256.
    squared: u64,
    /// SATD (`distortion::satd`) that is worth one bit, times 256.
    transformed: u32,
}

impl Lagrangian {
    /// Weights for quantization in steps of `step` (on VP8's scale, which is twice the orthonormal one).
    ///
    /// At high rate, a uniform quantizer with step D has a squared error of D^2 / 12. Each bit divides it by four. The
    /// slope is ln 2 / 6 * D^2 = 0.116 D^2, where D is half of VP8's step.
    pub(crate) fn new(step: i32, key_frame: bool, trellis: bool) -> Self {
        let step = step as u64;
        // Theory gives 0.116 / 4 = 0.029 = 7.4 / 256. Measured optima are near it, and lower for frames that serve as
        // references.
        let (key_weight, inter_weight) = if trellis { TRELLIS_SQUARED_WEIGHTS } else { SQUARED_WEIGHTS };
        let weight = if key_frame { key_weight } else { inter_weight };
        let squared = (step * step * weight).max(64);
        Self { squared, transformed: (step as u32 * TRANSFORMED_WEIGHT).max(128) }
    }

    /// Weights with bits scaled by `weight` / 256 for squared errors, and roughly by its square root for SATD.
    pub(crate) fn weighed(&self, weight: u16) -> Self {
        let weight = u32::from(weight);
        let squared = (self.squared * u64::from(weight) / 256).max(1);
        Self { squared, transformed: self.transformed * (256 + weight) / 512 }
    }

    /// Cost of squared error and bits.
    #[inline]
    pub(crate) fn squared(&self, error: u32, bits: u32) -> u64 {
        u64::from(error) * 256 + ((u64::from(bits) * self.squared) >> 8)
    }

    /// Bits, in 1/256, that are worth this squared error.
    #[inline]
    pub(crate) fn bits_worth(&self, error: u32) -> u64 {
        (u64::from(error) << 16) / self.squared
    }

    /// Cost of SATD and bits.
    #[inline]
    pub(crate) fn transformed(&self, error: u32, bits: u32) -> u32 {
        error * 256 + ((u64::from(bits) * u64::from(self.transformed)) >> 8) as u32
    }
}

/// Squared error per bit and squared step, in 1/256, of key frames and interframes. `lab: 2026-11-notes-vp8`.
const SQUARED_WEIGHTS: (u64, u64) = (8, 6);
/// The same where a trellis chooses levels. Detail that a key frame codes serves all following frames.
/// `lab: 2026-11-effort`.
const TRELLIS_SQUARED_WEIGHTS: (u64, u64) = (4, 7);
/// SATD per bit and step, in 1/256.
const TRANSFORMED_WEIGHT: u32 = 54;
