//! Sprout (NSDI 2013, "Stochastic Forecasts Achieve High Throughput and Low Delay over Cellular Networks"): a Bayesian
//! filter over the link's rate, and of what it will deliver by a deadline the amount that it will fail to deliver only
//! with a small probability. That amount, less what is on its way, is just what the next frame may have.
//!
//! What is Sprout's: rates that drift in ticks of 20 ms, the filter, and the cautious forecast. What is not:
//! - The filter is at the sender, from acknowledgements that list every packet; and from their absence, for silence
//!   longer than the path takes says that nothing was delivered.
//! - It counts time for which the link had something to deliver, not all time, so that a source with little to say does
//!   not look like a slow link; Sprout's sender tells its receiver for how long it will be silent.
//! - Rates are spaced by factors and the scatter of deliveries is learned ([`rate_filter`]): Sprout's range ends at 11
//!   Mb/s and its 5 % are far below the mean on a slow link. Forecasts of 40 % risk over a link that is known to
//!   scatter do better on every trace than 5 % over one that is taken to.
//! - The deadline is a delay in the queue, whatever the round trip is, and longer where deliveries scatter more.
//! - What packets wait each for itself, as no queue makes them, is no time that the link was busy ([`jitter`]).
//! - A frame takes only so much of the room that the next one has some, too: a picture that is skipped is not seen.
//! - A share of what a frame may have goes by the rate of bursts, which is that of the path and not of one's own share
//!   of it; senders that share a path come to equal rates by that. Beside cross traffic that keeps the queue filled, a share
//!   of the path is claimed ([`crate::claimed_share`]).
//!
//! | constant | value | chosen by |
//! |---|---|---|
//! | first rate | 1.2 Mb/s, e^0.5 up or down | ten packets in 100 ms, TCP's initial window (RFC 6928) |
//! | time between two packets of a frame | 2 ms at most | Salsify's published code |
//! | volatility, and what is in [`Mode`] | | the search that `docs/controllers.md` describes |
//! | risk, longest tolerated delay | 0.35, 150 ms | `docs/controllers.md`, "On slow links" |

mod busy_time;
mod jitter;
mod rate_filter;

use std::cell::Cell;
use std::collections::VecDeque;
use std::time::Duration;

use lockstep_transport::wire::DATA_HEADER;
use lockstep_transport::{AcknowledgedFragment, Feedback};
use lockstep_units::{Bitrate, ByteCount, Timestamp, duration_from_seconds};

use crate::claimed_share::ClaimedShare;
use crate::fragments::{DATAGRAM_CARRIAGE, LONGEST_PACE};
use crate::{Allowance, Controller, ControllerSetup, InFlight, Input, Latency, PathView, SproutConfig, Traits, Tuning};
use busy_time::BusyTime;
use jitter::Jitter;
use rate_filter::RateFilter;

/// How wrong the first rate may be (natural logarithm).
const FIRST_RATE_SPREAD: f64 = 0.5;
/// What a link carries with a fragment, bytes.
const HEADERS: f64 = DATAGRAM_CARRIAGE + DATA_HEADER as f64;
/// Packets remembered. More are never on the way, whatever the feedback does.
const MOST_ON_THE_WAY: usize = 16_384;

/// What a frame may have of so many bytes of the link, where each of its fragments, of up to `payload` bytes, has headers:
/// of what a slow link carries in a frame interval they can be all.
pub(crate) fn frame_within(link_bytes: f64, payload: f64) -> f64 {
    let whole = (link_bytes / (payload + HEADERS)).floor();
    let last = link_bytes - whole * (payload + HEADERS);
    whole * payload + (last - HEADERS).max(0.0)
}

/// What a latency stands for.
#[derive(Debug, Clone, Copy)]
struct Mode {
    /// Delay in the queue that is tolerated in any case, seconds; at least this share of a frame interval, and longer
    /// by so many times the time over which deliveries scatter.
    tolerated: f64,
    interval_share: f64,
    scatter: f64,
    /// What a frame may have at most: shares of what own rate, and path's rate, carry in a frame interval.
    own_share: f64,
    path_share: f64,
}

