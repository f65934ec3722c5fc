//! Lessons for Lockstep's own controller: what it sees in calls over paths drawn at random, picture by picture, and what
//! the path really took from then on. What is learned here is what runs in a call: the calls have the controller itself.

use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use lockstep_call::{CallObserver, ClipCurves, MenuMode};
use lockstep_control::learned::{Lesson, Lockstep, Model, Rule};
use lockstep_control::{
    Allowance, Controller, EstimatorKind, GracePeriod, InFlight, Input, KnownPath, Latency, Setting, Traits,
    bitrate_ceiling,
};
use lockstep_link::{Jitter, JitterDistribution, Trace};
use lockstep_media::FrameRate;
use lockstep_units::Timestamp;

use super::vector::side_by_side;
use super::{Drawn, EnvironmentError, EnvironmentSetting, any_of};
use crate::modelled::{FeedbackInterval, ModelledCodec, ModelledSetting};

/// The share of calls without random loss.
const LOSSLESS: f64 = 0.6;
/// The share of calls with a conventional codec, which needs other frames of the same path.
const CONVENTIONAL: f64 = 0.15;
/// The share of calls whose packets' delays scatter.
const JITTERY: f64 = 0.2;
/// Where there is a model, the share of calls that Sprout controls all the same.
const CLASSICAL: f64 = 0.2;

/// What calls are drawn from. Delays, queues, and losses and jitter above none are drawn evenly by their logarithm.
#[derive(Debug, Clone)]
pub struct LessonSetting {
    /// Capacity traces; each call takes one, from a moment in it.
    pub traces: Vec<Trace>,
    /// The clips that the codec models.
    pub clips: Vec<Arc<ClipCurves>>,
    /// Pictures a second.
    pub frame_rates: Vec<FrameRate>,
    /// Propagation delay each way.
    pub delay: RangeInclusive<Duration>,
    /// Packets that the bottleneck's queue holds.
    pub queue_packets: RangeInclusive<u32>,
    /// Share of packets lost at random, 0-1, in two calls of five.
    pub loss: RangeInclusive<f64>,
    /// Mean by which packets take longer than the delay, exponentially distributed, in one call of five; where the most is none,
    /// in none.
    pub jitter: RangeInclusive<Duration>,
    /// How often receivers acknowledge: each call takes one of these; without any, as calls usually do.
    pub feedback: Vec<FeedbackInterval>,
    /// Pictures in a call.
    pub pictures: u32,
}

pub(super) const FOREIGN: EnvironmentError =
    EnvironmentError::Setting("the model is none for Lockstep's own controller");

/// The controller of a call, whose lessons are taken when it is over.
#[derive(Clone)]
pub(super) struct Shared(Arc<Mutex<Lockstep>>);

impl Shared {
    /// `controller`, keeping lessons of the path that is `drawn`.
    pub fn with_lessons(controller: Lockstep, drawn: &Drawn) -> Self {
        let controller = controller.with_lessons(KnownPath::over(&drawn.forward, Timestamp::ZERO));
        Self(Arc::new(Mutex::new(controller)))
    }

    pub fn lock(&self) -> MutexGuard<'_, Lockstep> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Controller for Shared {
    fn traits(&self) -> Traits {
        self.lock().traits()
    }

    fn handle(&mut self, now: Timestamp, input: Input<'_>) {
        self.lock().handle(now, input);
    }

    fn allowance(&self, now: Timestamp, in_flight: InFlight) -> Allowance {
        self.lock().allowance(now, in_flight)
    }

    fn pacing_interval(&self, now: Timestamp, in_flight: InFlight) -> Duration {
        self.lock().pacing_interval(now, in_flight)
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.lock().counters()
    }
}

/// Evenly by the logarithm.
fn logarithmic(generator: &mut Pcg64, range: (f64, f64)) -> f64 {
    let (least, most) = (range.0.max(1e-6), range.1.max(1e-6));
    (least.ln() + generator.random::<f64>() * (most.ln() - least.ln())).exp()
}

/// A rule that may be as well as another: what is learned is to be right whatever the rule.
fn any_rule(generator: &mut Pcg64, latency: Latency) -> Rule {
    Rule {
        deadline: generator.random_range(0.0..0.06),
        intervals: generator.random_range(0.7..2.0),
        level: generator.random_range(0.15..0.7),
        smallest: generator.random_range(0.0..0.8),
        ..Rule::of(latency)
    }
}

/// What is drawn of a call's path before its trace.
pub(super) struct Path {
    frame_rate: FrameRate,
    delay: Duration,
    packets: usize,
    loss: f64,
}

impl Path {
    pub fn from(setting: &LessonSetting, generator: &mut Pcg64) -> Self {
        let frame_rate = setting.frame_rates[generator.random_range(0..setting.frame_rates.len())];
        let seconds = |delay: &Duration| delay.as_secs_f64();
        let delay = logarithmic(generator, (seconds(setting.delay.start()), seconds(setting.delay.end())));
        let packets = (f64::from(*setting.queue_packets.start()), f64::from(*setting.queue_packets.end()));
        let packets = logarithmic(generator, packets).round().max(1.0) as usize;
        let loses = generator.random::<f64>() >= LOSSLESS;
        let loss = logarithmic(generator, (setting.loss.start().max(1e-3), *setting.loss.end()));
        let loss = if loses { loss.min(*setting.loss.end()) } else { 0.0 };
        Self { frame_rate, delay: Duration::from_secs_f64(delay), packets, loss }
    }

