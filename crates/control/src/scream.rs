//! SCReAM version 2, self-clocked rate adaptation for multimedia (draft-johansson-ccwg-rfc8298bis-screamv2-06, which
//! replaces RFC 8298).
//!
//! A reference window follows loss and queueing delay. The target rate is that window per round trip.
//!
//! Congestion marks are those of classic ECN (RFC 3168). They reduce the window like a loss, but by less, and marked
//! bytes do not increase it. These parts are omitted:
//!
//! - L4S and everything that depends on it
//! - the compensation for competing flows, which is optional in the draft and counts the flow's own queue as another's
//! - the histogram of frame sizes that widens the send window, since here no frame exceeds its budget
//!
//! The newest draft allows 5 times the window in flight, to avoid queues at the sender. Here a frame is coded to fit,
//! so no queue forms, and 1.5 is better (lab: 2026-11-notes-control).
//!
//! | constant | value | source |
//! |---|---|---|
//! | queue delay target | 60 ms | draft, QDELAY_TARGET_LO |
//! | least window | 3000 bytes | draft, MIN_REF_WND |
//! | head room over bytes in flight | 1.5 | draft, BYTES_IN_FLIGHT_HEAD_ROOM |
//! | window after a loss | x0.7 | draft, BETA_LOSS |
//! | window after a mark | x0.8 | draft, BETA_ECN |
//! | bytes in flight over window | 1.5 | earlier drafts, REF_WND_OVERHEAD; the newest has 5 |
//! | cautious after congestion | 100 round trips | draft, POST_CONGESTION_DELAY_RTT |
//! | multiplicative increase | 2 % a round trip | draft, MUL_INCREASE_FACTOR |
//! | virtual round trip | 25 ms | draft, VIRTUAL_RTT |
//! | weight of a rising queue delay | 1/4 | draft, QDELAY_AVG_G |
//! | inflection point kept for | 10 round trips | draft, section on the reference window's reduction |
//! | bytes in flight that limit the rate | 0.9 of the window, by 1.5 at most | draft, BYTES_IN_FLIGHT_LIMIT |
//! | pacing rate / target | 1.5, of 50 kb/s at least | draft, PACKET_PACING_HEADROOM, RATE_PACE_MIN |
//! | weight of a round trip | 1/8 | RFC 6298, section 2 |
//! | memory of the base delay | 2 min | LEDBAT (RFC 6817) has 10; clocks drift by some milliseconds in that time |

use std::collections::VecDeque;
use std::time::Duration;

use lockstep_transport::Feedback;
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use crate::base_delay::BaseDelay;
use crate::{Allowance, Controller, ControllerSetup, InFlight, Input, PathView, RateBounds, TokenBucket, Traits};

const QUEUE_DELAY_TARGET: f64 = 0.06;
const MIN_WINDOW: f64 = 3_000.0;
const IN_FLIGHT_HEAD_ROOM: f64 = 1.5;
const LOSS_BETA: f64 = 0.7;
const ECN_BETA: f64 = 0.8;
const WINDOW_OVERHEAD: f64 = 1.5;
const CAUTIOUS_ROUND_TRIPS: f64 = 100.0;
const MULTIPLICATIVE_INCREASE: f64 = 0.02;
const VIRTUAL_ROUND_TRIP: f64 = 0.025;
const QUEUE_DELAY_WEIGHT: f64 = 0.25;
const INFLECTION_ROUND_TRIPS: f64 = 10.0;
const IN_FLIGHT_LIMIT: f64 = 0.9;
const MAX_IN_FLIGHT_COMPENSATION: f64 = 1.5;
const PACING_HEAD_ROOM: f64 = 1.5;
const MIN_PACING_RATE: Bitrate = Bitrate::from_kbps(50);
const ROUND_TRIP_WEIGHT: f64 = 0.125;
const BASE_DELAY_MEMORY: Duration = Duration::from_secs(120);
/// Maximum number of remembered transmissions; more are never in flight.
const MAX_TRANSMISSIONS: usize = 16_384;

