//! Copa (NSDI 2018, "Copa: Practical Delay-Based Congestion Control for the Internet").
//!
//! The window steers towards the rate 1 / (delta d_q), where d_q is the queueing delay. A single sender keeps about 1 /
//! delta packets in the queue. Several senders converge to equal rates.
//!
//! The mode for competing queue-filling flows (section 2.3) is omitted. It starts if the queue has not nearly emptied
//! for five round trips. At video rates two packets of the flow itself cause that (lab: 2026-11-notes-control).
//!
//! Two additions to the paper: a window that the source does not use does not grow. The window counts bytes, in packets
//! of fragment size.
//!
//! | constant | value | source |
//! |---|---|---|
//! | delta | 0.5 | Copa, section 2.2 (default mode) |
//! | memory of the smallest round trip | 10 s | Copa, section 2.2 |
//! | window of the standing round trip | srtt / 2 | Copa, section 2.2 |
//! | velocity doubles | after 3 round trips in one direction | Copa, section 2.2 |
//! | pacing | 2 windows a round trip | Copa, section 2.2 |
//! | initial and least window | 10 and 2 packets | RFC 6928; RFC 5681 |
//! | weight of a round trip | 1/8 | RFC 6298, section 2 |

use std::time::Duration;

use lockstep_transport::{Feedback, LostFragment};
use lockstep_units::{Bitrate, ByteCount, SlidingMinimum, Timestamp};

use crate::{Allowance, Controller, ControllerSetup, InFlight, Input, PathView, RateBounds, Traits};

const DELTA: f64 = 0.5;
const MIN_WINDOW_MEMORY: Duration = Duration::from_secs(10);
const STEADY_ROUND_TRIPS: u32 = 3;
const PACING: f64 = 2.0;
const INITIAL_WINDOW: f64 = 10.0;
const MIN_WINDOW: f64 = 2.0;
const ROUND_TRIP_WEIGHT: f64 = 0.125;
const MAX_PACING_INTERVAL: Duration = Duration::from_secs(1);

/// Copa's sender.
#[derive(Debug)]
pub struct Copa {
    bounds: RateBounds,
    /// Bytes of a packet.
    packet: f64,
    /// Packets.
    window: f64,
    slow_start: bool,
    velocity: f64,
    /// Whether the window grows.
    rising: bool,
    steady: u32,
    round_trip_from: Timestamp,
    window_before: f64,
    smoothed: Option<f64>,
    /// Minimum round-trip time over 10 s, and over the last half round trip, seconds.
    smallest: SlidingMinimum<f64>,
    standing: SlidingMinimum<f64>,
    /// Maximum number of packets in flight since the last round trip began.
    used: f64,
    in_flight: f64,
}

impl Copa {
    /// A sender before its first feedback.
    #[must_use]
    pub fn new(setup: &ControllerSetup) -> Self {
        Self {
            bounds: setup.bounds,
            packet: setup.payload.as_f64().max(1.0),
            window: INITIAL_WINDOW,
            slow_start: true,
            velocity: 1.0,
            rising: true,
            steady: 0,
            round_trip_from: Timestamp::ZERO,
            window_before: INITIAL_WINDOW,
            smoothed: None,
            smallest: SlidingMinimum::new(),
            standing: SlidingMinimum::new(),
            used: 0.0,
            in_flight: 0.0,
        }
    }

    /// Standing round-trip time and its queueing delay, seconds.
    fn delays(&self) -> Option<(f64, f64)> {
        let (standing, smallest) = (self.standing.get()?, self.smallest.get()?);
        Some((standing, standing - smallest))
    }

    /// Updates the velocity at the end of a round trip.
    fn finish_round_trip(&mut self, now: Timestamp) {
        let rose = self.window > self.window_before;
        if rose == self.rising {
            self.steady += 1;
            if self.steady >= STEADY_ROUND_TRIPS {
                self.velocity *= 2.0;
            }
        } else {
            (self.rising, self.steady, self.velocity) = (rose, 0, 1.0);
        }
        (self.round_trip_from, self.window_before, self.used) = (now, self.window, self.in_flight);
    }

    fn rate(&self) -> Bitrate {
        // The whole window passes once per round trip, including the queueing delay.
        let Some(round_trip) = self.smoothed.filter(|&round_trip| round_trip > 0.0) else { return self.bounds.initial };
        let bps = 8.0 * self.packet * self.window / round_trip;
        Bitrate::from_bps(bps as u64).clamp(self.bounds.min, self.bounds.max)
    }
}

