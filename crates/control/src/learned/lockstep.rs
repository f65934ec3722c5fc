//! Lockstep's own: a learned distribution of the bytes that the path will take until a deadline, and frames that are as
//! large as that allows.
//!
//! For each picture a recurrent net sees what Sprout's filter makes of the path, and how packets lately left and arrived
//! ([`OBSERVATIONS`]), and says quantiles of the bytes that will be through in 25 to 500 ms ([`HORIZONS`], [`LEVELS`]). It
//! learned that from simulated links, whose future is known. The next frame may have the quantile of a [`Rule`] until the
//! rule's deadline, less what is on the way, and no more than in nine cases of ten is through some time later; a codec that
//! follows a rate gets the quantile of half a second. The rule comes with the model, one for each
//! [`Latency`](crate::Latency).
//!
//! Where inputs are unlike those that the model has learned from, where others share the path, or where the model says what
//! is no number, it is [`Sprout`] that decides, the best of those that were not learned ([`Lockstep::falls_back`]). Whoever
//! decides, beside those who keep the queue filled a share of the path's rate is claimed ([`crate::claimed_share`]).
//!
//! | constant | value | why |
//! |---|---|---|
//! | a picture | 0.75 frame intervals | a decision may be asked for again while its picture is coded |
//! | others share the path | bursts come through [`Rule::shared`] times as fast as the mean rate, averaged over `averaged` pictures in which that rate was steady | Sprout's rule shares a path evenly, and the model has learned on paths of its own |
//! | feedback is late | acknowledgements wait `late`, as where the other end's pictures are before them, averaged likewise | it has learned where they came at once: without this the p95 of two-way calls is 11 % longer |
//! | the path is long | `far`, there and back, averaged likewise | it has learned on paths of up to 150 ms each way, and holds back on longer ones (`docs/lab/2026-11-retraining.md`): of 22 calls of 0.5 to 5 Mb/s at 600 ms QoE_d was 3.652, and is 3.727, as Sprout's |
//! | unlike | inputs beyond those of training by a quarter of their range, averaged likewise | what was never seen is not known |

mod forecast;
mod history;
mod lesson;
mod rule;

use std::sync::Arc;
use std::time::Duration;

use libm::log;
use lockstep_nn::{Model, ModelError};
use lockstep_transport::wire::DATA_HEADER;
use lockstep_transport::{Feedback, LostFragment};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use super::purpose::check_controller;
use crate::fragments::{DATAGRAM_CARRIAGE, PICTURE};
use crate::sprout::frame_within;
use crate::{
    Allowance, Controller, ControllerSetup, InFlight, Input, KnownPath, Latency, LockstepConfig, PathView, Sprout,
    Traits,
};
use forecast::{Basis, FORECAST, Forecast};
use history::History;
use lesson::Lessons;

pub use forecast::{HORIZONS, LEVELS};
pub use history::{OBSERVATIONS, OBSERVED};
pub use lesson::Lesson;
pub use rule::{Rule, RuleTuning};

/// How many numbers the model remembers from picture to picture.
pub const MODEL_STATE: usize = 48;

/// What a link carries with a fragment, bytes.
const HEADERS: f64 = DATAGRAM_CARRIAGE + DATA_HEADER as f64;

/// A path is no longer far at this share of `far`.
const FAR_NO_MORE: f64 = 0.32 / 0.35;

/// Where a model's metadata has the range of what it has seen.
const SEEN_LEAST: &str = "lockstep.seen_least";
const SEEN_MOST: &str = "lockstep.seen_most";

/// A model that fits, and what it says of itself.
struct Net {
    model: Arc<Model>,
    /// The least and the most of each input in training.
    range: Option<([f32; OBSERVED], [f32; OBSERVED])>,
    /// What went in, what it remembered included.
    input: Vec<f32>,
    /// What it remembers after the present picture.
    remembered: [f32; MODEL_STATE],
}

