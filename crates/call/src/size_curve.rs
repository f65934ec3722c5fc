//! Size curve: the expected frame size at each quantizer, learned from coded frames.
//!
//! Frame size falls with the quantizer, but not by a fixed law. Where the step passes the camera's noise, a frame
//! shrinks tenfold within a few indices. Therefore the curve has one value per quantizer and is bent towards observed
//! sizes. Two candidates per picture show its height and slope where they matter.
//!
//! The codec estimates the size of the next picture before coding ([`SizeEstimate`]). Estimates have a common factor
//! that is nearly constant from picture to picture. They reduce the prediction error most if pictures repeat or much
//! starts to move (`docs/lab/2026-11-codec.md`).

use std::borrow::Cow;
use std::sync::LazyLock;

use lockstep_vp8::MAX_QUANTIZER;

const POINTS: usize = MAX_QUANTIZER as usize + 1;

lockstep_units::config! {
    /// Frame size over the quantizer.
    pub struct SizeCurveConfig = "size_curve" {
        /// Share of an error that moves the whole curve, or the factor of the codec's estimates: a picture with more
        /// motion is larger at every quantizer.
        common_share: f64 = 0.5, "", 0.0..=1.0, "2026-11-control-ablation";
        /// Share of an error that bends the curve near the used quantizer.
        local_share: f64 = 0.4, "", 0.0..=1.0, "2026-11-control-ablation";
    }
}

/// Distance at which the bend has fallen to three fifths.
const REACH: f64 = 6.0;
/// Largest distance that bends: six times [`REACH`], beyond which less than a fifty-millionth of the error would apply.
const FARTHEST: usize = 36;
/// Minimum decrease from one quantizer to the next, as a natural logarithm, so that the curve stays invertible.
const MIN_LOG_DECREASE: f64 = 0.002;
/// Smallest size that counts, bytes. Smaller frames consist of headers only.
const MIN_FRAME_BYTES: f64 = 64.0;

/// Upper bound of a picture's difficulty compared with the earlier ones, as a natural logarithm: a guard.
const MAX_LOG_DIFFICULTY: f64 = 2.0;

/// Expected size of a picture that the codec has analysed but not coded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SizeEstimate {
    pub(crate) quantizer: u8,
    /// Bytes.
    pub(crate) size: f64,
}

/// Weight of the bend at each distance from a point, 0 to 1. The point itself is in the middle, so the share of a curve
/// is a slice.
static BEND: LazyLock<[f64; 2 * FARTHEST + 1]> = LazyLock::new(|| {
    std::array::from_fn(|place| {
        let distance = place.abs_diff(FARTHEST) as f64 / REACH;
        libm::exp(-0.5 * distance * distance)
    })
});

/// Whether `is_so` holds for any value and its successor. All are tested, for vectorisation.
fn is_any(values: &[f64], is_so: impl Fn(f64, f64) -> bool) -> bool {
    let pairs = values.iter().zip(&values[1..]);
    pairs.fold(0, |found, (&value, &next)| found | u64::from(is_so(value, next))) != 0
}

/// Natural logarithm of the expected size in bytes by quantizer: the shape of the curve, and its height, since nearly
/// every frame moves the whole curve.
#[derive(Debug, Clone)]
pub(crate) struct SizeCurve {
    config: SizeCurveConfig,
    height: f64,
    shape: [f64; POINTS],
    /// Quantizer of the frame that was learned last.
    last: Option<u8>,
    /// Recent logarithm of the ratio between sizes and estimates.
    surplus: Option<f64>,
}

impl SizeCurve {
    /// A curve through `size` bytes at `quantizer` with a default slope. The step doubles about every 20 indices of
    /// VP8's table (RFC 6386, section 14.1).
    pub(crate) fn new(quantizer: u8, size: f64, config: SizeCurveConfig) -> Self {
        // Slope before any frame, per index.
        const FALL: f64 = 0.04;
        let height = libm::log(size.max(MIN_FRAME_BYTES));
        let shape = std::array::from_fn(|index| -FALL * (index as f64 - f64::from(quantizer)));
        Self { config, height, shape, last: None, surplus: None }
    }

