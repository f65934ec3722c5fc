//! BoB's heuristic estimator (IEEE TMM 2022, Algorithm 1): a delay-gradient estimator after GCC at the receiver. As in
//! the AlphaRTC challenge, it decides every 200 ms. It has four parts:
//!
//! - arrival groups
//! - a trend line through the delays of the groups
//! - an overuse detector with an adaptive threshold
//! - a rate that rises while delays are constant, and falls when they rise
//!
//! The paper's text and the authors' released code differ ([`BobRules`]). Lockstep uses the released code, which is
//! complete. `--as-published bob` selects the text.
//!
//! | constant | released code | as printed | source |
//! |---|---|---|---|
//! | interval | 200 ms | 200 ms | BoB, section III; the challenge's interval |
//! | group | 5 ms | 200 ms | draft-ietf-rmcat-gcc-02, section 5.2; BoB, section III |
//! | alpha, decrease | 0.85 x | min(0.85 c, 0.85 x) | BoB, Algorithm 1: c is the estimate, x the receive rate |
//! | beta, increase | 1.08 a second, or one packet an interval | 1.08 an interval | BoB, Algorithm 1 |
//! | upper bound | 3 times the receive rate (GCC has 1.5) | 8 Mb/s | released code; BoB's range, 0.01-8 Mb/s |
//! | loss: x1.05, x(1 - loss / 2) | below 2 %, above 10 % | at the sender only | BoB, section III-D |
//! | first trend | after 20 groups | after two groups | |
//!
//! | constant of both | value | source |
//! |---|---|---|
//! | trend line window, smoothing, gain | 20 groups, 0.9, 4 | libwebrtc's trend line, BoB's released code |
//! | deltas counted in the gain | up to 60 | the same |
//! | threshold | 12.5 at first, 6 to 600, gains 0.0087 and 0.039 | GCC, section 5.4 |
//! | least time of overuse | 10 ms and two intervals | GCC, section 5.4; released code |
//! | first estimate | the bounds' initial rate | 300 kb/s in the released code |
//!
//! The paper prints no constants of the trend line and the detector, so those of the released code serve both. Its loss
//! rule (section III-D) is that of [`ReceiverEstimate`](crate::ReceiverEstimate) at the sender, which follows the
//! estimate of either. The smaller rate is used, as in GCC.
//!
//! Three details of the released code are missing in the paper:
//!
//! - The estimate stays constant until the trend line has 20 groups.
//! - The receiver has a loss part, too. It and the delay part both start from the last estimate, and the smaller result
//!   is used. Therefore the estimate does not grow at losses from 2 % to 10 %.
//! - One loss per interval is not counted there: the code divides packets by the difference of sequence numbers.
//!   Otherwise one loss at a low rate would count as 15 %.
//!
//! One detail differs: groups and delays continue across intervals. The released code drops the group that an interval
//! boundary splits.

use std::collections::VecDeque;
use std::time::Duration;

use lockstep_transport::{Arrival, Estimate};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use crate::{Estimator, RateBounds};

const INTERVAL: Duration = Duration::from_millis(200);
const BURST: Duration = Duration::from_millis(5);
/// Length of a group as printed: the paper's window W_t.
const PRINTED_GROUP: Duration = Duration::from_millis(200);
/// Range of estimates as printed, bit/s.
const PRINTED_RANGE: (f64, f64) = (1e4, 8e6);
/// Groups of the first trend as printed: a line needs two.
const PRINTED_FIRST_GROUPS: usize = 2;

const TREND_WINDOW: usize = 20;
const TREND_SMOOTHING: f64 = 0.9;
const TREND_GAIN: f64 = 4.0;
const MAX_DELTAS: u32 = 60;

const FIRST_THRESHOLD: f64 = 12.5;
const THRESHOLD_BOUNDS: (f64, f64) = (6.0, 600.0);
const THRESHOLD_GAIN_UP: f64 = 0.0087;
const THRESHOLD_GAIN_DOWN: f64 = 0.039;
/// The threshold ignores trends further above it than this: they are spikes.
const FURTHEST_ABOVE: f64 = 15.0;
/// Longest time step that moves the threshold, milliseconds.
const MAX_STEP_MS: f64 = 100.0;
const MIN_OVERUSE_MS: f64 = 10.0;

const DECREASE: f64 = 0.85;
const INCREASE: f64 = 1.08;
const MIN_MULTIPLICATIVE_BPS: f64 = 1_000.0;
const MIN_ADDITIVE_BPS: f64 = 800.0;
const MAX_RECEIVED_RATE_RATIO: f64 = 3.0;