/// Transmissions after the newest one that arrived.
#[derive(Debug, Default)]
struct Transmissions {
    sizes: VecDeque<u64>,
    first_sequence: u64,
    bytes: u64,
    /// Maximum bytes in flight in this round trip and in the previous one.
    most: [u64; 2],
    round_trip_from: Timestamp,
}

impl Transmissions {
    fn on_transmit(&mut self, now: Timestamp, size: ByteCount, round_trip: f64) {
        self.sizes.push_back(size.get());
        self.bytes += size.get();
        if self.sizes.len() > MAX_TRANSMISSIONS {
            self.pop();
        }
        if now.saturating_since(self.round_trip_from).as_secs_f64() > round_trip {
            self.most = [0, self.most[0]];
            self.round_trip_from = now;
        }
        self.most[0] = self.most[0].max(self.bytes);
    }

    fn pop(&mut self) -> Option<u64> {
        let size = self.sizes.pop_front()?;
        self.first_sequence += 1;
        self.bytes -= size;
        Some(size)
    }

    /// Newly acknowledged bytes. Lost bytes among them count, as in the draft.
    fn acknowledged(&mut self, highest_sequence: u64) -> u64 {
        let mut bytes = 0;
        while self.first_sequence <= highest_sequence
            && let Some(size) = self.pop()
        {
            bytes += size;
        }
        bytes
    }

    fn most(&self) -> f64 {
        self.most[0].max(self.most[1]) as f64
    }
}

/// SCReAM's sender.
#[derive(Debug)]
pub struct Scream {
    bounds: RateBounds,
    segment: f64,
    transmissions: Transmissions,
    base_delay: BaseDelay,
    round_trip: Option<f64>,
    queue_delay: f64,
    mean_queue_delay: f64,
    queue_delay_at: Option<Timestamp>,
    lost: bool,
    marked: bool,
    window: f64,
    inflection: f64,
    inflection_at: Option<Timestamp>,
    congested_at: Timestamp,
    reacted_at: Option<Timestamp>,
    target: Bitrate,
    bucket: TokenBucket,
}

impl Scream {
    /// A sender before its first feedback.
    #[must_use]
    pub fn new(setup: &ControllerSetup) -> Self {
        Self {
            bounds: setup.bounds,
            segment: setup.payload.as_f64(),
            transmissions: Transmissions::default(),
            base_delay: BaseDelay::new(BASE_DELAY_MEMORY),
            round_trip: None,
            queue_delay: 0.0,
            mean_queue_delay: 0.0,
            queue_delay_at: None,
            lost: false,
            marked: false,
            window: MIN_WINDOW,
            inflection: 1.0,
            inflection_at: None,
            congested_at: Timestamp::ZERO,
            reacted_at: None,
            target: setup.bounds.initial,
            bucket: TokenBucket::new(setup.payload, setup.frame_interval),
        }
    }

    /// Share of a segment in the window.
    fn segment_share(&self) -> f64 {
        (self.segment / self.window).min(1.0)
    }

    /// Distance of the window from the start of the last congestion. The window grows slowly near it.
    fn inflection_scale(&self) -> f64 {
        let distance = 8.0 * (self.window - self.inflection) / self.inflection;
        (distance * distance).clamp(0.1, 1.0)
    }

    fn measure(&mut self, now: Timestamp, feedback: &Feedback) {
        // The newest fragment, as in the draft.
        let Some(newest) = feedback.acknowledged.last() else { return };
        for arrival in &feedback.acknowledged {
            self.queue_delay = self.base_delay.queueing_delay(arrival.sent_at, arrival.arrived_at).as_secs_f64();
        }
        // This includes the delay of the acknowledgement, since bytes are in flight for that time.
        let sample = now.saturating_since(newest.sent_at).as_secs_f64();
        let round_trip = self.round_trip.map_or(sample, |mean| mean + ROUND_TRIP_WEIGHT * (sample - mean));
        self.round_trip = Some(round_trip);
        let since = self.queue_delay_at.map(|at| now.saturating_since(at).as_secs_f64());
        if since.is_none_or(|since| since >= round_trip.min(VIRTUAL_ROUND_TRIP)) {
            self.queue_delay_at = Some(now);
            let rise = self.queue_delay - self.mean_queue_delay;
            self.mean_queue_delay += if rise > 0.0 { QUEUE_DELAY_WEIGHT * rise } else { rise };
        }
    }

