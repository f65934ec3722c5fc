//! Hindsight: a reference controller that knows the path's past capacity and its queue, but not the future.
//!
//! It expects the capacity of the last [`MEMORY`] to continue. Its lead over other controllers is the cost of measuring
//! a path by acknowledgements. Its distance to the upper bound on QoE_d (`sim::BoundedCall`) is the value of foresight.
//! Only simulations provide the path.
//!
//! The bottleneck queue is exact: sent bytes minus the bytes that the trace delivered.
//!
//! - A frame gets the bytes that the link delivers until shortly after the next picture, minus the queue.
//! - After a skipped picture, it gets the bytes of one more interval.
//! - On a very slow link the smallest frame may exceed that. Then the frame gets the smallest size, and the pictures
//!   until its delivery get nothing.
//! - A codec that follows a target gets the mean rate of the last second.
//! - Bytes that the queue would drop wait in the pacer. Under CoDel and PIE, the queue limits are those of the next
//!   moments.
//!
//! | constant | value | reason |
//! |---|---|---|
//! | horizon | 1.25 frame intervals, at most 200 ms | a frame that is coded slightly late finds the link still busy |
//! | horizon with losses | longer by 1.5 per lost packet for each that arrives, up to 90 % loss | frames with parity are smaller than their share (lab: 2026-11-notes-control) |
//! | headers | 56 bytes | UDP (RFC 768), IPv4 (RFC 791) and QUIC per datagram on the link ([`DATAGRAM_OVERHEAD`]) |

pub(crate) mod bottleneck;
mod smallest_frame;

use std::time::Duration;

use lockstep_transport::wire::{DATA_HEADER, DATAGRAM_OVERHEAD};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use crate::{Allowance, Controller, ControllerSetup, InFlight, Input, KnownPath, PathView, Traits};
use bottleneck::Bottleneck;
use smallest_frame::SmallestFrame;

/// Time that a frame may fill the link, frame intervals.
const HORIZON_INTERVALS: f64 = 1.25;

/// Upper bound of the horizon at low frame rates (lab: 2026-11-notes-control).
const MAX_HORIZON: Duration = Duration::from_millis(200);

/// Increase of the horizon per lost packet for each that arrives, and the largest loss that counts (lab:
/// 2026-11-notes-control).
const HORIZON_FOR_LOST: f64 = 1.5;
const MAX_LOSS: f64 = 0.9;

/// Shortest time between two large pictures on the link. Fewer pictures with more bits gain quality but add delay (lab:
/// 2026-11-notes-control).
const MIN_PERIOD: Duration = Duration::from_millis(40);
/// At higher frame rates, a picture is sent only if the queue drains within this many frame intervals.
const READY_INTERVALS: f64 = 0.5;

/// Time over which the path is expected to continue unchanged (lab: 2026-11-notes-control).
const MEMORY: Duration = Duration::from_millis(33);
/// Averaging time of the rate for a codec that follows a target.
const TARGET_MEMORY: Duration = Duration::from_secs(1);
/// Interval at which a codec adopts a new target.
const HOLD: Duration = Duration::from_secs(1);
/// Assumed rate before the first measurement.
const UNKNOWN: Bitrate = Bitrate::from_kbps(300);
/// Longest wait of a datagram in the pacer before a new decision.
const MAX_PACER_WAIT: Duration = Duration::from_secs(10);

/// Controller that sends the bytes that an unchanged path would deliver.
#[derive(Debug)]
pub struct Hindsight {
    path: Bottleneck,
    payload: ByteCount,
    interval: Duration,
    horizon: Duration,
    smallest: SmallestFrame,
    /// Rate for codecs that follow a target, and the time when it was adopted.
    rate: Bitrate,
    taken_at: Option<Timestamp>,
    sent: bool,
    /// Whether the encoder skipped a picture since the last frame.
    left_out: bool,
    /// Current loss share of the path, without drops by the queue.
    loss: f64,
}

impl Hindsight {
    /// A controller for `path`.
    #[must_use]
    pub fn new(path: KnownPath, setup: &ControllerSetup) -> Self {
        let datagram = setup.payload.get() + DATA_HEADER as u64 + DATAGRAM_OVERHEAD;
        Self {
            path: Bottleneck::new(path, datagram),
            payload: setup.payload,
            interval: setup.frame_interval,
            horizon: (period(setup.frame_interval).saturating_sub(setup.frame_interval)
                + setup.frame_interval.mul_f64(HORIZON_INTERVALS))
            .min(MAX_HORIZON),
            smallest: SmallestFrame::default(),
            rate: Bitrate::ZERO,
            taken_at: None,
            sent: false,
            left_out: false,
            loss: 0.0,
        }
    }

