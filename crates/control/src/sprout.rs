//! Sprout (NSDI 2013, "Stochastic Forecasts Achieve High Throughput and Low Delay over Cellular Networks").
//!
//! A Bayesian filter estimates the link's rate. A cautious forecast gives the bytes that the link delivers by a
//! deadline except with a small probability. Those bytes, minus the bytes in flight, are the budget of the next frame.
//!
//! From Sprout: rates that drift in ticks of 20 ms, the filter, and the cautious forecast. Differences:
//!
//! - The filter is at the sender. It uses acknowledgements that list every packet, and their absence: silence beyond
//!   the round-trip time shows that nothing was delivered.
//! - It counts only the time in which the link had data to deliver. So a quiet source does not look like a slow link.
//!   Sprout's sender instead announces its pauses.
//! - Rates are spaced by factors, and the variation of deliveries is learned ([`rate_filter`]). Sprout's range ends at
//!   11 Mb/s, and its 5 % quantile is far below the mean on a slow link. Forecasts at 40 % risk with a learned
//!   variation are better on every trace than 5 % with an assumed one.
//! - The deadline is a delay in the queue, at any round-trip time. It is longer if deliveries vary more.
//! - Jitter does not count as busy time of the link, since no queue causes it ([`jitter`]).
//! - A frame leaves room for the next one, since a skipped picture is not visible.
//! - A share of a frame's budget depends on the rate of bursts, which is the rate of the path. Thus senders that share
//!   a path converge to equal rates. Beside cross traffic that keeps the queue full, a share of the path is claimed
//!   ([`crate::claimed_share`]).
//!
//! | constant | value | chosen by |
//! |---|---|---|
//! | first rate | 1.2 Mb/s, e^0.5 up or down | ten packets in 100 ms, TCP's initial window (RFC 6928) |
//! | time between two packets of a frame | 2 ms at most | Salsify's published code |
//! | volatility, and the fields of [`Mode`] | | the search in `docs/lab/2026-11-controllers.md` |
//! | risk, longest tolerated delay | 0.35, 150 ms | `docs/lab/2026-11-controllers.md`, "On slow links" |

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
use crate::fragments::{DATAGRAM_OVERHEAD_BYTES, MAX_PACING_SECONDS};
use crate::{Allowance, Controller, ControllerSetup, InFlight, Input, Latency, PathView, SproutConfig, Traits, Tuning};
use busy_time::BusyTime;
use jitter::Jitter;
use rate_filter::RateFilter;

/// Standard deviation of the first rate (natural logarithm).
const FIRST_RATE_SPREAD: f64 = 0.5;
/// Link overhead of a fragment, bytes.
const HEADERS: f64 = DATAGRAM_OVERHEAD_BYTES + DATA_HEADER as f64;
/// Maximum number of remembered packets; more are never in flight.
const MAX_PACKETS_IN_FLIGHT: usize = 16_384;

/// Payload bytes of a frame in `link_bytes`, with headers for each fragment of up to `payload` bytes. On a slow link,
/// headers can be all that it delivers in a frame interval.
pub(crate) fn frame_within(link_bytes: f64, payload: f64) -> f64 {
    let whole = (link_bytes / (payload + HEADERS)).floor();
    let last = link_bytes - whole * (payload + HEADERS);
    whole * payload + (last - HEADERS).max(0.0)
}

/// Constants of a latency mode.
#[derive(Debug, Clone, Copy)]
struct Mode {
    /// Tolerated queueing delay: at least `tolerated` seconds and `interval_share` frame intervals. It grows by
    /// `scatter` times the variation of delivery times.
    tolerated: f64,
    interval_share: f64,
    scatter: f64,
    /// Maximum size of a frame: shares of the bytes that the own rate and the path's rate deliver per frame interval.
    own_share: f64,
    path_share: f64,
}