    fn logarithm_at(&self, quantizer: u8) -> f64 {
        self.height + self.shape[usize::from(quantizer.min(MAX_QUANTIZER))]
    }

    /// Expected size at `quantizer`, bytes.
    pub(crate) fn size_at(&self, quantizer: u8) -> f64 {
        libm::exp(self.logarithm_at(quantizer))
    }

    /// Expected ratio of the size at quantizer `to` to the size at `from`.
    pub(crate) fn ratio(&self, from: u8, to: u8) -> f64 {
        libm::exp(self.logarithm_at(to) - self.logarithm_at(from))
    }

    /// The quantizer at which an estimate of the next picture is most useful.
    pub(crate) fn estimated_at(&self) -> Option<u8> {
        self.last
    }

    /// The curve of the picture of `estimate`; this curve without an estimate.
    pub(crate) fn of_picture(&self, estimate: Option<SizeEstimate>) -> Cow<'_, Self> {
        let (Some(SizeEstimate { quantizer, size }), Some(surplus)) = (estimate, self.surplus) else {
            return Cow::Borrowed(self);
        };
        let harder = libm::log(size.max(1.0)) + surplus - self.logarithm_at(quantizer);
        let height = self.height + harder.clamp(-MAX_LOG_DIFFICULTY, MAX_LOG_DIFFICULTY);
        Cow::Owned(Self { height, ..self.clone() })
    }

    /// Learns from a picture with `estimate` that had `size` bytes at `quantizer`.
    pub(crate) fn learn_surplus(&mut self, estimate: SizeEstimate, quantizer: u8, size: f64) {
        let there =
            libm::log(size.max(MIN_FRAME_BYTES)) + self.logarithm_at(estimate.quantizer) - self.logarithm_at(quantizer);
        let found = there - libm::log(estimate.size.max(1.0));
        let before = self.surplus.unwrap_or(found);
        self.surplus = Some(before + self.config.common_share * (found - before));
    }

    /// The smallest quantizer whose expected size is at most `size` bytes; the largest one if there is none.
    pub(crate) fn quantizer_for(&self, size: f64) -> u8 {
        let wanted = libm::log(size.max(1.0)) - self.height;
        let index = self.shape.partition_point(|&logarithm| logarithm > wanted);
        index.min(POINTS - 1) as u8
    }

    /// Learns from a frame of `size` bytes at `quantizer`.
    pub(crate) fn learn(&mut self, quantizer: u8, size: f64) {
        self.last = Some(quantizer);
        let SizeCurveConfig { common_share, local_share } = self.config;
        self.bend(quantizer, size, common_share, local_share);
    }

    /// Learns from a frame of the present picture: the curve passes through the point.
    pub(crate) fn pass_through(&mut self, quantizer: u8, size: f64) {
        let common = self.config.common_share;
        self.bend(quantizer, size, common, 1.0 - common);
    }

    fn bend(&mut self, quantizer: u8, size: f64, common: f64, local: f64) {
        let seen = usize::from(quantizer.min(MAX_QUANTIZER));
        let error = libm::log(size.max(MIN_FRAME_BYTES)) - self.height - self.shape[seen];
        self.height += error * common;
        let (first, last) = (seen.saturating_sub(FARTHEST), (seen + FARTHEST).min(POINTS - 1));
        for (value, bend) in self.shape[first..=last].iter_mut().zip(&BEND[FARTHEST + first - seen..]) {
            *value += error * local * bend;
        }
        // The observed value stays, and its neighbours adapt. On at least one side hardly any does, so testing all at
        // once is faster. Beyond the bent part the curve decreases as before.
        if is_any(&self.shape[seen..=(last + 1).min(POINTS - 1)], |finer, coarser| coarser > finer - MIN_LOG_DECREASE) {
            for place in seen + 1..POINTS {
                let most = self.shape[place - 1] - MIN_LOG_DECREASE;
                if self.shape[place] > most {
                    self.shape[place] = most;
                } else if place > last {
                    break;
                }
            }
        }
        if is_any(&self.shape[first.saturating_sub(1)..=seen], |finer, coarser| finer < coarser + MIN_LOG_DECREASE) {
            for place in (0..seen).rev() {
                let least = self.shape[place + 1] + MIN_LOG_DECREASE;
                if self.shape[place] < least {
                    self.shape[place] = least;
                } else if place < first {
                    break;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Size of a picture with noise: a steep drop around quantizer 12, flat on both sides.
    fn noisy(quantizer: u8) -> f64 {
        let quantizer = f64::from(quantizer);
        let cliff = 1.0 / (1.0 + libm::exp((quantizer - 12.0) / 1.5));
        60_000.0 * libm::exp(-0.03 * quantizer) * (0.04 + 0.96 * cliff)
    }

    #[test]
    fn quantizer_is_found_near_a_steep_drop() {
        let mut curve = SizeCurve::new(40, 5_000.0, SizeCurveConfig::default());
        let wanted = 6_000.0;
        for _ in 0..20 {
            let quantizer = curve.quantizer_for(wanted);
            curve.learn(quantizer, noisy(quantizer));
            let second = (quantizer + 3).min(127);
            curve.learn(second, noisy(second));
        }
        let size = noisy(curve.quantizer_for(wanted));
        assert!(size <= 1.15 * wanted && size >= 0.5 * wanted, "{size}");
    }

    #[test]
    fn biased_estimates_still_predict_larger_pictures() {
        let mut curve = SizeCurve::new(40, 5_000.0, SizeCurveConfig::default());
        assert!(curve.estimated_at().is_none());
        // Estimates are a third of the sizes. Pictures alternate between three times as hard and as easy as the
        // previous one.
        for picture in 0..12 {
            let size = if picture % 2 == 0 { 3_000.0 } else { 9_000.0 };
            let estimate = curve.estimated_at().map(|quantizer| SizeEstimate { quantizer, size: size / 3.0 });
            let expected = curve.of_picture(estimate).size_at(40);
            if picture > 1 {
                assert!((0.9..1.1).contains(&(expected / size)), "picture {picture}: {expected:.0} for {size}");
            }
            if let Some(estimate) = estimate {
                curve.learn_surplus(estimate, 40, size);
            }
            curve.learn(40, size);
        }
    }

    proptest! {
        #[test]
        fn arbitrary_estimates_keep_the_curve_bounded(
            seen in proptest::collection::vec((0u8..128, 0.0f64..1e9, 0.0f64..1e9), 1..40),
        ) {
            let mut curve = SizeCurve::new(64, 10_000.0, SizeCurveConfig::default());
            for (quantizer, estimated, size) in seen {
                let estimate = curve.estimated_at().map(|quantizer| SizeEstimate { quantizer, size: estimated });
                let before = curve.size_at(64);
                let ratio = curve.of_picture(estimate).size_at(64) / before;
                prop_assert!((0.99 / libm::exp(MAX_LOG_DIFFICULTY)..=1.01 * libm::exp(MAX_LOG_DIFFICULTY)).contains(&ratio), "{ratio}");
                if let Some(estimate) = estimate {
                    curve.learn_surplus(estimate, quantizer, size);
                }
                curve.learn(quantizer, size);
            }
        }

        #[test]
        fn curve_always_falls_and_passes_through_observed_sizes(
            seen in proptest::collection::vec((0u8..128, 1.0f64..1e7), 1..40),
        ) {
            let mut curve = SizeCurve::new(64, 10_000.0, SizeCurveConfig::default());
            for (quantizer, size) in seen {
                curve.pass_through(quantizer, size);
                let there = curve.size_at(quantizer);
                prop_assert!((there / size.max(MIN_FRAME_BYTES) - 1.0).abs() < 1e-6, "{there} {size}");
                for pair in curve.shape.windows(2) {
                    prop_assert!(pair[0] > pair[1]);
                }
            }
        }
    }
}