impl Mode {
    /// The constants are those of [`Latency::Balanced`].
    fn of(latency: Latency, config: &SproutConfig) -> Self {
        let &SproutConfig { tolerated, interval_share, scatter, own_share, path_share, .. } = config;
        let balanced = Self { tolerated, interval_share, scatter, own_share, path_share };
        match latency {
            Latency::Low => Self { tolerated: 0.0, scatter: 1.0, own_share: 0.55, path_share: 0.3, ..balanced },
            Latency::Balanced => balanced,
            Latency::Quality => Self { tolerated: 0.04, ..balanced },
        }
    }
}

/// What the filter makes of the path: for a controller that goes on from there. Seconds, bytes and bytes a second.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outlook {
    /// The mean of what is believed of the rate, the rate of cautious forecasts, and that of bursts.
    pub mean_rate: f64,
    pub cautious_rate: f64,
    pub path_rate: f64,
    /// Over what time deliveries scatter.
    pub scatter_time: f64,
    /// How uncertain the rate is: the standard deviation of its natural logarithm.
    pub spread: f64,
    /// How long what is on the way will keep the link.
    pub wait: f64,
    /// Until when it is known what the link has delivered; now, where nothing is on the way.
    pub known_until: f64,
    /// The shortest of recent round trips, and the last.
    pub round_trip: f64,
    pub last_round_trip: f64,
    /// When the oldest packet left that nothing was heard of yet; now, where there is none.
    pub oldest_at: f64,
    /// Bytes that nothing was heard of yet.
    pub on_the_way: f64,
}

/// A packet on its way.
#[derive(Debug, Clone, Copy)]
struct Sent {
    /// Seconds, sender's clock.
    at: f64,
    bytes: f64,
}

/// Sprout's sender. Times within are seconds of the sender's clock.
#[derive(Debug)]
pub struct Sprout {
    config: SproutConfig,
    /// Round trip that is assumed before the first sample.
    first_round_trip: Duration,
    mode: Mode,
    payload: f64,
    frame_interval: f64,
    least_target: Bitrate,
    busy: BusyTime,
    on_the_way: VecDeque<Sent>,
    first_sequence: u64,
    /// When the sender's own packets alone would have left, at the rate of bursts.
    own_left: f64,
    jitter: Jitter,
    claimed_share: ClaimedShare,
    /// What is to be counted on, once it was asked for since something new was learned.
    cautious_rate: Cell<Option<f64>>,
}

impl Sprout {
    /// A sender that has heard nothing yet.
    #[must_use]
    pub fn new(setup: &ControllerSetup) -> Self {
        let payload = setup.payload.as_f64().max(1.0);
        let Tuning { sprout: config, rate_filter, .. } = setup.tuning;
        let filter = RateFilter::new(config.first_rate, FIRST_RATE_SPREAD, config.volatility, rate_filter);
        Self {
            config,
            first_round_trip: setup.tuning.silence.first_round_trip,
            mode: Mode::of(setup.latency, &config),
            payload,
            frame_interval: setup.frame_interval.as_secs_f64(),
            least_target: setup.bounds.least,
            busy: BusyTime::new(filter),
            on_the_way: VecDeque::new(),
            first_sequence: 0,
            own_left: 0.0,
            jitter: Jitter::new(setup.tuning.jitter),
            claimed_share: ClaimedShare::new(
                payload + HEADERS,
                setup.frame_interval.as_secs_f64(),
                setup.tuning.path.retry,
                setup.tuning.claim,
            ),
            cautious_rate: Cell::new(None),
        }
    }

    fn round_trip(&self, path: &PathView<'_>) -> f64 {
        path.base_round_trip.unwrap_or(self.first_round_trip).as_secs_f64()
    }

    fn last_round_trip(&self, path: &PathView<'_>) -> f64 {
        path.last_round_trip.unwrap_or(self.first_round_trip).as_secs_f64()
    }

    /// What is claimed beside those who keep the queue filled.
    pub(crate) fn claimed_share(&self) -> &ClaimedShare {
        &self.claimed_share
    }

    /// The mean of what is believed of the rate, bytes a second.
    pub(crate) fn mean_rate(&self) -> f64 {
        self.busy.filter().mean_rate()
    }