impl Mode {
    /// The configured constants are those of [`Latency::Balanced`].
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

/// View of the path by the filter, for a controller that builds on it. Units: seconds, bytes, bytes per second.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SproutView {
    /// Mean of the rate, rate of cautious forecasts, and rate of bursts.
    pub mean_rate: f64,
    pub cautious_rate: f64,
    pub path_rate: f64,
    /// Variation of delivery times.
    pub scatter_time: f64,
    /// Uncertainty of the rate: standard deviation of its natural logarithm.
    pub spread: f64,
    /// Time in which the link delivers the bytes in flight.
    pub wait: f64,
    /// Time of the last known delivery; now if nothing is in flight.
    pub known_until: f64,
    /// Minimum of recent round-trip times, and the last one.
    pub round_trip: f64,
    pub last_round_trip: f64,
    /// Sending time of the oldest packet without feedback; now if there is none.
    pub oldest_at: f64,
    /// Bytes without feedback.
    pub bytes_in_flight: f64,
}

/// A packet in flight.
#[derive(Debug, Clone, Copy)]
struct Sent {
    /// Sending time on the sender's clock, seconds.
    at: f64,
    bytes: f64,
}

/// Sprout's sender. Times are seconds of the sender's clock.
#[derive(Debug)]
pub struct Sprout {
    config: SproutConfig,
    /// Round-trip time before the first sample.
    first_round_trip: Duration,
    mode: Mode,
    payload: f64,
    frame_interval: f64,
    least_target: Bitrate,
    busy: BusyTime,
    packets_in_flight: VecDeque<Sent>,
    first_sequence: u64,
    /// Time when the sender's own packets alone would have left, at the rate of bursts.
    own_left: f64,
    jitter: Jitter,
    claimed_share: ClaimedShare,
    /// Cached cautious rate; none after new feedback.
    cautious_rate: Cell<Option<f64>>,
}

impl Sprout {
    /// A sender before its first feedback.
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
            least_target: setup.bounds.min,
            busy: BusyTime::new(filter),
            packets_in_flight: VecDeque::new(),
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

    /// The claimed share beside cross traffic.
    pub(crate) fn claimed_share(&self) -> &ClaimedShare {
        &self.claimed_share
    }

    /// Mean of the estimated rate, bytes per second.
    pub(crate) fn mean_rate(&self) -> f64 {
        self.busy.filter().mean_rate()
    }

    fn pacing_interval_at(&self, path: &PathView<'_>, mean_rate: f64) -> Duration {
        let claimed = self.claimed_share.pacing_interval(path, self.payload, mean_rate);
        claimed.unwrap_or_else(|| {
            duration_from_seconds((self.payload / (self.config.pacing * mean_rate).max(1.0)).min(MAX_PACING_SECONDS))
        })
    }

    /// The path's rate: the rate of bursts if known, and at least the own mean rate.
    fn path_rate(&self, path: &PathView<'_>) -> f64 {
        path.burst_rate.map_or(0.0, Bitrate::as_bytes_per_second).max(self.mean_rate())
    }

    /// Tolerated queueing delay, seconds.
    fn tolerated(&self) -> f64 {
        let least = self.mode.tolerated.max(self.mode.interval_share * self.frame_interval);
        let scatter = self.mode.scatter * self.busy.filter().scatter_time();
        (least + scatter).min(self.config.most_tolerated.max(least))
    }

    /// Cautious rate over the age of the feedback, which is a round trip, plus the tolerated delay of new data.
    fn cautious_rate(&self, path: &PathView<'_>) -> f64 {
        self.cautious_rate.get().unwrap_or_else(|| {
            let horizon = self.round_trip(path) + self.tolerated();
            let rate = self.busy.filter().cautious_rate(horizon, self.config.risk).max(1.0);
            self.cautious_rate.set(Some(rate));
            rate
        })
    }

    /// Adds an acknowledged packet with its queueing delay `waited`, seconds.
    fn on_arrival(&mut self, path: &PathView<'_>, arrival: &AcknowledgedFragment, waited: f64) {
        let sent = arrival.sent_at.as_secs_f64();
        let (left, bytes) = (sent + waited, arrival.size.as_f64() + DATAGRAM_OVERHEAD_BYTES);

        let idle = sent >= self.own_left;
        let takes = bytes / self.path_rate(path).max(1.0);
        self.own_left = self.own_left.max(sent) + takes;
        let start = if idle {
            let outside = (waited - (self.own_left - sent)).max(0.0);
            self.jitter.waited(outside);
            // Jitter does not count as delivery time.
            left - (waited - self.jitter.of(outside)).max(0.0)
        } else {
            self.busy.free_at().max(sent)
        };
        self.busy.departed(bytes, start, left, idle);
    }