/// Weight of an interval in the mean and variance of the receive rate at congestion (GCC, section 5.5). The second
/// constant bounds the variance, kb/s.
const MAX_WEIGHT: f64 = 0.05;
const VARIANCE_BOUNDS: (f64, f64) = (0.4, 2.5);

const LOSS_BOUNDS: (f64, f64) = (0.02, 0.10);
const LOSS_INCREASE: f64 = 1.05;
const LOSS_DECREASE: f64 = 0.5;

/// Source of the heuristic's rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BobRules {
    /// The authors' released code.
    #[default]
    Released,
    /// Algorithm 1 as the paper prints it.
    Printed,
}

impl BobRules {
    fn group(self) -> Duration {
        match self {
            Self::Released => BURST,
            Self::Printed => PRINTED_GROUP,
        }
    }

    /// Number of groups before the first trend.
    fn first_groups(self) -> usize {
        match self {
            Self::Released => TREND_WINDOW,
            Self::Printed => PRINTED_FIRST_GROUPS,
        }
    }
}

/// State of the path by the trend of the delays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PathUse {
    /// Delays fall: a queue drains.
    Underuse,
    /// Delays are constant.
    #[default]
    Normal,
    /// Delays rise: a queue builds up.
    Overuse,
}

/// Packets sent in one burst.
#[derive(Debug, Clone, Copy)]
struct Group {
    first_sent: Timestamp,
    last_sent: Timestamp,
    completed: Timestamp,
}

/// Slope of the smoothed delay over arrival time.
#[derive(Debug)]
struct TrendLine {
    rules: BobRules,
    group: Option<Group>,
    previous: Option<Group>,
    first_completed: Timestamp,
    accumulated_ms: f64,
    smoothed_ms: f64,
    /// Points of the line: completion time of a group since the first one, and the smoothed delay; milliseconds.
    points: VecDeque<(f64, f64)>,
    deltas: u32,
}

fn milliseconds(from: Timestamp, to: Timestamp) -> f64 {
    (to.as_nanos() as f64 - from.as_nanos() as f64) * 1e-6
}

impl TrendLine {
    fn new(rules: BobRules) -> Self {
        Self {
            rules,
            group: None,
            previous: None,
            first_completed: Timestamp::ZERO,
            accumulated_ms: 0.0,
            smoothed_ms: 0.0,
            points: VecDeque::new(),
            deltas: 0,
        }
    }

    /// Adds an arrival. If it completes a group, returns the time between the sending of this group and the previous
    /// one, milliseconds.
    fn on_arrival(&mut self, arrival: &Arrival) -> Option<f64> {
        match &mut self.group {
            None => self.group = Some(Group::of(arrival)),
            // A later packet overtook it.
            Some(group) if arrival.sent_at < group.first_sent => {}
            Some(group) if arrival.sent_at.saturating_since(group.first_sent) <= self.rules.group() => {
                group.last_sent = group.last_sent.max(arrival.sent_at);
                group.completed = group.completed.max(arrival.arrived_at);
            }
            Some(group) => {
                let complete = std::mem::replace(group, Group::of(arrival));
                return self.complete(complete);
            }
        }
        None
    }

    fn complete(&mut self, group: Group) -> Option<f64> {
        let Some(previous) = self.previous.replace(group) else {
            self.first_completed = group.completed;
            return None;
        };
        let sent = milliseconds(previous.last_sent, group.last_sent);
        self.accumulated_ms += milliseconds(previous.completed, group.completed) - sent;
        self.smoothed_ms = TREND_SMOOTHING * self.smoothed_ms + (1.0 - TREND_SMOOTHING) * self.accumulated_ms;
        self.points.push_back((milliseconds(self.first_completed, group.completed), self.smoothed_ms));
        if self.points.len() > TREND_WINDOW {
            self.points.pop_front();
        }
        self.deltas = (self.deltas + 1).min(MAX_DELTAS);
        Some(sent)
    }

    fn slope(&self) -> Option<f64> {
        if self.points.len() < self.rules.first_groups() {
            return None;
        }
        let count = self.points.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| self.points.iter().map(of).sum::<f64>() / count;
        let (mean_time, mean_delay) = (mean(|point| point.0), mean(|point| point.1));
        let (mut covariance, mut variance) = (0.0, 1e-5);
        for &(time, delay) in &self.points {
            covariance += (time - mean_time) * (delay - mean_delay);
            variance += (time - mean_time) * (time - mean_time);
        }
        Some(covariance / variance)
    }
}