impl Net {
    fn new(model: Arc<Model>) -> Result<Self, ModelError> {
        check_controller(&model, "lockstep")?;
        let unfit = |text| Err(ModelError::Unfit(text));
        let (takes, gives) = (OBSERVED + MODEL_STATE, FORECAST + MODEL_STATE);
        let (inputs, outputs) = (model.inputs(), model.outputs());
        match (inputs, outputs) {
            ([input], [output]) if input.shape == [1, takes] && output.shape == [1, gives] => {}
            ([input], [output]) => {
                let (seen, said) = (&input.shape, &output.shape);
                return unfit(format!("it makes {said:?} of {seen:?}, not [1, {gives}] of [1, {takes}]"));
            }
            _ => return unfit(format!("it has {} inputs and {} outputs, not one each", inputs.len(), outputs.len())),
        }
        let range = match (model.metadata(SEEN_LEAST), model.metadata(SEEN_MOST)) {
            (Some(least), Some(most)) => Some((numbers(least)?, numbers(most)?)),
            _ => None,
        };
        Ok(Self { model, range, input: vec![0.0; takes], remembered: [0.0; MODEL_STATE] })
    }

    /// The next picture begins.
    fn next(&mut self) {
        self.input[OBSERVED..].copy_from_slice(&self.remembered);
    }

    /// What it forecasts.
    fn forecast(&mut self, seen: &[f32; OBSERVED], basis: Basis) -> Option<Forecast> {
        self.input[..OBSERVED].copy_from_slice(seen);
        let said = self.model.run(&[&self.input]).ok()?.into_iter().next()?;
        let forecast = Forecast::of(&said, basis)?;
        let remembered = said.get(FORECAST..)?;
        self.remembered = remembered.try_into().ok().filter(|all: &[f32; MODEL_STATE]| {
            all.iter().all(|number| number.is_finite()) // Or else it would never come to itself.
        })?;
        Some(forecast)
    }

    /// By how much of its range the input that is farthest out of it is beyond.
    fn unlike(&self, seen: &[f32; OBSERVED]) -> f64 {
        let Some((least, most)) = &self.range else { return 0.0 };
        let beyond = seen.iter().zip(least.iter().zip(most)).map(|(value, (least, most))| {
            let range = f64::from(most - least).max(0.1);
            f64::from((least - value).max(value - most)) / range
        });
        beyond.fold(0.0, f64::max)
    }
}

/// As many finite numbers, with commas between them, as there are inputs.
fn numbers(text: &str) -> Result<[f32; OBSERVED], ModelError> {
    let values: Option<Vec<f32>> =
        text.split(',').map(|word| word.trim().parse().ok().filter(|value: &f32| value.is_finite())).collect();
    let values = values.and_then(|values| <[f32; OBSERVED]>::try_from(values).ok());
    values.ok_or_else(|| ModelError::Unfit(format!("its range of inputs is not of {OBSERVED} numbers")))
}

/// What was forecast for the present picture.
struct Present {
    forecast: Forecast,
    /// Bytes that were on the way, with the headers of the network.
    on_the_way: f64,
    /// What has been sent since.
    sent: f64,
    /// For how long it was not known what the path delivered, seconds.
    unknown: f64,
}

impl Present {
    /// What a frame may take of the link until `deadline`, or by how much there is too much on the way.
    fn room(&self, deadline: f64, level: f64) -> f64 {
        self.left(self.forecast.bytes(deadline, level))
    }

    /// What of so many bytes is left to a frame, after what goes before it.
    fn left(&self, bytes: f64) -> f64 {
        bytes - self.on_the_way - self.sent
    }
}

/// A quantity that is averaged over pictures, and what follows once it is high until it is low.
#[derive(Debug, Default)]
struct Alarm {
    mean: f64,
    rings: bool,
}

impl Alarm {
    fn put(&mut self, value: f64, (high, low): (f64, f64), averaged: f64) {
        self.mean += (value - self.mean) / averaged;
        self.rings = self.mean > if self.rings { low } else { high };
    }
}