    /// View of the path at `path.now`.
    pub(crate) fn sprout_view(&self, path: &PathView<'_>) -> SproutView {
        let now = path.now.as_secs_f64();
        SproutView {
            mean_rate: self.mean_rate(),
            cautious_rate: self.cautious_rate(path),
            path_rate: self.path_rate(path),
            scatter_time: self.busy.filter().scatter_time(),
            spread: self.busy.filter().spread(),
            wait: self.backlog(path),
            known_until: self.known_until(path),
            round_trip: self.round_trip(path),
            last_round_trip: self.last_round_trip(path),
            oldest_at: self.packets_in_flight.front().map_or(now, |sent| sent.at),
            bytes_in_flight: self.packets_in_flight.iter().map(|sent| sent.bytes).sum(),
        }
    }

    /// Sending time up to which feedback should have arrived.
    fn feedback_due_for(&self, path: &PathView<'_>) -> f64 {
        path.now.as_secs_f64() - self.round_trip(path) - path.feedback_delay.as_secs_f64()
    }

    /// Time when the link was free, or nothing more had left, as far as known.
    fn feedback_until(&self, path: &PathView<'_>) -> f64 {
        let free = self.busy.free_at();
        // Later departures would have caused feedback.
        if self.packets_in_flight.is_empty() { free } else { free.max(self.feedback_due_for(path)) }
    }

    /// Time up to which deliveries are known; `path.now` if nothing is in flight.
    fn known_until(&self, path: &PathView<'_>) -> f64 {
        let now = path.now.as_secs_f64();
        let Some(oldest) = self.packets_in_flight.front() else { return now };
        self.feedback_until(path).max(oldest.at).min(now)
    }

    /// Time in which the link delivers the bytes in flight, from `path.now` on.
    fn backlog(&self, path: &PathView<'_>) -> f64 {
        let (now, cautious_rate) = (path.now.as_secs_f64(), self.cautious_rate(path));
        let mut free = self.feedback_until(path);
        for sent in &self.packets_in_flight {
            free = free.max(sent.at) + sent.bytes / cautious_rate;
        }
        (free - now).max(0.0)
    }
}

impl Sprout {
    pub(crate) fn on_sent(&mut self, now: Timestamp, size: ByteCount) {
        self.packets_in_flight
            .push_back(Sent { at: now.as_secs_f64(), bytes: size.as_f64() + DATAGRAM_OVERHEAD_BYTES });
        if self.packets_in_flight.len() > MAX_PACKETS_IN_FLIGHT {
            self.packets_in_flight.pop_front();
            self.first_sequence += 1;
        }
        self.claimed_share.on_transmit(size);
    }

    pub(crate) fn on_feedback(&mut self, path: &PathView<'_>, feedback: &Feedback) {
        for (arrival, wait) in feedback.acknowledged.iter().zip(path.queueing_delays) {
            self.on_arrival(path, arrival, wait.queued.as_secs_f64());
        }
        while self.first_sequence <= feedback.highest_sequence && self.packets_in_flight.pop_front().is_some() {
            self.first_sequence += 1;
        }
        self.cautious_rate.set(None);
    }

