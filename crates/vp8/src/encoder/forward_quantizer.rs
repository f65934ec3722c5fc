//! Quantization: division of coefficients by their step, with rounding towards levels that are cheap to code.

#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;
#[cfg(simd128)]
mod simd128;
#[cfg(target_arch = "x86_64")]
mod x86;

pub(crate) use portable::{DeadZone, ForwardQuantizer, Rounding};

impl ForwardQuantizer {
    /// Quantizes `coefficients` to `levels` and stores the decoder's dequantized values in `restored`.
    ///
    /// Returns the position in zigzag order after the last nonzero level, or 0 if there is none.
    #[inline]
    pub(crate) fn quantize(&self, coefficients: &[i16; 16], levels: &mut [i16; 16], restored: &mut [i16; 16]) -> u8 {
        #[cfg(target_arch = "x86_64")]
        if let Some(end) = x86::quantize(self, coefficients, levels, restored) {
            return end;
        }
        #[cfg(target_arch = "aarch64")]
        return neon::quantize(self, coefficients, levels, restored);
        #[cfg(simd128)]
        return simd128::quantize(self, coefficients, levels, restored);
        #[cfg(not(any(target_arch = "aarch64", simd128)))]
        self.quantize_portably(coefficients, levels, restored)
    }

    /// [`ForwardQuantizer::quantize`] for many blocks.
    ///
    /// Returns the reduction of the squared error: the sum of squared coefficients minus the sum of squared differences
    /// from `restored`.
    #[inline]
    pub(crate) fn quantize_all(
        &self,
        coefficients: &[[i16; 16]],
        levels: &mut [[i16; 16]],
        restored: &mut [[i16; 16]],
        ends: &mut [u8],
    ) -> u32 {
        #[cfg(target_arch = "x86_64")]
        if let Some(gain) = x86::quantize_all(self, coefficients, levels, restored, ends) {
            return gain;
        }
        #[cfg(target_arch = "aarch64")]
        return neon::quantize_all(self, coefficients, levels, restored, ends);
        #[cfg(simd128)]
        return simd128::quantize_all(self, coefficients, levels, restored, ends);
        #[cfg(not(any(target_arch = "aarch64", simd128)))]
        self.quantize_all_portably(coefficients, levels, restored, ends)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn vector_quantizer_equals_portable_quantizer(
            coefficients in any::<[i16; 16]>(),
            shift in 0u32..16,
            (dc, ac) in (4i32..=314, 4i32..=440),
            (round_dc, round_ac) in (0u16..=64, 0u16..=64),
        ) {
            let coefficients = coefficients.map(|value| value >> shift);
            let quantizer = ForwardQuantizer::new(dc, ac, Rounding { dc: round_dc, ac: round_ac });
            let (mut levels, mut restored) = ([[7; 16]; 2], [[7; 16]; 2]);
            let end = quantizer.quantize(&coefficients, &mut levels[0], &mut restored[0]);
            let expected = quantizer.quantize_portably(&coefficients, &mut levels[1], &mut restored[1]);
            prop_assert_eq!(end, expected);
            prop_assert_eq!(levels[0], levels[1]);
            prop_assert_eq!(restored[0], restored[1]);
        }

        #[test]
        fn vector_quantizer_of_blocks_equals_portable_quantizer(
            coefficients in any::<[[i16; 16]; 4]>(),
            shift in 0u32..16,
            (dc, ac) in (4i32..=314, 4i32..=440),
            (round_dc, round_ac) in (0u16..=64, 0u16..=64),
        ) {
            let coefficients = coefficients.map(|block| block.map(|value| value >> shift));
            let quantizer = ForwardQuantizer::new(dc, ac, Rounding { dc: round_dc, ac: round_ac });
            let (mut levels, mut restored, mut ends) = ([[[7; 16]; 4]; 2], [[[7; 16]; 4]; 2], [[7; 4]; 2]);
            let gain = quantizer.quantize_all(&coefficients, &mut levels[0], &mut restored[0], &mut ends[0]);
            let expected = quantizer.quantize_all_portably(
                &coefficients, &mut levels[1], &mut restored[1], &mut ends[1],
            );
            prop_assert_eq!(gain, expected);
            prop_assert_eq!(levels[0], levels[1]);
            prop_assert_eq!(restored[0], restored[1]);
            prop_assert_eq!(ends[0], ends[1]);
        }

        #[test]
        fn coefficients_in_the_dead_zone_become_zero(
            (dc, ac) in (4i32..=314, 4i32..=440),
            (round_dc, round_ac) in (0u16..=64, 0u16..=64),
            (steered, change_dc, change_ac) in (any::<bool>(), 0u16..=64, 0u16..=64),
        ) {
            let mut quantizer = ForwardQuantizer::new(dc, ac, Rounding { dc: round_dc, ac: round_ac });
            if steered {
                quantizer.round_by(change_dc, change_ac);
            }
            let DeadZone { dc, ac } = quantizer.dead_zone;
            let mut coefficients = [ac as i16 - 1; 16];
            coefficients[0] = dc as i16 - 1;
            let (mut levels, mut restored) = ([0; 16], [0; 16]);
            for _ in 0..2 {
                prop_assert_eq!(quantizer.quantize(&coefficients, &mut levels, &mut restored), 0);
                coefficients = coefficients.map(|value| -value);
            }
        }
    }
}
