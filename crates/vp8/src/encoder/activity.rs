//! Activity masking: weights of macroblocks by their variance, for the quality preset.
//!
//! A squared error is visible, and reduces structural similarity, in smooth areas, but hardly in textured ones. So the
//! rate-distortion decision gives bits a smaller weight in smooth macroblocks. All arithmetic is in integers and equal
//! on every platform.

use super::source::SourcePlane;

/// Weights of a picture's macroblocks.
#[derive(Debug, Clone, Default)]
pub(crate) struct Activity {
    /// Row by row; empty if all macroblocks have the default weight.
    weights: Vec<u16>,
}

/// Default weight.
pub(crate) const DEFAULT_WEIGHT: u16 = 256;

/// Exponent of the weight, in 1/1024 (0.08): the weight is (variance / geometric mean of the picture's variances) to
/// this power. `lab: 2026-11-notes-vp8`.
const EXPONENT: i32 = 82;
/// Smallest and largest weight.
const WEIGHTS: (i32, i32) = (102, 640);

/// Added to each variance, in squared samples. Below it, differences in smoothness are not visible.
const COMMON: u32 = 4;

impl Activity {
    /// Computes the weights of `columns` x `rows` macroblocks of luma.
    pub(super) fn of(luma: &SourcePlane, columns: usize, rows: usize) -> Self {
        let macroblocks = (0..rows).flat_map(|row| (0..columns).map(move |column| (16 * column, 16 * row)));
        let logarithms: Vec<i32> = macroblocks.map(|(x, y)| logarithm(variance(luma, x, y) + COMMON)).collect();
        let total: i64 = logarithms.iter().map(|&logarithm| i64::from(logarithm)).sum();
        let mean = (total / logarithms.len().max(1) as i64) as i32;
        let weights = logarithms.into_iter().map(|logarithm| {
            let exponent = (logarithm - mean) * EXPONENT / 256;
            power(exponent).clamp(WEIGHTS.0, WEIGHTS.1) as u16
        });
        Self { weights: weights.collect() }
    }

    /// Weight of bits in macroblock `at` (row by row), in 1/256.
    #[inline]
    pub(super) fn weight(&self, at: usize) -> u16 {
        self.weights.get(at).copied().unwrap_or(DEFAULT_WEIGHT)
    }
}

/// Mean variance of the four 8x8 quarters of a macroblock.
fn variance(luma: &SourcePlane, x: usize, y: usize) -> u32 {
    let mut total = 0;
    for (dx, dy) in [(0, 0), (8, 0), (0, 8), (8, 8)] {
        let (mut sum, mut squares) = (0u32, 0u32);
        for line in 0..8 {
            let samples: &[u8; 8] = luma.at(x + dx, y + dy + line).first_chunk().expect("a whole macroblock");
            for &sample in samples {
                sum += u32::from(sample);
                squares += u32::from(sample) * u32::from(sample);
            }
        }
        total += squares - sum * sum / 64;
    }
    total / 256
}

/// Binary logarithm in 1/256, linear between powers of two.
fn logarithm(value: u32) -> i32 {
    let whole = value.ilog2();
    (256 * whole + ((u64::from(value) << 8 >> whole) as u32 - 256)) as i32
}

/// Two to the power of `exponent` / 1024, in 1/256, linear between integer exponents.
fn power(exponent: i32) -> i32 {
    let (whole, part) = (exponent >> 10, exponent & 1023);
    let value = 256 + part / 4;
    if whole >= 0 { value << whole.min(8) } else { value >> (-whole).min(16) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoder::source::Source;
    use crate::picture::Picture;

    /// A picture of three macroblocks side by side: flat, slightly textured, strongly textured.
    fn picture() -> Picture {
        let amplitude = |x: usize| [0, 8, 96][x / 16];
        let luma = (0..48 * 16).map(|at| 100 + (at * 7 + at / 48 * 13) % 5 * amplitude(at % 48) / 4);
        let samples = luma.map(|sample| sample as u8).chain(std::iter::repeat_n(128, 2 * 24 * 8)).collect();
        Picture::from_i420(48, 16, samples).unwrap()
    }

    #[test]
    fn smoother_macroblocks_have_smaller_weights() {
        let source = Source::new(&picture());
        let activity = Activity::of(&source.planes[0], 3, 1);
        let [smooth, middle, busy] = [0, 1, 2].map(|at| activity.weight(at));
        assert!(smooth < middle && middle < busy, "{smooth}, {middle}, {busy}");
        assert!(smooth < DEFAULT_WEIGHT && DEFAULT_WEIGHT < busy);
        assert!((102..=640).contains(&smooth) && (102..=640).contains(&busy));
    }

    #[test]
    fn uniform_picture_or_no_activity_gives_default_weights() {
        let level = Picture::from_i420(32, 16, [[90; 512].as_slice(), &[128; 256]].concat()).unwrap();
        let activity = Activity::of(&Source::new(&level).planes[0], 2, 1);
        assert_eq!([activity.weight(0), activity.weight(1)], [DEFAULT_WEIGHT; 2]);
        assert_eq!(Activity::default().weight(7), DEFAULT_WEIGHT);
    }

    #[test]
    fn logarithms_and_powers_are_accurate() {
        for bits in 0..32u32 {
            assert_eq!(logarithm(1 << bits), 256 * bits as i32);
        }
        for exponent in -3000..3000 {
            let exact = 256.0 * (f64::from(exponent) / 1024.0).exp2();
            assert!((f64::from(power(exponent)) - exact).abs() < 0.065 * exact + 1.0, "{exponent}");
        }
    }
}
