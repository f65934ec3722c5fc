//! Lessons for Lockstep's own controller: what it sees in calls over paths drawn at random, picture by picture, and what
//! the path really took from then on. What is learned here is what runs in a call: the calls have the controller itself.

use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use lockstep_control::learned::{Lesson, Lockstep, Rule};
use lockstep_control::{
    Allowance, Controller, ControllerSetup, EstimatorKind, GracePeriod, InFlight, Input, Latency, PathView, Traits,
    bitrate_ceiling,
};
use lockstep_link::{Jitter, JitterDistribution, Trace};
use lockstep_media::FrameRate;
use lockstep_nn::Model;
use lockstep_units::Timestamp;

use super::vector::side_by_side;
use super::{Drawn, EnvironmentError, EnvironmentSetting, any_of};
use crate::known_path::known_path;
use crate::modelled::{FeedbackInterval, ModelledCodec, ModelledSetting};
use crate::modelled_clip::ClipCurves;

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

/// The controller of a call, whose lessons are taken when it is over.
#[derive(Clone)]
struct Shared(Arc<Mutex<Lockstep>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Lockstep> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Controller for Shared {
    fn traits(&self) -> Traits {
        self.lock().traits()
    }

    fn handle(&mut self, path: &PathView<'_>, input: Input<'_>) {
        self.lock().handle(path, input);
    }

    fn allowance(&self, path: &PathView<'_>, in_flight: InFlight) -> Allowance {
        self.lock().allowance(path, in_flight)
    }

    fn pacing_interval(&self, path: &PathView<'_>, in_flight: InFlight) -> Duration {
        self.lock().pacing_interval(path, in_flight)
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

impl LessonSetting {
    fn environment(&self) -> EnvironmentSetting {
        EnvironmentSetting {
            delay: self.delay.clone(),
            queue_packets: self.queue_packets.clone(),
            loss: self.loss.clone(),
            ..EnvironmentSetting::new(self.traces.clone(), self.clips.clone())
        }
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
        let environment = self.environment();
        environment.validate()?;
        if self.frame_rates.is_empty() || self.pictures == 0 {
            return Err(EnvironmentError::Setting("there is no frame rate, or a call has no picture"));
        }
        Ok(side_by_side(count, seed, threads, |seed| self.call(&environment, model, seed))?.0)
    }

    fn call(
        &self,
        environment: &EnvironmentSetting,
        model: Option<&Arc<Model>>,
        seed: u64,
    ) -> Result<Vec<Lesson>, EnvironmentError> {
        let mut lessons = self.run(environment, model, seed)?.lock().take_lessons();
        lessons.truncate(self.pictures as usize);
        Ok(lessons)
    }

    /// The controller of a call, after the call.
    fn run(
        &self,
        environment: &EnvironmentSetting,
        model: Option<&Arc<Model>>,
        seed: u64,
    ) -> Result<Shared, EnvironmentError> {
        let mut generator = Pcg64::seed_from_u64(seed);
        let latency = Latency::ALL[generator.random_range(0..Latency::ALL.len())];
        let frame_rate = self.frame_rates[generator.random_range(0..self.frame_rates.len())];
        let seconds = |delay: &Duration| delay.as_secs_f64();
        let delay = logarithmic(&mut generator, (seconds(self.delay.start()), seconds(self.delay.end())));
        let packets = (f64::from(*self.queue_packets.start()), f64::from(*self.queue_packets.end()));
        let packets = logarithmic(&mut generator, packets);
        let loses = generator.random::<f64>() >= LOSSLESS;
        let loss = logarithmic(&mut generator, (self.loss.start().max(1e-3), *self.loss.end()));
        let conventional = generator.random::<f64>() < CONVENTIONAL;
        let model = model.cloned().filter(|_| generator.random::<f64>() >= CLASSICAL);
        let rule = any_rule(&mut generator, latency);
        let jitters = generator.random::<f64>() < JITTERY && !self.jitter.end().is_zero();
        let mean = logarithmic(&mut generator, (seconds(self.jitter.start()), seconds(self.jitter.end())));
        let distribution = JitterDistribution::Exponential { mean: Duration::from_secs_f64(mean) };

        let mut drawn = Drawn::from(environment, &mut generator);
        drawn.forward.delay = Duration::from_secs_f64(delay);
        drawn.reverse.delay = drawn.forward.delay;
        drawn.forward.queue = lockstep_link::QueueConfig::drop_tail(packets.round().max(1.0) as usize);
        drawn.forward.loss.random = if loses { loss.min(*self.loss.end()) } else { 0.0 };
        drawn.forward.jitter = jitters.then_some(Jitter { distribution, reorders: false });

        let feedback = any_of(&self.feedback, &mut generator).unwrap_or_default();
        let usual = ModelledSetting { frame_rate, feedback, ..ModelledSetting::new() };
        let (width, height) = drawn.clip.picture_size();
        let call = ModelledSetting {
            codec: if conventional { ModelledCodec::Conventional } else { usual.codec },
            ceiling: Some(bitrate_ceiling(width, height, usual.frame_interval())),
            ..usual
        };
        let mut control = ControllerSetup { latency, ..ControllerSetup::new(call.payload, call.frame_interval()) };
        // A model must learn from its own calls over long paths, too.
        control.tuning.lockstep.far = f64::INFINITY;
        let controller = match model {
            Some(model) => Lockstep::with_model(&control, model)
                .map_err(|_| EnvironmentError::Setting("the model is none for Lockstep's own controller"))?
                .with_rule(rule),
            None => Lockstep::without_model(&control),
        };
        let controller = controller.with_lessons(known_path(&drawn.forward, Timestamp::ZERO));
        let controller = Shared(Arc::new(Mutex::new(controller)));
        let estimator = EstimatorKind::InterArrival(GracePeriod::LinkIdle).make(environment.bounds);
        let mut network = drawn.network(&call, Box::new(controller.clone()), estimator)?;
        // A little longer, so that there is a lesson of the last picture.
        network.run_until(Timestamp::ZERO + frame_rate.time_of(u64::from(self.pictures) + 2));
        Ok(controller)
    }
}

#[cfg(test)]
mod tests {
    use crate::codec_model::CodecModel;
    use lockstep_control::learned::shipped::Shipped;
    use lockstep_control::learned::{OBSERVATIONS, OBSERVED};
    use lockstep_units::ByteCount;

    use super::*;

    fn lessons_over(trace: &str, delay: Duration) -> LessonSetting {
        let model = CodecModel::built_in().expect("it comes with the crate");
        LessonSetting {
            traces: vec![Trace::from_spec(trace).expect("a trace")],
            clips: vec![Arc::new(ClipCurves::new(&model.clips[0], 640, 360))],
            frame_rates: vec![FrameRate::default()],
            delay: delay..=delay,
            queue_packets: 100..=100,
            loss: 0.05..=0.05,
            jitter: Duration::ZERO..=Duration::ZERO,
            feedback: Vec::new(),
            pictures: 300,
        }
    }

    #[test]
    fn every_observation_varies_over_lessons() {
        let rates = [24, 60].map(|rate| FrameRate::new(rate, 1).expect("a frame rate"));
        let path = lessons_over("cellular:mean=1mbps,outage-every=5s,seed=1", Duration::from_millis(20));
        let setting = LessonSetting { frame_rates: rates.into(), ..path };
        let model = Shipped::Lockstep.model().expect("it comes with the crate");
        let lessons = setting.record(Some(&model), 8, 1, 1).expect("lessons").concat();
        let seen = |place: usize| lessons.iter().map(move |lesson| lesson.seen[place]);
        let constant: Vec<&str> = (0..OBSERVED)
            .filter(|&place| seen(place).fold(f32::MAX, f32::min) == seen(place).fold(f32::MIN, f32::max))
            .map(|place| OBSERVATIONS[place])
            .collect();
        assert!(constant.is_empty(), "{constant:?}");
    }

    #[test]
    fn a_model_decides_in_lessons_over_long_paths() {
        let setting = lessons_over("constant:1mbps", Duration::from_millis(400));
        let model = Shipped::Lockstep.model().expect("it comes with the crate");
        let by_sprout = (0..4).map(|seed| {
            let controller = setting.run(&setting.environment(), Some(&model), seed).expect("a call");
            let counters = controller.counters();
            counters.into_iter().find(|(name, _)| *name == "sprout_as_the_path_is_long").expect("a counter").1
        });
        assert_eq!(by_sprout.collect::<Vec<_>>(), [0; 4]);
    }

    #[test]
    fn a_lessons_controller_sees_skipped_pictures_as_in_calls() {
        let setting = ControllerSetup::new(ByteCount::new(1_200), Duration::from_millis(33));
        let model = Shipped::Lockstep.model().expect("it comes with the crate");
        let made = || Lockstep::with_model(&setting, Arc::clone(&model)).expect("it is one for this controller");
        let (mut plain, mut shared) = (made(), Shared(Arc::new(Mutex::new(made()))));
        let path = PathView { now: Timestamp::from_millis(100), ..PathView::default() };
        let budgets = [&mut plain as &mut dyn Controller, &mut shared].map(|controller| {
            controller.handle(&path, Input::Time);
            let before = controller.allowance(&path, InFlight::default()).budget;
            controller.handle(&path, Input::PictureSkipped);
            (before, controller.allowance(&path, InFlight::default()).budget)
        });
        assert_eq!(budgets[0], budgets[1]);
        assert!(budgets[0].1 > budgets[0].0, "the next frame may have more: {budgets:?}");
    }
}
