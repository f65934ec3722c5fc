//! The controller that knows the path: the best that any controller could do, and what the others are measured by.
//!
//! It keeps the queue before the bottleneck in mind, which on a known trace is exact: what was sent less what the trace
//! let through. A frame then gets what the link carries by the time the next frame is due, less what is queued, and so
//! leaves the queue empty for it.
//!
//! | constant | value | source |
//! |---|---|---|
//! | horizon | 1.25 frame intervals | so that a frame that is coded a little late finds the link still busy |
//! | headers | 28 bytes | UDP (RFC 768) and IPv4 (RFC 791), which the links of calls carry with a datagram |

use std::time::Duration;

use lockstep_transport::Feedback;
use lockstep_transport::wire::DATA_HEADER;
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use crate::{Allowance, Controller, InFlight, KnownPath, Setting};

/// How far ahead a frame may fill the link, in frame intervals.
const HORIZON_INTERVALS: f64 = 1.25;

/// What the links of calls carry with a datagram: headers of UDP and IPv4.
const NETWORK_HEADERS: u64 = 28;

/// Over what time the target is the mean of what passes.
const TARGET_WINDOW: Duration = Duration::from_secs(1);

/// Sends what the path will carry.
#[derive(Debug)]
pub struct Oracle {
    path: KnownPath,
    payload: ByteCount,
    horizon: Duration,
    at: Timestamp,
    /// Bytes before the bottleneck at `at`.
    backlog: ByteCount,
}

impl Oracle {
    /// A controller for `path`.
    #[must_use]
    pub fn new(path: KnownPath, setting: &Setting) -> Self {
        Self {
            path,
            payload: setting.payload,
            horizon: setting.frame_interval.mul_f64(HORIZON_INTERVALS),
            at: Timestamp::ZERO,
            backlog: ByteCount::ZERO,
        }
    }

    fn carried(&self, from: Timestamp, to: Timestamp) -> ByteCount {
        let moment = |at: Timestamp| Timestamp::ZERO + at.saturating_since(self.path.start);
        self.path.trace.bytes_between(moment(from), moment(to))
    }

    fn backlog_at(&self, now: Timestamp) -> ByteCount {
        self.backlog.saturating_sub(self.carried(self.at, now))
    }

    /// How much of a frame fits into `carried` bytes on the link.
    fn payload_in(&self, carried: ByteCount) -> ByteCount {
        let headers = DATA_HEADER as u64 + NETWORK_HEADERS;
        let whole = self.payload.get() + headers;
        let (fragments, rest) = (carried.get() / whole, carried.get() % whole);
        ByteCount::new(fragments * self.payload.get() + rest.saturating_sub(headers))
    }
}

impl Controller for Oracle {
    fn on_transmit(&mut self, now: Timestamp, size: ByteCount) {
        self.backlog = self.backlog_at(now) + size + ByteCount::new(NETWORK_HEADERS);
        self.at = now;
    }

    fn is_bounded(&self) -> bool {
        false
    }

    fn on_feedback(&mut self, _now: Timestamp, _feedback: &Feedback) {}

    fn allowance(&self, now: Timestamp, in_flight: InFlight) -> Allowance {
        let free = self.carried(now, now + self.horizon).saturating_sub(self.backlog_at(now));
        let target = Bitrate::mean(self.payload_in(self.carried(now, now + TARGET_WINDOW)), TARGET_WINDOW);
        Allowance {
            budget: self.payload_in(free).saturating_sub(in_flight.queued),
            pacing_interval: Duration::ZERO,
            target,
        }
    }
}

#[cfg(test)]
mod tests {
    use lockstep_link::Trace;

    use super::*;
    use crate::closed_loop::{Plan, run, setting};

    fn oracle(trace: &Trace) -> Oracle {
        Oracle::new(KnownPath { trace: trace.clone(), start: Timestamp::ZERO }, &setting())
    }

    #[test]
    fn a_constant_link_is_filled_and_its_queue_drains_with_every_frame() {
        let plan = Plan { fill: 1.0, ..Plan::new(Trace::constant(Bitrate::from_kbps(1_000))) };
        let outcome = run(&plan, &mut oracle(&plan.trace), None);
        assert!(outcome.rate(1, 20) > Bitrate::from_kbps(900), "{}", outcome.rate(1, 20));
        assert!(outcome.queueing_delay(1, 20, 1.0) < Duration::from_millis(45), "{outcome:?}");
    }

    #[test]
    fn an_outage_is_foreseen() {
        let trace = Trace::from_opportunities((0..2_000).chain(4_000..6_000).collect(), 6_000).unwrap();
        let plan = Plan { fill: 1.0, ..Plan::new(trace) };
        let outcome = run(&plan, &mut oracle(&plan.trace), None);
        assert!(outcome.rate(0, 2) > Bitrate::from_kbps(10_000), "{}", outcome.rate(0, 2));
        // All but the few small frames that are sent whatever the budget.
        assert!(outcome.queueing_delay(0, 20, 0.99) < Duration::from_millis(50), "{outcome:?}");
    }
}
