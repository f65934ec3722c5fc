//! The Bayesian filter over the link's rate (Sprout, NSDI 2013, section 3): what is believed of the rate before and after
//! each tick, and how much will be delivered at least.

use libm::{exp, fabs, log, sqrt};

/// Rates that are told apart, each this much (natural logarithm) above the one before.
const STEP: f64 = 0.1;
/// The smallest of them, bytes a second.
const LEAST_RATE: f64 = 1_000.0;
/// 1 kB/s to 200 MB/s.
const RATES: usize = 123;
/// Length of a tick, seconds (Sprout, section 3.2).
pub(super) const TICK: f64 = 0.020;
/// How many steps a rate may move in a tick, either way.
const REACH: usize = 6;
/// Probability in a tick that the rate becomes any other.
const JUMP: f64 = 1e-4;
/// What a delivery opportunity carries, bytes.
const UNIT: f64 = 1_500.0;
/// Bounds of the dispersion, and the time over which it is learned, ticks.
const DISPERSION: (f64, f64) = (0.05, 20.0);
const DISPERSION_TICKS: f64 = 500.0;
/// No surprise counts for more in the dispersion.
const MOST_SURPRISE: f64 = 30.0;

/// What is believed of the link's rate.
#[derive(Debug, Clone)]
pub(super) struct RateFilter {
    rates: [f64; RATES],
    logarithms: [f64; RATES],
    belief: [f64; RATES],
    kernel: [f64; 2 * REACH + 1],
    volatility: f64,
    dispersion: f64,
    compared: (f64, f64),
}

impl RateFilter {
    /// A filter that expects about `rate` bytes a second, give or take `deviation` (natural logarithm), of a link whose
    /// rate moves by `volatility` (natural logarithm) in a second.
    pub(super) fn new(rate: f64, deviation: f64, volatility: f64) -> Self {
        let rates: [f64; RATES] = std::array::from_fn(|index| LEAST_RATE * exp(STEP * index as f64));
        let logarithms = rates.map(log);
        let belief = logarithms.map(|logarithm| {
            let away = (logarithm - log(rate)) / deviation;
            exp(-away * away / 2.0)
        });
        let deviation = volatility * sqrt(TICK) / STEP;
        let mut kernel = std::array::from_fn(|index| {
            let away = (index as f64 - REACH as f64) / deviation;
            exp(-away * away / 2.0)
        });
        let sum: f64 = kernel.iter().sum();
        kernel.iter_mut().for_each(|weight| *weight /= sum);
        let mut filter = Self { rates, logarithms, belief, kernel, volatility, dispersion: 1.0, compared: (0.0, 0.0) };
        filter.normalise();
        filter
    }

    fn normalise(&mut self) {
        let sum: f64 = self.belief.iter().sum();
        if sum > 0.0 && sum.is_finite() {
            self.belief.iter_mut().for_each(|belief| *belief /= sum);
        } else {
            self.belief = [1.0 / RATES as f64; RATES];
        }
    }

    /// A tick passes: the rate may have moved.
    pub(super) fn evolve(&mut self) {
        let mut moved = [JUMP / RATES as f64; RATES];
        for (index, &belief) in self.belief.iter().enumerate() {
            if belief < 1e-9 {
                continue;
            }
            for (offset, &weight) in self.kernel.iter().enumerate() {
                let to = (index + offset).saturating_sub(REACH).min(RATES - 1);
                moved[to] += (1.0 - JUMP) * belief * weight;
            }
        }
        self.belief = moved;
        self.normalise();
    }

    /// `bytes` were delivered in `seconds` in which there was something to deliver.
    pub(super) fn observe(&mut self, bytes: f64, seconds: f64) {
        if seconds <= 0.0 && bytes <= 0.0 {
            return;
        }
        let (so_far, expected) = &mut self.compared;
        *so_far += bytes;
        *expected += self.belief.iter().zip(&self.rates).map(|(belief, rate)| belief * rate).sum::<f64>() * seconds;
        let (so_far, expected) = (*so_far, *expected);
        if expected > super::env("CMPU", 4.0) * UNIT {
            self.compared = (0.0, 0.0);
            let surprise = (so_far - expected) * (so_far - expected) / (expected * UNIT);
            self.dispersion += (surprise.min(MOST_SURPRISE) - self.dispersion) / super::env("DTICKS", 500.0);
            self.dispersion = self.dispersion.clamp(super::env("DMIN", 0.05), super::env("DMAX", 20.0));
        }
        let scale = 1.0 / (UNIT * self.dispersion);
        let likelihood = |index: usize| scale * (bytes * self.logarithms[index] - self.rates[index] * seconds);
        let best = (0..RATES).map(likelihood).fold(f64::NEG_INFINITY, f64::max);
        let factors: [f64; RATES] = std::array::from_fn(|index| exp((likelihood(index) - best).max(-60.0)));
        self.belief.iter_mut().zip(factors).for_each(|(belief, factor)| *belief *= factor);
        self.normalise();
    }

    /// The mean of what is believed, bytes a second.
    pub(super) fn mean_rate(&self) -> f64 {
        self.belief.iter().zip(&self.rates).map(|(belief, rate)| belief * rate).sum()
    }

    /// Over what time the deliveries are about even, seconds.
    pub(super) fn scatter_time(&self) -> f64 {
        (UNIT * self.dispersion / self.mean_rate().max(1.0)).min(0.3)
    }

    /// The rate that will be kept at least on the mean of the next `seconds`, but for a share `risk`; bytes a second.
    pub(super) fn cautious_rate(&self, seconds: f64, risk: f64) -> f64 {
        // What the rate moves meanwhile, and what the deliveries scatter about it.
        let drift = self.volatility * self.volatility * seconds / 3.0;
        let likely = || (0..RATES).filter(|&index| self.belief[index] > 1e-5);
        let below = |rate: f64| -> f64 {
            likely()
                .map(|index| {
                    let mean = self.rates[index];
                    let variance = drift * mean * mean + UNIT * self.dispersion * mean / seconds;
                    self.belief[index] * normal_share((rate - mean) / sqrt(variance))
                })
                .sum()
        };
        let (mut low, mut high) = (0.0, self.rates[likely().last().unwrap_or(0)]);
        for _ in 0..10 {
            let middle = 0.5 * (low + high);
            if below(middle) > risk { high = middle } else { low = middle }
        }
        low
    }
}

/// The share of a normal distribution below `x`: the logistic approximation, right to 0.01.
fn normal_share(x: f64) -> f64 {
    if fabs(x) > 8.0 {
        return if x > 0.0 { 1.0 } else { 0.0 };
    }
    1.0 / (1.0 + exp(-1.5976 * x - 0.070_56 * x * x * x))
}