    /// Mean rate of the path over `memory` before `now`.
    fn rate_of_late(&self, now: Timestamp, memory: Duration) -> Bitrate {
        let known = memory.min(now.saturating_since(Timestamp::ZERO));
        if known < MEMORY {
            return UNKNOWN;
        }
        Bitrate::mean(self.path.carried(now - known, now), known)
    }

    /// Bytes that the path is expected to deliver within `time` from `now`.
    fn carried(&self, now: Timestamp, time: Duration) -> ByteCount {
        self.rate_of_late(now, MEMORY).bytes_in(time)
    }

    /// Time to deliver `bytes` from `now`; none if the rate is zero.
    fn time_for(&self, now: Timestamp, bytes: ByteCount) -> Option<Duration> {
        let rate = self.rate_of_late(now, MEMORY);
        (rate > Bitrate::ZERO).then(|| rate.time_for(bytes))
    }

    /// Wait of the next datagram after one of `size` that leaves at `now`.
    fn pause_after(&self, now: Timestamp, size: ByteCount) -> Duration {
        match self.path.over_after(now, size) {
            ByteCount::ZERO => Duration::ZERO,
            over => self.time_for(now, over).unwrap_or(MAX_PACER_WAIT).min(MAX_PACER_WAIT),
        }
    }

    /// Payload bytes of a frame that occupies `carried` link bytes.
    fn payload_in(&self, carried: ByteCount) -> ByteCount {
        let headers = DATA_HEADER as u64 + DATAGRAM_OVERHEAD;
        let whole = self.payload.get() + headers;
        let (fragments, rest) = (carried.get() / whole, carried.get() % whole);
        ByteCount::new(fragments * self.payload.get() + rest.saturating_sub(headers))
    }

    /// Link bytes for a frame that is sent at `now` into an empty queue.
    fn share(&self, now: Timestamp) -> ByteCount {
        let loss = self.loss.min(MAX_LOSS);
        let stretch = 1.0 + HORIZON_FOR_LOST * loss / (1.0 - loss);
        let left_out = if self.left_out { self.interval } else { Duration::ZERO };
        self.carried(now, (self.horizon + left_out).mul_f64(stretch))
    }

    /// Link bytes for a frame at `now`; zero if nothing is left.
    fn room(&self, now: Timestamp) -> ByteCount {
        let (backlog, share) = (self.path.backlog(now), self.share(now));
        if backlog == ByteCount::ZERO && share > ByteCount::ZERO && self.smallest.wanted() > share {
            return self.smallest.wanted();
        }
        // At high frame rates, the next picture waits until the queue has almost drained.
        let ready = self.interval.mul_f64(READY_INTERVALS);
        if self.horizon > self.interval * 2 && backlog > self.carried(now, ready) {
            return ByteCount::ZERO;
        }
        share.saturating_sub(backlog)
    }
}

/// Interval between two frames that fill the link.
fn period(interval: Duration) -> Duration {
    let intervals = (MIN_PERIOD.as_nanos() / interval.as_nanos().max(1)).clamp(1, 1_000) as u32;
    interval * intervals
}

impl Hindsight {
    fn on_sent(&mut self, now: Timestamp, size: ByteCount) {
        (self.sent, self.left_out) = (true, false);
        self.smallest.on_sent();
        self.path.take(now, size + ByteCount::new(DATAGRAM_OVERHEAD));
    }

    fn on_feedback_sent(&mut self, now: Timestamp, carried: ByteCount) {
        self.path.take(now, carried);
    }

    fn on_picture_skipped(&mut self) {
        self.left_out = true;
    }

    fn on_time(&mut self, now: Timestamp) {
        self.loss = self.path.loss(now);
        if self.sent && self.path.backlog(now) == ByteCount::ZERO {
            self.smallest.on_empty(now, self.interval, self.room(now));
        }
        let due = self.taken_at.is_none_or(|at| now.saturating_since(at) >= HOLD);
        if due {
            self.taken_at = Some(now);
        }
        // The codec may have been busy at the due time and adopt the target slightly later.
        let since = self.taken_at.map_or(Duration::ZERO, |at| now.saturating_since(at));
        if due || since <= self.interval.mul_f64(2.0) {
            self.rate = self.rate_of_late(now, TARGET_MEMORY);
        }
    }
}