/// Why it is Sprout that decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallback {
    /// There is no model, or it said what is no number.
    NoForecast,
    /// Others share the path: bursts come through faster than one's own share.
    SharedPath,
    /// Acknowledgements wait, as where the other end's pictures are before them.
    LateFeedback,
    /// The path takes longer than any that the model has learned from.
    LongPath,
    /// Inputs are unlike those that the model has learned from.
    UnlikeTraining,
}

impl Fallback {
    const ALL: [Self; 5] =
        [Self::NoForecast, Self::SharedPath, Self::LateFeedback, Self::LongPath, Self::UnlikeTraining];

    /// The name in the counters of a report.
    const fn name(self) -> &'static str {
        match self {
            Self::NoForecast => "sprout_for_want_of_a_forecast",
            Self::SharedPath => "sprout_on_a_shared_path",
            Self::LateFeedback => "sprout_as_feedback_is_late",
            Self::LongPath => "sprout_as_the_path_is_long",
            Self::UnlikeTraining => "sprout_as_inputs_are_unlike_training",
        }
    }
}

/// The sender's end of it.
pub struct Lockstep {
    config: LockstepConfig,
    sprout: Sprout,
    net: Option<Net>,
    rule: Rule,
    history: History,
    present: Option<Present>,
    picture_at: Option<Timestamp>,
    /// What the last picture was given.
    given: f64,
    shared: Alarm,
    late: Alarm,
    far: Alarm,
    unlike: Alarm,
    /// Pictures that were decided on, and those of them that Sprout decided on, by [`Fallback`].
    pictures: u64,
    by_sprout: [u64; Fallback::ALL.len()],
    frame_interval: f64,
    /// Whether the encoder left out a picture since the last frame was sent.
    left_out: bool,
    payload: f64,
    least_target: Bitrate,
    lessons: Option<Lessons>,
}

impl Lockstep {
    /// A controller that learns nothing and decides as Sprout does, for the lessons of such calls.
    #[must_use]
    pub fn without_model(setup: &ControllerSetup) -> Self {
        let frame_interval = setup.frame_interval.as_secs_f64();
        Self {
            config: setup.tuning.lockstep,
            sprout: Sprout::new(setup),
            net: None,
            rule: Rule::of(setup.latency),
            history: History::new(frame_interval),
            present: None,
            picture_at: None,
            given: 0.0,
            shared: Alarm::default(),
            late: Alarm::default(),
            far: Alarm::default(),
            unlike: Alarm::default(),
            pictures: 0,
            by_sprout: [0; Fallback::ALL.len()],
            frame_interval,
            left_out: false,
            payload: setup.payload.as_f64().max(1.0),
            least_target: setup.bounds.least,
            lessons: None,
        }
    }

    /// A controller that decides by what `model` says.
    ///
    /// # Errors
    /// If the model says that it is another controller's, what goes into it, or comes out of it, is something else, or one of
    /// its rules makes no sense, whichever latency is asked for.
    pub fn with_model(setup: &ControllerSetup, model: Arc<Model>) -> Result<Self, ModelError> {
        let net = Net::new(model)?;
        let mut rule = Rule::of(setup.latency);
        for latency in Latency::ALL {
            let key = Rule::key(latency);
            let said = Rule::read(latency, net.model.metadata(&key).unwrap_or_default());
            let said = said.map_err(|problem| ModelError::Unfit(format!("its {key}: {problem}")))?;
            if latency == setup.latency {
                rule = said;
            }
        }
        let rule = setup.tuning.rule.apply(rule);
        Ok(Self { net: Some(net), ..Self::without_model(setup) }.with_rule(rule))
    }

    /// The same with another rule than the model's.
    #[must_use]
    pub fn with_rule(self, rule: Rule) -> Self {
        Self { rule, ..self }
    }

    /// The same, keeping lessons of the call, whose path is known.
    #[must_use]
    pub fn with_lessons(mut self, path: KnownPath) -> Self {
        self.lessons = Some(Lessons::new(path, ByteCount::new((self.payload + HEADERS) as u64)));
        self
    }

