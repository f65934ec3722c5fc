//! Concerto (MobiCom 2019): what the last seconds looked like to both layers, and one of a ladder of bit rates for the
//! next interval. RL-V, which learns from a reward and not from an expert, sees and says the same.
//!
//! The state is four arrays a second of the past: loss, delay, sending rate, receive throughput, each 15 by 4: fifteen
//! reports a second, four groups of packets a report. Where it differs from the paper:
//!
//! - A report there covers four packets. Here it covers whatever was learned in a fifteenth of a second, in four groups
//!   of as many packets each as nearly as they go, so that nothing is left out at 8 Mb/s.
//! - The delay there is that between packets. Here it is how long a group's packets waited above the least of ten seconds,
//!   the same summed up: how the spacing of packets changed on the way is in the two rates already, but a queue that was
//!   built before the first second that is seen is not.
//! - Seconds are counted back from the decision, so that decisions can be made more often than once a second.
//!
//! | constant | value | source |
//! |---|---|---|
//! | reports a second, groups a report | 15, 4 | the paper's state |
//! | seconds | 3 | the paper's smoothing looks over as many; see `docs/learning.md` |
//! | loss | share of the group's packets | |
//! | delay | waiting time / 1 s, 2 at most | |
//! | rates | logarithm, 10 kb/s as 0 and 8 Mb/s as 1 (BoB's scale); 0 to 1.5 | bursts are faster than the path in the mean |
//! | pacing rate / target | 2.5 | libwebrtc |

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

/// What one interval of the state covers.
const INTERVAL: Duration = Duration::from_secs(1);
const REPORTS: usize = 15;
const GROUPS: usize = 4;
const SIGNALS: usize = 4;
/// The part of the last second that one report covers.
const REPORT: Duration = Duration::from_nanos(INTERVAL.as_nanos() as u64 / REPORTS as u64 + 1);

const LONGEST_WAIT: f64 = 2.0;
const LEAST_BPS: f64 = 1e4;
const MOST_BPS: f64 = 8e6;
const HIGHEST_RATE: f64 = 1.5;
/// More packets than this are not remembered: three seconds of 45 Mb/s in full fragments.
const MOST_PACKETS: usize = 16_384;

const PACING_FACTOR: f64 = 2.5;

/// The most rates of a ladder, and the most seconds that a model may look back.
const MOST_RATES: usize = 1_024;
const MOST_INTERVALS: usize = 16;
/// How often may be decided.
const DECISIONS: std::ops::RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(10);

/// A packet of which something was learned.
#[derive(Debug, Clone, Copy)]
struct Packet {
    learned_at: Timestamp,
    sent_at: Timestamp,
    size: u64,
    /// When it arrived, and how long it waited; none if it was lost.
    arrived: Option<(Timestamp, Duration)>,
}

/// The state of Concerto's model: `[4, intervals, 15, 4]` numbers, the oldest first, of loss, delay, sending rate and
/// receive throughput. Where a group has no packets, its numbers are zeros.
#[derive(Debug)]
pub struct ConcertoObservation {
    intervals: usize,
    packets: VecDeque<Packet>,
    base_delay: BaseDelay,
}

/// `bytes` in `time` on the logarithmic scale of rates.
fn scaled_rate(bytes: u64, time: Duration) -> f32 {
    let rate = bytes as f64 * 8.0 / time.as_secs_f64().max(1e-6);
    (libm::log(rate.max(LEAST_BPS) / LEAST_BPS) / libm::log(MOST_BPS / LEAST_BPS)).min(HIGHEST_RATE) as f32
}

/// What came before a group, from which its rates are counted.
#[derive(Debug, Clone, Copy, Default)]
struct Before {
    sent_at: Option<Timestamp>,
    arrived_at: Option<Timestamp>,
}

