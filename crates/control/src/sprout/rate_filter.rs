//! Bayesian filter over the link's rate, with a lower bound of deliveries (Sprout, NSDI 2013, section 3).
//!
//! Rates drift from tick to tick. Unlike in the paper, they are spaced by factors, from 8 kb/s to 1.7 Gb/s. They drift
//! in proportion, so that slow and fast links behave alike. Deliveries need not be a Poisson process. Their dispersion
//! is learned: it is close to zero for a wire and large for a cell that serves its users in turns.

use libm::{exp, fabs, log, sqrt};

use crate::RateFilterConfig;

/// Distance of two rates (natural logarithm).
const STEP: f64 = 0.1;
/// Lowest rate, bytes per second.
const MIN_RATE: f64 = 1_000.0;
const RATES: usize = 123;
/// Length of a tick, seconds (Sprout, section 3.2).
pub(super) const TICK: f64 = 0.020;
/// Maximum number of steps that a rate moves in a tick, in each direction.
const REACH: usize = 6;
/// Probability per tick that the rate jumps to any other: a numerical guard that keeps every rate possible.
const JUMP: f64 = 1e-4;
/// Probability below which sums skip a rate.
const NEGLIGIBLE: f64 = 1e-5;
/// Bytes of a delivery opportunity.
const OPPORTUNITY: f64 = 1_500.0;
/// Bounds of the dispersion: variance over mean of the deliveries, in opportunities.
const DISPERSION: (f64, f64) = (0.05, 8.0);
/// Upper bound of one comparison: a jump of the rate is not dispersion.
const MAX_DEVIATION: f64 = 30.0;
/// Upper bound of the variation of delivery times, seconds: a guard for the slowest links, where one packet takes this
/// long.
const MAX_SCATTER_SECONDS: f64 = 0.3;
/// Number of bisections in the search for a quantile.
const HALVINGS: usize = 10;

#[derive(Debug, Clone)]
pub(super) struct RateFilter {
    config: RateFilterConfig,
    rates: [f64; RATES],
    logarithms: [f64; RATES],
    belief: [f64; RATES],
    /// Weights with which probability spreads in a tick.
    kernel: [f64; 2 * REACH + 1],
    /// Standard deviation of the drift per second, natural logarithm.
    volatility: f64,
    dispersion: f64,
    /// Delivered and expected bytes since the last comparison.
    compared: (f64, f64),
    /// Number of comparisons in the dispersion, including the weight of the first value.
    comparisons: f64,
    mean_rate: f64,
}

impl RateFilter {
    /// A filter with an initial rate of `rate` bytes per second and a standard deviation of `deviation` (natural
    /// logarithm). The rate drifts by `volatility` (natural logarithm) per second.
    pub(super) fn new(rate: f64, deviation: f64, volatility: f64, config: RateFilterConfig) -> Self {
        let rates: [f64; RATES] = std::array::from_fn(|index| MIN_RATE * exp(STEP * index as f64));
        let logarithms = rates.map(log);
        let density = |away: f64| exp(-away * away / 2.0);
        let steps = volatility * sqrt(TICK) / STEP;
        let kernel: [f64; 2 * REACH + 1] = std::array::from_fn(|index| density((index as f64 - REACH as f64) / steps));
        let sum: f64 = kernel.iter().sum();
        let mut filter = Self {
            config,
            belief: logarithms.map(|logarithm| density((logarithm - log(rate)) / deviation)),
            rates,
            logarithms,
            kernel: kernel.map(|weight| weight / sum),
            volatility,
            dispersion: config.first_dispersion,
            compared: (0.0, 0.0),
            comparisons: config.first_weight,
            mean_rate: rate,
        };
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
        self.mean_rate = self.belief.iter().zip(&self.rates).map(|(belief, rate)| belief * rate).sum();
    }

    /// Advances a tick, in which the rate may have moved (Sprout, section 3.2, "evolve").
    pub(super) fn evolve(&mut self) {
        let mut moved = [JUMP / RATES as f64; RATES];
        for (index, &belief) in self.belief.iter().enumerate().filter(|(_, belief)| **belief > NEGLIGIBLE * JUMP) {
            for (offset, &weight) in self.kernel.iter().enumerate() {
                let to = (index + offset).saturating_sub(REACH).min(RATES - 1);
                moved[to] += (1.0 - JUMP) * belief * weight;
            }
        }
        self.belief = moved;
        self.normalise();
    }

    /// Adds `bytes` delivered in `seconds` of busy time (Sprout, section 3.2, "observe").
    pub(super) fn observe(&mut self, bytes: f64, seconds: f64) {
        if seconds <= 0.0 && bytes <= 0.0 {
            return;
        }
        self.compare(bytes, self.mean_rate * seconds);
        // Even with perfectly regular deliveries, a tick contains a whole packet or none.
        let granularity = self.config.granularity;
        let packets = self.mean_rate * TICK / OPPORTUNITY;
        let scale = 1.0 / (OPPORTUNITY * (self.dispersion + granularity / packets.max(granularity)));
        let likelihoods: [f64; RATES] =
            std::array::from_fn(|index| scale * (bytes * self.logarithms[index] - self.rates[index] * seconds));
        let best = likelihoods.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        for (belief, likelihood) in self.belief.iter_mut().zip(likelihoods) {
            *belief *= exp((likelihood - best).max(-60.0));
        }
        self.normalise();
    }