    /// Draft, "Reference Window Reduction".
    fn reduce(&mut self, now: Timestamp, round_trip: f64) {
        let since = |at: Option<Timestamp>| at.map_or(f64::INFINITY, |at| now.saturating_since(at).as_secs_f64());
        if self.lost || self.marked {
            self.congested_at = now;
        }
        if since(self.reacted_at) < round_trip.min(VIRTUAL_ROUND_TRIP) {
            return;
        }
        let (lost, marked) = (std::mem::take(&mut self.lost), std::mem::take(&mut self.marked));
        let delayed = !lost && !marked && self.queue_delay > QUEUE_DELAY_TARGET / 2.0;
        if !lost && !marked && !delayed {
            return;
        }
        if since(self.inflection_at) > INFLECTION_ROUND_TRIPS * round_trip {
            self.inflection_at = Some(now);
            self.inflection = self.window;
        }
        if lost {
            self.window *= LOSS_BETA;
        }
        if marked {
            self.window *= ECN_BETA;
        }
        if delayed {
            // A delay between half the target and the target counts as this share of marked packets.
            let packets = self.target.as_bps() as f64 * round_trip / (8.0 * self.segment);
            let excess = (self.mean_queue_delay / (QUEUE_DELAY_TARGET / 2.0) - 1.0).max(0.0);
            let marked = (2.0 * 2.0 / packets * excess).min(1.0);
            self.window *= 1.0 - marked / 2.0 * (1.0 - self.segment_share()).max(0.5);
        }
        self.window = self.window.max(MIN_WINDOW);
        self.reacted_at = Some(now);
    }

    /// Draft, "Reference Window Increase".
    fn increase(&mut self, now: Timestamp, round_trip: f64, acknowledged: f64) {
        let scale = self.inflection_scale();
        let calm = now.saturating_since(self.congested_at).as_secs_f64();
        let calm = (calm / (CAUTIOUS_ROUND_TRIPS * round_trip.max(VIRTUAL_ROUND_TRIP))).min(1.0);
        let short = (round_trip / VIRTUAL_ROUND_TRIP).min(1.0);
        let mut increment = acknowledged * self.segment_share() * short * short;
        increment *= scale.max(0.25);
        increment *= (1.0 - self.segment_share()).max(0.5);
        increment *= (1.0 - self.mean_queue_delay / (QUEUE_DELAY_TARGET / 4.0)).max(0.1);
        increment *= 1.0 + MULTIPLICATIVE_INCREASE * self.window / self.segment * calm * scale;
        let most = self.segment + self.transmissions.most() * IN_FLIGHT_HEAD_ROOM;
        if self.window + increment <= most && self.target < self.bounds.max {
            self.window += increment;
        }
    }

    /// Draft, "Media Rate Control".
    fn target(&self, round_trip: f64, in_flight_share: f64) -> Bitrate {
        let mut share = 1.0;
        if self.queue_delay > 0.25 * QUEUE_DELAY_TARGET && in_flight_share > IN_FLIGHT_LIMIT {
            share /= (in_flight_share / IN_FLIGHT_LIMIT).min(MAX_IN_FLIGHT_COMPENSATION);
        }
        share *= 1.0 - (self.segment_share() - 0.1).clamp(0.0, 0.2);
        let bps = share * 8.0 * self.window / round_trip.max(1e-3);
        Bitrate::from_bps(bps.round() as u64).clamp(self.bounds.min, self.bounds.max)
    }
}

