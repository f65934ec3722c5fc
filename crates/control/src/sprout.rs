//! Sprout

mod rate_filter;

use std::cell::Cell;
use std::collections::VecDeque;
use std::time::Duration;

use lockstep_transport::{Feedback, LostFragment};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use crate::base_delay::BaseDelay;
use crate::{Allowance, Controller, InFlight, Setting};
use rate_filter::{RateFilter, TICK};

const SLACK: f64 = 0.005;

#[derive(Debug, Clone, Copy)]
struct Sent {
    at: f64,
    bytes: f64,
}

/// Sprout's sender.
#[derive(Debug)]
pub struct Sprout {
    payload: f64,
    filter: RateFilter,
    base: BaseDelay,
    pending: VecDeque<Sent>,
    first_sequence: u64,
    pending_bytes: f64,
    /// Bottleneck's time (sender's clock) until which all is known; when the last known packet had left.
    known_until: f64,
    free_at: f64,
    tick_bytes: f64,
    tick_exposure: f64,
    tick_end: f64,
    round_trip: f64,
    tolerated: f64,
    risk: f64,
    pace: f64,
    mean_rate: f64,
    cautious_rate: f64,
    cautious_at: Cell<f64>,
    dbg: [f64; 4],
}

fn env(name: &str, or: f64) -> f64 { std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(or) }

impl Sprout {
    /// A sender that has heard nothing yet.
    #[must_use]
    pub fn new(setting: &Setting) -> Self {
        let mut s = Self {
            payload: setting.payload.as_f64(),
            filter: RateFilter::new(150_000.0, 0.5, env("VOL", 0.7)),
            base: BaseDelay::new(Duration::from_secs(10)),
            pending: VecDeque::new(),
            first_sequence: 0,
            pending_bytes: 0.0,
            known_until: 0.0,
            free_at: 0.0,
            tick_bytes: 0.0,
            tick_exposure: 0.0,
            tick_end: TICK,
            round_trip: 0.2,
            tolerated: env("TOL", 0.08).max(0.85 * setting.frame_interval.as_secs_f64()),
            risk: env("RISK", 0.05),
            pace: env("PACE", 4.0),
            mean_rate: 0.0,
            cautious_rate: 0.0,
            cautious_at: Cell::new(0.0),
            dbg: [0.0; 4],
        };
        s.refresh();
        s
    }

    fn refresh(&mut self) {
        self.mean_rate = self.filter.mean_rate();
        self.cautious_rate = self.filter.cautious_rate(self.round_trip.min(1.0) + self.tolerated + env("KAPPA", 1.0) * self.filter.scatter_time(), self.risk);
    }

    /// Time passes at the bottleneck, in which it had something to deliver or not.
    fn pass(&mut self, until: f64, busy_from: f64) {
        while self.known_until < until {
            let step = self.tick_end.min(until);
            let busy = step - self.known_until.max(busy_from);
            self.tick_exposure += busy.max(0.0);
            self.known_until = step;
            if step >= self.tick_end {
                self.filter.observe(self.tick_bytes, self.tick_exposure);
                self.filter.evolve();
                (self.tick_bytes, self.tick_exposure) = (0.0, 0.0);
                self.tick_end += TICK;
                self.refresh();
            }
        }
    }

    /// How long what is on the way will keep the bottleneck from `now` on, seconds.
    fn backlog(&self, now: f64) -> f64 {
        let rate = self.cautious_rate.max(1.0);
        let mut free = self.free_at;
        if !self.pending.is_empty() {
            free = free.max(now - self.round_trip - SLACK);
        }
        for sent in &self.pending {
            free = free.max(sent.at) + sent.bytes / rate;
        }
        (free - now).max(0.0)
    }
}

impl Controller for Sprout {
    fn on_transmit(&mut self, now: Timestamp, size: ByteCount) {
        let bytes = size.as_f64() + 28.0;
        self.pending.push_back(Sent { at: now.as_secs_f64(), bytes });
        self.pending_bytes += bytes;
    }

    fn on_feedback(&mut self, now: Timestamp, feedback: &Feedback) {
        if let Some(rtt) = feedback.round_trip_time {
            let rtt = rtt.as_secs_f64();
            self.round_trip = if rtt < self.round_trip { rtt } else { self.round_trip + 0.001 * (rtt - self.round_trip) };
        }
        for arrival in &feedback.acknowledged {
            let queueing = self.base.queueing_delay(arrival.sent_at, arrival.arrived_at).as_secs_f64();
            let sent = arrival.sent_at.as_secs_f64();
            let left = sent + queueing;
            let bytes = arrival.size.as_f64() + 28.0;
            if left < self.known_until - 1.0 { continue; }
            let idle = sent >= self.free_at;
            let start = self.free_at.max(sent);
            self.pass(left, start);
            self.tick_bytes += bytes;
            if idle {
                // It says only that the link is no slower than this.
                let expected = bytes / self.mean_rate.max(1.0);
                self.tick_exposure += (env("IDLE", 0.5) * expected - queueing).max(0.0);
            }
            self.free_at = self.free_at.max(left);
        }
        while self.first_sequence <= feedback.highest_sequence && let Some(sent) = self.pending.pop_front() {
            self.first_sequence += 1;
            self.pending_bytes -= sent.bytes;
        }
        let _ = now;
    }

    fn on_time(&mut self, now: Timestamp) {
        if let Some(oldest) = self.pending.front() {
            let heard_of = now.as_secs_f64() - self.round_trip - SLACK;
            let busy_from = self.free_at.max(oldest.at);
            if heard_of > self.known_until.max(busy_from) {
                self.pass(heard_of, busy_from);
            }
        }
    }

    fn on_loss(&mut self, _now: Timestamp, _lost: &[LostFragment]) {}

    fn allowance(&self, now: Timestamp, in_flight: InFlight) -> Allowance {
        let now = now.as_secs_f64();
        let rate = self.cautious_rate;
        let tolerated = self.tolerated + env("KAPPA", 1.0) * self.filter.scatter_time();
        let wait = self.backlog(now) + in_flight.queued.as_f64() / rate.max(1.0);
        let mut bytes = rate * (tolerated - wait).max(0.0);
        let least = env("MINP", 1.0) * (self.payload + 96.0);
        if in_flight.bytes.as_f64() < least {
            bytes = bytes.max(least - in_flight.bytes.as_f64());
        }
        let share = self.payload / (self.payload + 96.0);
        Allowance {
            budget: ByteCount::new((bytes * share) as u64),
            pacing_interval: Duration::from_secs_f64((self.payload / (self.mean_rate * self.pace).max(1.0)).min(0.1)),
            target: Bitrate::from_bps((8.0 * rate * share * (tolerated / wait.max(1e-3)).min(1.0)) as u64),
        }
    }

    fn estimate(&self) -> Option<Bitrate> {
        Some(Bitrate::from_bps((8.0 * self.mean_rate) as u64))
    }
}
