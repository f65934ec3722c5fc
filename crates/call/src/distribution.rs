//! Distributions of values in bounded memory.

use std::borrow::Borrow;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// The quantile `share` (0 to 1) of `sorted`, interpolated between neighbours; none if it is empty.
#[must_use]
pub fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let position = share.clamp(0.0, 1.0) * last as f64;
    let (low, high) = (position.floor() as usize, position.ceil() as usize);
    Some(sorted[low] + (sorted[high] - sorted[low]) * (position - low as f64))
}

/// The mean of `values`; none if there are none.
#[must_use]
pub fn mean(values: impl IntoIterator<Item: Borrow<f64>>) -> Option<f64> {
    let mut count = 0_u64;
    let sum: f64 = values.into_iter().inspect(|_| count += 1).map(|value| *value.borrow()).sum();
    (count > 0).then(|| sum / count as f64)
}

/// Number of values up to which quantiles are exact: 2.5 hours of frames at 30 per second, or 45 minutes of packets at
/// 1 Mb/s. Beyond it, quantiles come from a histogram.
pub const MAX_EXACT_VALUES: usize = 1 << 18;

/// Decimal digits of a value in the histogram: quantiles are accurate to 0.1 %.
const SIGNIFICANT_DIGITS: u8 = 3;

/// Number, mean and quantiles of non-negative values, for any number of them.
///
/// Number, sum, minimum and maximum are exact. Quantiles are exact up to [`MAX_EXACT_VALUES`] values. Beyond that,
/// their error is at most 0.1 % plus half a unit. They come from a histogram whose buckets grow with the values
/// (HdrHistogram by Tene, from the crate of that name).
#[derive(Debug, Clone, PartialEq)]
pub struct Distribution {
    unit: f64,
    exact: Vec<f64>,
    histogram: Option<Histogram<u64>>,
    count: u64,
    sum: f64,
    least: f64,
    largest: f64,
}

impl Distribution {
    /// An empty distribution. `unit` is the smallest relevant difference, in the unit of the values.
    #[must_use]
    pub fn new(unit: f64) -> Self {
        Self {
            unit,
            exact: Vec::new(),
            histogram: None,
            count: 0,
            sum: 0.0,
            least: f64::INFINITY,
            largest: f64::NEG_INFINITY,
        }
    }

    /// A distribution of delays in milliseconds, with a resolution of 1 µs.
    #[must_use]
    pub fn of_milliseconds() -> Self {
        Self::new(1e-3)
    }

    /// Adds `value`.
    pub fn add(&mut self, value: f64) {
        self.count += 1;
        self.sum += value;
        self.least = self.least.min(value);
        self.largest = self.largest.max(value);
        if self.histogram.is_none() {
            if self.exact.len() < MAX_EXACT_VALUES {
                self.exact.push(value);
                return;
            }
            // The bounds are valid, so there is always a histogram.
            let mut histogram = Histogram::new(SIGNIFICANT_DIGITS).ok();
            if let Some(histogram) = &mut histogram {
                self.exact.iter().for_each(|&earlier| count(histogram, earlier, self.unit));
            }
            self.histogram = histogram;
            self.exact = Vec::new();
        }
        if let Some(histogram) = &mut self.histogram {
            count(histogram, value, self.unit);
        }
    }

    /// Number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Minimum; none if there are no values.
    #[must_use]
    pub fn least(&self) -> Option<f64> {
        (self.count > 0).then_some(self.least)
    }

    /// Mean; none if there are no values.
    #[must_use]
    pub fn mean(&mut self) -> Option<f64> {
        if self.histogram.is_none() {
            self.sort();
            return mean(&self.exact);
        }
        Some(self.sum / self.count as f64)
    }

    /// The quantile `share` (0 to 1), interpolated as in [`quantile`]. None if there are no values.
    #[must_use]
    pub fn quantile(&mut self, share: f64) -> Option<f64> {
        self.quantile_of(share, |value| value)
    }

