//! CUBIC (RFC 9438), the window of most TCP connections: after a loss it grows towards the window at that loss, waits
//! there, and then looks for more, by a cubic function of time and not of round trips.
//!
//! Slow start ends with the first loss: HyStart++, which RFC 9438 recommends, is left out.

use std::time::Duration;

use lockstep_units::Timestamp;

use super::congestion_window::{CongestionWindow, INITIAL_WINDOW, LEAST_WINDOW};

/// RFC 9438, section 4.6: the window is multiplied by this on loss.
const DECREASE: f64 = 0.7;
/// RFC 9438, section 5: C, packets per second cubed.
const SCALE: f64 = 0.4;
/// RFC 9438, section 4.3: packets a round trip that Reno would have to add to have the same mean window with this
/// decrease.
const RENO_INCREASE: f64 = 3.0 * (1.0 - DECREASE) / (1.0 + DECREASE);

/// A time of congestion avoidance.
#[derive(Debug, Clone, PartialEq)]
struct Epoch {
    start: Timestamp,
    /// Time from its start until the window is what it was before the loss, seconds (K).
    time_to_largest: f64,
    /// What Reno's window would be (W_est).
    reno: f64,
    /// The window before the reduction (cwnd_prior).
    prior: f64,
}

/// Grows by a cubic function of the time since the last loss.
#[derive(Debug, Clone, PartialEq)]
pub struct Cubic {
    window: f64,
    threshold: f64,
    /// The window at the last loss, or a little less if windows shrink (W_max).
    largest: f64,
    /// The window before the last reduction.
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
        // RFC 9438, section 4.3: once it is where it was before the reduction, Reno grows by a packet a round trip.
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
        // RFC 9438, section 4.7: a window that did not come back to the last largest makes room for new flows.
        self.largest = if self.window < self.largest { self.window * (1.0 + DECREASE) / 2.0 } else { self.window };
        self.prior = self.window;
        self.threshold = (self.window * DECREASE).max(LEAST_WINDOW);
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
        // RFC 9438, section 4.8: the first congestion avoidance after it starts from the window of that moment.
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
    fn after_a_loss_it_comes_back_to_its_window_when_the_cubic_function_says() {
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
        // Most of the way is made in the first half.
        assert!(at_half > 94.0, "{at_half}");
    }

    #[test]
    fn a_window_that_shrinks_twice_leaves_room() {
        let mut cubic = Cubic { window: 100.0, threshold: 100.0, ..Cubic::default() };
        cubic.on_loss(Timestamp::ZERO);
        cubic.on_loss(Timestamp::ZERO);
        assert!((cubic.largest - 70.0 * 0.85).abs() < 1e-9);
    }
}
