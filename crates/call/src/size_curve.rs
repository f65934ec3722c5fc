//! How large a frame becomes at each quantizer, learned from the frames that were coded.
//!
//! Frame size falls with the quantizer, but by no fixed law: where the step passes the camera's noise a frame shrinks
//! tenfold within a few indices. The curve is therefore kept point by point and bent to what is seen; two candidates a
//! picture show both its height and its slope where they matter.
//!
//! Of the picture that comes next the codec has an estimate before it codes it ([`SizeEstimate`]). Estimates are off by a
//! factor, and nearly the same one for picture after picture. Where pictures come twice or much begins to move, what a size is
//! then off by is a quarter to half of what it is off by from those before; where all pictures are alike, little less
//! (seven clips, `docs/codec.md`, "In calls").

use std::borrow::Cow;
use std::sync::LazyLock;

use lockstep_vp8::MAXIMUM_QUANTIZER;

const POINTS: usize = MAXIMUM_QUANTIZER as usize + 1;

lockstep_units::config! {
    /// Frame size over the quantizer.
    pub struct SizeCurveConfig = "size_curve" {
        /// Share of an error that moves the whole curve, or the estimates of the codec: a picture with more motion is larger
        /// at every quantizer.
        common_share: f64 = 0.5, "", 0.0..=1.0, "2026-11-control-ablation";
        /// Share of an error that bends the curve around the quantizer used.
        local_share: f64 = 0.4, "", 0.0..=1.0, "2026-11-control-ablation";
    }
}

/// Distance at which the bend has fallen to three fifths: the shape of the model.
const REACH: f64 = 6.0;
/// Farther away nothing bends: six times [`REACH`], where less than a fifty-millionth of the error would come.
const FARTHEST: usize = 36;
/// A curve falls by at least this much from one quantizer to the next, as a natural logarithm: it stays invertible.
const LEAST_FALL: f64 = 0.002;
/// Sizes below this are all headers and say nothing of the curve, bytes.
const LEAST_SIZE: f64 = 64.0;

/// A picture counts as at most this many times as hard or as easy as those before it, as a natural logarithm: a guard.
const MOST_HARDER: f64 = 2.0;

/// What a codec expects of a picture that it has looked at and not coded yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SizeEstimate {
    pub(crate) quantizer: u8,
    /// Bytes.
    pub(crate) size: f64,
}

/// How much of the bend around a point there is at each distance from it, 0-1: the point itself is in the middle, so
/// that a curve's share is a slice.
static BEND: LazyLock<[f64; 2 * FARTHEST + 1]> = LazyLock::new(|| {
    std::array::from_fn(|place| {
        let distance = place.abs_diff(FARTHEST) as f64 / REACH;
        libm::exp(-0.5 * distance * distance)
    })
});

/// Whether any value and its next are as `is_so` says: all are looked at, several at a time.
fn is_any(values: &[f64], is_so: impl Fn(f64, f64) -> bool) -> bool {
    let pairs = values.iter().zip(&values[1..]);
    pairs.fold(0, |found, (&value, &next)| found | u64::from(is_so(value, next))) != 0
}

/// Natural logarithm of the expected size, bytes, by quantizer: the curve's shape, and how high it stands, since nearly
/// every frame moves all of it.
#[derive(Debug, Clone)]
pub(crate) struct SizeCurve {
    config: SizeCurveConfig,
    height: f64,
    shape: [f64; POINTS],
    /// The quantizer of the frame that was learned from last.
    last: Option<u8>,
    /// By how much frames were larger than estimated of late.
    surplus: Option<f64>,
}

impl SizeCurve {
    /// A curve through `size` bytes at `quantizer` that falls by `per_octave` when the step doubles. The step doubles
    /// about every 20 indices of VP8's table (RFC 6386, section 14.1).
    pub(crate) fn new(quantizer: u8, size: f64, config: SizeCurveConfig) -> Self {
        // Until frames were seen.
        const FALL: f64 = 0.04;
        let height = libm::log(size.max(LEAST_SIZE));
        let shape = std::array::from_fn(|index| -FALL * (index as f64 - f64::from(quantizer)));
        Self { config, height, shape, last: None, surplus: None }
    }

    fn logarithm_at(&self, quantizer: u8) -> f64 {
        self.height + self.shape[usize::from(quantizer.min(MAXIMUM_QUANTIZER))]
    }

    /// Expected size at `quantizer`, bytes.
    #[cfg(test)]
    fn size_at(&self, quantizer: u8) -> f64 {
        libm::exp(self.logarithm_at(quantizer))
    }

    /// At which quantizer an estimate says most of the next picture.
    pub(crate) fn estimated_at(&self) -> Option<u8> {
        self.last
    }