    /// The quantile `share` of `function` applied to the values. `function` must not decrease.
    #[must_use]
    pub fn quantile_of(&mut self, share: f64, function: impl Fn(f64) -> f64) -> Option<f64> {
        let Some(histogram) = &self.histogram else {
            self.sort();
            let last = self.exact.len().checked_sub(1)?;
            let low = (share.clamp(0.0, 1.0) * last as f64).floor();
            let neighbours = [low as usize, (low as usize + 1).min(last)].map(|index| function(self.exact[index]));
            return quantile(&neighbours, share.clamp(0.0, 1.0) * last as f64 - low);
        };
        let value = match share {
            share if share <= 0.0 => self.least,
            share if share >= 1.0 => self.largest,
            share => histogram.median_equivalent(histogram.value_at_quantile(share)) as f64 * self.unit,
        };
        Some(function(value.clamp(self.least, self.largest)))
    }

    fn sort(&mut self) {
        self.exact.sort_unstable_by(f64::total_cmp);
    }

    /// Number of values that are stored exactly.
    #[cfg(test)]
    fn kept(&self) -> usize {
        self.exact.len()
    }
}

/// Delays of frames or packets, milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DelayScores {
    /// Median.
    pub p50: f64,
    /// Mean.
    pub mean: f64,
    /// 95th percentile.
    pub p95: f64,
}

impl DelayScores {
    /// Scores of delays in milliseconds; none if there are no delays.
    #[must_use]
    pub fn of(delays: &mut Distribution) -> Option<Self> {
        Some(Self { p50: delays.quantile(0.5)?, mean: delays.mean()?, p95: delays.quantile(0.95)? })
    }
}

/// Adds `value` in whole units. Negative values count as zero.
fn count(histogram: &mut Histogram<u64>, value: f64, unit: f64) {
    // The histogram grows with the values, up to the range of 64 bits.
    let _ = histogram.record((value / unit).round() as u64);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Milliseconds over four orders of magnitude in pseudorandom order.
    fn delays(count: usize) -> impl Iterator<Item = f64> {
        (0..count as u64).map(|index| {
            let mixed = index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            libm::pow(10.0, 4.0 * mixed as f64 / f64::from(1u32 << 24))
        })
    }

    #[test]
    fn quantiles_and_mean_of_a_short_call_are_exact() {
        let mut distribution = Distribution::of_milliseconds();
        let mut values: Vec<f64> = delays(1_000).collect();
        values.iter().for_each(|&value| distribution.add(value));
        values.sort_unstable_by(f64::total_cmp);
        for share in [0.0, 0.25, 0.5, 0.95, 0.999, 1.0] {
            let (exact, wanted) = (distribution.quantile(share).unwrap(), quantile(&values, share).unwrap());
            assert!((exact - wanted).abs() <= 1e-12 * wanted, "{share}: {exact} {wanted}");
        }
        assert_eq!(distribution.mean(), mean(&values));
        assert_eq!(Distribution::of_milliseconds().quantile(0.5), None);
    }

    #[test]
    fn quantiles_of_many_values_are_within_a_thousandth() {
        let mut distribution = Distribution::of_milliseconds();
        let mut values: Vec<f64> = delays(3 * MAX_EXACT_VALUES).collect();
        values.iter().for_each(|&value| distribution.add(value));
        assert_eq!(distribution.kept(), 0);
        values.sort_unstable_by(f64::total_cmp);
        for share in [0.0, 0.05, 0.25, 0.5, 0.95, 0.99, 1.0] {
            let (found, wanted) = (distribution.quantile(share).unwrap(), quantile(&values, share).unwrap());
            assert!((found - wanted).abs() <= 1e-3 * wanted + 1e-3, "{share}: {found} {wanted}");
        }
        let wanted = mean(&values).unwrap();
        assert!((distribution.mean().unwrap() - wanted).abs() <= 1e-9 * wanted);
        assert_eq!(distribution.count(), values.len() as u64);
    }
}
