//! The quantizer of one block type, and quantization in portable code.

use crate::encoder::packed_token::end_of;
use crate::tables::ZIGZAG;

/// The largest level that the last token category can carry within VP8's coefficient range (RFC 6386, section 13.2).
pub(super) const MAX_LEVEL: u16 = 2047;

/// Quantizer of one block type. Division by the step is a multiplication by its reciprocal.
///
/// The first element of each array is for DC, the others are for AC coefficients. With this layout a block is one loop.
#[derive(Debug, Clone)]
pub(crate) struct ForwardQuantizer {
    /// Steps between levels.
    pub(crate) step: [i16; 16],
    pub(super) reciprocal: [u16; 16],
    pub(super) rounding: [u16; 16],
    /// Magnitudes that quantize to zero.
    pub(crate) dead_zone: DeadZone,
}

/// Magnitudes below which DC and AC coefficients quantize to zero.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeadZone {
    pub(crate) dc: u32,
    pub(crate) ac: u32,
}

/// Rounding offset before the division, in 1/128 of a step. Half a step (64) selects the nearest level. A smaller
/// offset leaves more coefficients at the smaller, cheaper level.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rounding {
    pub(crate) dc: u16,
    pub(crate) ac: u16,
}

impl ForwardQuantizer {
    /// Creates a quantizer with these steps for DC and AC.
    pub(crate) fn new(dc: i32, ac: i32, rounding: Rounding) -> Self {
        let each = |at_dc: u16, at_ac: u16| std::array::from_fn(|i| if i == 0 { at_dc } else { at_ac });
        // Rounded up, so that a multiple of the step reaches its level.
        let reciprocal = |step: i32| (65_536 / step + 1) as u16;
        let mut quantizer = Self {
            step: each(dc as u16, ac as u16).map(|step| step as i16),
            reciprocal: each(reciprocal(dc), reciprocal(ac)),
            rounding: each((dc as u16 * rounding.dc) >> 7, (ac as u16 * rounding.ac) >> 7),
            dead_zone: DeadZone { dc: 0, ac: 0 },
        };
        quantizer.measure_dead_zone();
        quantizer
    }

    /// Magnitude of the level nearest to a coefficient at position `at`.
    #[inline]
    pub(crate) fn nearest(&self, at: usize, coefficient: i16) -> u16 {
        let rounded = u32::from(coefficient.unsigned_abs().saturating_add(self.step[at].unsigned_abs() / 2));
        (((rounded * u32::from(self.reciprocal[at])) >> 16) as u16).min(MAX_LEVEL)
    }

    fn measure_dead_zone(&mut self) {
        // The smallest value that gives one after rounding and multiplication by the reciprocal.
        let one = |i: usize| (1u32 << 16).div_ceil(u32::from(self.reciprocal[i]));
        let limit = |i: usize| one(i).saturating_sub(u32::from(self.rounding[i]));
        self.dead_zone = DeadZone { dc: limit(0), ac: (1..16).map(limit).min().unwrap_or(0) };
    }

    /// Sets the rounding to `dc` and `ac` (1/128 of a step). Fractional offsets are rounded up at the lower frequencies
    /// first, so that every change has a small effect.
    pub(crate) fn round_by(&mut self, dc: u16, ac: u16) {
        for (position, &i) in ZIGZAG.iter().enumerate() {
            let i = usize::from(i);
            let share = u32::from(if i == 0 { dc } else { ac });
            self.rounding[i] = ((self.step[i] as u32 * share + 8 * (15 - position as u32)) >> 7) as u16;
        }
        self.measure_dead_zone();
    }

    #[cfg_attr(not(test), allow(dead_code, reason = "a processor may have vector instructions for all functions"))]
    pub(crate) fn quantize_all_portably(
        &self,
        coefficients: &[[i16; 16]],
        levels: &mut [[i16; 16]],
        restored: &mut [[i16; 16]],
        ends: &mut [u8],
    ) -> u32 {
        let mut gain = 0i32;
        for (((coefficients, levels), restored), end) in coefficients.iter().zip(levels).zip(restored).zip(ends) {
            *end = self.quantize_portably(coefficients, levels, restored);
            for (&coefficient, &restored) in coefficients.iter().zip(&*restored) {
                let other = coefficient.wrapping_mul(2).wrapping_sub(restored);
                gain = gain.wrapping_add(i32::from(restored) * i32::from(other));
            }
        }
        gain.max(0) as u32
    }

    #[cfg_attr(not(test), allow(dead_code, reason = "a processor may have vector instructions for all functions"))]
    pub(crate) fn quantize_portably(
        &self,
        coefficients: &[i16; 16],
        levels: &mut [i16; 16],
        restored: &mut [i16; 16],
    ) -> u8 {
        for i in 0..16 {
            let coefficient = coefficients[i];
            let rounded = u32::from(coefficient.unsigned_abs().saturating_add(self.rounding[i]));
            let magnitude = (((rounded * u32::from(self.reciprocal[i])) >> 16) as u16).min(MAX_LEVEL) as i16;
            let sign = coefficient >> 15;
            let level = (magnitude ^ sign) - sign;
            levels[i] = level;
            restored[i] = level.wrapping_mul(self.step[i]);
        }
        end_of(levels) as u8
    }
}
