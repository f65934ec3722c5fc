//! Noise of a camera sensor.

use super::random::{hash, pair};
use super::sprite::Canvas;
use super::vectors::{Loop, with_vectors};

/// Number of offsets at which a row of noise may start: a power of two.
const OFFSETS: usize = 1 << 16;
/// Standard deviation of the samples in the tile.
const TILE_SIGMA: f32 = 32.0;
/// Fractional bits of gains. They include the tile's sigma: sigma = gain * 32 / 2^10.
const GAIN_BITS: u32 = 10;

/// Noise that changes with each picture. It is nearly Gaussian, and slightly correlated along rows, as after
/// demosaicing. Its standard deviation in luma is 1.5 in lower mid-tones and 1.2 in black. In highlights, which gamma
/// compresses, it is about 0.7. In chroma it is 0.8. This models a webcam with noise reduction in a lit room.
pub(super) struct SensorNoise {
    seed: u64,
    tile: Vec<i8>,
}

impl SensorNoise {
    /// Noise for pictures of up to `width` columns.
    pub(super) fn new(seed: u64, width: usize) -> Self {
        // The sum of eight random bytes is nearly Gaussian. Its variance is 8 (2^16 - 1) / 12.
        let white = |at: usize| {
            let sum: i32 = pair(seed ^ 0x4015e, at as u64).to_le_bytes().into_iter().map(i32::from).sum();
            (sum - 1020) as f32 * (TILE_SIGMA / 209.02)
        };
        let samples: Vec<f32> = (0..OFFSETS + width + 2).map(white).collect();
        // 0.9^2 + 2 * 0.308^2 = 1.
        let tile = samples.windows(3).map(|w| (0.9 * w[1] + 0.308 * (w[0] + w[2])).clamp(-127.0, 127.0) as i8);
        Self { seed, tile: tile.collect() }
    }

    /// Adds the noise of picture `index`.
    pub(super) fn add(&self, canvas: &mut Canvas, index: u64) {
        let picture = hash(self.seed ^ index.wrapping_mul(0x9e37_79b9));
        for (number, (plane, width)) in canvas.planes().into_iter().enumerate() {
            for (y, row) in plane.chunks_exact_mut(width).enumerate() {
                let offset = pair(picture, (y * 3 + number) as u64) as usize % OFFSETS;
                let noise = &self.tile[offset..offset + width];
                with_vectors(NoisyRow { row, noise, is_luma: number == 0 });
            }
        }
    }
}

/// A row of samples and its noise.
struct NoisyRow<'a> {
    row: &'a mut [u8],
    noise: &'a [i8],
    is_luma: bool,
}

impl Loop for NoisyRow<'_> {
    #[inline(always)]
    fn run(self) {
        if self.is_luma { add_to_luma(self.row, self.noise) } else { add_to_chroma(self.row, self.noise) }
    }
}

#[inline(always)]
fn add_to_luma(row: &mut [u8], noise: &[i8]) {
    for (sample, &noise) in row.iter_mut().zip(noise) {
        let value = i16::from(*sample);
        let from_mid = value - 96;
        let gain = 47 - ((((from_mid * from_mid) >> 9) * 11) >> 4);
        let noise = (i16::from(noise) * gain + (1 << (GAIN_BITS - 1))) >> GAIN_BITS;
        *sample = (value + noise).clamp(0, 255) as u8;
    }
}

#[inline(always)]
fn add_to_chroma(row: &mut [u8], noise: &[i8]) {
    for (sample, &noise) in row.iter_mut().zip(noise) {
        let noise = (i16::from(noise) * 26 + (1 << (GAIN_BITS - 1))) >> GAIN_BITS;
        *sample = (i16::from(*sample) + noise).clamp(0, 255) as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vector_code_equals_portable_code() {
        let noise = SensorNoise::new(5, 777);
        for is_luma in [true, false] {
            for offset in 0..64 {
                let row: Vec<u8> = (0..777).map(|x| (x * 31 + offset * 7) as u8).collect();
                let (mut plain, mut vectors) = (row.clone(), row);
                let noise = &noise.tile[offset..offset + 777];
                NoisyRow { row: &mut plain, noise, is_luma }.run();
                with_vectors(NoisyRow { row: &mut vectors, noise, is_luma });
                assert_eq!(plain, vectors);
            }
        }
    }

    #[test]
    fn sigma_depends_on_brightness_as_documented() {
        let noise = SensorNoise::new(3, 4000);
        for (level, expected) in [(16, 1.22), (96, 1.46), (235, 0.75)] {
            let mut row = vec![level; 4000];
            add_to_luma(&mut row, &noise.tile[..4000]);
            let mean = row.iter().map(|&s| f64::from(s)).sum::<f64>() / 4000.0;
            let variance = row.iter().map(|&s| (f64::from(s) - mean) * (f64::from(s) - mean)).sum::<f64>() / 4000.0;
            assert!((mean - f64::from(level)).abs() < 0.2, "{level}: {mean}");
            assert!((variance.sqrt() - expected).abs() < 0.2, "{level}: {}", variance.sqrt());
        }
    }
}
