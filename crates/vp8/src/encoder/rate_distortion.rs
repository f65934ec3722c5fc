//! How many bits a smaller error is worth.

use super::parameters::Preset;

/// The weights of bits against errors at one quantizer. All costs are in units of error times 256, so that a bit
/// cost (1/256 bit) is only multiplied.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lagrangian {
    /// Squared error that one bit is worth, times 256.
    squared: u64,
    /// Hadamard-transformed error (`distortion::satd`) that one bit is worth, times 256.
    transformed: u32,
}

impl Lagrangian {
    /// The weights where coefficients are quantized in steps of `step` (VP8's scale: twice the orthonormal one).
    ///
    /// At high rate a uniform quantizer of step D errs by D^2 / 12, a sixth of which is lost or won fourfold with
    /// each bit: the slope is ln 2 / 6 * D^2 = 0.116 D^2, with D half of VP8's step.
    pub(crate) fn new(step: i32, key_frame: bool, preset: Preset) -> Self {
        let step = step as u64;
        // 0.116 / 4 = 0.029 = 7.4 / 256. What is measured best is near it, and less where what is coded serves the frames
        // to come as well.
        let inter_weight = match preset {
            Preset::RealTime => INTER_SQUARED_WEIGHT,
            Preset::Quality => QUALITY_INTER_SQUARED_WEIGHT,
        };
        let weight = if key_frame { KEY_SQUARED_WEIGHT } else { inter_weight };
        let squared = (step * step * weight).max(64);
        Self { squared, transformed: (step as u32 * TRANSFORMED_WEIGHT).max(128) }
    }

    /// The same where bits weigh `weight` / 256 of the usual against squared errors; against others its root, nearly.
    pub(crate) fn weighed(&self, weight: u16) -> Self {
        let weight = u32::from(weight);
        let squared = (self.squared * u64::from(weight) / 256).max(1);
        Self { squared, transformed: self.transformed * (256 + weight) / 512 }
    }

    /// Squared error and bits as one cost.
    #[inline]
    pub(crate) fn squared(&self, error: u32, bits: u32) -> u64 {
        u64::from(error) * 256 + ((u64::from(bits) * self.squared) >> 8)
    }

    /// The bits, in 1/256, that so much squared error is worth.
    #[inline]
    pub(crate) fn bits_worth(&self, error: u32) -> u64 {
        (u64::from(error) << 16) / self.squared
    }

    /// Hadamard-transformed error and bits as one cost.
    #[inline]
    pub(crate) fn transformed(&self, error: u32, bits: u32) -> u32 {
        error * 256 + ((u64::from(bits) * u64::from(self.transformed)) >> 8) as u32
    }
}

/// Squared error per bit and squared step, in 1/256, of key and of inter frames: by BD-rate of five natural clips against
/// libvpx (`lockstep bench codec`); 16 for both costs 8 % of bits on clips that move, and pictures fade.
const KEY_SQUARED_WEIGHT: u64 = 8;
const INTER_SQUARED_WEIGHT: u64 = 6;
/// Of inter frames for quality: of 6 to 12 the best that costs no clip much, on 50 pictures of four clips. (On 16 pictures 12
/// looked better by 3 %: what is left out shows later.)
const QUALITY_INTER_SQUARED_WEIGHT: u64 = 7;
/// Transformed error per bit and step, in 1/256.
const TRANSFORMED_WEIGHT: u32 = 54;
