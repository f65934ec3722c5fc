//! Lockstep's own controller: a model predicts the bytes that the path delivers until a deadline, and frames use them.
//!
//! For each picture, a recurrent network receives Sprout's view of the path and recent packet statistics
//! ([`OBSERVATIONS`]). It returns quantiles of the bytes that the path delivers in 25 to 500 ms ([`HORIZONS`],
//! [`LEVELS`]). It was trained on simulated links, whose future is known.
//!
//! A [`Rule`] turns the forecast into a budget. The next frame gets a quantile of the bytes until the rule's deadline,
//! minus the bytes in flight. It also gets no more than the path delivers in nine of ten cases until a later time. A
//! codec that follows a rate gets the quantile of half a second. The model contains one rule per
//! [`Latency`](crate::Latency).
//!
//! [`Sprout`] decides instead ([`Lockstep::falls_back`]) in five cases, which [`Fallback`] lists. Both claim a share of
//! the path's rate beside cross traffic that fills the queue ([`crate::claimed_share`]).
//!
//! | constant | value | reason |
//! |---|---|---|
//! | picture | 0.75 frame intervals | a decision may be repeated while its picture is coded |
//! | shared path | bursts arrive [`Rule::shared`] times as fast as the mean rate, averaged over `averaged` pictures with a steady rate | Sprout's rule shares a path evenly; the training paths had one flow |
//! | late feedback | acknowledgements are delayed by `late`, for example behind pictures of the other end, averaged likewise | training feedback arrived at once (lab: 2026-11-control-ablation) |
//! | long path | round-trip time of `far`, averaged likewise | training paths had up to 150 ms per direction (lab: 2026-11-notes-control, 2026-11-retraining) |
//! | unlike training | inputs beyond those of training by a quarter of their range, averaged likewise | the model does not generalise there |

mod forecast;
mod history;
mod rule;
mod training_sample;

use std::sync::Arc;
use std::time::Duration;

use libm::log;
use lockstep_nn::{Model, ModelError};
use lockstep_transport::wire::DATA_HEADER;
use lockstep_transport::{Feedback, LostFragment};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use super::purpose::check_controller;
use crate::fragments::{DATAGRAM_OVERHEAD_BYTES, PICTURE};
use crate::sprout::frame_within;
use crate::{
    Allowance, Controller, ControllerSetup, InFlight, Input, KnownPath, Latency, LockstepConfig, PathView, Sprout,
    Traits,
};
use forecast::{Basis, FORECAST, Forecast};
use history::History;
use training_sample::TrainingSamples;

pub use forecast::{HORIZONS, LEVELS};
pub use history::{OBSERVATIONS, OBSERVED};
pub use rule::{Rule, RuleTuning};
pub use training_sample::TrainingSample;

/// Number of values that the model carries from picture to picture.
pub const MODEL_STATE: usize = 48;

/// Link overhead of a fragment, bytes.
const HEADERS: f64 = DATAGRAM_OVERHEAD_BYTES + DATA_HEADER as f64;

/// Share of `far` below which a path no longer counts as far.
const FAR_NO_MORE: f64 = 0.32 / 0.35;

/// Metadata keys of the range of a model's inputs in training.
const SEEN_MIN: &str = "lockstep.seen_least";
const SEEN_MAX: &str = "lockstep.seen_most";

/// A model that fits, with its metadata.
struct Net {
    model: Arc<Model>,
    /// Minimum and maximum of each input in training.
    range: Option<([f32; OBSERVED], [f32; OBSERVED])>,
    /// Last input, including the model's state.
    input: Vec<f32>,
    /// State of the model after the present picture.
    remembered: [f32; MODEL_STATE],
}

impl Net {
    fn new(model: Arc<Model>) -> Result<Self, ModelError> {
        check_controller(&model, "lockstep")?;
        let unfit = |text| Err(ModelError::Unfit(text));
        let (input_length, output_length) = (OBSERVED + MODEL_STATE, FORECAST + MODEL_STATE);
        let (inputs, outputs) = (model.inputs(), model.outputs());
        match (inputs, outputs) {
            ([input], [output]) if input.shape == [1, input_length] && output.shape == [1, output_length] => {}
            ([input], [output]) => {
                let (input, output) = (&input.shape, &output.shape);
                return unfit(format!(
                    "input {input:?} and output {output:?}, expected [1, {input_length}] and [1, {output_length}]"
                ));
            }
            _ => return unfit(format!("{} inputs and {} outputs, expected one each", inputs.len(), outputs.len())),
        }
        let range = match (model.metadata(SEEN_MIN), model.metadata(SEEN_MAX)) {
            (Some(least), Some(most)) => Some((numbers(least)?, numbers(most)?)),
            _ => None,
        };
        Ok(Self { model, range, input: vec![0.0; input_length], remembered: [0.0; MODEL_STATE] })
    }

    /// Begins the next picture.
    fn next(&mut self) {
        self.input[OBSERVED..].copy_from_slice(&self.remembered);
    }