    /// The lessons since they were last taken.
    pub fn take_lessons(&mut self) -> Vec<Lesson> {
        self.lessons.as_mut().map(Lessons::take).unwrap_or_default()
    }

    /// Whether it is Sprout that decides, and why.
    #[must_use]
    pub fn falls_back(&self) -> Option<Fallback> {
        if self.present.is_none() {
            return Some(Fallback::NoForecast);
        }
        if self.shared.rings {
            return Some(Fallback::SharedPath);
        }
        if self.late.rings {
            return Some(Fallback::LateFeedback);
        }
        if self.far.rings {
            return Some(Fallback::LongPath);
        }
        self.unlike.rings.then_some(Fallback::UnlikeTraining)
    }

    fn begin_picture(&mut self, now: Timestamp) {
        self.picture_at = Some(now);
        self.history.next();
        if let Some(net) = &mut self.net {
            net.next();
        }
        if let Some(lessons) = &mut self.lessons {
            lessons.next();
        }
        if let Some(present) = &self.present {
            // As in the lessons, without what `latest` takes away.
            self.given = present.room(self.deadline(), self.rule.level).max(0.0) + present.sent;
        }
    }

    fn deadline(&self) -> f64 {
        let left_out = if self.left_out { self.config.skipped } else { 0.0 };
        self.rule.deadline + (self.rule.intervals + left_out) * self.frame_interval
    }

    /// What will be through until the deadline of a frame, by the rule.
    fn through(&self, present: &Present) -> f64 {
        let likely = present.forecast.bytes(self.deadline(), self.rule.level);
        likely.min(present.forecast.bytes(self.rule.latest, LEVELS[0]))
    }

    /// What a frame may take of the link, all headers included.
    fn link_budget(&self, present: &Present, in_flight: InFlight) -> f64 {
        let waiting = in_flight.queued.as_f64() * (1.0 + HEADERS / self.payload);
        let through = self.through(present);
        let mut bytes = present.left(through) - waiting;
        // Of what the forecast itself has through: a mean rate that is too high would leave out all frames, and show nothing.
        let rate = through / (present.unknown + self.deadline()).max(1e-3);
        if bytes < self.rule.smallest * rate * self.frame_interval {
            bytes = 0.0;
        }
        if in_flight.bytes == ByteCount::ZERO {
            // A packet that is alone delays nothing.
            bytes = bytes.max(self.payload + HEADERS);
        }
        bytes.max(0.0)
    }
}

impl Lockstep {
    fn on_sent(&mut self, now: Timestamp, size: ByteCount) {
        self.left_out = false;
        self.history.sent(size.as_f64());
        if let Some(present) = &mut self.present {
            present.sent += size.as_f64() + DATAGRAM_CARRIAGE;
        }
        if let Some(lessons) = &mut self.lessons {
            lessons.on_transmit(now, size);
        }
        self.sprout.on_sent(now, size);
    }

    fn on_feedback(&mut self, path: &PathView<'_>, feedback: &Feedback) {
        self.history.on_feedback(path, &feedback.acknowledged);
        self.sprout.on_feedback(path, feedback);
    }