/// The four signals of a group of packets, after those that came `before`.
fn signals(group: &[Packet], before: &mut Before) -> [f32; SIGNALS] {
    let count = group.len() as f64;
    let arrived = || group.iter().filter_map(|packet| packet.arrived);
    let lost = (group.len() - arrived().count()) as f64 / count;
    let waited: f64 = arrived().map(|(_, waited)| waited.as_secs_f64().min(LONGEST_WAIT)).sum();
    let waited = waited / arrived().count().max(1) as f64;
    // Groups are in the order in which they were learned of; packets that overtook others count from the latest.
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
    /// How many seconds are seen unless a model says otherwise.
    pub const USUAL_INTERVALS: usize = 3;

    /// An observation of so many seconds, without a past.
    #[must_use]
    pub fn new(intervals: usize) -> Self {
        Self { intervals, packets: VecDeque::new(), base_delay: BaseDelay::new(Duration::from_secs(10)) }
    }

    fn reports(&self) -> usize {
        self.intervals * REPORTS
    }

    fn learn(&mut self, now: Timestamp, packet: Packet) {
        self.packets.push_back(packet);
        // One older packet than is seen, for the rates of the first group.
        let reports = self.reports() as u32;
        while let Some(second) = self.packets.get(1)
            && (now.saturating_since(second.learned_at) > REPORT * reports || self.packets.len() > MOST_PACKETS)
        {
            self.packets.pop_front();
        }
    }
}

impl Observation for ConcertoObservation {
    fn shape(&self) -> Vec<usize> {
        vec![SIGNALS, self.intervals, REPORTS, GROUPS]
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
        // What is learned at this very moment comes after.
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
    }
}

/// How a place on the ladder is made of what a model says of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decision {
    /// The one of which it says most.
    Best,
    /// The mean, if what it says are probabilities.
    Mean,
    /// The same, and between two rates of the ladder where the mean is, as rates of a logarithmic ladder go on.
    Between,
}

