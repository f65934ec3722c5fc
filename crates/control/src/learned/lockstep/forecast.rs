//! A distribution of the bytes that the path will take until a deadline, as a model says it.
//!
//! Counted are the bytes that leave the bottleneck from the moment on until which deliveries are known: what is on the way
//! is among them. They are said relative to what Sprout's filter expects in its mean, so that a link of 0.1 Mb/s and one of
//! 10 look alike, and a model that says zero says what the filter does.

use libm::{exp, log};

use super::MODEL_STATE;

/// Deadlines that forecasts are made for, seconds from the moment of the decision.
pub const HORIZONS: [f64; 4] = [0.025, 0.06, 0.15, 0.5];
/// Of each, these quantiles.
pub const LEVELS: [f64; 5] = [0.1, 0.25, 0.4, 0.55, 0.75];
/// How many values make a forecast: the quantiles of the first deadline, of the second, and so on.
pub const FORECAST: usize = HORIZONS.len() * LEVELS.len();

/// Added to the ratio before its logarithm is taken, so that nothing at all has one.
const LEAST_RATIO: f64 = 0.02;
/// Bounds of the logarithm.
const BOUNDS: (f64, f64) = (-3.9, 3.0);

/// What forecasts are relative to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Basis {
    /// Bytes a second.
    pub rate: f64,
    /// For how long it has not been known what the path delivered, seconds.
    pub unknown: f64,
}

impl Basis {
    fn expected(&self, horizon: f64) -> f64 {
        (self.rate * (self.unknown + horizon)).max(1.0)
    }

    /// What a model should say of `bytes` until `horizon`.
    pub fn said(&self, horizon: f64, bytes: f64) -> f64 {
        log(bytes.max(0.0) / self.expected(horizon) + LEAST_RATIO).clamp(BOUNDS.0, BOUNDS.1)
    }

    fn bytes(&self, horizon: f64, said: f64) -> f64 {
        (exp(said.clamp(BOUNDS.0, BOUNDS.1)) - LEAST_RATIO).max(0.0) * self.expected(horizon)
    }
}

/// Bytes by deadline and quantile.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Forecast([[f64; LEVELS.len()]; HORIZONS.len()]);

impl Forecast {
    /// From what a model says, of which the first [`FORECAST`] values are taken; none where one of them is no number.
    /// Quantiles rise with their level and with time, whatever the model says.
    pub fn of(values: &[f32], basis: Basis) -> Option<Self> {
        let values = values.get(..FORECAST).filter(|_| values.len() == FORECAST + MODEL_STATE)?;
        if values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let mut bytes = [[0.0; LEVELS.len()]; HORIZONS.len()];
        for (deadline, horizon) in HORIZONS.into_iter().enumerate() {
            let mut least = 0.0_f64;
            for level in 0..LEVELS.len() {
                let said = f64::from(values[deadline * LEVELS.len() + level]);
                let sooner = if deadline > 0 { bytes[deadline - 1][level] } else { 0.0 };
                least = least.max(basis.bytes(horizon, said)).max(sooner);
                bytes[deadline][level] = least;
            }
        }
        Some(Self(bytes))
    }

    /// What will be through in `seconds` but for a share `level` of all cases, between and beyond what is forecast by
    /// straight lines.
    pub fn bytes(&self, seconds: f64, level: f64) -> f64 {
        let by_level = self.0.map(|bytes| between(&LEVELS, &bytes, level.clamp(LEVELS[0], LEVELS[LEVELS.len() - 1])));
        between(&HORIZONS, &by_level, seconds.max(0.0)).max(0.0)
    }
}

/// The value at `place` of the broken line through `values` at `places`.
fn between(places: &[f64], values: &[f64], place: f64) -> f64 {
    let after = places.iter().position(|&known| place < known).unwrap_or(places.len() - 1).max(1);
    let share = (place - places[after - 1]) / (places[after] - places[after - 1]);
    values[after - 1] + share * (values[after] - values[after - 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASIS: Basis = Basis { rate: 100_000.0, unknown: 0.05 };

    fn said(value: f32) -> Vec<f32> {
        let mut values = vec![value; FORECAST + MODEL_STATE];
        values[FORECAST..].fill(0.0);
        values
    }

    #[test]
    fn a_model_that_says_what_was_right_forecasts_it() {
        let bytes = [4_000.0, 9_000.0, 9_000.0, 60_000.0];
        let mut values = said(0.0);
        for (deadline, horizon) in HORIZONS.into_iter().enumerate() {
            let right = BASIS.said(horizon, bytes[deadline]) as f32;
            values[deadline * LEVELS.len()..][..LEVELS.len()].fill(right);
        }
        let forecast = Forecast::of(&values, BASIS).unwrap();
        for (horizon, bytes) in HORIZONS.into_iter().zip(bytes) {
            assert!((forecast.bytes(horizon, 0.3) - bytes).abs() < 1.0, "{forecast:?}");
        }
        assert!((forecast.bytes(0.0425, 0.5) - 6_500.0).abs() < 1.0, "halfway between two deadlines");
    }

    #[test]
    fn quantiles_rise_with_level_and_time_whatever_is_said() {
        let values: Vec<f32> = (0..FORECAST + MODEL_STATE).map(|index| ((index * 7) % 5) as f32 - 2.0).collect();
        let forecast = Forecast::of(&values, BASIS).unwrap();
        for (seconds, level) in [(0.03, 0.2), (0.1, 0.3), (0.4, 0.6)] {
            assert!(forecast.bytes(seconds, level) <= forecast.bytes(seconds, level + 0.1));
            assert!(forecast.bytes(seconds, level) <= forecast.bytes(seconds + 0.05, level));
        }
    }

    #[test]
    fn what_is_no_number_or_too_little_is_no_forecast() {
        let mut values = said(0.0);
        assert!(Forecast::of(&values[1..], BASIS).is_none());
        values[3] = f32::NAN;
        assert!(Forecast::of(&values, BASIS).is_none());
    }
}