    /// The whole of it, and the clip.
    pub fn drawn(&self, setting: &LessonSetting, environment: &EnvironmentSetting, generator: &mut Pcg64) -> Drawn {
        let jitters = generator.random::<f64>() < JITTERY && !setting.jitter.end().is_zero();
        let bounds = (setting.jitter.start().as_secs_f64(), setting.jitter.end().as_secs_f64());
        let mean = Duration::from_secs_f64(logarithmic(generator, bounds));
        let distribution = JitterDistribution::Exponential { mean };
        let mut drawn = Drawn::from(environment, generator);
        drawn.forward.delay = self.delay;
        drawn.reverse.delay = self.delay;
        drawn.forward.queue = lockstep_link::QueueConfig::drop_tail(self.packets);
        drawn.forward.loss.random = self.loss;
        drawn.forward.jitter = jitters.then_some(Jitter { distribution, reorders: false });
        drawn
    }

    /// The call over it.
    pub fn call(&self, setting: &LessonSetting, drawn: &Drawn, generator: &mut Pcg64) -> ModelledSetting {
        let feedback = any_of(&setting.feedback, generator).unwrap_or_default();
        let usual = ModelledSetting { frame_rate: self.frame_rate, feedback, ..ModelledSetting::new() };
        let (width, height) = drawn.clip.picture_size();
        ModelledSetting { ceiling: Some(bitrate_ceiling(width, height, usual.frame_interval())), ..usual }
    }
}

impl LessonSetting {
    /// What calls are drawn from, once it makes sense.
    pub(super) fn environment(&self) -> Result<EnvironmentSetting, EnvironmentError> {
        let environment = EnvironmentSetting {
            delay: self.delay.clone(),
            queue_packets: self.queue_packets.clone(),
            loss: self.loss.clone(),
            ..EnvironmentSetting::new(self.traces.clone(), self.clips.clone())
        };
        environment.validate()?;
        if self.frame_rates.is_empty() || self.pictures == 0 {
            return Err(EnvironmentError::Setting("there is no frame rate, or a call has no picture"));
        }
        Ok(environment)
    }

    /// The lessons of `count` calls, over `threads` threads (0: one a core). Equal settings and seeds give equal lessons,
    /// whatever the number of threads. `model` decides in four calls of five, by rules drawn at random; without, it is Sprout
    /// in all.
    ///
    /// # Errors
    /// If the setting makes no sense, the model is for something else, or threads cannot be started.
    pub fn record(
        &self,
        model: Option<&Arc<Model>>,
        count: usize,
        seed: u64,
        threads: usize,
    ) -> Result<Vec<Vec<Lesson>>, EnvironmentError> {
        let environment = self.environment()?;
        Ok(side_by_side(count, seed, threads, |seed| self.call(&environment, model, seed))?.0)
    }

    fn call(
        &self,
        environment: &EnvironmentSetting,
        model: Option<&Arc<Model>>,
        seed: u64,
    ) -> Result<Vec<Lesson>, EnvironmentError> {
        let mut generator = Pcg64::seed_from_u64(seed);
        let latency = Latency::ALL[generator.random_range(0..Latency::ALL.len())];
        let path = Path::from(self, &mut generator);
        let conventional = generator.random::<f64>() < CONVENTIONAL;
        let model = model.cloned().filter(|_| generator.random::<f64>() >= CLASSICAL);
        let rule = any_rule(&mut generator, latency);
        let drawn = path.drawn(self, environment, &mut generator);
        let call = ModelledSetting {
            codec: if conventional {
                ModelledCodec::Conventional
            } else {
                ModelledCodec::Functional(MenuMode::default())
            },
            ..path.call(self, &drawn, &mut generator)
        };
        let control = Setting { latency, ..Setting::new(call.payload, call.frame_interval()) };
        let controller = match model {
            Some(model) => Lockstep::with_model(&control, model).map_err(|_| FOREIGN)?.with_rule(rule),
            None => Lockstep::without_model(&control),
        };
        let controller = Shared::with_lessons(controller, &drawn);
        self.run(environment, drawn, &call, &controller, None)?;
        let mut lessons = controller.lock().take_lessons();
        lessons.truncate(self.pictures as usize);
        Ok(lessons)
    }

    /// Lets a call that `controller` controls pass.
    pub(super) fn run(
        &self,
        environment: &EnvironmentSetting,
        drawn: Drawn,
        call: &ModelledSetting,
        controller: &Shared,
        observer: Option<Box<dyn CallObserver>>,
    ) -> Result<(), EnvironmentError> {
        let estimator = EstimatorKind::InterArrival(GracePeriod::LinkIdle).make(environment.bounds);
        let mut network = drawn.network(call, Box::new(controller.clone()), estimator, observer)?;
        // A little longer, so that there is a lesson of the last picture.
        network.run_until(Timestamp::ZERO + call.frame_rate.time_of(u64::from(self.pictures) + 2));
        Ok(())
    }
}
