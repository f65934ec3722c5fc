//! Queueing delays of packets at the link.

use libm::exp;

use super::averages::{Averages, Weights};

/// Time over which the longest delay fades, seconds.
const DELAY_FADE_SECONDS: f64 = 0.4;

/// Queueing delays of packets, seconds.
#[derive(Debug, Default)]
pub(super) struct Waits {
    /// Sum of the delays since the averages were last advanced.
    sum: f64,
    /// Number of packets since then.
    packets: f64,
    pub(super) last: f64,
    /// The longest delay, which fades.
    pub(super) longest: f64,
    pub(super) averages: Averages,
}

impl Waits {
    pub(super) fn add(&mut self, wait: f64) {
        self.sum += wait;
        self.packets += 1.0;
        self.last = wait;
        self.longest = self.longest.max(wait);
    }

    /// Advances the averages; returns the number of packets since they were last advanced.
    pub(super) fn advance(&mut self, elapsed: f64, weights: Weights) -> f64 {
        let (sum, packets) = (std::mem::take(&mut self.sum), std::mem::take(&mut self.packets));
        self.averages.put(if packets > 0.0 { sum / packets } else { self.last }, weights);
        self.longest *= exp(-elapsed / DELAY_FADE_SECONDS);
        packets
    }
}
