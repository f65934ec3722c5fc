//! Picture quality: SSIM and PSNR, and the SSIM of text.
//!
//! SSIM follows Wang et al., "Image Quality Assessment: From Error Visibility to Structural Similarity", 2004. Windows
//! have 8x8 samples, at every fourth sample in both directions, with equal weights. Variance and covariance are
//! unbiased estimates. The constants are (0.01 * 255)^2 and (0.03 * 255)^2, rounded at the scale of the window's sums.
//! x264 and ffmpeg's `ssim` filter use the same windows. The result equals ffmpeg's Y value up to its single precision.
//! Columns and rows after the last whole block of four are ignored. A plane with a side below eight samples is one
//! window.
//!
//! Results are the same on every platform. Sums are integers, the rest is IEEE arithmetic in a fixed order, and `libm`
//! computes logarithms. AVX2 code gives the same bits as the portable code, which other processors use.

#[cfg_attr(target_arch = "x86_64", allow(dead_code, reason = "processors with AVX2 need only part of it"))]
mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

use lockstep_vp8::{Picture, Plane};
#[cfg(not(target_arch = "x86_64"))]
use portable::{add_windows, row_squared_error, sum_blocks};
#[cfg(target_arch = "x86_64")]
use x86::{add_windows, row_squared_error, sum_blocks};

/// Maximum of [`ssim_db`], for identical pictures: SSIM of 0.999 999.
pub const MAX_SSIM_DB: f64 = 60.0;
/// Maximum of [`psnr`], for identical pictures.
pub const MAX_PSNR_DB: f64 = 100.0;

/// Side of a block, samples. A window is two blocks wide and high.
const BLOCK: usize = 4;

/// Error of comparing two pictures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QualityError {
    /// The sizes differ.
    #[error("pictures of {first_width}x{first_height} and {second_width}x{second_height} cannot be compared")]
    Size {
        /// Width of the first picture.
        first_width: usize,
        /// Height of the first picture.
        first_height: usize,
        /// Width of the second picture.
        second_width: usize,
        /// Height of the second picture.
        second_height: usize,
    },
}

fn same_size(first: &Picture, second: &Picture) -> Result<(), QualityError> {
    let (first_width, first_height) = (first.width(), first.height());
    let (second_width, second_height) = (second.width(), second.height());
    if (first_width, first_height) == (second_width, second_height) {
        Ok(())
    } else {
        Err(QualityError::Size { first_width, first_height, second_width, second_height })
    }
}

/// Mean SSIM of the luma planes, at most 1 (identical). The module's documentation defines the windows.
///
/// # Errors
/// If the sizes differ.
pub fn ssim(first: &Picture, second: &Picture) -> Result<f64, QualityError> {
    same_size(first, second)?;
    Ok(plane_ssim(first.luma(), second.luma()))
}

/// Range of luma in a window of text: a quarter of all steps. Letters and lines have it, ramps and grain do not.
const TEXT_RANGE: u8 = 64;

/// Mean SSIM of the windows in which the first picture has text, lines or other sharp edges; `None` if it has none. The
/// windows are those of [`ssim`], where its luma covers a range of at least 64 steps.
///
/// # Errors
/// If the sizes differ.
pub fn text_ssim(first: &Picture, second: &Picture) -> Result<Option<f64>, QualityError> {
    same_size(first, second)?;
    let (first, second) = (first.luma(), second.luma());
    let (mut sum, mut windows) = (0.0, 0_u64);
    let ends = |side: usize| (0..(side + 1).saturating_sub(2 * BLOCK)).step_by(BLOCK);
    for top in ends(first.height()) {
        for left in ends(first.width()) {
            let rows = |plane| (top..top + 2 * BLOCK).map(move |y| &Plane::row(plane, y)[left..left + 2 * BLOCK]);
            let samples = || rows(first).flatten();
            let range = samples().max().zip(samples().min()).map_or(0, |(max, min)| max - min);
            if range < TEXT_RANGE {
                continue;
            }
            let mut sums = Sums::default();
            for (&first, &second) in samples().zip(rows(second).flatten()) {
                let (first, second) = (i32::from(first), i32::from(second));
                sums = sums.plus(Sums {
                    first,
                    second,
                    squares: first * first + second * second,
                    products: first * second,
                });
            }
            sum += sums.ssim(WINDOW_SAMPLES);
            windows += 1;
        }
    }
    Ok((windows > 0).then(|| sum / windows as f64))
}

