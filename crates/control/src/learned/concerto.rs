//! Concerto (MobiCom 2019): a model that chooses a bit rate of a ladder from the last seconds of both layers.
//!
//! RL-V has the same input and output, but learns from a reward instead of an expert.
//!
//! The state has four arrays per second: loss, delay, sending rate and receive throughput. Each is 15 by 4: fifteen
//! reports per second, four groups of packets per report. Differences to the paper:
//!
//! - A report in the paper covers four packets. Here it covers the feedback of a fifteenth of a second, in four groups
//!   of nearly equal size. So no packet is dropped at 8 Mb/s.
//! - The delay in the paper is the one between packets. Here it is the queueing delay of a group above the minimum of
//!   ten seconds, which is its sum. The two rates already contain the spacing of packets, but not a queue that is older
//!   than the state.
//! - The third signal is the sending rate of acknowledged packets, a round trip late. The paper has the codec's own bit
//!   rate, which the sender knows at once. A model with `lockstep.inputs` = `encoded` gets that
//!   ([`ConcertoInputs::Encoded`]).
//! - Seconds count back from the decision, so decisions can be more frequent than once per second.
//!
//! | constant | value | source |
//! |---|---|---|
//! | reports a second, groups a report | 15, 4 | the paper's state |
//! | seconds | 3 | the paper's smoothing covers the same time; see `docs/lab/2026-11-learning.md` |
//! | loss | share of the group's packets | |
//! | delay | queueing delay / 1 s, 2 at most | |
//! | rates | logarithm, 10 kb/s as 0 and 8 Mb/s as 1 (BoB's scale); 0 to 1.5 | bursts are faster than the mean rate of the path |
//! | pacing rate / target | 2.5 | libwebrtc; a model can override it (`lockstep.pacing`): 1 in the paper, whose transport sends at B |

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use lockstep_nn::{Model, ModelError};
use lockstep_transport::{Feedback, LostFragment};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use super::Observation;
use super::purpose::check_controller;
use crate::base_delay::BaseDelay;
use crate::{Allowance, Controller, ControllerSetup, InFlight, Input, PathView, RateBounds, TokenBucket, Traits};

/// Time that one interval of the state covers.
const INTERVAL: Duration = Duration::from_secs(1);
const REPORTS: usize = 15;
const GROUPS: usize = 4;
const SIGNALS: usize = 4;
/// Place of the sending rate among the signals.
const SENT_SIGNAL: usize = 2;
/// Time that one report covers.
const REPORT: Duration = Duration::from_nanos(INTERVAL.as_nanos() as u64 / REPORTS as u64 + 1);

const MAX_WAIT_SECONDS: f64 = 2.0;
const MIN_BPS: f64 = 1e4;
const MAX_BPS: f64 = 8e6;
const MAX_RATE_FEATURE: f64 = 1.5;
/// Maximum number of remembered packets: three seconds at 45 Mb/s in full fragments.
const MAX_PACKETS: usize = 16_384;

const PACING_FACTOR: f64 = 2.5;
/// Bounds of a model's pacing factor.
const PACING_FACTORS: std::ops::RangeInclusive<f64> = 1.0..=10.0;

/// Time over which the bit rate of the encoder is averaged: the paper's interval.
const ENCODED_OVER: Duration = INTERVAL;
/// Maximum number of remembered frames: those of 17 s at 240 frames per second.
const MAX_FRAMES: usize = 4_096;

/// Maximum number of rates in a ladder, and of intervals in a model's state.
const MAX_RATES: usize = 1_024;
const MAX_INTERVALS: usize = 16;
/// Bounds of the decision interval.
const DECISIONS: std::ops::RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(10);

/// A packet that was acknowledged or lost.
#[derive(Debug, Clone, Copy)]
struct Packet {
    learned_at: Timestamp,
    sent_at: Timestamp,
    size: u64,
    /// Arrival time and queueing delay; none if it was lost.
    arrived: Option<(Timestamp, Duration)>,
}

