//! Link capacity at recent overuses, with its uncertainty.

use lockstep_units::Bitrate;

/// Weight of a new overuse (draft-ietf-rmcat-gcc-02, section 5.5: 0.95 for the past).
const WEIGHT: f64 = 0.05;
/// Bounds of the normalised variance, kb/s. It starts at the lower one (`LinkCapacityEstimator` in WebRTC).
const VARIANCE_BOUNDS: (f64, f64) = (0.4, 2.5);
/// Half width of the region around the estimate, standard deviations.
const DEVIATIONS: f64 = 3.0;

/// Average of the throughput at overuses, with its deviation.
#[derive(Debug, Clone)]
pub(super) struct LinkCapacity {
    estimate_kbps: Option<f64>,
    /// Variance of the throughput divided by the estimate.
    variance_kbps: f64,
}

impl Default for LinkCapacity {
    fn default() -> Self {
        Self { estimate_kbps: None, variance_kbps: VARIANCE_BOUNDS.0 }
    }
}

impl LinkCapacity {
    /// Adds the throughput at an overuse.
    pub(super) fn on_overuse(&mut self, throughput: Bitrate) {
        let sample = kilobits(throughput);
        let estimate = self.estimate_kbps.map_or(sample, |estimate| (1.0 - WEIGHT) * estimate + WEIGHT * sample);
        self.estimate_kbps = Some(estimate);
        let error = estimate - sample;
        let normalised = error * error / estimate.max(1.0);
        let variance = (1.0 - WEIGHT) * self.variance_kbps + WEIGHT * normalised;
        self.variance_kbps = variance.clamp(VARIANCE_BOUNDS.0, VARIANCE_BOUNDS.1);
    }

    /// Clears the estimate but keeps its variance.
    pub(super) fn reset(&mut self) {
        self.estimate_kbps = None;
    }

    /// The estimate, if there is one.
    pub(super) fn estimate(&self) -> Option<Bitrate> {
        self.estimate_kbps.map(from_kilobits)
    }

    /// Whether `throughput` is so high that the capacity must have increased.
    pub(super) fn is_exceeded_by(&self, throughput: Bitrate) -> bool {
        self.estimate_kbps.is_some_and(|estimate| kilobits(throughput) > estimate + self.margin_kbps(estimate))
    }

    /// Whether `throughput` at an overuse is so low that the capacity must have decreased.
    pub(super) fn is_missed_by(&self, throughput: Bitrate) -> bool {
        self.estimate_kbps.is_some_and(|estimate| kilobits(throughput) < estimate - self.margin_kbps(estimate))
    }

    fn margin_kbps(&self, estimate: f64) -> f64 {
        DEVIATIONS * (self.variance_kbps * estimate).sqrt()
    }
}

fn kilobits(rate: Bitrate) -> f64 {
    rate.as_bps() as f64 * 1e-3
}

fn from_kilobits(rate: f64) -> Bitrate {
    Bitrate::from_bps((rate * 1e3).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overuse_moves_the_estimate_by_5_percent() {
        let mut capacity = LinkCapacity::default();
        assert_eq!(capacity.estimate(), None);
        capacity.on_overuse(Bitrate::from_kbps(1_000));
        capacity.on_overuse(Bitrate::from_kbps(1_100));
        assert_eq!(capacity.estimate(), Some(Bitrate::from_kbps(1_005)));
    }

    #[test]
    fn region_widens_with_the_variance_up_to_a_bound() {
        let mut capacity = LinkCapacity::default();
        capacity.on_overuse(Bitrate::from_kbps(1_000));
        // Three times the square root of 0.4 times 1000.
        assert!(
            capacity.is_exceeded_by(Bitrate::from_kbps(1_061)) && !capacity.is_exceeded_by(Bitrate::from_kbps(1_059))
        );
        assert!(capacity.is_missed_by(Bitrate::from_kbps(939)) && !capacity.is_missed_by(Bitrate::from_kbps(941)));
        for overuse in 0..200 {
            capacity.on_overuse(Bitrate::from_kbps(if overuse % 2 == 0 { 700 } else { 1_300 }));
        }
        let estimate = capacity.estimate().unwrap();
        // Three times the square root of 2.5 times 1000.
        assert!(!capacity.is_exceeded_by(estimate + Bitrate::from_kbps(145)));
        assert!(capacity.is_exceeded_by(estimate + Bitrate::from_kbps(155)));
    }

    #[test]
    fn no_throughput_is_outside_without_an_estimate() {
        let capacity = LinkCapacity::default();
        assert!(!capacity.is_exceeded_by(Bitrate::from_kbps(1_000)) && !capacity.is_missed_by(Bitrate::ZERO));
    }
}