impl Controller for Hindsight {
    fn traits(&self) -> Traits {
        // Nothing is known of the codec before the first frame. Random loss is unpredictable: a key frame may have to
        // be larger than a frame that probably arrives complete.
        let wants_probes = !self.sent || self.loss > 0.0;
        Traits { is_bounded: false, wants_probes, ..Traits::ESTIMATING }
    }

    fn handle(&mut self, path: &PathView<'_>, input: Input<'_>) {
        match input {
            Input::Sent(size) => self.on_sent(path.now, size),
            Input::FeedbackSent(carried) => self.on_feedback_sent(path.now, carried),
            Input::PictureSkipped => self.on_picture_skipped(),
            Input::Time => self.on_time(path.now),
            Input::Encoded(_) | Input::Feedback(_) | Input::Lost(_) => {}
        }
    }

    fn allowance(&self, path: &PathView<'_>, in_flight: InFlight) -> Allowance {
        let whole = self.payload + ByteCount::new(DATA_HEADER as u64 + DATAGRAM_OVERHEAD);
        // Lost fragments also occupy the link, and a frame with fewer fragments is more likely to arrive complete.
        let room = ByteCount::new((self.room(path.now).as_f64() * (1.0 - self.loss)) as u64);
        let budget = self.payload_in(room).saturating_sub(in_flight.queued);
        Allowance::at_target(budget, self.pause_after(path.now, whole), self.rate)
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
    use lockstep_link::Trace;

    use super::*;
    use crate::closed_loop::{Plan, known_path, run, setup};

    fn hindsight(trace: &Trace) -> Hindsight {
        Hindsight::new(known_path(trace), &setup())
    }

    #[test]
    fn constant_link_is_filled_and_drains_with_every_frame() {
        let plan = Plan { fill: 1.0, ..Plan::new(Trace::constant(Bitrate::from_kbps(1_000))) };
        let outcome = run(&plan, &mut hindsight(&plan.trace), None);
        assert!(outcome.rate(1, 20) > Bitrate::from_kbps(900), "{}", outcome.rate(1, 20));
        assert!(outcome.queueing_delay(1, 20, 1.0) < Duration::from_millis(45), "{outcome:?}");
    }

    #[test]
    fn feedback_bytes_reduce_the_budget() {
        let mut hindsight = hindsight(&Trace::constant(Bitrate::from_kbps(1_000)));
        let now = Timestamp::from_millis(100);
        let budget = |hindsight: &Hindsight| {
            hindsight.allowance(&PathView { now, ..PathView::default() }, InFlight::default()).budget.get()
        };
        let before = budget(&hindsight);
        hindsight.on_feedback_sent(now, ByteCount::new(1_000));
        let after = budget(&hindsight);
        assert!((900..=1_100).contains(&(before - after)), "{before} bytes before, {after} after");
    }

    #[test]
    fn bytes_of_a_skipped_picture_go_to_the_next_one() {
        let mut hindsight = hindsight(&Trace::constant(Bitrate::from_kbps(100)));
        let now = Timestamp::from_millis(1_000);
        let budget = |hindsight: &Hindsight| {
            hindsight.allowance(&PathView { now, ..PathView::default() }, InFlight::default()).budget.get()
        };
        let before = budget(&hindsight);
        hindsight.on_picture_skipped();
        let interval = setup().frame_interval;
        let more = Bitrate::from_kbps(100).bytes_in(interval).get();
        assert!(budget(&hindsight).abs_diff(before + more) <= 1, "{before} bytes before, {} after", budget(&hindsight));
        hindsight.on_sent(now, ByteCount::new(1));
        assert!(budget(&hindsight) <= before);
    }

    #[test]
    fn outage_is_noticed_late_and_over_at_its_end() {
        let trace = Trace::from_opportunities((0..2_000).chain(4_000..6_000).collect(), 6_000).unwrap();
        let plan = Plan { fill: 1.0, ..Plan::new(trace) };
        let late = run(&plan, &mut hindsight(&plan.trace), None);
        assert!(
            late.rate(0, 2) > Bitrate::from_kbps(10_000) && late.rate(4, 6) > Bitrate::from_kbps(10_000),
            "{late:?}"
        );
        // Data sent in the two intervals before the detection waits until the outage ends.
        let waits = late.queueing_delay(0, 6, 1.0);
        assert!((Duration::from_secs(1)..Duration::from_millis(2_100)).contains(&waits), "{waits:?}");
        assert!(late.queueing_delay(0, 6, 0.9) < Duration::from_millis(60), "{late:?}");
    }
}