/// Quality of a displayed picture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PictureQuality {
    /// Luma SSIM, at most 1.
    pub ssim: f64,
    /// Luma PSNR, dB.
    pub psnr_db: f64,
    /// SSIM of text, if it was measured and there is text.
    pub text_ssim: Option<f64>,
}

impl PictureQuality {
    /// Quality of `shown` against `original`. `is_screen` measures text.
    ///
    /// # Errors
    /// If the sizes differ.
    pub fn of(original: &Picture, shown: &Picture, is_screen: bool) -> Result<Self, QualityError> {
        let text_ssim = if is_screen { text_ssim(original, shown)? } else { None };
        Ok(Self { ssim: ssim(original, shown)?, psnr_db: psnr(original, shown)?, text_ssim })
    }
}

/// SSIM in decibels: -10 log10(1 - ssim), as in Salsify and Puffer, at most [`MAX_SSIM_DB`]. NaN for NaN.
#[must_use]
pub fn ssim_db(ssim: f64) -> f64 {
    let distance = 1.0 - ssim;
    if distance <= 1e-6 { MAX_SSIM_DB } else { -10.0 * libm::log10(distance) }
}

/// PSNR of the luma planes in decibels: 10 log10(255^2 / mean squared error), at most [`MAX_PSNR_DB`].
///
/// # Errors
/// If the sizes differ.
pub fn psnr(first: &Picture, second: &Picture) -> Result<f64, QualityError> {
    same_size(first, second)?;
    let (error, samples) = squared_error(first.luma(), second.luma());
    Ok(decibels(error, samples))
}

fn decibels(error: u64, samples: u64) -> f64 {
    if error == 0 {
        return MAX_PSNR_DB;
    }
    (10.0 * libm::log10(255.0 * 255.0 * samples as f64 / error as f64)).min(MAX_PSNR_DB)
}

/// Sum of squared differences, and number of samples.
fn squared_error(first: &Plane, second: &Plane) -> (u64, u64) {
    let error =
        first.rows().zip(second.rows()).map(|(first, second)| u64::from(row_squared_error(first, second))).sum();
    (error, (first.width() * first.height()) as u64)
}

/// Sums over a rectangle of at most 2^14 samples: samples of each plane, squares of both, products.
#[derive(Clone, Copy, Default)]
struct Sums {
    first: i32,
    second: i32,
    squares: i32,
    products: i32,
}

/// The two constants of SSIM for a window of `samples` samples. Adding 0.5 rounds, as in x264, so that all sums are
/// integers.
const fn constants(samples: i32) -> (i64, i64) {
    let scale = 255.0 * 255.0 * samples as f64;
    let others = if samples < 2 { 1 } else { samples - 1 };
    ((0.01 * 0.01 * scale + 0.5) as i64, (0.03 * 0.03 * scale * others as f64 + 0.5) as i64)
}

/// Samples of a window, and its constants.
const WINDOW_SAMPLES: i32 = (4 * BLOCK * BLOCK) as i32;
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "only kernels take them from here"))]
const WINDOW_CONSTANTS: (i64, i64) = constants(WINDOW_SAMPLES);

impl Sums {
    fn plus(self, other: Self) -> Self {
        Self {
            first: self.first + other.first,
            second: self.second + other.second,
            squares: self.squares + other.squares,
            products: self.products + other.products,
        }
    }

    /// SSIM of a window of at most 2^14 samples. In a window of 64, no converted number reaches 2^31: sums are below
    /// 2^14, and 64 times the squares or products below 2^30.
    fn ssim(self, samples: i32) -> f64 {
        let count = i64::from(samples);
        let (c1, c2) = constants(samples);
        let (first, second) = (i64::from(self.first), i64::from(self.second));
        let variances = i64::from(self.squares) * count - first * first - second * second;
        let covariance = i64::from(self.products) * count - first * second;
        let numerator = (2 * first * second + c1) as f64 * (2 * covariance + c2) as f64;
        let denominator = (first * first + second * second + c1) as f64 * (variances + c2) as f64;
        numerator / denominator
    }
}