    fn on_time(&mut self, path: &PathView<'_>) {
        let now = path.now;
        self.sprout.on_time(path);
        // Asked again while it is coded, a picture is decided anew by what has been heard since, but it counts once.
        let lasting = Duration::from_secs_f64(PICTURE * self.frame_interval);
        let begins = self.picture_at.is_none_or(|at| now.saturating_since(at) >= lasting);
        if begins {
            self.begin_picture(now);
        }
        let outlook = self.sprout.outlook(path);
        let seen = self.history.observe(path, &outlook, self.given);
        let basis =
            Basis { rate: outlook.mean_rate, unknown: (now.as_secs_f64() - outlook.known_until).clamp(0.0, 10.0) };
        if let Some(lessons) = &mut self.lessons {
            lessons.decided(now, seen, outlook.on_the_way, basis);
        }
        let Some(net) = &mut self.net else { return };
        if begins {
            let LockstepConfig { unlike, late, far, averaged, .. } = self.config;
            self.late.put(path.feedback_delay.as_secs_f64(), (late, 0.5 * late), averaged);
            self.far.put(outlook.round_trip, (far, FAR_NO_MORE * far), averaged);
            self.unlike.put(net.unlike(&seen), (unlike, 0.4 * unlike), averaged);
            let steady = self.history.change(outlook.mean_rate) <= self.rule.shared_steady;
            let ratio = if steady { log(outlook.path_rate / outlook.mean_rate.max(1.0)) } else { 0.0 };
            let shared = log(self.rule.shared);
            self.shared.put(ratio, (shared, 0.5 * shared), averaged);
        }
        self.present = net.forecast(&seen, basis).map(|forecast| Present {
            forecast,
            on_the_way: outlook.on_the_way,
            sent: 0.0,
            unknown: basis.unknown,
        });
        if begins {
            self.pictures += 1;
            if let Some(why) = self.falls_back() {
                self.by_sprout[why as usize] += 1;
            }
        }
    }

    fn on_picture_skipped(&mut self) {
        self.left_out = true;
    }

    fn on_loss(&mut self, lost: &[LostFragment]) {
        self.history.lost(lost.len());
    }
}

impl Controller for Lockstep {
    fn traits(&self) -> Traits {
        Traits::ESTIMATING
    }

    fn handle(&mut self, path: &PathView<'_>, input: Input<'_>) {
        match input {
            Input::Sent(size) => self.on_sent(path.now, size),
            Input::Feedback(feedback) => self.on_feedback(path, feedback),
            Input::Time => self.on_time(path),
            Input::PictureSkipped => self.on_picture_skipped(),
            Input::Lost(lost) => self.on_loss(lost),
            Input::FeedbackSent(_) => {}
        }
    }

    fn allowance(&self, path: &PathView<'_>, in_flight: InFlight) -> Allowance {
        let allowance = self.sprout.allowance(path, in_flight);
        if self.net.is_none() {
            return allowance;
        }
        let claimed = self.sprout.claimed_share().budget(path, in_flight);
        // A codec that follows a rate and is given next to none for a second stands still for many.
        let payload_share = self.payload / (self.payload + HEADERS);
        let least = Bitrate::from_bytes_per_second(payload_share * self.config.least_target * self.sprout.mean_rate());
        let beside = self.sprout.claimed_share().rate(path).unwrap_or(0.0);
        let least = least.max(self.least_target).max(Bitrate::from_bytes_per_second(payload_share * beside));
        let Some(present) = self.present.as_ref().filter(|_| self.falls_back().is_none()) else {
            return Allowance { target: allowance.target.max(least), ..allowance };
        };
        // Of a path of which nothing was heard a low quantile is that of all paths, and the first picture would be as coarse as
        // the slowest of them take.
        let level = if self.history.has_heard() { self.rule.target_level } else { self.rule.level };
        let rate = {
            let time = path.window.as_secs_f64();
            (present.room(time, level) / time).max(0.0)
        };
        Allowance {
            budget: ByteCount::new(frame_within(self.link_budget(present, in_flight).max(claimed), self.payload) as u64),
            target: Bitrate::from_bytes_per_second(payload_share * rate).max(least),
            pacing_interval: self.pacing_interval(path, in_flight),
            ..allowance
        }
    }

    fn pacing_interval(&self, path: &PathView<'_>, in_flight: InFlight) -> Duration {
        self.sprout.pacing_interval(path, in_flight)
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let by_sprout = Fallback::ALL.iter().map(|why| (why.name(), self.by_sprout[*why as usize]));
        [("pictures", self.pictures), self.sprout.claimed_share().counter()].into_iter().chain(by_sprout).collect()
    }
}

#[cfg(test)]
mod tests;