    fn compare(&mut self, bytes: f64, expected: f64) {
        let (delivered, expected) = (self.compared.0 + bytes, self.compared.1 + expected);
        self.compared = (delivered, expected);
        if expected < OPPORTUNITY {
            return;
        }
        self.compared = (0.0, 0.0);
        let surprise = (delivered - expected) * (delivered - expected) / (expected * OPPORTUNITY);
        self.comparisons += 1.0;
        let weight = 1.0 / self.comparisons;
        self.dispersion += weight * (surprise.min(MAX_DEVIATION) - self.dispersion);
        self.dispersion = self.dispersion.clamp(DISPERSION.0, DISPERSION.1);
    }

    /// Mean of the rate, bytes per second.
    pub(super) fn mean_rate(&self) -> f64 {
        self.mean_rate
    }

    /// Uncertainty of the rate: standard deviation of its natural logarithm.
    pub(super) fn spread(&self) -> f64 {
        let moment = |of: fn(f64) -> f64| -> f64 {
            self.belief.iter().zip(&self.logarithms).map(|(belief, &logarithm)| belief * of(logarithm)).sum()
        };
        let mean = moment(|logarithm| logarithm);
        sqrt((moment(|logarithm| logarithm * logarithm) - mean * mean).max(0.0))
    }

    /// Variation of delivery times: the time in which deliveries vary by about one opportunity, seconds.
    pub(super) fn scatter_time(&self) -> f64 {
        (OPPORTUNITY * self.dispersion / self.mean_rate.max(1.0)).min(MAX_SCATTER_SECONDS)
    }

    /// Lower bound of the mean rate over the next `seconds`, except with probability `risk`; bytes per second (Sprout,
    /// section 3.3, with 5 %).
    pub(super) fn cautious_rate(&self, seconds: f64, risk: f64) -> f64 {
        // Mean drift of the rate in that time, and the variation of deliveries.
        let drift = self.volatility * self.volatility * seconds / 3.0;
        let scatter = OPPORTUNITY * self.dispersion / seconds;
        let likely = || self.belief.iter().zip(&self.rates).filter(|(belief, _)| **belief > NEGLIGIBLE);
        let below = |rate: f64| -> f64 {
            let share = |mean: f64| normal_share((rate - mean) / sqrt(drift * mean * mean + scatter * mean));
            likely().map(|(belief, &mean)| belief * share(mean)).sum()
        };
        let (mut low, mut high) = (0.0, likely().next_back().map_or(0.0, |(_, &rate)| rate));
        for _ in 0..HALVINGS {
            let middle = 0.5 * (low + high);
            if below(middle) > risk { high = middle } else { low = middle }
        }
        low
    }
}

/// Standard normal distribution function: a logistic function of a cubic, accurate to 0.0002.
fn normal_share(x: f64) -> f64 {
    if fabs(x) > 8.0 {
        return if x > 0.0 { 1.0 } else { 0.0 };
    }
    1.0 / (1.0 + exp(-1.5976 * x - 0.070_56 * x * x * x))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The filter after `seconds` with `bytes` per tick.
    fn after(seconds: f64, bytes: impl Fn(usize) -> f64) -> RateFilter {
        let mut filter = RateFilter::new(150_000.0, 0.5, 0.55, RateFilterConfig::default());
        for tick in 0..(seconds / TICK) as usize {
            filter.observe(bytes(tick), TICK);
            filter.evolve();
        }
        filter
    }

    #[test]
    fn filter_finds_rates_of_a_wide_range() {
        for (rate, error) in [(5e3, 0.5), (60e3, 0.2), (1e6, 0.2), (60e6, 0.2)] {
            let found = after(20.0, |_| rate * TICK).mean_rate();
            assert!((found / rate - 1.0).abs() < error, "{found} of {rate}");
        }
    }

    #[test]
    fn cautious_rate_is_closer_to_the_mean_on_a_steady_link() {
        let share = |filter: &RateFilter| filter.cautious_rate(0.1, 0.1) / filter.mean_rate();
        let (steady, bursts) =
            (after(20.0, |_| 4_000.0), after(20.0, |tick| if tick % 8 == 0 { 32_000.0 } else { 0.0 }));
        assert!(share(&steady) > 0.6, "{}", share(&steady));
        assert!(share(&bursts) < share(&steady) - 0.1, "{} {}", share(&bursts), share(&steady));
        assert!(bursts.scatter_time() > 3.0 * steady.scatter_time());
    }

    #[test]
    fn silence_lowers_the_rate_and_deliveries_restore_it() {
        let mut filter = after(5.0, |_| 4_000.0);
        for _ in 0..50 {
            filter.observe(0.0, TICK);
            filter.evolve();
        }
        assert!(filter.mean_rate() < 20_000.0, "{}", filter.mean_rate());
        for _ in 0..10 {
            filter.observe(4_000.0, TICK);
            filter.evolve();
        }
        assert!(filter.mean_rate() > 80_000.0, "{}", filter.mean_rate());
    }

    #[test]
    fn extreme_observations_keep_rates_finite() {
        let mut filter = RateFilter::new(150_000.0, 0.5, 0.55, RateFilterConfig::default());
        for (bytes, seconds) in [(0.0, 0.0), (1e12, 0.0), (0.0, 1e6), (1e12, 1e6), (1.0, 1e-9)] {
            filter.observe(bytes, seconds);
            filter.evolve();
            let rates = [filter.mean_rate(), filter.cautious_rate(0.1, 0.05), filter.scatter_time()];
            assert!(rates.iter().all(|rate| rate.is_finite() && *rate >= 0.0), "{rates:?}");
        }
    }
}