    /// The curve of the picture that `estimate` is of; this one where there is no estimate.
    pub(crate) fn of_picture(&self, estimate: Option<SizeEstimate>) -> Cow<'_, Self> {
        let (Some(SizeEstimate { quantizer, size }), Some(surplus)) = (estimate, self.surplus) else {
            return Cow::Borrowed(self);
        };
        let harder = libm::log(size.max(1.0)) + surplus - self.logarithm_at(quantizer);
        let height = self.height + harder.clamp(-MOST_HARDER, MOST_HARDER);
        Cow::Owned(Self { height, ..self.clone() })
    }

    /// A picture of which there was an `estimate` turned out to have `size` bytes at `quantizer`.
    pub(crate) fn learn_surplus(&mut self, estimate: SizeEstimate, quantizer: u8, size: f64) {
        let there =
            libm::log(size.max(LEAST_SIZE)) + self.logarithm_at(estimate.quantizer) - self.logarithm_at(quantizer);
        let found = there - libm::log(estimate.size.max(1.0));
        let before = self.surplus.unwrap_or(found);
        self.surplus = Some(before + self.config.common_share * (found - before));
    }

    /// The smallest quantizer whose expected size is within `size` bytes; the largest there is if none is.
    pub(crate) fn quantizer_for(&self, size: f64) -> u8 {
        let wanted = libm::log(size.max(1.0)) - self.height;
        let index = self.shape.partition_point(|&logarithm| logarithm > wanted);
        index.min(POINTS - 1) as u8
    }

    /// A frame at `quantizer` turned out to have `size` bytes.
    pub(crate) fn learn(&mut self, quantizer: u8, size: f64) {
        self.last = Some(quantizer);
        let SizeCurveConfig { common_share, local_share } = self.config;
        self.bend(quantizer, size, common_share, local_share);
    }

    /// The same where the frame is of the very picture that comes next: the curve passes through the point.
    pub(crate) fn pass_through(&mut self, quantizer: u8, size: f64) {
        let common = self.config.common_share;
        self.bend(quantizer, size, common, 1.0 - common);
    }

    fn bend(&mut self, quantizer: u8, size: f64, common: f64, local: f64) {
        let seen = usize::from(quantizer.min(MAXIMUM_QUANTIZER));
        let error = libm::log(size.max(LEAST_SIZE)) - self.height - self.shape[seen];
        self.height += error * common;
        let (first, last) = (seen.saturating_sub(FARTHEST), (seen + FARTHEST).min(POINTS - 1));
        for (value, bend) in self.shape[first..=last].iter_mut().zip(&BEND[FARTHEST + first - seen..]) {
            *value += error * local * bend;
        }
        // What was just seen stays; its neighbours give way. On one side at least hardly any does: looking at all of
        // them at once is quicker than going from one to the next. Beyond what was bent the curve falls as it did.
        if is_any(&self.shape[seen..=(last + 1).min(POINTS - 1)], |finer, coarser| coarser > finer - LEAST_FALL) {
            for place in seen + 1..POINTS {
                let most = self.shape[place - 1] - LEAST_FALL;
                if self.shape[place] > most {
                    self.shape[place] = most;
                } else if place > last {
                    break;
                }
            }
        }
        if is_any(&self.shape[first.saturating_sub(1)..=seen], |finer, coarser| finer < coarser + LEAST_FALL) {
            for place in (0..seen).rev() {
                let least = self.shape[place + 1] + LEAST_FALL;
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

    /// Size of a picture with noise: a cliff around quantizer 12, gentle on both sides.
    fn noisy(quantizer: u8) -> f64 {
        let quantizer = f64::from(quantizer);
        let cliff = 1.0 / (1.0 + libm::exp((quantizer - 12.0) / 1.5));
        60_000.0 * libm::exp(-0.03 * quantizer) * (0.04 + 0.96 * cliff)
    }

    #[test]
    fn it_finds_the_quantizer_for_a_size_beside_a_cliff() {
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
    fn a_picture_that_is_estimated_to_be_harder_is_expected_to_be_larger_though_estimates_are_off() {
        let mut curve = SizeCurve::new(40, 5_000.0, SizeCurveConfig::default());
        assert!(curve.estimated_at().is_none());
        // Estimates are a third of the sizes, and pictures three times as hard as the one before or as easy.
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
        fn no_estimate_makes_a_curve_unusable(
            seen in proptest::collection::vec((0u8..128, 0.0f64..1e9, 0.0f64..1e9), 1..40),
        ) {
            let mut curve = SizeCurve::new(64, 10_000.0, SizeCurveConfig::default());
            for (quantizer, estimated, size) in seen {
                let estimate = curve.estimated_at().map(|quantizer| SizeEstimate { quantizer, size: estimated });
                let before = curve.size_at(64);
                let ratio = curve.of_picture(estimate).size_at(64) / before;
                prop_assert!((0.99 / libm::exp(MOST_HARDER)..=1.01 * libm::exp(MOST_HARDER)).contains(&ratio), "{ratio}");
                if let Some(estimate) = estimate {
                    curve.learn_surplus(estimate, quantizer, size);
                }
                curve.learn(quantizer, size);
            }
        }

        #[test]
        fn it_always_falls_and_passes_through_what_was_seen(
            seen in proptest::collection::vec((0u8..128, 1.0f64..1e7), 1..40),
        ) {
            let mut curve = SizeCurve::new(64, 10_000.0, SizeCurveConfig::default());
            for (quantizer, size) in seen {
                curve.pass_through(quantizer, size);
                let there = curve.size_at(quantizer);
                prop_assert!((there / size.max(LEAST_SIZE) - 1.0).abs() < 1e-6, "{there} {size}");
                for pair in curve.shape.windows(2) {
                    prop_assert!(pair[0] > pair[1]);
                }
            }
        }
    }
}