    fn pacing_interval_at(&self, path: &PathView<'_>, mean_rate: f64) -> Duration {
        let claimed = self.claimed_share.pacing_interval(path, self.payload, mean_rate);
        claimed.unwrap_or_else(|| {
            duration_from_seconds((self.payload / (self.config.pacing * mean_rate).max(1.0)).min(LONGEST_PACE))
        })
    }

    /// The path's rate: that of bursts, where there were any; no less than one's own.
    fn path_rate(&self, path: &PathView<'_>) -> f64 {
        path.burst_rate.map_or(0.0, Bitrate::as_bytes_per_second).max(self.mean_rate())
    }

    /// Delay that is tolerated in the queue.
    fn tolerated(&self) -> f64 {
        let least = self.mode.tolerated.max(self.mode.interval_share * self.frame_interval);
        let scatter = self.mode.scatter * self.busy.filter().scatter_time();
        (least + scatter).min(self.config.most_tolerated.max(least))
    }

    /// What is known is as old as the round trip is long; what is sent now is to be through within the tolerated delay.
    fn cautious_rate(&self, path: &PathView<'_>) -> f64 {
        self.cautious_rate.get().unwrap_or_else(|| {
            let horizon = self.round_trip(path) + self.tolerated();
            let rate = self.busy.filter().cautious_rate(horizon, self.config.risk).max(1.0);
            self.cautious_rate.set(Some(rate));
            rate
        })
    }

    /// A packet was acknowledged that had been queued for `waited` seconds.
    fn on_arrival(&mut self, path: &PathView<'_>, arrival: &AcknowledgedFragment, waited: f64) {
        let sent = arrival.sent_at.as_secs_f64();
        let (left, bytes) = (sent + waited, arrival.size.as_f64() + DATAGRAM_CARRIAGE);

        let idle = sent >= self.own_left;
        let takes = bytes / self.path_rate(path).max(1.0);
        self.own_left = self.own_left.max(sent) + takes;
        let start = if idle {
            let outside = (waited - (self.own_left - sent)).max(0.0);
            self.jitter.waited(outside);
            // Jitter is no time that it took to be delivered.
            left - (waited - self.jitter.of(outside)).max(0.0)
        } else {
            self.busy.free_at().max(sent)
        };
        self.busy.departed(bytes, start, left, idle);
    }

    /// What is believed at `path.now`.
    pub(crate) fn outlook(&self, path: &PathView<'_>) -> Outlook {
        let now = path.now.as_secs_f64();
        Outlook {
            mean_rate: self.mean_rate(),
            cautious_rate: self.cautious_rate(path),
            path_rate: self.path_rate(path),
            scatter_time: self.busy.filter().scatter_time(),
            spread: self.busy.filter().spread(),
            wait: self.backlog(path),
            known_until: self.known_until(path),
            round_trip: self.round_trip(path),
            last_round_trip: self.last_round_trip(path),
            oldest_at: self.on_the_way.front().map_or(now, |sent| sent.at),
            on_the_way: self.on_the_way.iter().map(|sent| sent.bytes).sum(),
        }
    }

    /// Of what left before that, something would have been heard.
    fn heard_of(&self, path: &PathView<'_>) -> f64 {
        path.now.as_secs_f64() - self.round_trip(path) - path.feedback_delay.as_secs_f64()
    }

    /// When the link was free, or nothing more had left, as far as is known.
    fn heard_until(&self, path: &PathView<'_>) -> f64 {
        let free = self.busy.free_at();
        // What has left since would have been heard of.
        if self.on_the_way.is_empty() { free } else { free.max(self.heard_of(path)) }
    }

    /// Until when it is known what the link has delivered of what it was given; `path.now` where nothing is on the way.
    fn known_until(&self, path: &PathView<'_>) -> f64 {
        let now = path.now.as_secs_f64();
        let Some(oldest) = self.on_the_way.front() else { return now };
        self.heard_until(path).max(oldest.at).min(now)
    }

    /// How long what is on the way will keep the link from `path.now` on.
    fn backlog(&self, path: &PathView<'_>) -> f64 {
        let (now, cautious_rate) = (path.now.as_secs_f64(), self.cautious_rate(path));
        let mut free = self.heard_until(path);
        for sent in &self.on_the_way {
            free = free.max(sent.at) + sent.bytes / cautious_rate;
        }
        (free - now).max(0.0)
    }
}