/// Source of the third signal of Concerto's observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ConcertoInputs {
    /// Sending rate of acknowledged packets. It is known a round trip late.
    #[default]
    Acknowledged,
    /// Bit rate of the encoder over the last second, known at once: the codec's signal of the paper.
    Encoded,
}

/// Observation of Concerto's model: `[4, intervals, 15, 4]` numbers, oldest first. The signals are loss, delay, sending
/// rate and receive throughput. Groups without packets are zeros.
#[derive(Debug)]
pub struct ConcertoObservation {
    intervals: usize,
    inputs: ConcertoInputs,
    /// Time and size of the encoder's frames; empty unless the inputs need them.
    frames: VecDeque<(Timestamp, u64)>,
    packets: VecDeque<Packet>,
    base_delay: BaseDelay,
}

/// `bytes` per `time` on the logarithmic scale of rates.
fn scaled_rate(bytes: u64, time: Duration) -> f32 {
    let rate = bytes as f64 * 8.0 / time.as_secs_f64().max(1e-6);
    (libm::log(rate.max(MIN_BPS) / MIN_BPS) / libm::log(MAX_BPS / MIN_BPS)).min(MAX_RATE_FEATURE) as f32
}

/// Times before a group, from which its rates are computed.
#[derive(Debug, Clone, Copy, Default)]
struct Before {
    sent_at: Option<Timestamp>,
    arrived_at: Option<Timestamp>,
}

/// The four signals of a group of packets that follows `before`.
fn signals(group: &[Packet], before: &mut Before) -> [f32; SIGNALS] {
    let count = group.len() as f64;
    let arrived = || group.iter().filter_map(|packet| packet.arrived);
    let lost = (group.len() - arrived().count()) as f64 / count;
    let waited: f64 = arrived().map(|(_, waited)| waited.as_secs_f64().min(MAX_WAIT_SECONDS)).sum();
    let waited = waited / arrived().count().max(1) as f64;
    // Groups are in the order of their feedback. Packets that overtook others count from the latest time.
    let rate = |latest: Option<Timestamp>, bytes: u64, known: &mut Option<Timestamp>| {
        let Some(latest) = latest else { return 0.0 };
        let rate = known.map_or(0.0, |known| scaled_rate(bytes, latest.saturating_since(known)));
        *known = Some(known.map_or(latest, |known| known.max(latest)));
        rate
    };
    let sent_at = group.iter().map(|packet| packet.sent_at).max();
    let sent = group.iter().map(|packet| packet.size).sum();
    let arrived_at = arrived().map(|(at, _)| at).max();
    let received = group.iter().filter(|packet| packet.arrived.is_some()).map(|packet| packet.size).sum();
    [
        lost as f32,
        waited as f32,
        rate(sent_at, sent, &mut before.sent_at),
        rate(arrived_at, received, &mut before.arrived_at),
    ]
}

impl ConcertoObservation {
    /// Default number of intervals.
    pub const USUAL_INTERVALS: usize = 3;

    /// An observation of `intervals` seconds, without history.
    #[must_use]
    pub fn new(intervals: usize, inputs: ConcertoInputs) -> Self {
        let base_delay = BaseDelay::new(Duration::from_secs(10));
        Self { intervals, inputs, frames: VecDeque::new(), packets: VecDeque::new(), base_delay }
    }

    /// Writes the bit rate of the encoder over the [`ENCODED_OVER`] before the end of each group.
    fn observe_encoded(&mut self, now: Timestamp, into: &mut [f32]) {
        let frames = self.frames.make_contiguous();
        let before = |time: Timestamp| frames.partition_point(|&(at, _)| at < time);
        let count = into.len() as u32;
        for (group, into) in (1u32..).zip(into) {
            let end = now - REPORT * (count - group) / GROUPS as u32;
            let bytes = frames[before(end - ENCODED_OVER)..before(end)].iter().map(|&(_, size)| size).sum();
            *into = scaled_rate(bytes, ENCODED_OVER);
        }
    }