    pub(crate) fn on_time(&mut self, path: &PathView<'_>) {
        let now = path.now.as_secs_f64();
        let oldest_at = self.packets_in_flight.front().map_or(now, |sent| sent.at);
        let delay = self.last_round_trip(path).max(now - oldest_at);
        self.claimed_share.on_time(path, delay);
        if let Some(oldest) = self.packets_in_flight.front() {
            self.busy.silent(oldest.at, self.feedback_due_for(path));
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
            Input::Lost(_) | Input::FeedbackSent(_) | Input::Encoded(_) | Input::PictureSkipped => {}
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
            // A single packet delays nothing.
            bytes = bytes.max(self.payload + HEADERS);
        }
        let payload_share = self.payload / (self.payload + HEADERS);
        let drain = (tolerated / wait.max(1e-3)).min(1.0);
        let claimed_rate = self.claimed_share.rate(path).unwrap_or(0.0);
        Allowance {
            budget: ByteCount::new(frame_within(bytes, self.payload) as u64),
            pacing_interval: self.pacing_interval_at(path, mean_rate),
            // A codec that follows a rate stops for many seconds after one second of a very low rate.
            target: Bitrate::from_bytes_per_second(
                payload_share * (self.cautious_rate(path) * drain).max(claimed_rate),
            )
            .max(self.least_target),
            capacity: Some(Bitrate::from_bytes_per_second(mean_rate)),
            behind_cross_traffic: self.claimed_share.bytes_behind_cross_traffic(path),
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
    fn rate_reaches_1_mbps_in_5_s_with_a_short_queue() {
        for feedback_interval in [None, Some(Duration::from_millis(50))] {
            let outcome = call(&Plan { feedback_interval, ..Plan::constant(1_000) });
            assert!((0.75..1.05).contains(&outcome.rate(5, 20).as_mbps()), "{outcome:?}");
            assert!(outcome.queueing_delay(5, 20, 0.5) < Duration::from_millis(80), "{outcome:?}");
        }
    }

    #[test]
    fn long_path_is_filled_like_a_short_one() {
        for delay in [5, 50, 200].map(Duration::from_millis) {
            let outcome = call(&Plan { delay, ..Plan::constant(2_000) });
            assert!(outcome.rate(8, 20).as_mbps() > 1.5, "{delay:?} {outcome:?}");
        }
    }

    #[test]
    fn jitter_leaves_most_of_the_link_usable() {
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
    fn rate_follows_the_capacity_down_and_up() {
        let outcome = call(&Plan::step(2_500, 600, 20));
        assert!(outcome.rate(10, 20).as_mbps() > 1.9, "{outcome:?}");
        assert!(outcome.mean_target(22, 40) < Bitrate::from_kbps(700), "{outcome:?}");
        assert!(outcome.queueing_delay(23, 40, 0.5) < Duration::from_millis(100), "{outcome:?}");
        let outcome = call(&Plan::step(600, 2_500, 20));
        assert!(outcome.rate(25, 40).as_mbps() > 1.9, "{outcome:?}");
    }

    #[test]
    fn random_loss_of_5_percent_does_not_starve_it() {
        let outcome = call(&Plan { loss: 0.05, length: Duration::from_secs(40), ..Plan::constant(1_000) });
        assert!(outcome.rate(20, 40).as_mbps() > 0.7, "{outcome:?}");
        assert!(outcome.queueing_delay(20, 40, 0.5) < Duration::from_millis(100), "{outcome:?}");
    }

    #[test]
    fn target_keeps_its_lower_bound_in_a_long_outage() {
        let outage = Some((Duration::from_secs(20), Duration::from_secs(35)));
        let outcome = call(&Plan { outage, length: Duration::from_secs(40), ..Plan::constant(1_000) });
        assert!(outcome.mean_target(30, 35) >= setup().bounds.min, "{outcome:?}");
    }

    #[test]
    fn rate_recovers_after_an_outage_without_a_queue() {
        let outage = Some((Duration::from_secs(20), Duration::from_secs(23)));
        let outcome = call(&Plan { outage, length: Duration::from_secs(40), ..Plan::constant(1_000) });
        assert!(outcome.rate(26, 40).as_mbps() > 0.75, "{outcome:?}");
        assert!(outcome.queueing_delay(23, 26, 0.95) < Duration::from_millis(150), "{outcome:?}");
    }

    #[test]
    fn every_latency_fills_the_link_and_queues_grow_with_it() {
        let queues = Latency::ALL.map(|latency| {
            let outcome = call_with(&Plan { fill: 1.0, ..Plan::constant(3_000) }, latency);
            assert!(outcome.rate(5, 20).as_mbps() > 2.3, "{latency} {outcome:?}");
            outcome.queueing_delay(5, 20, 0.9)
        });
        assert!(queues.is_sorted(), "{queues:?}");
        assert!(queues[0] < Duration::from_millis(40), "{queues:?}");
    }
}