impl Sprout {
    pub(crate) fn on_sent(&mut self, now: Timestamp, size: ByteCount) {
        self.on_the_way.push_back(Sent { at: now.as_secs_f64(), bytes: size.as_f64() + DATAGRAM_CARRIAGE });
        if self.on_the_way.len() > MOST_ON_THE_WAY {
            self.on_the_way.pop_front();
            self.first_sequence += 1;
        }
        self.claimed_share.on_transmit(size);
    }

    pub(crate) fn on_feedback(&mut self, path: &PathView<'_>, feedback: &Feedback) {
        for (arrival, wait) in feedback.acknowledged.iter().zip(path.queueing_delays) {
            self.on_arrival(path, arrival, wait.queued.as_secs_f64());
        }
        while self.first_sequence <= feedback.highest_sequence && self.on_the_way.pop_front().is_some() {
            self.first_sequence += 1;
        }
        self.cautious_rate.set(None);
    }

    pub(crate) fn on_time(&mut self, path: &PathView<'_>) {
        let now = path.now.as_secs_f64();
        let oldest_at = self.on_the_way.front().map_or(now, |sent| sent.at);
        let delay = self.last_round_trip(path).max(now - oldest_at);
        self.claimed_share.on_time(path, delay);
        if let Some(oldest) = self.on_the_way.front() {
            self.busy.silent(oldest.at, self.heard_of(path));
            self.cautious_rate.set(None);
        }
    }
}

impl Controller for Sprout {
    fn traits(&self) -> Traits {
        Traits::ESTIMATING
    }

    fn handle(&mut self, path: &PathView<'_>, input: Input<'_>) {
        match input {
            Input::Sent(size) => self.on_sent(path.now, size),
            Input::Feedback(feedback) => self.on_feedback(path, feedback),
            Input::Time => self.on_time(path),
            Input::Lost(_) | Input::FeedbackSent(_) | Input::PictureSkipped => {}
        }
    }

    fn allowance(&self, path: &PathView<'_>, in_flight: InFlight) -> Allowance {
        let tolerated = self.tolerated();
        let wait = self.backlog(path) + in_flight.queued.as_f64() / self.cautious_rate(path);
        let room = (tolerated - wait).max(0.0);
        let mean_rate = self.mean_rate();
        let by_path = self.mode.path_share * self.path_rate(path) * self.frame_interval;
        let most = self.mode.own_share * mean_rate * self.frame_interval + by_path;
        let mut bytes = (self.cautious_rate(path) * room + by_path * room / tolerated).min(most);
        bytes = bytes.max(self.claimed_share.budget(path, in_flight));
        if in_flight.bytes == ByteCount::ZERO {
            // A packet that is alone delays nothing.
            bytes = bytes.max(self.payload + HEADERS);
        }
        let payload_share = self.payload / (self.payload + HEADERS);
        let drain = (tolerated / wait.max(1e-3)).min(1.0);
        let claimed_rate = self.claimed_share.rate(path).unwrap_or(0.0);
        Allowance {
            budget: ByteCount::new(frame_within(bytes, self.payload) as u64),
            pacing_interval: self.pacing_interval_at(path, mean_rate),
            // A codec that follows a rate and is given next to none for a second stands still for many.
            target: Bitrate::from_bytes_per_second(
                payload_share * (self.cautious_rate(path) * drain).max(claimed_rate),
            )
            .max(self.least_target),
            capacity: Some(Bitrate::from_bytes_per_second(mean_rate)),
            behind_cross_traffic: self.claimed_share.held_up(path),
        }
    }