    fn reports(&self) -> usize {
        self.intervals * REPORTS
    }

    fn learn(&mut self, now: Timestamp, packet: Packet) {
        self.packets.push_back(packet);
        // One packet before the state is kept, for the rates of the first group.
        let reports = self.reports() as u32;
        while let Some(second) = self.packets.get(1)
            && (now.saturating_since(second.learned_at) > REPORT * reports || self.packets.len() > MAX_PACKETS)
        {
            self.packets.pop_front();
        }
    }
}

impl Observation for ConcertoObservation {
    fn shape(&self) -> Vec<usize> {
        vec![SIGNALS, self.intervals, REPORTS, GROUPS]
    }

    fn on_encoded(&mut self, now: Timestamp, size: ByteCount) {
        if self.inputs != ConcertoInputs::Encoded {
            return;
        }
        self.frames.push_back((now, size.get()));
        let longest = INTERVAL * self.intervals as u32 + ENCODED_OVER;
        while let Some(&(at, _)) = self.frames.front()
            && (now.saturating_since(at) > longest || self.frames.len() > MAX_FRAMES)
        {
            self.frames.pop_front();
        }
    }

    fn on_feedback(&mut self, now: Timestamp, feedback: &Feedback) {
        for fragment in &feedback.acknowledged {
            let waited = self.base_delay.queueing_delay(fragment.sent_at, fragment.arrived_at);
            let packet = Packet {
                learned_at: now,
                sent_at: fragment.sent_at,
                size: fragment.size.get(),
                arrived: Some((fragment.arrived_at, waited)),
            };
            self.learn(now, packet);
        }
    }

    fn on_loss(&mut self, now: Timestamp, lost: &[LostFragment]) {
        for fragment in lost {
            let packet =
                Packet { learned_at: now, sent_at: fragment.sent_at, size: fragment.size.get(), arrived: None };
            self.learn(now, packet);
        }
    }

    fn observe(&mut self, now: Timestamp, into: &mut [f32]) {
        into.fill(0.0);
        let reports = self.reports();
        let packets = self.packets.make_contiguous();
        // Feedback at this same instant belongs to the next decision.
        let packets = &packets[..packets.partition_point(|packet| packet.learned_at < now)];
        let age = |packet: &Packet| (now.saturating_since(packet.learned_at).as_nanos() / REPORT.as_nanos()) as usize;
        let mut at = packets.partition_point(|packet| age(packet) >= reports);
        let earlier = &packets[..at];
        let mut before = Before {
            sent_at: earlier.iter().map(|packet| packet.sent_at).max(),
            arrived_at: earlier.iter().filter_map(|packet| packet.arrived).map(|(at, _)| at).max(),
        };
        for report in 0..reports {
            let from = at;
            at += packets[from..].partition_point(|packet| age(packet) >= reports - 1 - report);
            let (learned, count) = (&packets[from..at], at - from);
            for group in 0..GROUPS.min(count) {
                let members = &learned[group * count / GROUPS.min(count)..(group + 1) * count / GROUPS.min(count)];
                for (signal, value) in signals(members, &mut before).into_iter().enumerate() {
                    into[(signal * reports + report) * GROUPS + group] = value;
                }
            }
        }
        if self.inputs == ConcertoInputs::Encoded {
            let signal = reports * GROUPS;
            self.observe_encoded(now, &mut into[SENT_SIGNAL * signal..(SENT_SIGNAL + 1) * signal]);
        }
    }
}

/// Conversion of a model's scores into a rate of the ladder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decision {
    /// The rate with the highest score.
    Best,
    /// The mean position, if the scores are probabilities.
    Mean,
    /// The mean position, interpolated between two rates of the ladder on a logarithmic scale.
    Between,
}

