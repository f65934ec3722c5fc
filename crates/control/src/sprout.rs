//! Sprout

mod rate_filter;

use std::collections::VecDeque;
use std::time::Duration;

use lockstep_transport::{Feedback, LostFragment};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use crate::base_delay::BaseDelay;
use crate::{Allowance, Controller, InFlight, Setting};
use rate_filter::{RateFilter, TICK};

#[derive(Debug, Default)]
struct Smallest {
    v: VecDeque<(Timestamp, f64)>,
}
impl Smallest {
    fn put(&mut self, now: Timestamp, x: f64) {
        while self.v.back().is_some_and(|&(_, k)| k >= x) {
            self.v.pop_back();
        }
        self.v.push_back((now, x));
        while self.v.front().is_some_and(|&(at, _)| now.saturating_since(at) > Duration::from_secs(10)) {
            self.v.pop_front();
        }
    }
    fn get(&self) -> f64 {
        self.v.front().map_or(0.5, |x| x.1)
    }
}
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
    frame_interval: f64,
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
    round_trips: Smallest,
    tolerated: f64,
    risk: f64,
    pace: f64,
    mean_rate: f64,
    cautious_rate: f64,
    /// Own packets' virtual queue at the rate of bursts: when it is empty.
    own_left: f64,
    /// Decayed bytes and seconds inside frames' bursts.
    burst_bytes: f64,
    burst_seconds: f64,
    last: Option<(u32, f64)>,
    /// What packets wait that is not for own packets, the lower part of it, seconds.
    external: f64,
    this_burst: (f64, f64),
    competing_since: Option<f64>,
    standing: f64,
    long_base: BaseDelay,
    burst_rate: f64,
}

fn env(name: &str, or: f64) -> f64 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(or)
}

impl Sprout {
    /// A sender that has heard nothing yet.
    #[must_use]
    pub fn new(setting: &Setting) -> Self {
        let mut s = Self {
            payload: setting.payload.as_f64(),
            frame_interval: setting.frame_interval.as_secs_f64(),
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
            round_trip: 0.5,
            round_trips: Smallest::default(),
            tolerated: env("TOL", 0.08).max(0.85 * setting.frame_interval.as_secs_f64()),
            risk: env("RISK", 0.05),
            pace: env("PACE", 4.0),
            mean_rate: 0.0,
            cautious_rate: 0.0,
            own_left: 0.0,
            burst_bytes: 0.0,
            burst_seconds: 0.0,
            last: None,
            external: 0.0,
            this_burst: (0.0, 0.0),
            competing_since: None,
            standing: 0.0,
            long_base: BaseDelay::new(Duration::from_secs(60)),
            burst_rate: 0.0,
        };
        s.refresh();
        s
    }