impl Group {
    fn of(arrival: &Arrival) -> Self {
        Self { first_sent: arrival.sent_at, last_sent: arrival.sent_at, completed: arrival.arrived_at }
    }
}

/// Detector that compares the trend with an adaptive threshold.
#[derive(Debug)]
struct OveruseDetector {
    threshold: f64,
    adapted_at: Option<Timestamp>,
    over_ms: Option<f64>,
    intervals_over: u32,
    last_slope: f64,
    path_use: PathUse,
}

impl OveruseDetector {
    fn new() -> Self {
        Self {
            threshold: FIRST_THRESHOLD,
            adapted_at: None,
            over_ms: None,
            intervals_over: 0,
            last_slope: 0.0,
            path_use: PathUse::Normal,
        }
    }

    /// Adds the slope over an interval whose groups span `sent_ms` at the sender.
    fn update(&mut self, now: Timestamp, slope: f64, deltas: u32, sent_ms: f64) {
        let trend = slope * f64::from(deltas) * TREND_GAIN;
        if trend > self.threshold {
            let over_ms = self.over_ms.map_or(sent_ms / 2.0, |over| over + sent_ms);
            self.over_ms = Some(over_ms);
            self.intervals_over += 1;
            if over_ms > MIN_OVERUSE_MS && self.intervals_over > 1 && slope > self.last_slope {
                (self.over_ms, self.intervals_over) = (Some(0.0), 0);
                self.path_use = PathUse::Overuse;
            }
        } else {
            (self.over_ms, self.intervals_over) = (None, 0);
            self.path_use = if trend < -self.threshold { PathUse::Underuse } else { PathUse::Normal };
        }
        self.last_slope = slope;
        self.adapt(now, trend.abs());
    }

    fn adapt(&mut self, now: Timestamp, trend: f64) {
        let before = self.adapted_at.replace(now).unwrap_or(now);
        if trend > self.threshold + FURTHEST_ABOVE {
            return;
        }
        let gain = if trend < self.threshold { THRESHOLD_GAIN_DOWN } else { THRESHOLD_GAIN_UP };
        let step = milliseconds(before, now).min(MAX_STEP_MS);
        let threshold = self.threshold + gain * (trend - self.threshold) * step;
        self.threshold = threshold.clamp(THRESHOLD_BOUNDS.0, THRESHOLD_BOUNDS.1);
    }
}

/// Mean and variance of the receive rate at congestion.
#[derive(Debug, Default)]
struct KnownMaximum {
    mean_kbps: Option<f64>,
    variance: f64,
}

impl KnownMaximum {
    fn update(&mut self, received_kbps: f64) {
        let mean = self.mean_kbps.map_or(received_kbps, |mean| mean + MAX_WEIGHT * (received_kbps - mean));
        let deviation = (mean - received_kbps) * (mean - received_kbps) / mean.max(1.0);
        let variance = (1.0 - MAX_WEIGHT) * self.variance + MAX_WEIGHT * deviation;
        self.variance = variance.clamp(VARIANCE_BOUNDS.0, VARIANCE_BOUNDS.1);
        self.mean_kbps = Some(mean);
    }