/// Sums of a row of blocks, padded by one vector register.
struct BlockRow {
    blocks: usize,
    first: Vec<i32>,
    second: Vec<i32>,
    squares: Vec<i32>,
    products: Vec<i32>,
}

impl BlockRow {
    fn new(blocks: usize) -> Self {
        let room = || vec![0; blocks + 8];
        Self { blocks, first: room(), second: room(), squares: room(), products: room() }
    }

    fn get(&self, x: usize) -> Sums {
        Sums { first: self.first[x], second: self.second[x], squares: self.squares[x], products: self.products[x] }
    }

    fn set(&mut self, x: usize, sums: Sums) {
        (self.first[x], self.second[x]) = (sums.first, sums.second);
        (self.squares[x], self.products[x]) = (sums.squares, sums.products);
    }
}

fn plane_ssim(first: &Plane, second: &Plane) -> f64 {
    let (across, down) = (first.width() / BLOCK, first.height() / BLOCK);
    if across < 2 || down < 2 {
        return single_window(first, second);
    }
    let (mut above, mut below) = (BlockRow::new(across), BlockRow::new(across));
    let mut total = 0.0;
    for y in 0..down {
        std::mem::swap(&mut above, &mut below);
        let lines = |plane| std::array::from_fn(|line| &Plane::row(plane, y * BLOCK + line)[..across * BLOCK]);
        sum_blocks(lines(first), lines(second), &mut below);
        if y > 0 {
            add_windows(&above, &below, &mut total);
        }
    }
    total / ((across - 1) * (down - 1)) as f64
}