impl Decision {
    /// The rate; none if the scores are invalid.
    fn rate(self, scores: &[f32], ladder: &[Bitrate]) -> Option<Bitrate> {
        match self {
            // NaN is never the best. Of equal scores, the lowest rate is used.
            Self::Best => {
                let numbers = scores.iter().enumerate().filter(|(_, score)| !score.is_nan());
                let best = numbers.fold(None, |best: Option<(usize, f32)>, (place, &score)| match best {
                    Some((_, highest)) if score <= highest => best,
                    _ => Some((place, score)),
                });
                best.and_then(|(place, _)| ladder.get(place)).copied()
            }
            Self::Mean => ladder.get(libm::roundf(mean_place(scores)?) as usize).copied(),
            Self::Between => {
                let place = mean_place(scores)?;
                let below = libm::floorf(place) as usize;
                let (below, above) = (ladder.get(below)?, ladder.get(below + 1).or(ladder.get(below))?);
                let share = f64::from(place - libm::floorf(place));
                let ratio = above.as_bps().max(1) as f64 / below.as_bps().max(1) as f64;
                Some(below.mul_f64(libm::pow(ratio, share)))
            }
        }
    }
}

/// Mean position under scores that are approximately probabilities; none if they are invalid.
fn mean_place(scores: &[f32]) -> Option<f32> {
    let sum: f32 = scores.iter().sum();
    let weighted: f32 = scores.iter().zip(0u16..).map(|(score, place)| score * f32::from(place)).sum();
    let place = weighted / sum;
    (place.is_finite() && place >= 0.0).then_some(place)
}

/// Controller that periodically chooses a bit rate of a ladder by a model's scores.
#[derive(Debug)]
pub struct Concerto {
    model: Arc<Model>,
    ladder: Vec<Bitrate>,
    interval: Duration,
    decision: Decision,
    /// Pacing rate over target.
    pacing: f64,
    bounds: RateBounds,
    observation: ConcertoObservation,
    state: Vec<f32>,
    /// Time of the next decision; none before the first datagram.
    due: Option<Timestamp>,
    target: Bitrate,
    bucket: TokenBucket,
}