    /// Distance of `received_kbps` from the mean in standard deviations; zero without a mean.
    fn deviations(&self, received_kbps: f64) -> f64 {
        self.mean_kbps.map_or(0.0, |mean| (received_kbps - mean) / (self.variance * mean.max(1.0)).sqrt())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Hold,
    Increase,
    Decrease,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Region {
    NearMax,
    MaxUnknown,
}

/// Arrivals since the last decision.
#[derive(Debug, Default)]
struct Window {
    first: Option<Timestamp>,
    last: Timestamp,
    bytes: ByteCount,
    packets: u64,
    sequences: Option<(u64, u64)>,
    sent_ms: f64,
    deltas: u32,
}

impl Window {
    fn on_arrival(&mut self, arrival: &Arrival) {
        self.first.get_or_insert(arrival.arrived_at);
        self.last = self.last.max(arrival.arrived_at);
        self.bytes += arrival.size;
        self.packets += 1;
        let (least, most) = self.sequences.unwrap_or((arrival.sequence, arrival.sequence));
        self.sequences = Some((least.min(arrival.sequence), most.max(arrival.sequence)));
    }

    fn receive_rate_bps(&self) -> f64 {
        let time = self.first.map_or(INTERVAL, |first| self.last.saturating_since(first).max(INTERVAL));
        self.bytes.as_f64() * 8.0 / time.as_secs_f64()
    }

    /// Share of lost packets, not counting one loss; none if too few packets arrived.
    fn loss_share(&self) -> Option<f64> {
        let (least, most) = self.sequences?;
        let span = most - least;
        (span > 0).then(|| 1.0 - (self.packets as f64 / span as f64).min(1.0))
    }
}

/// BoB's heuristic estimator.
#[derive(Debug)]
pub struct BobHeuristic {
    rules: BobRules,
    bounds: RateBounds,
    trend_line: TrendLine,
    detector: OveruseDetector,
    maximum: KnownMaximum,
    state: State,
    region: Region,
    window: Window,
    changed_at: Option<Timestamp>,
    decide_at: Option<Timestamp>,
    /// Whether it decides every 200 ms. Otherwise only [`BobHeuristic::decide_now`] decides.
    by_itself: bool,
    estimate_bps: f64,
}

impl BobHeuristic {
    /// An estimator without arrivals, with the rules of the released code.
    #[must_use]
    pub fn new(bounds: RateBounds) -> Self {
        Self::with_rules(bounds, BobRules::Released)
    }

    /// An estimator without arrivals.
    #[must_use]
    pub fn with_rules(bounds: RateBounds, rules: BobRules) -> Self {
        Self {
            rules,
            bounds,
            trend_line: TrendLine::new(rules),
            detector: OveruseDetector::new(),
            maximum: KnownMaximum::default(),
            state: State::Hold,
            region: Region::MaxUnknown,
            window: Window::default(),
            changed_at: None,
            decide_at: None,
            by_itself: true,
            estimate_bps: bounds.initial.as_bps() as f64,
        }
    }

    /// An estimator that decides only in [`BobHeuristic::decide_now`], for an owner with its own period of about 200
    /// ms.
    #[must_use]
    pub fn with_manual_decisions(bounds: RateBounds, rules: BobRules) -> Self {
        Self { by_itself: false, ..Self::with_rules(bounds, rules) }
    }

    /// The estimate of the last decision.
    #[must_use]
    pub fn prediction(&self) -> Bitrate {
        Bitrate::from_bps(self.estimate_bps.round() as u64)
    }

    /// The state of the path at the last decision.
    #[must_use]
    pub fn path_use(&self) -> PathUse {
        self.detector.path_use
    }

    /// Sets the estimate from which the next decision starts. BoB's selector passes the learned estimate if it used
    /// that.
    pub fn set_estimate(&mut self, used: Bitrate) {
        self.estimate_bps = used.clamp(self.bounds.min, self.bounds.max).as_bps() as f64;
    }

    /// Decides if 200 ms have passed since the last decision. Returns whether it decided.
    pub fn decide(&mut self, now: Timestamp) -> bool {
        let Some(due) = self.decide_at.filter(|&at| at <= now) else { return false };
        // After a pause, the period restarts now.
        self.decide_at = Some(if now.saturating_since(due) < INTERVAL { due + INTERVAL } else { now + INTERVAL });
        self.decide_now();
        true
    }

    /// Decides by all arrivals since the last decision, at any interval.
    pub fn decide_now(&mut self) {
        let slope = self.trend_line.slope().filter(|_| self.window.deltas > 0);
        // Until a trend exists, arrivals are kept for the first decision.
        let Some(slope) = slope else { return };
        let window = std::mem::take(&mut self.window);
        let now = window.last;
        self.detector.update(now, slope, self.trend_line.deltas, window.sent_ms);
        self.change_state();
        let (least, most) = (self.bounds.min.as_bps() as f64, self.bounds.max.as_bps() as f64);
        if self.rules == BobRules::Printed {
            let printed = self.as_printed(window.receive_rate_bps());
            self.estimate_bps = printed.clamp(PRINTED_RANGE.0, PRINTED_RANGE.1).clamp(least, most);
            return;
        }
        let by_delay = self.by_delay(now, &window);
        let by_loss = match window.loss_share() {
            Some(share) if share > LOSS_BOUNDS.1 => self.estimate_bps * (1.0 - LOSS_DECREASE * share),
            Some(share) if share < LOSS_BOUNDS.0 => self.estimate_bps * LOSS_INCREASE,
            _ => self.estimate_bps,
        };
        self.estimate_bps = by_delay.min(by_loss).clamp(least, most);
    }

    /// State machine of GCC, section 5.5.
    fn change_state(&mut self) {
        self.state = match (self.detector.path_use, self.state) {
            (PathUse::Normal, State::Hold) => State::Increase,
            (PathUse::Normal, state) => state,
            (PathUse::Overuse, _) => State::Decrease,
            (PathUse::Underuse, _) => State::Hold,
        };
    }

    /// The estimate of Algorithm 1 as printed, at a receive rate of `received` bit/s.
    fn as_printed(&mut self, received: f64) -> f64 {
        match self.state {
            State::Hold => self.estimate_bps,
            State::Increase => INCREASE * self.estimate_bps,
            State::Decrease => {
                self.state = State::Hold;
                DECREASE * self.estimate_bps.min(received)
            }
        }
    }

    fn by_delay(&mut self, now: Timestamp, window: &Window) -> f64 {
        let received = window.receive_rate_bps();
        let received_kbps = received * 1e-3;
        self.maximum.update(received_kbps);
        match self.state {
            State::Hold => self.estimate_bps,
            State::Increase => {
                if self.maximum.deviations(received_kbps) > 3.0 {
                    self.maximum.mean_kbps = None;
                    self.region = Region::MaxUnknown;
                }
                let since = self.changed_at.replace(now).map(|before| now.saturating_since(before));
                let more = match self.region {
                    Region::NearMax => additive_increase(window, since),
                    Region::MaxUnknown => multiplicative_increase(self.estimate_bps, since),
                };
                (self.estimate_bps + more).min(MAX_RECEIVED_RATE_RATIO * received)
            }
            State::Decrease => {
                let mut estimate = DECREASE * received;
                if estimate > self.estimate_bps {
                    if let (Region::NearMax, Some(mean)) = (self.region, self.maximum.mean_kbps) {
                        estimate = DECREASE * mean * 1e3;
                    }
                    estimate = estimate.min(self.estimate_bps);
                }
                self.region = Region::NearMax;
                if self.maximum.deviations(received_kbps) < -3.0 {
                    self.maximum.mean_kbps = None;
                }
                self.maximum.update(received_kbps);
                self.state = State::Hold;
                self.changed_at = Some(now);
                estimate
            }
        }
    }
}

/// Bits of one mean packet per 200 ms.
fn additive_increase(window: &Window, since: Option<Duration>) -> f64 {
    let packet_bits = window.bytes.as_f64() * 8.0 / window.packets.max(1) as f64;
    let share = since.map_or(0.0, |since| (since.as_secs_f64() / INTERVAL.as_secs_f64()).min(1.0));
    (share * packet_bits).max(MIN_ADDITIVE_BPS)
}

fn multiplicative_increase(estimate_bps: f64, since: Option<Duration>) -> f64 {
    let seconds = since.map_or(1.0, |since| since.as_secs_f64().min(1.0));
    (estimate_bps * (libm::pow(INCREASE, seconds) - 1.0)).max(MIN_MULTIPLICATIVE_BPS)
}

impl Estimator for BobHeuristic {
    fn on_arrival(&mut self, arrival: &Arrival) {
        if self.by_itself {
            self.decide_at.get_or_insert(arrival.arrived_at + INTERVAL);
        }
        // Earlier arrivals belong to the interval that has ended.
        self.decide(arrival.arrived_at);
        self.window.on_arrival(arrival);
        if let Some(sent_ms) = self.trend_line.on_arrival(arrival) {
            self.window.sent_ms += sent_ms;
            self.window.deltas += 1;
        }
    }

    fn estimate(&mut self, now: Timestamp) -> Estimate {
        self.decide(now);
        Estimate { inter_arrival: None, capacity: Some(self.prediction()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::closed_loop::{Outcome, Plan, run, setup};
    use crate::{Controller, ReceiverEstimate};

    fn arrival(sent: u64, arrived: u64, sequence: u64) -> Arrival {
        Arrival {
            arrived_at: Timestamp::from_millis(arrived),
            sent_at: Timestamp::from_millis(sent),
            size: ByteCount::new(1_250),
            sequence,
            frame: sequence as u32,
            fragment: 0,
            grace: Duration::ZERO,
            congestion_experienced: false,
        }
    }

    fn call(plan: &Plan) -> Outcome {
        let mut controller: Box<dyn Controller> = Box::new(ReceiverEstimate::new(&setup()));
        run(plan, &mut *controller, Some(&mut BobHeuristic::new(RateBounds::default())))
    }

    #[test]
    fn estimate_reaches_1_mbps_in_30_s_with_a_short_queue() {
        for feedback_interval in [None, Some(Duration::from_millis(100))] {
            let outcome = call(&Plan { feedback_interval, length: Duration::from_secs(60), ..Plan::constant(1_000) });
            let rate = outcome.rate(30, 60).as_mbps();
            assert!((0.7..1.05).contains(&rate), "{outcome:?}");
            assert!(outcome.queueing_delay(30, 60, 0.5) < Duration::from_millis(100), "{outcome:?}");
        }
    }

    #[test]
    fn printed_rules_rise_by_8_percent_an_interval() {
        let mut heuristic = BobHeuristic::with_rules(RateBounds::default(), BobRules::Printed);
        // 1 Mb/s without a queue. The groups of 0 to 200 and 210 to 410 ms give the first delta.
        let mut estimates = Vec::new();
        for packet in 0..160 {
            heuristic.on_arrival(&arrival(10 * packet, 10 * packet + 20, packet));
            estimates.push(heuristic.prediction().as_bps());
        }
        estimates.dedup();
        assert!(estimates.len() > 4, "{estimates:?}");
        let ratios = estimates.windows(2).map(|pair| pair[1] as f64 / pair[0] as f64);
        assert!(ratios.clone().all(|ratio| (ratio - 1.08).abs() < 1e-4), "{estimates:?}");
    }

    #[test]
    fn printed_decrease_takes_the_smaller_of_both_rates() {
        for (estimate, received) in [(2_000_000.0, 1_000_000.0), (1_000_000.0, 2_000_000.0)] {
            let mut heuristic = BobHeuristic::with_rules(RateBounds::default(), BobRules::Printed);
            (heuristic.estimate_bps, heuristic.state) = (estimate, State::Decrease);
            assert!((heuristic.as_printed(received) - 850_000.0).abs() < 1e-6);
            // The next interval holds, and does not decrease again.
            assert_eq!((heuristic.state, heuristic.as_printed(received)), (State::Hold, estimate));
        }
    }

    #[test]
    fn printed_rules_follow_a_falling_capacity() {
        let mut controller: Box<dyn Controller> = Box::new(ReceiverEstimate::new(&setup()));
        let mut heuristic = BobHeuristic::with_rules(RateBounds::default(), BobRules::Printed);
        let outcome = run(&Plan::step(2_500, 600, 40), &mut *controller, Some(&mut heuristic));
        assert!(outcome.rate(20, 40).as_mbps() > 1.2, "{outcome:?}");
        assert!(outcome.mean_target(60, 80) < Bitrate::from_kbps(1_200), "{outcome:?}");
    }

    #[test]
    fn rate_falls_with_the_capacity() {
        let outcome = call(&Plan::step(2_500, 600, 40));
        assert!(outcome.rate(30, 40).as_mbps() > 1.7, "{outcome:?}");
        assert!(outcome.mean_target(45, 80) < Bitrate::from_kbps(650), "{outcome:?}");
        assert!(outcome.queueing_delay(50, 80, 0.5) < Duration::from_millis(150), "{outcome:?}");
    }

    #[test]
    fn random_loss_of_5_percent_does_not_starve_it() {
        let outcome = call(&Plan { loss: 0.05, length: Duration::from_secs(60), ..Plan::constant(1_000) });
        assert!(outcome.rate(30, 60).as_mbps() > 0.3, "{outcome:?}");
    }

    #[test]
    fn rate_recovers_after_an_outage() {
        let outage = Some((Duration::from_secs(30), Duration::from_secs(31)));
        let outcome = call(&Plan { outage, length: Duration::from_secs(60), ..Plan::constant(1_000) });
        assert!(outcome.rate(45, 60).as_mbps() > 0.7, "{outcome:?}");
    }

    #[test]
    fn next_decision_starts_from_the_estimate_that_was_set() {
        let mut heuristic = BobHeuristic::new(RateBounds::default());
        heuristic.set_estimate(Bitrate::from_kbps(2_000));
        assert_eq!(heuristic.prediction(), Bitrate::from_kbps(2_000));
        // Packets of 10 kbit every 10 ms: 1 Mb/s, no queue.
        for packet in 0..200 {
            heuristic.on_arrival(&arrival(10 * packet, 10 * packet + 20, packet));
        }
        let after = heuristic.prediction();
        assert!(after > Bitrate::from_kbps(2_100) && after < Bitrate::from_kbps(2_500), "{after}");
        assert_eq!(heuristic.path_use(), PathUse::Normal);
    }
}
