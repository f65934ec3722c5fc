//! Forecast: the model's distribution of the bytes that the path delivers until a deadline.
//!
//! The bytes leave the bottleneck after the last known delivery, so they include the bytes in flight. They are relative
//! to the mean of Sprout's filter. Therefore links of 0.1 and 10 Mb/s look alike, and an output of zero means the
//! filter's mean.

use libm::{exp, log};

use super::MODEL_STATE;

/// Deadlines of forecasts, seconds after the decision.
pub const HORIZONS: [f64; 4] = [0.025, 0.06, 0.15, 0.5];
/// Quantiles of each deadline.
pub const LEVELS: [f64; 5] = [0.1, 0.25, 0.4, 0.55, 0.75];
/// Number of values in a forecast: the quantiles of the first deadline, of the second, and so on.
pub const FORECAST: usize = HORIZONS.len() * LEVELS.len();

/// Added to the ratio before the logarithm, so that a ratio of zero is defined.
const RATIO_OFFSET: f64 = 0.02;
/// Bounds of the logarithm.
const BOUNDS: (f64, f64) = (-3.9, 3.0);

/// Basis to which forecasts are relative.
#[derive(Debug, Clone, Copy)]
pub(super) struct Basis {
    /// Mean rate of Sprout's filter, bytes per second.
    pub rate: f64,
    /// Time since the last known delivery, seconds.
    pub unknown: f64,
}

impl Basis {
    fn expected(&self, horizon: f64) -> f64 {
        (self.rate * (self.unknown + horizon)).max(1.0)
    }

    /// The model output that means `bytes` until `horizon`.
    pub fn output_for(&self, horizon: f64, bytes: f64) -> f64 {
        log(bytes.max(0.0) / self.expected(horizon) + RATIO_OFFSET).clamp(BOUNDS.0, BOUNDS.1)
    }

    fn bytes(&self, horizon: f64, output: f64) -> f64 {
        (exp(output.clamp(BOUNDS.0, BOUNDS.1)) - RATIO_OFFSET).max(0.0) * self.expected(horizon)
    }
}

/// Bytes by deadline and quantile.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Forecast([[f64; LEVELS.len()]; HORIZONS.len()]);

impl Forecast {
    /// The forecast in a model's output, whose first [`FORECAST`] values are used; none if one of them is not finite.
    /// Quantiles never decrease with level or time, for any output.
    pub fn of(values: &[f32], basis: Basis) -> Option<Self> {
        let values = values.get(..FORECAST).filter(|_| values.len() == FORECAST + MODEL_STATE)?;
        if values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let mut bytes = [[0.0; LEVELS.len()]; HORIZONS.len()];
        for (deadline, horizon) in HORIZONS.into_iter().enumerate() {
            let mut least = 0.0_f64;
            for level in 0..LEVELS.len() {
                let output = f64::from(values[deadline * LEVELS.len() + level]);
                let sooner = if deadline > 0 { bytes[deadline - 1][level] } else { 0.0 };
                least = least.max(basis.bytes(horizon, output)).max(sooner);
                bytes[deadline][level] = least;
            }
        }
        Some(Self(bytes))
    }

    /// Bytes that the path delivers within `seconds` except in a share `level` of cases, by linear interpolation and
    /// extrapolation.
    pub fn bytes(&self, seconds: f64, level: f64) -> f64 {
        let by_level = self.0.map(|bytes| between(&LEVELS, &bytes, level.clamp(LEVELS[0], LEVELS[LEVELS.len() - 1])));
        between(&HORIZONS, &by_level, seconds.max(0.0)).max(0.0)
    }
}

/// The value at `place` of the piecewise linear function through `values` at `places`.
fn between(places: &[f64], values: &[f64], place: f64) -> f64 {
    let after = places.iter().position(|&known| place < known).unwrap_or(places.len() - 1).max(1);
    let share = (place - places[after - 1]) / (places[after] - places[after - 1]);
    values[after - 1] + share * (values[after] - values[after - 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASIS: Basis = Basis { rate: 100_000.0, unknown: 0.05 };

    fn output(value: f32) -> Vec<f32> {
        let mut values = vec![value; FORECAST + MODEL_STATE];
        values[FORECAST..].fill(0.0);
        values
    }

    #[test]
    fn output_for_known_bytes_forecasts_them() {
        let bytes = [4_000.0, 9_000.0, 9_000.0, 60_000.0];
        let mut values = output(0.0);
        for (deadline, horizon) in HORIZONS.into_iter().enumerate() {
            let right = BASIS.output_for(horizon, bytes[deadline]) as f32;
            values[deadline * LEVELS.len()..][..LEVELS.len()].fill(right);
        }
        let forecast = Forecast::of(&values, BASIS).unwrap();
        for (horizon, bytes) in HORIZONS.into_iter().zip(bytes) {
            assert!((forecast.bytes(horizon, 0.3) - bytes).abs() < 1.0, "{forecast:?}");
        }
        assert!((forecast.bytes(0.0425, 0.5) - 6_500.0).abs() < 1.0, "halfway between two deadlines");
    }

    #[test]
    fn quantiles_never_decrease_with_level_or_time() {
        let values: Vec<f32> = (0..FORECAST + MODEL_STATE).map(|index| ((index * 7) % 5) as f32 - 2.0).collect();
        let forecast = Forecast::of(&values, BASIS).unwrap();
        for (seconds, level) in [(0.03, 0.2), (0.1, 0.3), (0.4, 0.6)] {
            assert!(forecast.bytes(seconds, level) <= forecast.bytes(seconds, level + 0.1));
            assert!(forecast.bytes(seconds, level) <= forecast.bytes(seconds + 0.05, level));
        }
    }

    #[test]
    fn nan_or_short_output_is_no_forecast() {
        let mut values = output(0.0);
        assert!(Forecast::of(&values[1..], BASIS).is_none());
        values[3] = f32::NAN;
        assert!(Forecast::of(&values, BASIS).is_none());
    }
}