impl Decision {
    /// The rate; none if the model says nothing that makes sense.
    fn rate(self, scores: &[f32], ladder: &[Bitrate]) -> Option<Bitrate> {
        match self {
            // What is no number is never the best; of equal ones the lowest rate.
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

/// The mean place under scores that are probabilities, or nearly so; none if they make no sense.
fn mean_place(scores: &[f32]) -> Option<f32> {
    let sum: f32 = scores.iter().sum();
    let weighted: f32 = scores.iter().zip(0u16..).map(|(score, place)| score * f32::from(place)).sum();
    let place = weighted / sum;
    (place.is_finite() && place >= 0.0).then_some(place)
}

/// Decides on a bit rate of a ladder, now and then, by what a model says of each.
#[derive(Debug)]
pub struct Concerto {
    model: Arc<Model>,
    ladder: Vec<Bitrate>,
    interval: Duration,
    decision: Decision,
    bounds: RateBounds,
    observation: ConcertoObservation,
    state: Vec<f32>,
    /// When the next decision is due; none before the first datagram.
    due: Option<Timestamp>,
    target: Bitrate,
    bucket: TokenBucket,
}

impl Concerto {
    /// A controller that sends at the initial rate until its first decision, an interval after the first datagram.
    ///
    /// # Errors
    /// If the model says that it is for something else than `controller` (Concerto's or RL-V's, as the one whose place it
    /// takes), or has not one input of the observation's shape, one output with as many numbers as the ladder has rates,
    /// and, among what it says of itself, `lockstep.ladder_bps` (whole numbers, rising, with commas between them) and
    /// `lockstep.interval_ms`; or if its `lockstep.decision` is none of `best` (as if it had none), `mean` and `between`.
    pub fn new(setup: &ControllerSetup, controller: &str, model: Arc<Model>) -> Result<Self, ModelError> {
        check_controller(&model, controller)?;
        let unfit = |text: String| ModelError::Unfit(text);
        let said = |key: &str| model.metadata(key).ok_or_else(|| unfit(format!("it does not say its {key}")));
        let ladder = said("lockstep.ladder_bps")?;
        let rates: Option<Vec<u64>> = ladder.split(',').map(|rate| rate.trim().parse().ok()).collect();
        let rates = rates.filter(|rates| rates.len() <= MOST_RATES && rates.is_sorted_by(|one, next| one < next));
        let rates = rates.ok_or_else(|| unfit("its lockstep.ladder_bps is no ladder of bit rates".to_owned()))?;
        let interval = said("lockstep.interval_ms")?.trim().parse().ok().map(Duration::from_millis);
        let interval = interval.filter(|interval| DECISIONS.contains(interval)).ok_or_else(|| {
            unfit(format!("its lockstep.interval_ms is not from {:?} to {:?}", DECISIONS.start(), DECISIONS.end()))
        })?;
        let decision = match model.metadata("lockstep.decision") {
            Some("mean") => Decision::Mean,
            Some("between") => Decision::Between,
            Some("best") | None => Decision::Best,
            Some(_) => return Err(unfit("its lockstep.decision is none of best, mean and between".to_owned())),
        };
        let ([input], [output]) = (model.inputs(), model.outputs()) else {
            return Err(unfit(format!(
                "it has {} inputs and {} outputs, not one each",
                model.inputs().len(),
                model.outputs().len()
            )));
        };
        let (1, &[1, SIGNALS, intervals @ 1..=MOST_INTERVALS, REPORTS, GROUPS]) = (1, &input.shape[..]) else {
            return Err(unfit(format!(
                "its input is {:?}, not [1, {SIGNALS}, seconds, {REPORTS}, {GROUPS}]",
                input.shape
            )));
        };
        if output.shape != [1, rates.len()] {
            return Err(unfit(format!(
                "its output is {:?}, not [1, {}], a number for each rate",
                output.shape,
                rates.len()
            )));
        }
        Ok(Self {
            ladder: rates.into_iter().map(Bitrate::from_bps).collect(),
            interval,
            decision,
            bounds: setup.bounds,
            observation: ConcertoObservation::new(intervals),
            state: vec![0.0; SIGNALS * intervals * REPORTS * GROUPS],
            due: None,
            target: setup.bounds.initial,
            bucket: TokenBucket::new(setup.payload, setup.frame_interval),
            model,
        })
    }

    /// Decides if it is time to, by what was known when it was: whatever happens at `now` comes after.
    fn decide(&mut self, now: Timestamp) {
        let Some(due) = self.due.filter(|due| *due <= now) else { return };
        // After a pause only the last decision that was due counts.
        let missed = now.saturating_since(due).as_nanos() / self.interval.as_nanos();
        let due = due + self.interval * u32::try_from(missed).unwrap_or(u32::MAX);
        self.due = Some(due + self.interval);
        self.observation.observe(due, &mut self.state);
        let Some(scores) = self.model.run(&[&self.state]).ok().and_then(|outputs| outputs.into_iter().next()) else {
            return;
        };
        if let Some(rate) = self.decision.rate(&scores, &self.ladder) {
            self.target = rate.clamp(self.bounds.least, self.bounds.most);
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
            Input::FeedbackSent(_) | Input::PictureSkipped => {}
        }
    }

    fn allowance(&self, path: &PathView<'_>, in_flight: InFlight) -> Allowance {
        self.bucket.allowance(path.now, in_flight, self.target, self.target.mul_f64(PACING_FACTOR))
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

    /// The numbers of one signal, report by report.
    fn seen(observation: &mut ConcertoObservation, now_ms: u64) -> Vec<Vec<[f32; GROUPS]>> {
        let mut state = vec![f32::NAN; observation.shape().iter().product()];
        observation.observe(Timestamp::from_millis(now_ms), &mut state);
        let reports = |signal: &[f32]| signal.chunks_exact(GROUPS).map(|report| report.try_into().unwrap()).collect();
        state.chunks_exact(state.len() / SIGNALS).map(reports).collect()
    }

    #[test]
    fn packets_are_seen_in_the_report_in_which_they_were_learned_of() {
        let mut observation = ConcertoObservation::new(1);
        assert!(seen(&mut observation, 0).concat().iter().flatten().all(|&number| number == 0.0));
        // A thousand bytes each millisecond, in two reports: ten packets, then two of which one is lost.
        for index in 0..10 {
            observation.on_feedback(Timestamp::from_millis(500), &feedback(vec![fragment(index, 20 + index, 1_000)]));
        }
        observation.on_feedback(Timestamp::from_millis(950), &feedback(vec![fragment(10, 130, 1_000)]));
        let lost =
            LostFragment { frame: 0, fragment: 0, size: ByteCount::new(1_000), sent_at: Timestamp::from_millis(11) };
        observation.on_loss(Timestamp::from_millis(950), &[lost]);
        let state = seen(&mut observation, 1_000);
        let [loss, delay, sent, received] = &state[..] else { panic!("four signals") };
        // Half a second is seven and a half reports of the last one; 50 ms is in the last.
        let full: Vec<usize> = (0..REPORTS).filter(|&report| sent[report] != [0.0; GROUPS]).collect();
        assert_eq!(full, [7, 14]);
        assert_eq!((loss[7], loss[14]), ([0.0; 4], [0.0, 1.0, 0.0, 0.0]));
        assert_eq!(delay[7], [0.0; 4]);
        assert!((delay[14][0] - 0.1).abs() < 1e-6, "{:?}", delay[14]);
        // 8 Mb/s are 1; the first group has no packet before its own first, and counts from nothing.
        assert_eq!(sent[7][0], 0.0);
        assert!(sent[7][1..].iter().chain(&received[7][1..]).all(|rate| (rate - 1.0).abs() < 1e-6), "{sent:?}");
        // A packet a hundred milliseconds after the one before: 80 kb/s.
        assert!((received[14][0] - 0.3096).abs() < 1e-3 && received[14][1] == 0.0, "{received:?}");
        // Later the same packets are older, and then out of sight.
        let later = seen(&mut observation, 1_200);
        assert_eq!(later[0][11], [0.0, 1.0, 0.0, 0.0]);
        assert!(seen(&mut observation, 2_500).concat().iter().flatten().all(|&number| number == 0.0));
    }

    #[test]
    fn what_is_remembered_is_bounded_and_what_is_seen_is_finite() {
        let mut observation = ConcertoObservation::new(2);
        for index in 0..40_000 {
            let at = if index % 3 == 0 { u64::MAX / 2_000_000 - index } else { index / 7 };
            observation
                .on_feedback(Timestamp::from_millis(index / 100), &feedback(vec![fragment(at, index % 11, 1 << 40)]));
        }
        assert!(observation.packets.len() <= MOST_PACKETS);
        let state = seen(&mut observation, 400).concat();
        assert!(state.iter().flatten().all(|number| number.is_finite() && (0.0..=2.0).contains(number)));
    }

    /// Notes what a controller hears, and says it to another.
    struct Recorder {
        controller: Concerto,
        heard: Vec<Heard>,
        targets: Vec<Bitrate>,
    }

    enum Heard {
        Transmit(Timestamp, ByteCount),
        Feedback(Timestamp, Feedback),
        Time(Timestamp),
        Loss(Timestamp, Vec<LostFragment>),
    }

    fn tell(controller: &mut Concerto, heard: &Heard) -> Bitrate {
        match heard {
            Heard::Transmit(now, size) => controller.on_sent(*now, *size),
            Heard::Feedback(now, feedback) => controller.on_feedback(*now, feedback),
            Heard::Time(now) => controller.on_time(*now),
            Heard::Loss(now, lost) => controller.on_loss(*now, lost),
        }
        controller.target
    }

    impl Recorder {
        fn hear(&mut self, heard: Heard) {
            self.targets.push(tell(&mut self.controller, &heard));
            self.heard.push(heard);
        }
    }

    impl Controller for Recorder {
        fn traits(&self) -> Traits {
            self.controller.traits()
        }

        fn handle(&mut self, path: &PathView<'_>, input: Input<'_>) {
            match input {
                Input::Sent(size) => self.hear(Heard::Transmit(path.now, size)),
                Input::Feedback(feedback) => self.hear(Heard::Feedback(path.now, feedback.clone())),
                Input::Time => self.hear(Heard::Time(path.now)),
                Input::Lost(lost) => self.hear(Heard::Loss(path.now, lost.to_vec())),
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
    fn a_rate_is_the_best_the_mean_or_between_two_and_none_where_there_is_no_sense() {
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
    fn the_same_feedback_gives_the_same_decisions() {
        let trace = Trace::from_spec("cellular:mean=2mbps,seed=3").unwrap();
        let plan = Plan { loss: 0.01, ..Plan::new(trace) };
        let mut recorder = Recorder { controller: concerto(), heard: Vec::new(), targets: Vec::new() };
        run(&plan, &mut recorder, None);
        let mut again = concerto();
        let targets: Vec<Bitrate> = recorder.heard.iter().map(|heard| tell(&mut again, heard)).collect();
        assert_eq!(targets, recorder.targets);
        let mut different = recorder.targets.clone();
        different.sort_unstable();
        different.dedup();
        assert!(different.len() > 3, "{different:?}");
    }
}