impl Copa {
    fn on_sent(&mut self, size: ByteCount) {
        self.in_flight += size.as_f64() / self.packet;
        self.used = self.used.max(self.in_flight);
    }

    fn on_feedback(&mut self, now: Timestamp, feedback: &Feedback) {
        for arrival in &feedback.acknowledged {
            self.in_flight = (self.in_flight - arrival.size.as_f64() / self.packet).max(0.0);
        }
        let Some(sample) = feedback.round_trip_time.map(|sample| sample.as_secs_f64()) else { return };
        let smoothed = self.smoothed.map_or(sample, |mean| mean + ROUND_TRIP_WEIGHT * (sample - mean));
        self.smoothed = Some(smoothed);
        for sample in feedback.round_trip_times() {
            self.smallest.put(now, sample, MIN_WINDOW_MEMORY);
        }
        // Each packet of a batched acknowledgement is a valid sample.
        for sample in feedback.round_trip_times() {
            self.standing.put(now, sample, Duration::from_secs_f64(smoothed / 2.0));
        }
        let Some((standing, queueing)) = self.delays() else { return };

        let packets: f64 = feedback.acknowledged.iter().map(|arrival| arrival.size.as_f64() / self.packet).sum();
        let below = self.window / standing.max(1e-6) <= 1.0 / (DELTA * queueing.max(1e-6));
        let used = self.used >= 0.5 * self.window;
        if self.slow_start {
            if below {
                self.window += if used { packets } else { 0.0 };
            } else {
                self.slow_start = false;
            }
        } else {
            let step = packets * self.velocity / (DELTA * self.window);
            // At any velocity, the window at most doubles or halves per round trip.
            let step = step.min(packets);
            if !below {
                self.window -= step;
            } else if used {
                self.window += step;
            }
        }
        self.window = self.window.max(MIN_WINDOW);
        if now.saturating_since(self.round_trip_from).as_secs_f64() >= smoothed {
            self.finish_round_trip(now);
        }
    }

    fn on_loss(&mut self, lost: &[LostFragment]) {
        for fragment in lost {
            self.in_flight = (self.in_flight - fragment.size.as_f64() / self.packet).max(0.0);
        }
    }
}

impl Controller for Copa {
    fn traits(&self) -> Traits {
        Traits::ESTIMATING
    }

    fn handle(&mut self, path: &PathView<'_>, input: Input<'_>) {
        match input {
            Input::Sent(size) => self.on_sent(size),
            Input::Feedback(feedback) => self.on_feedback(path.now, feedback),
            Input::Lost(lost) => self.on_loss(lost),
            Input::FeedbackSent(_) | Input::Encoded(_) | Input::Time | Input::PictureSkipped => {}
        }
    }

    fn allowance(&self, _path: &PathView<'_>, in_flight: InFlight) -> Allowance {
        let window = ByteCount::new((self.window * self.packet) as u64);
        let rate = self.rate();
        let interval = rate.mul_f64(PACING).time_for(ByteCount::new(self.packet as u64));
        Allowance::at_target(window.saturating_sub(in_flight.bytes), interval.min(MAX_PACING_INTERVAL), rate)
    }

    fn pacing_interval(&self, path: &PathView<'_>, in_flight: InFlight) -> Duration {
        self.allowance(path, in_flight).pacing_interval
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::closed_loop::{Outcome, Plan, run, setup};

    fn call(plan: &Plan) -> Outcome {
        run(plan, &mut Copa::new(&setup()), None)
    }

    #[test]
    fn constant_link_is_filled_with_a_short_queue() {
        let outcome = call(&Plan::constant(2_000));
        let rate = outcome.rate(5, 20).as_mbps();
        assert!((1.4..2.1).contains(&rate), "{outcome:?}");
        assert!(outcome.queueing_delay(5, 20, 0.5) < Duration::from_millis(60), "{outcome:?}");
    }

    #[test]
    fn rate_falls_with_the_capacity() {
        let outcome = call(&Plan::step(2_500, 600, 20));
        assert!(outcome.mean_target(25, 40) < Bitrate::from_kbps(800), "{outcome:?}");
        assert!(outcome.queueing_delay(25, 40, 0.5) < Duration::from_millis(150), "{outcome:?}");
    }

    #[test]
    fn rate_recovers_after_an_outage() {
        let outage = Some((Duration::from_secs(20), Duration::from_secs(21)));
        let outcome = call(&Plan { outage, length: Duration::from_secs(40), ..Plan::constant(1_000) });
        assert!(outcome.rate(25, 40).as_mbps() > 0.6, "{outcome:?}");
    }
}