    /// Runs the model; none if its output is invalid.
    fn forecast(&mut self, seen: &[f32; OBSERVED], basis: Basis) -> Option<Forecast> {
        self.input[..OBSERVED].copy_from_slice(seen);
        let output = self.model.run(&[&self.input]).ok()?.into_iter().next()?;
        let forecast = Forecast::of(&output, basis)?;
        let remembered = output.get(FORECAST..)?;
        self.remembered = remembered.try_into().ok().filter(|all: &[f32; MODEL_STATE]| {
            all.iter().all(|number| number.is_finite()) // A state with NaN would never recover.
        })?;
        Some(forecast)
    }

    /// Largest excess of an input beyond its range, as a share of that range.
    fn unlike(&self, seen: &[f32; OBSERVED]) -> f64 {
        let Some((least, most)) = &self.range else { return 0.0 };
        let beyond = seen.iter().zip(least.iter().zip(most)).map(|(value, (least, most))| {
            let range = f64::from(most - least).max(0.1);
            f64::from((least - value).max(value - most)) / range
        });
        beyond.fold(0.0, f64::max)
    }
}

/// Parses [`OBSERVED`] finite numbers, separated by commas.
fn numbers(text: &str) -> Result<[f32; OBSERVED], ModelError> {
    let values: Option<Vec<f32>> =
        text.split(',').map(|word| word.trim().parse().ok().filter(|value: &f32| value.is_finite())).collect();
    let values = values.and_then(|values| <[f32; OBSERVED]>::try_from(values).ok());
    values.ok_or_else(|| ModelError::Unfit(format!("range of inputs: expected {OBSERVED} numbers")))
}

/// The forecast for the present picture.
struct Present {
    forecast: Forecast,
    /// Bytes in flight at the forecast, with network headers.
    bytes_in_flight: f64,
    /// Bytes sent since the forecast.
    sent: f64,
    /// Time since the last known delivery, seconds.
    unknown: f64,
}

impl Present {
    /// Link bytes for a frame until `deadline`; negative if too much is in flight.
    fn room(&self, deadline: f64, level: f64) -> f64 {
        self.left(self.forecast.bytes(deadline, level))
    }

    /// The part of `bytes` that remains for a frame after the bytes in flight.
    fn left(&self, bytes: f64) -> f64 {
        bytes - self.bytes_in_flight - self.sent
    }
}

/// Alarm with hysteresis on an average over pictures: it starts above the high limit and ends below the low one.
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

/// Reason why Sprout decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallback {
    /// There is no model, or its output is invalid.
    NoForecast,
    /// Cross traffic shares the path: bursts arrive faster than the flow's own share.
    SharedPath,
    /// Acknowledgements are delayed, for example behind pictures of the other end.
    LateFeedback,
    /// The path is longer than the training paths.
    LongPath,
    /// Inputs are unlike the training data.
    UnlikeTraining,
}

impl Fallback {
    const ALL: [Self; 5] =
        [Self::NoForecast, Self::SharedPath, Self::LateFeedback, Self::LongPath, Self::UnlikeTraining];

