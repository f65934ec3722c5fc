//! Smoothed round-trip time.

use std::time::Duration;

/// Nanoseconds of a duration; saturates.
pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Round-trip time, without the time for which the receiver held the acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundTripTime {
    /// Last sample.
    pub latest: Duration,
    /// Exponential average, weight 1/8 (RFC 9002, section 5.3).
    pub smoothed: Duration,
    /// Exponential average of the deviation, weight 1/4 (RFC 9002, section 5.3).
    pub variation: Duration,
    /// Smallest sample.
    pub minimum: Duration,
}

impl RoundTripTime {
    /// Assumed round-trip time before the first sample, with half of it as variation (RFC 9002, section 6.2.2).
    pub(crate) fn assumed(initial: Duration) -> Self {
        Self { latest: initial, smoothed: initial, variation: initial / 2, minimum: initial }
    }

    /// Round-trip time after the first sample.
    pub fn first(sample: Duration) -> Self {
        Self::assumed(sample)
    }

    /// Adds a sample (RFC 9002, section 5.3).
    pub fn update(&mut self, sample: Duration) {
        self.latest = sample;
        self.minimum = self.minimum.min(sample);
        // Integer nanoseconds are faster: `Duration` divides seconds and fractions separately.
        let [sample, variation, smoothed] = [sample, self.variation, self.smoothed].map(nanoseconds);
        let variation = variation.saturating_mul(3).saturating_add(smoothed.abs_diff(sample)) / 4;
        self.variation = Duration::from_nanos(variation);
        self.smoothed = Duration::from_nanos(smoothed.saturating_mul(7).saturating_add(sample) / 8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn average_follows_samples_and_minimum_stays() {
        let mut time = RoundTripTime::first(Duration::from_millis(100));
        assert_eq!(time.variation, Duration::from_millis(50));
        (0..100).for_each(|_| time.update(Duration::from_millis(200)));
        assert_eq!(time.minimum, Duration::from_millis(100));
        assert_eq!(time.smoothed.as_millis(), 199);
        assert!(time.variation < Duration::from_millis(1));
    }
}
