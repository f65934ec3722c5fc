//! Jitter: the part of packet delays that no queue causes, at any sending rate.
//!
//! The first packet of a frame can wait although none of the flow's packets is in front of it. Reasons are scheduling
//! turns, packets of other flows, a slower link than estimated, or radio retransmissions. Only the last one is
//! independent for each packet. A queue changes little between frames, and a link with pauses delays only few packets.
//!
//! Therefore delays count as jitter if successive ones differ more than each differs from the mean. The ratio of these
//! differences is √2 for independent normal delays, 4/3 for uniform ones and e/2 for exponential ones. It is 1 if there
//! are only two values, and less if each delay is similar to the one before.
//!
//! Jitter does not count as busy time of the path. The constants are in [`JitterConfig`] (lab: 2026-11-notes-control;
//! `docs/lab/2026-11-controllers.md`, "Where delays scatter").

use libm::fabs;

use crate::JitterConfig;

/// Share of the averaging time before which nothing counts as jitter.
const MIN_AVERAGING_SHARE: f64 = 0.6;

/// Jitter estimator. Times are in seconds.
#[derive(Debug, Default)]
pub(super) struct Jitter {
    config: JitterConfig,
    waits: f64,
    last: f64,
    /// Mean of the delays, mean deviation from it, and mean difference of successive delays.
    mean: f64,
    deviation: f64,
    change: f64,
}

impl Jitter {
    pub(super) fn new(config: JitterConfig) -> Self {
        Self { config, ..Self::default() }
    }

    /// Adds a packet without own packets in front of it. `wait` is its delay beyond its service time.
    pub(super) fn waited(&mut self, wait: f64) {
        self.waits += 1.0;
        let weight = self.config.weight.max(1.0 / self.waits);
        self.mean += weight * (wait - self.mean);
        self.deviation += weight * (fabs(wait - self.mean) - self.deviation);
        self.change += weight * (fabs(wait - self.last) - self.change);
        self.last = wait;
    }

    /// Share of the delays that is jitter.
    fn share(&self) -> f64 {
        if self.waits < MIN_AVERAGING_SHARE / self.config.weight || self.deviation <= 0.0 {
            return 0.0;
        }
        ((self.change / self.deviation - 1.0) / (self.config.independent - 1.0)).clamp(0.0, 1.0)
    }

    /// The jitter part of `wait`.
    pub(super) fn of(&self, wait: f64) -> f64 {
        self.share() * wait.max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The estimator after these delays.
    fn after(waits: impl IntoIterator<Item = f64>) -> Jitter {
        let mut jitter = Jitter::default();
        waits.into_iter().for_each(|wait| jitter.waited(wait));
        jitter
    }

    /// Pseudorandom numbers from 0 to 1.
    fn drawn() -> impl Iterator<Item = f64> {
        let mut state = 1_u64;
        std::iter::repeat_with(move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f64 / (1_u64 << 24) as f64
        })
    }

    #[test]
    fn independent_delays_are_jitter() {
        for wait in [|x: f64| -0.02 * libm::log(1.0 - x), |x| 0.05 * x] {
            let jitter = after(drawn().map(wait).take(300));
            assert!(jitter.share() > 0.8, "{jitter:?}");
        }
    }

    #[test]
    fn queue_that_grows_and_drains_is_not_jitter() {
        let jitter = after((0..300).map(|frame| 0.1 + 0.1 * libm::sin(f64::from(frame) / 10.0)));
        assert!(jitter.share() < 0.01, "{jitter:?}");
    }

    #[test]
    fn pauses_that_delay_several_frames_are_not_jitter() {
        let waits = (0..300).map(|frame| (0.2 - 0.033 * f64::from(frame % 60)).max(0.0));
        let jitter = after(waits);
        assert!(jitter.share() < 0.01, "{jitter:?}");
    }

    #[test]
    fn few_or_equal_delays_are_not_jitter() {
        assert_eq!(after(drawn().take(20)).of(0.1), 0.0);
        assert_eq!(after([0.02; 300]).of(0.1), 0.0);
    }
}
