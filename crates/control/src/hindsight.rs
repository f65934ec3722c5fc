//! The yardstick without foresight: it knows exactly what the path has carried and what waits in it.
//!
//! It expects the path to continue as it was in the last [`MEMORY`]. The gap between it and other controllers is the cost of
//! measuring a path through acknowledgements; the gap between it and the upper bound on QoE_d (`sim::BoundedCall`) is
//! the worth of foresight. Only simulations provide the path.
//!
//! The queue before the bottleneck is exact: sent bytes less what the trace let through. A frame gets what the
//! link will carry until shortly after the next picture, less the queue; after a skipped picture, what the link carries in
//! one more interval. Where the smallest frame exceeds that, as on very slow links, the frame gets what the smallest one
//! needs, and the pictures until then get nothing. A codec that follows a target gets the mean rate of the last second.
//! What the queue would drop waits in the pacer; its limits under CoDel and PIE are those of the coming moments.
//!
//! | constant | value | source |
//! |---|---|---|
//! | horizon | 1.25 frame intervals, 200 ms at most | so that a frame that is coded a little late finds the link still busy |
//! | the same where packets are lost | longer by 1.5 for each that is lost on one that arrives, of ten at most nine lost | frames with parity come out smaller than their share: at 50 % of loss a third of the link or so was used. Of 0, 0.5, 1, 1.5, 2, 3 and 4 this has the highest QoE_d on eight paths with losses of 1 to 50 % together, and more than 0 on each but that with 1 % |
//! | headers | 56 bytes | UDP (RFC 768), IPv4 (RFC 791) and QUIC, which the links of calls carry with a datagram ([`CARRIAGE`]) |

pub(crate) mod bottleneck;
mod smallest_frame;

use std::time::Duration;

use lockstep_transport::wire::{CARRIAGE, DATA_HEADER};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use crate::{Allowance, Controller, ControllerSetup, InFlight, Input, KnownPath, PathView, Traits};
use bottleneck::Bottleneck;
use smallest_frame::SmallestFrame;

/// How far ahead a frame may fill the link, in frame intervals.
const HORIZON_INTERVALS: f64 = 1.25;

/// No further, however far apart pictures are: a frame then has what pays for its own wait. Of 150, 200, 300 ms and none, at 1 to 10
/// pictures a second over constant and cellular links from 100 kb/s to 8 Mb/s (120 modelled calls), Sprout, Lockstep's own, Salsify
/// or GCC are ahead by more than 1 % in 16, 9 (with what [`smallest_frame`] has), 24 and 30.
const LONGEST_HORIZON: Duration = Duration::from_millis(200);

/// By how much longer that is for each packet lost on one that arrives, and the largest share of losses that counts.
const HORIZON_FOR_LOST: f64 = 1.5;
const MOST_LOSS: f64 = 0.9;

/// Pictures follow each other on the link no more often than in this time where they are large for it: of twice the bits a
/// picture gains 0.1 to 0.15 in QoE_d, and the longer wait for it costs as much where this is 50 ms.
const SHORTEST_PERIOD: Duration = Duration::from_millis(40);
/// Of pictures that come more often than that, one is sent only if the queue is empty by so many frame intervals from now.
const READY_INTERVALS: f64 = 0.5;

/// The path is expected to continue as it was for so long: of 8, 16, 24, 33, 67, 133 and 267 ms that with the
/// highest QoE_d over all recorded traces, 0.0005 above its neighbours, and with pixels, too (`lockstep sweep --controllers
/// hindsight --codecs modelled --seconds 60 --seeds 1`).
const MEMORY: Duration = Duration::from_millis(33);
/// A codec that follows a target has the mean of so long.
const TARGET_MEMORY: Duration = Duration::from_secs(1);
/// How often a codec takes over a new target.
const HOLD: Duration = Duration::from_secs(1);
/// What a path carries of which there is no memory yet.
const UNKNOWN: Bitrate = Bitrate::from_kbps(300);
/// Datagrams do not wait longer in the pacer before the matter is thought over.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Sends what the path would carry if it continued as it was.
#[derive(Debug)]
pub struct Hindsight {
    path: Bottleneck,
    payload: ByteCount,
    interval: Duration,
    horizon: Duration,
    smallest: SmallestFrame,
    /// The rate for codecs that follow one, and when they took it over.
    rate: Bitrate,
    taken_at: Option<Timestamp>,
    sent: bool,
    /// Whether the encoder left out a picture since the last frame was sent.
    left_out: bool,
    /// The share of packets that the path now loses beside those that the queue drops.
    loss: f64,
}

impl Hindsight {
    /// A controller for `path`.
    #[must_use]
    pub fn new(path: KnownPath, setup: &ControllerSetup) -> Self {
        let datagram = setup.payload.get() + DATA_HEADER as u64 + CARRIAGE;
        Self {
            path: Bottleneck::new(path, datagram),
            payload: setup.payload,
            interval: setup.frame_interval,
            horizon: (period(setup.frame_interval).saturating_sub(setup.frame_interval)
                + setup.frame_interval.mul_f64(HORIZON_INTERVALS))
            .min(LONGEST_HORIZON),
            smallest: SmallestFrame::default(),
            rate: Bitrate::ZERO,
            taken_at: None,
            sent: false,
            left_out: false,
            loss: 0.0,
        }
    }

    /// What the path carried for so long before `now`.
    fn rate_of_late(&self, now: Timestamp, memory: Duration) -> Bitrate {
        let known = memory.min(now.saturating_since(Timestamp::ZERO));
        if known < MEMORY {
            return UNKNOWN;
        }
        Bitrate::mean(self.path.carried(now - known, now), known)
    }