/// SSIM of planes too small for an 8x8 window: the mean over strips of at most 16384 samples.
fn single_window(first: &Plane, second: &Plane) -> f64 {
    let (mut total, mut windows) = (0.0, 0.0);
    let rows_a_window = (16_384 / first.width()).max(1);
    let mut y = 0;
    while y < first.height() {
        let end = (y + rows_a_window).min(first.height());
        let mut sums = Sums::default();
        for row in y..end {
            for (&a, &b) in first.row(row).iter().zip(second.row(row)) {
                let (a, b) = (i32::from(a), i32::from(b));
                sums = sums.plus(Sums { first: a, second: b, squares: a * a + b * b, products: a * b });
            }
        }
        total += sums.ssim(((end - y) * first.width()) as i32);
        windows += 1.0;
        y = end;
    }
    total / windows
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn picture(width: usize, height: usize, sample: impl Fn(usize) -> u8) -> Picture {
        Picture::from_i420(width, height, (0..Picture::i420_length(width, height)).map(sample).collect()).unwrap()
    }

    /// SSIM by its definition, window by window, in floating point.
    fn slow_ssim(first: &Plane, second: &Plane) -> f64 {
        let (mut total, mut windows) = (0.0, 0.0);
        for y in (0..=first.height() / 4 * 4 - 8).step_by(4) {
            for x in (0..=first.width() / 4 * 4 - 8).step_by(4) {
                let samples = |plane: &Plane| -> Vec<f64> {
                    (0..64).map(|i| f64::from(plane.row(y + i / 8)[x + i % 8])).collect()
                };
                let (a, b) = (samples(first), samples(second));
                let mean = |values: &[f64]| values.iter().sum::<f64>() / 64.0;
                let (mean_a, mean_b) = (mean(&a), mean(&b));
                let covariance = |p: &[f64], mean_p: f64, q: &[f64], mean_q: f64| {
                    p.iter().zip(q).map(|(p, q)| (p - mean_p) * (q - mean_q)).sum::<f64>() / 63.0
                };
                let variances = covariance(&a, mean_a, &a, mean_a) + covariance(&b, mean_b, &b, mean_b);
                let (c1, c2) = (6.5025, 58.5225);
                total += (2.0 * mean_a * mean_b + c1) * (2.0 * covariance(&a, mean_a, &b, mean_b) + c2)
                    / ((mean_a * mean_a + mean_b * mean_b + c1) * (variances + c2));
                windows += 1.0;
            }
        }
        total / windows
    }

    proptest! {
        #[test]
        fn vector_code_equals_portable_code(
            samples in proptest::collection::vec(prop_oneof![any::<u8>(), Just(0), Just(255)], 8 * 300),
            blocks in 2_usize..75,
            above_share in 0..3_usize,
        ) {
            let lines = |from: usize| std::array::from_fn(|line| &samples[(from + line) * 300..][..blocks * BLOCK]);
            let rows = [sum_blocks, portable::sum_blocks].map(|sum_blocks| {
                let (mut above, mut below) = (BlockRow::new(blocks), BlockRow::new(blocks));
                sum_blocks(lines(0), lines(above_share), &mut above);
                sum_blocks(lines(4), lines(4 - above_share), &mut below);
                (above, below)
            });
            let totals = [(&rows[0], add_windows as fn(&_, &_, &mut _)), (&rows[1], portable::add_windows)].map(
                |((above, below), add_windows)| {
                    let mut total = 0.25;
                    add_windows(above, below, &mut total);
                    total
                },
            );
            prop_assert_eq!(totals[0].to_bits(), totals[1].to_bits(), "{:?}", totals);
            let (a, b) = (lines(0)[0], lines(2)[1]);
            prop_assert_eq!(row_squared_error(a, b), portable::row_squared_error(a, b));
        }

        #[test]
        fn ssim_equals_its_definition(width in 8..70_usize, height in 8..40_usize, seed: u32, noise in 0..90_u32) {
            let random = |i: usize, salt: u32| {
                let mut x = (i as u32 ^ seed).wrapping_mul(0x9e37_79b9) ^ salt;
                x ^= x >> 15;
                x.wrapping_mul(0x85eb_ca6b) >> 8
            };
            let first = picture(width, height, |i| random(i, 1) as u8);
            let second = picture(width, height, |i| (random(i, 1) as u8).wrapping_add((random(i, 2) % (noise + 1)) as u8));
            let expected = slow_ssim(first.luma(), second.luma());
            prop_assert!((ssim(&first, &second).unwrap() - expected).abs() < 1e-5);
            prop_assert_eq!(ssim(&first, &first).unwrap(), 1.0);
        }

        #[test]
        fn score_is_finite_at_any_size(width in 1..20_usize, height in 1..20_usize, salt: u8) {
            let (first, second) = (picture(width, height, |i| i as u8), picture(width, height, |i| i as u8 ^ salt));
            let score = ssim(&first, &second).unwrap();
            prop_assert!((-1.0..=1.0).contains(&score), "{}", score);
            prop_assert!(psnr(&first, &second).unwrap().is_finite());
        }
    }

    #[test]
    fn extreme_pictures_do_not_overflow() {
        for (a, b) in [(0, 255), (255, 255), (255, 0)] {
            let (first, second) = (picture(16_383, 9, |_| a), picture(16_383, 9, |_| b));
            assert!(ssim(&first, &second).unwrap().is_finite());
        }
        for (width, height) in [(16_383, 2), (2, 16_383), (7, 16_383)] {
            let (first, second) = (picture(width, height, |_| 255), picture(width, height, |_| 0));
            assert!(ssim(&first, &second).unwrap().is_finite());
        }
        let (first, second) = (picture(64, 64, |_| 0), picture(64, 64, |_| 255));
        assert_eq!(psnr(&first, &second).unwrap(), 0.0);
    }

    #[test]
    fn decibels_are_capped_for_identical_pictures() {
        assert_eq!(ssim_db(1.0), MAX_SSIM_DB);
        assert!((ssim_db(0.9) - 10.0).abs() < 1e-9);
        assert_eq!(ssim_db(0.0), 0.0);
        assert!(ssim_db(f64::NAN).is_nan());
        let picture = picture(16, 16, |i| i as u8);
        assert_eq!(psnr(&picture, &picture).unwrap(), MAX_PSNR_DB);
    }

    #[test]
    fn pictures_of_different_sizes_are_refused() {
        let (first, second) = (picture(16, 16, |_| 0), picture(16, 15, |_| 0));
        for score in [ssim, psnr] {
            assert!(score(&first, &second).is_err());
        }
    }
}