impl Concerto {
    /// A controller that sends at the initial rate until its first decision, one interval after the first datagram.
    ///
    /// # Errors
    /// [`ModelError::Unfit`] if the model does not fit:
    ///
    /// - The metadata names another controller than `controller` (`concerto` or `rlv`).
    /// - The model does not have one input of the observation's shape, and one output with one number per rate.
    /// - The metadata lacks `lockstep.ladder_bps` (increasing integers, separated by commas) or `lockstep.interval_ms`.
    /// - `lockstep.decision` is not one of `best` (the default), `mean` and `between`.
    /// - `lockstep.inputs` is neither `acknowledged` (the default) nor `encoded`.
    /// - `lockstep.pacing`, the pacing rate over the target, is not from 1 to 10.
    pub fn new(setup: &ControllerSetup, controller: &str, model: Arc<Model>) -> Result<Self, ModelError> {
        check_controller(&model, controller)?;
        let unfit = |text: String| ModelError::Unfit(text);
        let entry = |key: &str| model.metadata(key).ok_or_else(|| unfit(format!("missing metadata {key}")));
        let ladder = entry("lockstep.ladder_bps")?;
        let rates: Option<Vec<u64>> = ladder.split(',').map(|rate| rate.trim().parse().ok()).collect();
        let rates = rates.filter(|rates| rates.len() <= MAX_RATES && rates.is_sorted_by(|one, next| one < next));
        let rates = rates.ok_or_else(|| unfit("lockstep.ladder_bps: expected increasing integers".to_owned()))?;
        let interval = entry("lockstep.interval_ms")?.trim().parse().ok().map(Duration::from_millis);
        let interval = interval.filter(|interval| DECISIONS.contains(interval)).ok_or_else(|| {
            unfit(format!("lockstep.interval_ms: expected {:?} to {:?}", DECISIONS.start(), DECISIONS.end()))
        })?;
        let decision = match model.metadata("lockstep.decision") {
            Some("mean") => Decision::Mean,
            Some("between") => Decision::Between,
            Some("best") | None => Decision::Best,
            Some(_) => return Err(unfit("lockstep.decision: expected best, mean or between".to_owned())),
        };
        let inputs = match model.metadata("lockstep.inputs") {
            Some("acknowledged") | None => ConcertoInputs::Acknowledged,
            Some("encoded") => ConcertoInputs::Encoded,
            Some(_) => return Err(unfit("lockstep.inputs: expected acknowledged or encoded".to_owned())),
        };
        let pacing = model.metadata("lockstep.pacing").map_or(Ok(PACING_FACTOR), |text| {
            let factor = text.trim().parse().ok().filter(|factor| PACING_FACTORS.contains(factor));
            factor.ok_or_else(|| unfit("lockstep.pacing: expected a number from 1 to 10".to_owned()))
        })?;
        let ([input], [output]) = (model.inputs(), model.outputs()) else {
            return Err(unfit(format!(
                "{} inputs and {} outputs, expected one each",
                model.inputs().len(),
                model.outputs().len()
            )));
        };
        let (1, &[1, SIGNALS, intervals @ 1..=MAX_INTERVALS, REPORTS, GROUPS]) = (1, &input.shape[..]) else {
            return Err(unfit(format!(
                "input {:?}, expected [1, {SIGNALS}, seconds, {REPORTS}, {GROUPS}]",
                input.shape
            )));
        };
        if output.shape != [1, rates.len()] {
            return Err(unfit(format!(
                "output {:?}, expected [1, {}], one number per rate",
                output.shape,
                rates.len()
            )));
        }
        Ok(Self {
            ladder: rates.into_iter().map(Bitrate::from_bps).collect(),
            interval,
            decision,
            pacing,
            bounds: setup.bounds,
            observation: ConcertoObservation::new(intervals, inputs),
            state: vec![0.0; SIGNALS * intervals * REPORTS * GROUPS],
            due: None,
            target: setup.bounds.initial,
            bucket: TokenBucket::new(setup.payload, setup.frame_interval),
            model,
        })
    }

    /// Decides if a decision is due. Only events before the due time count, not the one at `now`.
    fn decide(&mut self, now: Timestamp) {
        let Some(due) = self.due.filter(|due| *due <= now) else { return };
        // After a pause only the latest due decision is made.
        let missed = now.saturating_since(due).as_nanos() / self.interval.as_nanos();
        let due = due + self.interval * u32::try_from(missed).unwrap_or(u32::MAX);
        self.due = Some(due + self.interval);
        self.observation.observe(due, &mut self.state);
        let Some(scores) = self.model.run(&[&self.state]).ok().and_then(|outputs| outputs.into_iter().next()) else {
            return;
        };
        if let Some(rate) = self.decision.rate(&scores, &self.ladder) {
            self.target = rate.clamp(self.bounds.min, self.bounds.max);
            self.observation.on_decision(due, self.target);
        }
    }
}

impl Concerto {
    fn on_sent(&mut self, now: Timestamp, size: ByteCount) {
        self.due.get_or_insert(now + self.interval);
        self.decide(now);
        self.observation.on_transmit(now, size);
        self.bucket.on_transmit(now, size, self.target);
    }

    fn on_encoded(&mut self, now: Timestamp, size: ByteCount) {
        // A due decision ignores frames from its time on, so it needs not precede this one.
        self.observation.on_encoded(now, size);
    }

    fn on_feedback(&mut self, now: Timestamp, feedback: &Feedback) {
        self.decide(now);
        self.observation.on_feedback(now, feedback);
    }