    /// What it will carry from `now` on, for so long.
    fn carried(&self, now: Timestamp, time: Duration) -> ByteCount {
        self.rate_of_late(now, MEMORY).bytes_in(time)
    }

    /// How long it takes from `now` on for so many bytes; none if they never pass.
    fn time_for(&self, now: Timestamp, bytes: ByteCount) -> Option<Duration> {
        let rate = self.rate_of_late(now, MEMORY);
        (rate > Bitrate::ZERO).then(|| rate.time_for(bytes))
    }

    /// After a datagram of `size` that leaves at `now`, how long the next one is to wait.
    fn pause_after(&self, now: Timestamp, size: ByteCount) -> Duration {
        match self.path.over_after(now, size) {
            ByteCount::ZERO => Duration::ZERO,
            over => self.time_for(now, over).unwrap_or(LONGEST_PAUSE).min(LONGEST_PAUSE),
        }
    }

    /// How much of a frame fits into `carried` bytes on the link.
    fn payload_in(&self, carried: ByteCount) -> ByteCount {
        let headers = DATA_HEADER as u64 + CARRIAGE;
        let whole = self.payload.get() + headers;
        let (fragments, rest) = (carried.get() / whole, carried.get() % whole);
        ByteCount::new(fragments * self.payload.get() + rest.saturating_sub(headers))
    }

    /// What a frame that is sent at `now` into an empty queue may take of the link.
    fn share(&self, now: Timestamp) -> ByteCount {
        let loss = self.loss.min(MOST_LOSS);
        let stretch = 1.0 + HORIZON_FOR_LOST * loss / (1.0 - loss);
        let left_out = if self.left_out { self.interval } else { Duration::ZERO };
        self.carried(now, (self.horizon + left_out).mul_f64(stretch))
    }

    /// What a frame may take of the link at `now`, if anything is left.
    fn room(&self, now: Timestamp) -> ByteCount {
        let (backlog, share) = (self.path.backlog(now), self.share(now));
        if backlog == ByteCount::ZERO && share > ByteCount::ZERO && self.smallest.wanted() > share {
            return self.smallest.wanted();
        }
        // Where pictures come more often than frames should, the next one waits for its turn.
        let ready = self.interval.mul_f64(READY_INTERVALS);
        if self.horizon > self.interval * 2 && backlog > self.carried(now, ready) {
            return ByteCount::ZERO;
        }
        share.saturating_sub(backlog)
    }
}

/// The time between two frames that fill the link.
fn period(interval: Duration) -> Duration {
    let intervals = (SHORTEST_PERIOD.as_nanos() / interval.as_nanos().max(1)).clamp(1, 1_000) as u32;
    interval * intervals
}

impl Hindsight {
    fn on_sent(&mut self, now: Timestamp, size: ByteCount) {
        (self.sent, self.left_out) = (true, false);
        self.smallest.on_sent();
        self.path.take(now, size + ByteCount::new(CARRIAGE));
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
        // The codec may have been busy when it was due, and take over what holds a little later.
        let since = self.taken_at.map_or(Duration::ZERO, |at| now.saturating_since(at));
        if due || since <= self.interval.mul_f64(2.0) {
            self.rate = self.rate_of_late(now, TARGET_MEMORY);
        }
    }
}

impl Controller for Hindsight {
    fn traits(&self) -> Traits {
        // Nothing is known of the codec before the first frame. Where packets are lost at random, nobody knows which: a frame
        // that is coded from nothing may have to be larger than one that is likely to arrive whole.
        let wants_probes = !self.sent || self.loss > 0.0;
        Traits { is_bounded: false, wants_probes, ..Traits::ESTIMATING }
    }

    fn handle(&mut self, path: &PathView<'_>, input: Input<'_>) {
        match input {
            Input::Sent(size) => self.on_sent(path.now, size),
            Input::FeedbackSent(carried) => self.on_feedback_sent(path.now, carried),
            Input::PictureSkipped => self.on_picture_skipped(),
            Input::Time => self.on_time(path.now),
            Input::Feedback(_) | Input::Lost(_) => {}
        }
    }

    fn allowance(&self, path: &PathView<'_>, in_flight: InFlight) -> Allowance {
        let whole = self.payload + ByteCount::new(DATA_HEADER as u64 + CARRIAGE);
        // Lost fragments occupy the link as well, and a frame of fewer fragments is likelier to arrive.
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
    fn a_constant_link_is_filled_and_its_queue_drains_with_every_frame() {
        let plan = Plan { fill: 1.0, ..Plan::new(Trace::constant(Bitrate::from_kbps(1_000))) };
        let outcome = run(&plan, &mut hindsight(&plan.trace), None);
        assert!(outcome.rate(1, 20) > Bitrate::from_kbps(900), "{}", outcome.rate(1, 20));
        assert!(outcome.queueing_delay(1, 20, 1.0) < Duration::from_millis(45), "{outcome:?}");
    }

    #[test]
    fn what_feedback_takes_of_the_link_is_left_to_it() {
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
    fn what_a_picture_that_was_left_out_would_have_had_is_left_for_the_next() {
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
        // What was sent for two intervals before it was noticed waits until it is over.
        let waits = late.queueing_delay(0, 6, 1.0);
        assert!((Duration::from_secs(1)..Duration::from_millis(2_100)).contains(&waits), "{waits:?}");
        assert!(late.queueing_delay(0, 6, 0.9) < Duration::from_millis(60), "{late:?}");
    }
}
