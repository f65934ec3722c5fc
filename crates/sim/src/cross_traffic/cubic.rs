//! CUBIC (RFC 9438), the congestion window of most TCP connections.
//!
//! After a loss the window grows towards its value before the loss, stays near it, and then grows beyond it. The growth
//! is a cubic function of time, not of round trips. Slow start ends with the first loss; HyStart++, which RFC 9438
//! recommends, is not implemented.

use std::time::Duration;

use lockstep_units::Timestamp;

use super::congestion_window::{CongestionWindow, INITIAL_WINDOW, MIN_WINDOW};

/// Factor of the window on loss (beta, RFC 9438, section 4.6).
const DECREASE: f64 = 0.7;
/// Constant C, packets per second cubed (RFC 9438, section 5).
const SCALE: f64 = 0.4;
/// Increase of a Reno window with the same mean, packets per round trip (alpha, RFC 9438, section 4.3).
const RENO_INCREASE: f64 = 3.0 * (1.0 - DECREASE) / (1.0 + DECREASE);

/// Period of congestion avoidance between two reductions.
#[derive(Debug, Clone, PartialEq)]
struct Epoch {
    start: Timestamp,
    /// Time from the start of the epoch until the window reaches W_max, seconds (K).
    time_to_largest: f64,
    /// Window that Reno would have, packets (W_est).
    reno: f64,
    /// Window before the reduction, packets (cwnd_prior).
    prior: f64,
}

/// CUBIC's congestion window.
#[derive(Debug, Clone, PartialEq)]
pub struct Cubic {
    window: f64,
    threshold: f64,
    /// Window at the last loss, packets; less if windows shrink (W_max).
    largest: f64,
    /// Window before the last reduction, packets.
    prior: f64,
    epoch: Option<Epoch>,
}

impl Default for Cubic {
    fn default() -> Self {
        let window = INITIAL_WINDOW;
        Self { window, threshold: f64::INFINITY, largest: 0.0, prior: window, epoch: None }
    }
}

impl Cubic {
    fn avoid_congestion(&mut self, now: Timestamp, round_trip: Duration) {
        let (window, largest, prior) = (self.window, self.largest.max(self.window), self.prior);
        let epoch = self.epoch.get_or_insert_with(|| Epoch {
            start: now,
            time_to_largest: libm::cbrt((largest - window) / SCALE),
            reno: window,
            prior,
        });
        self.largest = largest;
        let curve = |time: f64| {
            let distance = time - epoch.time_to_largest;
            SCALE * distance * distance * distance + largest
        };
        let time = now.saturating_since(epoch.start).as_secs_f64();
        // RFC 9438, section 4.3: from the prior window on, Reno grows by one packet per round trip.
        let increase = if epoch.reno >= epoch.prior { 1.0 } else { RENO_INCREASE };
        let reno = epoch.reno + increase / window;
        let in_a_round_trip = curve(time + round_trip.as_secs_f64()).clamp(window, 1.5 * window);
        let below_reno = curve(time) < reno;
        epoch.reno = reno;
        if below_reno {
            self.window = self.window.max(reno);
        } else {
            self.window += (in_a_round_trip - window) / window;
        }
    }

    fn reduce(&mut self) {
        // RFC 9438, section 4.7, fast convergence: a shrinking window makes room for new flows.
        self.largest = if self.window < self.largest { self.window * (1.0 + DECREASE) / 2.0 } else { self.window };
        self.prior = self.window;
        self.threshold = (self.window * DECREASE).max(MIN_WINDOW);
        self.epoch = None;
    }
}

impl CongestionWindow for Cubic {
    fn window(&self) -> f64 {
        self.window
    }

    fn on_acknowledged(&mut self, now: Timestamp, packets: u64, round_trip: Duration) {
        for _ in 0..packets {
            if self.window < self.threshold {
                self.window += 1.0;
            } else {
                self.avoid_congestion(now, round_trip);
            }
        }
    }

    fn on_loss(&mut self, _now: Timestamp) {
        self.reduce();
        self.window = self.threshold;
    }

    fn on_timeout(&mut self, _now: Timestamp) {
        self.reduce();
        // RFC 9438, section 4.8: congestion avoidance after a timeout starts from the window at that time.
        self.largest = 0.0;
        self.window = 1.0;
    }

    fn on_idle(&mut self) {
        self.window = self.window.min(INITIAL_WINDOW);
        self.epoch = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_recovers_from_a_loss_after_k_seconds() {
        let mut cubic = Cubic { window: 100.0, threshold: 100.0, ..Cubic::default() };
        cubic.on_loss(Timestamp::ZERO);
        assert!((cubic.window() - 70.0).abs() < 1e-9);
        // K = cbrt(30 / 0.4) = 4.217 s. Round trips of 200 ms are long enough for Reno to be slower.
        let round_trip = Duration::from_millis(200);
        let mut now = Timestamp::ZERO;
        let mut at_half = 0.0;
        while now < Timestamp::from_millis(4_200) {
            let packets = cubic.window() as u64;
            cubic.on_acknowledged(now, packets, round_trip);
            now += round_trip;
            if now == Timestamp::from_millis(2_200) {
                at_half = cubic.window();
            }
        }
        assert!((95.0..101.0).contains(&cubic.window()), "{}", cubic.window());
        // Most of the growth happens in the first half.
        assert!(at_half > 94.0, "{at_half}");
    }

    #[test]
    fn a_second_loss_in_a_row_lowers_the_largest_window() {
        let mut cubic = Cubic { window: 100.0, threshold: 100.0, ..Cubic::default() };
        cubic.on_loss(Timestamp::ZERO);
        cubic.on_loss(Timestamp::ZERO);
        assert!((cubic.largest - 70.0 * 0.85).abs() < 1e-9);
    }
}