impl Scream {
    fn on_sent(&mut self, now: Timestamp, size: ByteCount) {
        self.bucket.on_transmit(now, size, self.target);
        self.transmissions.on_transmit(now, size, self.round_trip.unwrap_or(VIRTUAL_ROUND_TRIP));
    }

    fn on_feedback(&mut self, now: Timestamp, feedback: &Feedback) {
        let in_flight_share = self.transmissions.bytes as f64 / self.window;
        let acknowledged = self.transmissions.acknowledged(feedback.highest_sequence) as f64;
        let marks = feedback.acknowledged.iter().filter(|fragment| fragment.congestion_experienced);
        let marked_bytes: ByteCount = marks.map(|fragment| fragment.size).sum();
        self.marked |= marked_bytes > ByteCount::ZERO;
        self.measure(now, feedback);
        let Some(round_trip) = self.round_trip else { return };
        self.reduce(now, round_trip);
        self.increase(now, round_trip, (acknowledged - marked_bytes.as_f64()).max(0.0));
        self.target = self.target(round_trip, in_flight_share);
    }

    fn on_loss(&mut self) {
        self.lost = true;
    }
}

impl Controller for Scream {
    fn traits(&self) -> Traits {
        Traits::ESTIMATING
    }

    fn handle(&mut self, path: &PathView<'_>, input: Input<'_>) {
        match input {
            Input::Sent(size) => self.on_sent(path.now, size),
            Input::Feedback(feedback) => self.on_feedback(path.now, feedback),
            Input::Lost(_) => self.on_loss(),
            Input::FeedbackSent(_) | Input::Encoded(_) | Input::Time | Input::PictureSkipped => {}
        }
    }

    /// Draft, "Sender Transmission Control". The bytes in flight are those of the transport. Bytes that it declared
    /// lost must not keep the window closed after an outage.
    fn allowance(&self, path: &PathView<'_>, in_flight: InFlight) -> Allowance {
        let pacing = self.target.max(MIN_PACING_RATE).mul_f64(PACING_HEAD_ROOM);
        let allowance = self.bucket.allowance(path.now, in_flight, self.target, pacing);
        let room = ByteCount::new((WINDOW_OVERHEAD * self.window) as u64).saturating_sub(in_flight.bytes);
        Allowance { budget: allowance.budget.min(room), ..allowance }
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
        run(plan, &mut Scream::new(&setup()), None)
    }

    #[test]
    fn rate_reaches_1_mbps_in_5_s_with_a_short_queue() {
        for feedback_interval in [None, Some(Duration::from_millis(100))] {
            let outcome = call(&Plan { feedback_interval, ..Plan::constant(1_000) });
            let rate = outcome.rate(5, 20).as_mbps();
            assert!((0.7..1.05).contains(&rate), "{outcome:?}");
            assert!(outcome.queueing_delay(5, 20, 0.5) < Duration::from_millis(60), "{outcome:?}");
        }
    }

    #[test]
    fn rate_falls_with_the_capacity() {
        let outcome = call(&Plan::step(2_500, 600, 20));
        assert!(outcome.rate(10, 20).as_mbps() > 1.7, "{outcome:?}");
        assert!(outcome.mean_target(22, 40) < Bitrate::from_kbps(660), "{outcome:?}");
        assert!(outcome.queueing_delay(23, 40, 0.5) < Duration::from_millis(80), "{outcome:?}");
    }

    #[test]
    fn random_loss_of_5_percent_does_not_starve_it() {
        let outcome = call(&Plan { loss: 0.05, length: Duration::from_secs(40), ..Plan::constant(1_000) });
        assert!(outcome.rate(20, 40).as_mbps() > 0.2, "{outcome:?}");
    }

    #[test]
    fn rate_recovers_after_an_outage() {
        let outage = Some((Duration::from_secs(20), Duration::from_secs(21)));
        let outcome = call(&Plan { outage, length: Duration::from_secs(40), ..Plan::constant(1_000) });
        assert!(outcome.rate(25, 40).as_mbps() > 0.7, "{outcome:?}");
    }
}