    /// Name of its counter in reports.
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

/// Lockstep's own controller, at the sender.
pub struct Lockstep {
    config: LockstepConfig,
    sprout: Sprout,
    net: Option<Net>,
    rule: Rule,
    history: History,
    present: Option<Present>,
    picture_at: Option<Timestamp>,
    /// Bytes that the last picture was given.
    given: f64,
    shared: Alarm,
    late: Alarm,
    far: Alarm,
    unlike: Alarm,
    /// Number of decided pictures, and of those that Sprout decided, by [`Fallback`].
    pictures: u64,
    by_sprout: [u64; Fallback::ALL.len()],
    frame_interval: f64,
    /// Whether the encoder skipped a picture since the last frame.
    left_out: bool,
    payload: f64,
    least_target: Bitrate,
    training_samples: Option<TrainingSamples>,
}

impl Lockstep {
    /// A controller without a model, which decides like Sprout. It records training samples of such calls.
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
            least_target: setup.bounds.min,
            training_samples: None,
        }
    }

    /// A controller that uses the forecast of `model`.
    ///
    /// # Errors
    /// [`ModelError::Unfit`] if the metadata names another controller, or if inputs or outputs do not match. The same
    /// if a rule is invalid. The rules of all latency modes are checked.
    pub fn with_model(setup: &ControllerSetup, model: Arc<Model>) -> Result<Self, ModelError> {
        let net = Net::new(model)?;
        let mut rule = Rule::of(setup.latency);
        for latency in Latency::ALL {
            let key = Rule::key(latency);
            let parsed = Rule::read(latency, net.model.metadata(&key).unwrap_or_default());
            let parsed = parsed.map_err(|problem| ModelError::Unfit(format!("{key}: {problem}")))?;
            if latency == setup.latency {
                rule = parsed;
            }
        }
        let rule = setup.tuning.rule.apply(rule);
        Ok(Self { net: Some(net), ..Self::without_model(setup) }.with_rule(rule))
    }

    /// The same controller with `rule` instead of the model's.
    #[must_use]
    pub fn with_rule(self, rule: Rule) -> Self {
        Self { rule, ..self }
    }

    /// The same controller, which records training samples of a call with a known path.
    #[must_use]
    pub fn with_training_samples(mut self, path: KnownPath) -> Self {
        self.training_samples = Some(TrainingSamples::new(path, ByteCount::new((self.payload + HEADERS) as u64)));
        self
    }

    /// Takes the training samples since the last call of this method.
    pub fn take_training_samples(&mut self) -> Vec<TrainingSample> {
        self.training_samples.as_mut().map(TrainingSamples::take).unwrap_or_default()
    }

    /// The reason why Sprout decides; none if the model does.
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
        if let Some(training_samples) = &mut self.training_samples {
            training_samples.next();
        }
        if let Some(present) = &self.present {
            // As in training, this ignores the limit by `latest`.
            self.given = present.room(self.deadline(), self.rule.level).max(0.0) + present.sent;
        }
    }

    fn deadline(&self) -> f64 {
        let left_out = if self.left_out { self.config.skipped } else { 0.0 };
        self.rule.deadline + (self.rule.intervals + left_out) * self.frame_interval
    }

    /// Bytes that the path delivers until the deadline of a frame, by the rule.
    fn through(&self, present: &Present) -> f64 {
        let likely = present.forecast.bytes(self.deadline(), self.rule.level);
        likely.min(present.forecast.bytes(self.rule.latest, LEVELS[0]))
    }

    /// Link bytes for a frame, with all headers.
    fn link_budget(&self, present: &Present, in_flight: InFlight) -> f64 {
        let waiting = in_flight.queued.as_f64() * (1.0 + HEADERS / self.payload);
        let through = self.through(present);
        let mut bytes = present.left(through) - waiting;
        // Relative to the forecast itself. A mean rate that is too high would skip all frames.
        let rate = through / (present.unknown + self.deadline()).max(1e-3);
        if bytes < self.rule.smallest * rate * self.frame_interval {
            bytes = 0.0;
        }
        if in_flight.bytes == ByteCount::ZERO {
            // A single packet delays nothing.
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
            present.sent += size.as_f64() + DATAGRAM_OVERHEAD_BYTES;
        }
        if let Some(training_samples) = &mut self.training_samples {
            training_samples.on_transmit(now, size);
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
        // A repeated decision uses newer feedback, but the picture counts once.
        let lasting = Duration::from_secs_f64(PICTURE * self.frame_interval);
        let begins = self.picture_at.is_none_or(|at| now.saturating_since(at) >= lasting);
        if begins {
            self.begin_picture(now);
        }
        let sprout_view = self.sprout.sprout_view(path);
        let seen = self.history.observe(path, &sprout_view, self.given);
        let basis = Basis {
            rate: sprout_view.mean_rate,
            unknown: (now.as_secs_f64() - sprout_view.known_until).clamp(0.0, 10.0),
        };
        if let Some(training_samples) = &mut self.training_samples {
            training_samples.decided(now, seen, sprout_view.bytes_in_flight, basis);
        }
        let Some(net) = &mut self.net else { return };
        if begins {
            let LockstepConfig { unlike, late, far, averaged, .. } = self.config;
            self.late.put(path.feedback_delay.as_secs_f64(), (late, 0.5 * late), averaged);
            self.far.put(sprout_view.round_trip, (far, FAR_NO_MORE * far), averaged);
            self.unlike.put(net.unlike(&seen), (unlike, 0.4 * unlike), averaged);
            let steady = self.history.change(sprout_view.mean_rate) <= self.rule.shared_steady;
            let ratio = if steady { log(sprout_view.path_rate / sprout_view.mean_rate.max(1.0)) } else { 0.0 };
            let shared = log(self.rule.shared);
            self.shared.put(ratio, (shared, 0.5 * shared), averaged);
        }
        self.present = net.forecast(&seen, basis).map(|forecast| Present {
            forecast,
            bytes_in_flight: sprout_view.bytes_in_flight,
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
            Input::FeedbackSent(_) | Input::Encoded(_) => {}
        }
    }

    fn allowance(&self, path: &PathView<'_>, in_flight: InFlight) -> Allowance {
        let allowance = self.sprout.allowance(path, in_flight);
        if self.net.is_none() {
            return allowance;
        }
        let claimed = self.sprout.claimed_share().budget(path, in_flight);
        // A codec that follows a rate stops for many seconds after one second of a very low rate.
        let payload_share = self.payload / (self.payload + HEADERS);
        let least = Bitrate::from_bytes_per_second(payload_share * self.config.least_target * self.sprout.mean_rate());
        let beside = self.sprout.claimed_share().rate(path).unwrap_or(0.0);
        let least = least.max(self.least_target).max(Bitrate::from_bytes_per_second(payload_share * beside));
        let Some(present) = self.present.as_ref().filter(|_| self.falls_back().is_none()) else {
            return Allowance { target: allowance.target.max(least), ..allowance };
        };
        // Before the first feedback, a low quantile covers all paths. The first picture would be as coarse as on the
        // slowest one.
        let level = if self.history.has_feedback() { self.rule.target_level } else { self.rule.level };
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
