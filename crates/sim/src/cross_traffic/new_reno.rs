//! NewReno's congestion window: slow start, additive increase, multiplicative decrease (RFC 5681, RFC 6582).

use std::time::Duration;

use lockstep_units::Timestamp;

use super::congestion_window::{CongestionWindow, INITIAL_WINDOW, MIN_WINDOW};

/// Window that grows by one packet per round trip and halves on loss.
#[derive(Debug, Clone, PartialEq)]
pub struct NewReno {
    window: f64,
    threshold: f64,
}

impl Default for NewReno {
    fn default() -> Self {
        Self { window: INITIAL_WINDOW, threshold: f64::INFINITY }
    }
}

impl CongestionWindow for NewReno {
    fn window(&self) -> f64 {
        self.window
    }

    fn on_acknowledged(&mut self, _now: Timestamp, packets: u64, _round_trip: Duration) {
        for _ in 0..packets {
            self.window += if self.window < self.threshold { 1.0 } else { 1.0 / self.window };
        }
    }

    fn on_loss(&mut self, _now: Timestamp) {
        self.threshold = (self.window / 2.0).max(MIN_WINDOW);
        self.window = self.threshold;
    }

    fn on_timeout(&mut self, _now: Timestamp) {
        self.threshold = (self.window / 2.0).max(MIN_WINDOW);
        self.window = 1.0;
    }

    fn on_idle(&mut self) {
        self.window = self.window.min(INITIAL_WINDOW);
    }
}
