//! The Bjontegaard delta rate (ITU-T VCEG-M33): the extra rate of one encoder over another at equal quality. It is the
//! mean over the quality range that both curves cover. Interpolation is piecewise cubic (VCEG-AE07 / JVET common test
//! conditions). One cubic through all points would overshoot between uneven points.

/// A measured point of a rate-quality curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RatePoint {
    /// Positive bit rate or size, in any unit that both curves share.
    pub rate: f64,
    /// Quality, dB.
    pub quality: f64,
}

/// Error of comparing two curves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RateCurveError {
    /// The curve has too few points to interpolate.
    #[error("a rate-quality curve needs at least 2 points of rising quality, got {0}")]
    TooFewPoints(usize),
    /// A rate or quality is NaN, infinite or not positive.
    #[error("a point of the curve has a rate or quality that is not a positive finite number")]
    NotANumber,
    /// The curves have no common quality range.
    #[error("the two curves have no quality in common")]
    NoOverlap,
}

/// Monotone piecewise cubic (Fritsch and Carlson 1980) through points of rising abscissa.
struct Curve {
    x: Vec<f64>,
    y: Vec<f64>,
    slope: Vec<f64>,
}

impl Curve {
    /// log10(rate) over quality.
    fn new(points: &[RatePoint]) -> Result<Self, RateCurveError> {
        let usable = |point: &RatePoint| point.rate > 0.0 && point.rate.is_finite() && point.quality.is_finite();
        if !points.iter().all(usable) {
            return Err(RateCurveError::NotANumber);
        }
        let mut points = points.to_vec();
        points.sort_unstable_by(|a, b| a.quality.total_cmp(&b.quality));
        points.dedup_by(|a, b| a.quality <= b.quality);
        if points.len() < 2 {
            return Err(RateCurveError::TooFewPoints(points.len()));
        }
        let x: Vec<f64> = points.iter().map(|point| point.quality).collect();
        let y: Vec<f64> = points.iter().map(|point| point.rate.log10()).collect();
        let step: Vec<f64> = x.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let secant: Vec<f64> = y.windows(2).zip(&step).map(|(pair, step)| (pair[1] - pair[0]) / step).collect();
        let last = secant.len();
        let slope = (0..=last)
            .map(|index| match index {
                0 => end_slope(secant[0], secant.get(1), step[0], step.get(1)),
                _ if index == last => {
                    let before = last.checked_sub(2);
                    let (other, width) = (before.map(|at| &secant[at]), before.map(|at| &step[at]));
                    end_slope(secant[last - 1], other, step[last - 1], width)
                }
                _ => inner_slope(secant[index - 1], secant[index], step[index - 1], step[index]),
            })
            .collect();
        Ok(Self { x, y, slope })
    }

    /// Integral from `from` to `to`, both within the curve.
    fn integral(&self, from: f64, to: f64) -> f64 {
        (0..self.x.len() - 1)
            .map(|piece| {
                let (low, high) = (self.x[piece].max(from), self.x[piece + 1].min(to));
                if high <= low { 0.0 } else { self.piece_integral(piece, high) - self.piece_integral(piece, low) }
            })
            .sum()
    }

    /// Integral of one Hermite piece from its left end to `at`.
    fn piece_integral(&self, piece: usize, at: f64) -> f64 {
        let width = self.x[piece + 1] - self.x[piece];
        let t = (at - self.x[piece]) / width;
        let (t2, t3, t4) = (t * t, t * t * t, t * t * t * t);
        width
            * (self.y[piece] * (t4 / 2.0 - t3 + t)
                + width * self.slope[piece] * (t4 / 4.0 - 2.0 * t3 / 3.0 + t2 / 2.0)
                + self.y[piece + 1] * (t3 - t4 / 2.0)
                + width * self.slope[piece + 1] * (t4 / 4.0 - t3 / 3.0))
    }
}

/// Slope at an inner point: the weighted harmonic mean of both secants, zero at an extremum.
fn inner_slope(left: f64, right: f64, left_width: f64, right_width: f64) -> f64 {
    if left * right <= 0.0 {
        return 0.0;
    }
    let (w1, w2) = (2.0 * right_width + left_width, right_width + 2.0 * left_width);
    (w1 + w2) / (w1 / left + w2 / right)
}

/// Slope at an end: three-point formula, limited so that the curve stays monotone.
fn end_slope(nearest: f64, next: Option<&f64>, width: f64, next_width: Option<&f64>) -> f64 {
    let (Some(&next), Some(&next_width)) = (next, next_width) else { return nearest };
    let slope = ((2.0 * width + next_width) * nearest - width * next) / (width + next_width);
    if slope * nearest <= 0.0 {
        0.0
    } else if nearest * next <= 0.0 && slope.abs() > 3.0 * nearest.abs() {
        3.0 * nearest
    } else {
        slope
    }
}

/// Extra rate of `test` over `anchor` at equal quality, as a share: 0.05 is 5 % more, -0.2 is 20 % less.
///
/// # Errors
/// If a curve has fewer than two points of rising quality or a point that is not finite. Also if the curves have no
/// common quality range.
pub fn bjontegaard_delta_rate(anchor: &[RatePoint], test: &[RatePoint]) -> Result<f64, RateCurveError> {
    let (anchor, test) = (Curve::new(anchor)?, Curve::new(test)?);
    let from = anchor.x[0].max(test.x[0]);
    let to = anchor.x[anchor.x.len() - 1].min(test.x[test.x.len() - 1]);
    if to <= from {
        return Err(RateCurveError::NoOverlap);
    }
    let mean_difference = (test.integral(from, to) - anchor.integral(from, to)) / (to - from);
    Ok(10f64.powf(mean_difference) - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(scale: f64) -> Vec<RatePoint> {
        [(100.0, 30.0), (210.0, 33.5), (400.0, 36.0), (900.0, 39.0), (2_000.0, 41.5)]
            .map(|(rate, quality)| RatePoint { rate: rate * scale, quality })
            .to_vec()
    }

    #[test]
    fn curve_against_itself_has_delta_zero() {
        assert!(bjontegaard_delta_rate(&curve(1.0), &curve(1.0)).unwrap().abs() < 1e-12);
    }

    #[test]
    fn ten_per_cent_more_rate_everywhere_gives_ten_per_cent() {
        assert!((bjontegaard_delta_rate(&curve(1.0), &curve(1.1)).unwrap() - 0.1).abs() < 1e-9);
        let reverse = bjontegaard_delta_rate(&curve(1.1), &curve(1.0)).unwrap();
        assert!((reverse - (1.0 / 1.1 - 1.0)).abs() < 1e-9);
    }

    #[test]
    fn curves_without_common_quality_are_refused() {
        let far: Vec<_> =
            curve(1.0).into_iter().map(|point| RatePoint { quality: point.quality + 50.0, ..point }).collect();
        assert_eq!(bjontegaard_delta_rate(&curve(1.0), &far), Err(RateCurveError::NoOverlap));
        assert_eq!(bjontegaard_delta_rate(&curve(1.0), &far[..1]), Err(RateCurveError::TooFewPoints(1)));
    }
}
