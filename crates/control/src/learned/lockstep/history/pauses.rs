//! Pauses between deliveries.

use libm::exp;

/// Arrivals closer than this count as one delivery, seconds.
const MIN_PAUSE_SECONDS: f64 = 0.001;
/// The weight of a pause in the mean.
const WEIGHT: f64 = 0.1;
/// Time over which the longest pause fades, seconds.
const PAUSE_FADE_SECONDS: f64 = 2.0;
/// Shortest pause after which deliveries count as resumed, seconds.
const RETURN: f64 = 0.3;

/// The pauses between deliveries, seconds.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    /// When the last packet arrived, receiver's clock.
    arrived_at: f64,
    /// Exponential average of the pauses.
    pub(super) mean: f64,
    /// The longest pause, which fades.
    pub(super) longest: f64,
    /// When feedback reported that deliveries resumed.
    returned_at: f64,
}

impl Pauses {
    /// Adds an arrival at `at`, which feedback reported at `now`.
    pub(super) fn on_arrival(&mut self, at: f64, now: f64) {
        let pause = at - self.arrived_at;
        if pause > MIN_PAUSE_SECONDS && self.arrived_at > 0.0 {
            self.mean += WEIGHT * (pause - self.mean);
            self.longest = self.longest.max(pause);
        }
        self.arrived_at = self.arrived_at.max(at);
        if pause > RETURN {
            self.returned_at = now;
        }
    }

    pub(super) fn advance(&mut self, elapsed: f64) {
        self.longest *= exp(-elapsed / PAUSE_FADE_SECONDS);
    }

    /// Time since deliveries last resumed, at `now`.
    pub(super) fn since_return(&self, now: f64) -> f64 {
        (now - self.returned_at).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_below_1_ms_do_not_count() {
        let mut pauses = Pauses::default();
        [1.0, 1.0005, 1.001].iter().for_each(|&at| pauses.on_arrival(at, at));
        assert_eq!((pauses.mean, pauses.longest), (0.0, 0.0));
        pauses.on_arrival(1.101, 1.2);
        assert!((pauses.longest - 0.1).abs() < 1e-9 && (pauses.mean - 0.01).abs() < 1e-9, "{pauses:?}");
    }

    #[test]
    fn deliveries_resume_after_a_pause_of_300_ms() {
        let mut pauses = Pauses::default();
        [(1.0, 1.1), (1.2, 1.3), (1.6, 1.7), (1.7, 1.8)].iter().for_each(|&(at, now)| pauses.on_arrival(at, now));
        assert!((pauses.since_return(2.0) - 0.3).abs() < 1e-9, "{pauses:?}");
    }
}