    fn refresh(&mut self) {
        self.mean_rate = self.filter.mean_rate();
        self.cautious_rate = self.filter.cautious_rate(
            self.round_trip.min(1.0) + self.tolerated + env("KAPPA", 1.0) * self.filter.scatter_time(),
            self.risk,
        );
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
            free = free.max(sent.at + self.external) + sent.bytes / rate;
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
            self.round_trips.put(now, rtt);
            self.round_trip = self.round_trips.get();
        }
        for arrival in &feedback.acknowledged {
            let (delay, short) = self.base.update(arrival.sent_at, arrival.arrived_at);
            let (_, long) = self.long_base.update(arrival.sent_at, arrival.arrived_at);
            let queueing = (delay - short) as f64 * 1e-9;
            self.standing = (short - long) as f64 * 1e-9;
            let sent = arrival.sent_at.as_secs_f64();
            let left = sent + queueing;
            let bytes = arrival.size.as_f64() + 28.0;
            if left < self.known_until - 1.0 {
                continue;
            }
            // The rate inside frames' bursts.
            match self.last {
                Some((frame, before)) if frame == arrival.frame => {
                    self.this_burst.0 += bytes;
                    self.this_burst.1 += (left - before).max(0.0);
                }
                _ => {
                    let (bytes, seconds) = std::mem::take(&mut self.this_burst);
                    if bytes >= 2.0 * self.payload {
                        let keep = env("BKEEP", 0.9);
                        self.burst_bytes = keep * self.burst_bytes + bytes;
                        self.burst_seconds = keep * self.burst_seconds + seconds;
                    }
                }
            }
            self.last = Some((arrival.frame, left));
            let burst_rate = if self.burst_bytes > 3_000.0 {
                (self.burst_bytes / self.burst_seconds.max(1e-4)).max(self.mean_rate)
            } else {
                self.mean_rate
            };
            self.burst_rate = burst_rate;
            let idle = sent >= self.own_left;
            self.own_left = self.own_left.max(sent) + bytes / burst_rate;
            let external = (queueing - (self.own_left - sent)).max(0.0);
            let weight = if external < self.external { env("EDOWN", 0.2) } else { env("EUP", 0.02) };
            if idle || env("ALLE", 1.0) > 0.0 {
                self.external += weight * (external - self.external);
            }
            let start = if idle {
                self.free_at.max(sent).max(left - (queueing - self.external).max(0.0))
            } else {
                self.free_at.max(sent)
            };
            let start = if idle { left - env("FIRSTW", 1.0) * (left - start) } else { start };
            self.pass(left, start);
            self.tick_bytes += bytes;
            if idle {
                // It says only that the link is no slower than this.
                let expected = bytes / self.mean_rate.max(1.0);
                self.tick_exposure += (env("IDLE", 0.5) * expected - (left - start)).max(0.0);
            }
            self.free_at = self.free_at.max(left);
        }
        while self.first_sequence <= feedback.highest_sequence
            && let Some(sent) = self.pending.pop_front()
        {
            self.first_sequence += 1;
            self.pending_bytes -= sent.bytes;
        }
        let now = now.as_secs_f64();
        let standing = self.standing + self.external;
        if standing > env("COMP", 0.07) {
            self.competing_since.get_or_insert(now);
        } else {
            self.competing_since = None;
        }
    }

    fn on_time(&mut self, now: Timestamp) {
        if let Some(oldest) = self.pending.front() {
            let heard_of = now.as_secs_f64() - self.round_trip - SLACK;
            let busy_from = self.free_at.max(oldest.at + self.external);
            if heard_of > self.known_until.max(busy_from) {
                self.pass(heard_of, busy_from);
            }
        }
    }

    fn on_loss(&mut self, _now: Timestamp, _lost: &[LostFragment]) {}

    fn allowance(&self, now: Timestamp, in_flight: InFlight) -> Allowance {
        let now = now.as_secs_f64();
        let rate = self.cautious_rate;
        let tolerated = self.tolerated + (env("KAPPA", 1.0) * self.filter.scatter_time()).min(env("KMAX", 0.3));
        let competing = self.competing_since.is_some_and(|since| now - since > 1.0 && (now - since) % 4.0 < 3.6);
        let wait = self.backlog(now).max(self.external) + in_flight.queued.as_f64() / rate.max(1.0);
        let room = (tolerated - wait).max(0.0);
        // What a flow may have beyond its share of the rate, whatever that share is.
        let share_rate = rate
            + env("LINKW", 0.0) * (self.burst_rate.min(env("LINKX", 4.0) * self.mean_rate) - self.mean_rate).max(0.0);
        let add = env("ADD", 0.0)
            + env("ADDR", 0.0) * self.burst_rate.min(env("LINKX", 8.0) * self.mean_rate) * self.frame_interval;
        if env("DBG", 0.0) > 0.0 {
            eprintln!(
                "{now:.3} mean {:.0} cautious {:.0} burst {:.0} ext {:.3} backlog {:.3} tol {:.3} comp {competing} inflight {}",
                self.mean_rate,
                rate,
                self.burst_rate,
                self.external,
                self.backlog(now),
                tolerated,
                in_flight.bytes.get()
            );
        }
        let mut bytes = share_rate * room + add * (room / tolerated);
        bytes = bytes.min(env("CAP", 9.0) * self.mean_rate * self.frame_interval + env("CAPADD", 1.0) * add);
        let least = env("MINP", 1.0) * (self.payload + 96.0);
        if competing {
            bytes = bytes.max(self.burst_rate * env("DCOMP", 0.12) - in_flight.bytes.as_f64());
        }
        if in_flight.bytes.as_f64() < least {
            bytes = bytes.max(least - in_flight.bytes.as_f64());
        }
        let share = self.payload / (self.payload + 96.0);
        Allowance {
            budget: ByteCount::new((bytes * share) as u64),
            pacing_interval: Duration::from_secs_f64(
                (self.payload / (self.mean_rate * self.pace).max(1.0)).min(env("PMAX", 0.002)),
            ),
            target: Bitrate::from_bps((8.0 * rate * share * (tolerated / wait.max(1e-3)).min(1.0)) as u64),
        }
    }

    fn estimate(&self) -> Option<Bitrate> {
        Some(Bitrate::from_bps((8.0 * self.mean_rate) as u64))
    }
}