    fn on_time(&mut self, now: Timestamp) {
        self.decide(now);
    }

    fn on_loss(&mut self, now: Timestamp, lost: &[LostFragment]) {
        self.decide(now);
        self.observation.on_loss(now, lost);
    }
}

impl Controller for Concerto {
    fn traits(&self) -> Traits {
        Traits::ESTIMATING
    }

    fn handle(&mut self, path: &PathView<'_>, input: Input<'_>) {
        match input {
            Input::Sent(size) => self.on_sent(path.now, size),
            Input::Feedback(feedback) => self.on_feedback(path.now, feedback),
            Input::Time => self.on_time(path.now),
            Input::Lost(lost) => self.on_loss(path.now, lost),
            Input::Encoded(size) => self.on_encoded(path.now, size),
            Input::FeedbackSent(_) | Input::PictureSkipped => {}
        }
    }

    fn allowance(&self, path: &PathView<'_>, in_flight: InFlight) -> Allowance {
        self.bucket.allowance(path.now, in_flight, self.target, self.target.mul_f64(self.pacing))
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
    use lockstep_transport::{AcknowledgedFragment, Estimate};

    use super::*;
    use crate::closed_loop::{Plan, run, setup};
    use crate::learned::shipped::Shipped;

    fn fragment(sent_ms: u64, arrived_ms: u64, size: u64) -> AcknowledgedFragment {
        AcknowledgedFragment {
            frame: 0,
            fragment: 0,
            size: ByteCount::new(size),
            sent_at: Timestamp::from_millis(sent_ms),
            arrived_at: Timestamp::from_millis(arrived_ms),
            acknowledged_at: Timestamp::from_millis(arrived_ms),
            congestion_experienced: false,
        }
    }

    fn feedback(acknowledged: Vec<AcknowledgedFragment>) -> Feedback {
        let estimate = Estimate { inter_arrival: None, capacity: None };
        Feedback { acknowledged, estimate, round_trip_time: None, highest_sequence: 0, found: 0, received: 0 }
    }

    /// Numbers of each signal, by report.
    fn seen(observation: &mut ConcertoObservation, now_ms: u64) -> Vec<Vec<[f32; GROUPS]>> {
        let mut state = vec![f32::NAN; observation.shape().iter().product()];
        observation.observe(Timestamp::from_millis(now_ms), &mut state);
        let reports = |signal: &[f32]| signal.chunks_exact(GROUPS).map(|report| report.try_into().unwrap()).collect();
        state.chunks_exact(state.len() / SIGNALS).map(reports).collect()
    }

    #[test]
    fn packets_belong_to_the_report_of_their_feedback() {
        let mut observation = ConcertoObservation::new(1, ConcertoInputs::Acknowledged);
        assert!(seen(&mut observation, 0).concat().iter().flatten().all(|&number| number == 0.0));
        // 1,000 bytes per millisecond in two reports: ten packets, then two, one of which is lost.
        for index in 0..10 {
            observation.on_feedback(Timestamp::from_millis(500), &feedback(vec![fragment(index, 20 + index, 1_000)]));
        }
        observation.on_feedback(Timestamp::from_millis(950), &feedback(vec![fragment(10, 130, 1_000)]));
        let lost =
            LostFragment { frame: 0, fragment: 0, size: ByteCount::new(1_000), sent_at: Timestamp::from_millis(11) };
        observation.on_loss(Timestamp::from_millis(950), &[lost]);
        let state = seen(&mut observation, 1_000);
        let [loss, delay, sent, received] = &state[..] else { panic!("four signals") };
        // 500 ms before the decision is seven and a half reports back; 50 ms is within the last report.
        let full: Vec<usize> = (0..REPORTS).filter(|&report| sent[report] != [0.0; GROUPS]).collect();
        assert_eq!(full, [7, 14]);
        assert_eq!((loss[7], loss[14]), ([0.0; 4], [0.0, 1.0, 0.0, 0.0]));
        assert_eq!(delay[7], [0.0; 4]);
        assert!((delay[14][0] - 0.1).abs() < 1e-6, "{:?}", delay[14]);
        // 8 Mb/s is 1. The first group has no packet before its own first one, so it has no rate.
        assert_eq!(sent[7][0], 0.0);
        assert!(sent[7][1..].iter().chain(&received[7][1..]).all(|rate| (rate - 1.0).abs() < 1e-6), "{sent:?}");
        // One packet 100 ms after the previous one: 80 kb/s.
        assert!((received[14][0] - 0.3096).abs() < 1e-3 && received[14][1] == 0.0, "{received:?}");
        // Later the same packets are older, then outside the state.
        let later = seen(&mut observation, 1_200);
        assert_eq!(later[0][11], [0.0, 1.0, 0.0, 0.0]);
        assert!(seen(&mut observation, 2_500).concat().iter().flatten().all(|&number| number == 0.0));
    }

    #[test]
    fn memory_is_bounded_and_observations_are_finite() {
        let mut observation = ConcertoObservation::new(2, ConcertoInputs::Encoded);
        for index in 0..40_000 {
            let at = if index % 3 == 0 { u64::MAX / 2_000_000 - index } else { index / 7 };
            observation
                .on_feedback(Timestamp::from_millis(index / 100), &feedback(vec![fragment(at, index % 11, 1 << 40)]));
            observation.on_encoded(Timestamp::from_millis(index / 100), ByteCount::new(1 << 40));
        }
        assert!(observation.packets.len() <= MAX_PACKETS && observation.frames.len() <= MAX_FRAMES);
        let state = seen(&mut observation, 400).concat();
        assert!(state.iter().flatten().all(|number| number.is_finite() && (0.0..=2.0).contains(number)));
    }

    #[test]
    fn encoded_rate_is_known_without_feedback() {
        let mut observation = ConcertoObservation::new(3, ConcertoInputs::Encoded);
        // A frame of 12,500 bytes every 100 ms from 1,000 ms on: 1 Mb/s.
        for frame in 0..20 {
            observation.on_encoded(Timestamp::from_millis(1_000 + 100 * frame), ByteCount::new(12_500));
        }
        let state = seen(&mut observation, 3_000);
        let rates: Vec<f32> = state[SENT_SIGNAL].concat();
        let of = |bps: f64| (libm::log(bps / MIN_BPS) / libm::log(MAX_BPS / MIN_BPS)) as f32;
        assert_eq!(rates[0], 0.0);
        assert!((rates[rates.len() - 1] - of(1e6)).abs() < 1e-6, "{rates:?}");
        // 1,500 ms is half a second after the first frame.
        assert!((rates[rates.len() / 2 - 1] - of(5e5)).abs() < 1e-6, "{rates:?}");
        assert!(rates.is_sorted());
        // The other inputs do not have the signal.
        let mut acknowledged = ConcertoObservation::new(3, ConcertoInputs::Acknowledged);
        acknowledged.on_encoded(Timestamp::from_millis(2_900), ByteCount::new(12_500));
        assert!(seen(&mut acknowledged, 3_000).concat().iter().flatten().all(|&number| number == 0.0));
    }

    /// Records the inputs of a controller and forwards them.
    struct Recorder {
        controller: Concerto,
        events: Vec<Event>,
        targets: Vec<Bitrate>,
    }

    enum Event {
        Transmit(Timestamp, ByteCount),
        Encoded(Timestamp, ByteCount),
        Feedback(Timestamp, Feedback),
        Time(Timestamp),
        Loss(Timestamp, Vec<LostFragment>),
    }

    fn pass(controller: &mut Concerto, event: &Event) -> Bitrate {
        match event {
            Event::Transmit(now, size) => controller.on_sent(*now, *size),
            Event::Encoded(now, size) => controller.on_encoded(*now, *size),
            Event::Feedback(now, feedback) => controller.on_feedback(*now, feedback),
            Event::Time(now) => controller.on_time(*now),
            Event::Loss(now, lost) => controller.on_loss(*now, lost),
        }
        controller.target
    }

    impl Recorder {
        fn record(&mut self, event: Event) {
            self.targets.push(pass(&mut self.controller, &event));
            self.events.push(event);
        }
    }

    impl Controller for Recorder {
        fn traits(&self) -> Traits {
            self.controller.traits()
        }

        fn handle(&mut self, path: &PathView<'_>, input: Input<'_>) {
            match input {
                Input::Sent(size) => self.record(Event::Transmit(path.now, size)),
                Input::Feedback(feedback) => self.record(Event::Feedback(path.now, feedback.clone())),
                Input::Time => self.record(Event::Time(path.now)),
                Input::Lost(lost) => self.record(Event::Loss(path.now, lost.to_vec())),
                Input::Encoded(size) => self.record(Event::Encoded(path.now, size)),
                Input::FeedbackSent(_) | Input::PictureSkipped => {}
            }
        }

        fn allowance(&self, path: &PathView<'_>, in_flight: InFlight) -> Allowance {
            self.controller.allowance(path, in_flight)
        }

        fn pacing_interval(&self, path: &PathView<'_>, in_flight: InFlight) -> Duration {
            self.controller.pacing_interval(path, in_flight)
        }

        fn counters(&self) -> Vec<(&'static str, u64)> {
            self.controller.counters()
        }
    }

    #[test]
    fn scores_give_best_mean_or_interpolated_rate_or_none() {
        let ladder = [100, 200, 400, 800].map(Bitrate::from_kbps);
        let kbps = |decision: Decision, scores: &[f32]| {
            decision.rate(scores, &ladder).map(|rate| (rate.as_bps() as f64 / 1e3).round() as u64)
        };
        assert_eq!(kbps(Decision::Best, &[0.1, f32::NAN, 0.6, 0.6]), Some(400));
        assert_eq!(kbps(Decision::Mean, &[0.5, 0.0, 0.0, 0.5]), Some(400));
        assert_eq!(kbps(Decision::Mean, &[0.0, 0.9, 0.1, 0.0]), Some(200));
        assert_eq!(kbps(Decision::Between, &[0.0, 0.5, 0.5, 0.0]), Some(283));
        assert_eq!(kbps(Decision::Between, &[0.0, 0.0, 0.0, 1.0]), Some(800));
        assert_eq!(kbps(Decision::Between, &[0.0, 0.0, 0.0, 0.0]), None);
        for nonsense in [[f32::NAN; 3], [f32::NAN, 1.0, f32::INFINITY]] {
            assert_eq!((kbps(Decision::Mean, &nonsense), kbps(Decision::Between, &nonsense)), (None, None));
        }
        assert_eq!((kbps(Decision::Best, &[f32::NAN; 3]), kbps(Decision::Mean, &[0.0; 3])), (None, None));
    }

    fn concerto() -> Concerto {
        Concerto::new(&setup(), "concerto", Shipped::Concerto.model().unwrap()).unwrap()
    }

    #[test]
    fn same_feedback_gives_the_same_decisions() {
        let trace = Trace::from_spec("cellular:mean=2mbps,seed=3").unwrap();
        let plan = Plan { loss: 0.01, ..Plan::new(trace) };
        let mut recorder = Recorder { controller: concerto(), events: Vec::new(), targets: Vec::new() };
        run(&plan, &mut recorder, None);
        let mut again = concerto();
        let targets: Vec<Bitrate> = recorder.events.iter().map(|event| pass(&mut again, event)).collect();
        assert_eq!(targets, recorder.targets);
        let mut different = recorder.targets.clone();
        different.sort_unstable();
        different.dedup();
        assert!(different.len() > 3, "{different:?}");
    }
}