    fn pacing_interval(&self, path: &PathView<'_>, _in_flight: InFlight) -> Duration {
        self.pacing_interval_at(path, self.mean_rate())
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![self.claimed_share.counter()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::closed_loop::{Outcome, Plan, run, setup};
    use lockstep_link::{Conditions, End, Segment, Trace};

    fn call(plan: &Plan) -> Outcome {
        run(plan, &mut Sprout::new(&setup()), None)
    }

    fn call_with(plan: &Plan, latency: Latency) -> Outcome {
        run(plan, &mut Sprout::new(&ControllerSetup { latency, ..setup() }), None)
    }

    #[test]
    fn it_finds_a_megabit_in_five_seconds_and_keeps_the_queue_short() {
        for feedback_interval in [None, Some(Duration::from_millis(50))] {
            let outcome = call(&Plan { feedback_interval, ..Plan::constant(1_000) });
            assert!((0.75..1.05).contains(&outcome.rate(5, 20).as_mbps()), "{outcome:?}");
            assert!(outcome.queueing_delay(5, 20, 0.5) < Duration::from_millis(80), "{outcome:?}");
        }
    }

    #[test]
    fn a_long_path_is_filled_as_a_short_one_is() {
        for delay in [5, 50, 200].map(Duration::from_millis) {
            let outcome = call(&Plan { delay, ..Plan::constant(2_000) });
            assert!(outcome.rate(8, 20).as_mbps() > 1.5, "{delay:?} {outcome:?}");
        }
    }

    #[test]
    fn delays_that_scatter_leave_it_most_of_the_link() {
        for (kbps, least_share) in [(2_000, 0.6), (8_000, 0.35)] {
            let conditions = Conditions { jitter: Duration::from_millis(50), ..Conditions::NONE };
            let segment = Segment { duration: Duration::from_secs(40), rate: Bitrate::from_kbps(kbps), conditions };
            let trace = Trace::from_segments(&[segment], End::Hold).unwrap();
            let outcome = call(&Plan { length: Duration::from_secs(40), ..Plan::new(trace) });
            assert!(outcome.rate(10, 40).as_mbps() > least_share * kbps as f64 / 1_000.0, "{kbps} {outcome:?}");
            assert!(outcome.queueing_delay(10, 40, 0.5) < Duration::from_millis(60), "{kbps} {outcome:?}");
        }
    }

    #[test]
    fn it_gives_way_when_the_capacity_falls_and_takes_what_comes() {
        let outcome = call(&Plan::step(2_500, 600, 20));
        assert!(outcome.rate(10, 20).as_mbps() > 1.9, "{outcome:?}");
        assert!(outcome.mean_target(22, 40) < Bitrate::from_kbps(700), "{outcome:?}");
        assert!(outcome.queueing_delay(23, 40, 0.5) < Duration::from_millis(100), "{outcome:?}");
        let outcome = call(&Plan::step(600, 2_500, 20));
        assert!(outcome.rate(25, 40).as_mbps() > 1.9, "{outcome:?}");
    }

    #[test]
    fn random_losses_of_a_twentieth_do_not_starve_it() {
        let outcome = call(&Plan { loss: 0.05, length: Duration::from_secs(40), ..Plan::constant(1_000) });
        assert!(outcome.rate(20, 40).as_mbps() > 0.7, "{outcome:?}");
        assert!(outcome.queueing_delay(20, 40, 0.5) < Duration::from_millis(100), "{outcome:?}");
    }

    #[test]
    fn a_codec_that_follows_a_rate_is_not_told_to_stand_still_however_long_nothing_comes() {
        let outage = Some((Duration::from_secs(20), Duration::from_secs(35)));
        let outcome = call(&Plan { outage, length: Duration::from_secs(40), ..Plan::constant(1_000) });
        assert!(outcome.mean_target(30, 35) >= setup().bounds.least, "{outcome:?}");
    }

    #[test]
    fn it_comes_back_after_an_outage_without_a_queue() {
        let outage = Some((Duration::from_secs(20), Duration::from_secs(23)));
        let outcome = call(&Plan { outage, length: Duration::from_secs(40), ..Plan::constant(1_000) });
        assert!(outcome.rate(26, 40).as_mbps() > 0.75, "{outcome:?}");
        assert!(outcome.queueing_delay(23, 26, 0.95) < Duration::from_millis(150), "{outcome:?}");
    }

    #[test]
    fn more_latency_is_a_longer_queue_and_every_latency_fills_most_of_the_link() {
        let queues = Latency::ALL.map(|latency| {
            let outcome = call_with(&Plan { fill: 1.0, ..Plan::constant(3_000) }, latency);
            assert!(outcome.rate(5, 20).as_mbps() > 2.3, "{latency} {outcome:?}");
            outcome.queueing_delay(5, 20, 0.9)
        });
        assert!(queues.is_sorted(), "{queues:?}");
        assert!(queues[0] < Duration::from_millis(40), "{queues:?}");
    }
}
