//! Training samples for Lockstep's own controller: its observations before each picture, and what the path carried afterwards.
//!
//! The calls run over randomly drawn paths and use the controller itself, so training and calls share one
//! implementation.

use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use lockstep_control::learned::{Lockstep, Rule, TrainingSample};
use lockstep_control::{
    Allowance, Controller, ControllerSetup, EstimatorKind, GracePeriod, InFlight, Input, Latency, PathView, Traits,
    bitrate_ceiling,
};
use lockstep_link::{Jitter, JitterDistribution, Trace};
use lockstep_media::FrameRate;
use lockstep_nn::Model;
use lockstep_units::Timestamp;

use super::vector::build_in_parallel;
use super::{Drawn, EnvironmentError, EnvironmentSetting, draw_one};
use crate::known_path::known_path;
use crate::modelled::{FeedbackInterval, ModelledCodec, ModelledSetting};
use crate::modelled_clip::ClipCurves;

/// Share of calls without random loss.
const LOSSLESS: f64 = 0.6;
/// Share of calls with a conventional codec, which needs other frames on the same path.
const CONVENTIONAL: f64 = 0.15;
/// Share of calls with jitter.
const JITTERY: f64 = 0.2;
/// Share of calls that Sprout controls although there is a model.
const CLASSICAL: f64 = 0.2;

/// Distribution of calls. Delays, queues, and non-zero losses and jitter are sampled uniformly in their logarithm.
#[derive(Debug, Clone)]
pub struct TrainingSetting {
    /// Capacity traces. Each call uses one of them, from a random time.
    pub traces: Vec<Trace>,
    /// Clips of the codec model.
    pub clips: Vec<Arc<ClipCurves>>,
    /// Frame rates.
    pub frame_rates: Vec<FrameRate>,
    /// Propagation delay in each direction.
    pub delay: RangeInclusive<Duration>,
    /// Capacity of the bottleneck queue, packets.
    pub queue_packets: RangeInclusive<u32>,
    /// Random loss, 0-1, of two calls in five.
    pub loss: RangeInclusive<f64>,
    /// Mean of exponentially distributed jitter, in one call in five. No call has jitter if the upper bound is zero.
    pub jitter: RangeInclusive<Duration>,
    /// Intervals of acknowledgements; each call draws one. If empty, all calls use the default.
    pub feedback: Vec<FeedbackInterval>,
    /// Number of pictures per call.
    pub pictures: u32,
}

/// Controller of a call, shared so that its training samples can be read after the call.
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

/// Samples `range` uniformly in the logarithm.
fn logarithmic(generator: &mut Pcg64, range: (f64, f64)) -> f64 {
    let (least, most) = (range.0.max(1e-6), range.1.max(1e-6));
    (least.ln() + generator.random::<f64>() * (most.ln() - least.ln())).exp()
}

/// Draws a random rule. The trained predictions must hold for every rule.
fn any_rule(generator: &mut Pcg64, latency: Latency) -> Rule {
    Rule {
        deadline: generator.random_range(0.0..0.06),
        intervals: generator.random_range(0.7..2.0),
        level: generator.random_range(0.15..0.7),
        smallest: generator.random_range(0.0..0.8),
        ..Rule::of(latency)
    }
}

impl TrainingSetting {
    fn environment(&self) -> EnvironmentSetting {
        EnvironmentSetting {
            delay: self.delay.clone(),
            queue_packets: self.queue_packets.clone(),
            loss: self.loss.clone(),
            ..EnvironmentSetting::new(self.traces.clone(), self.clips.clone())
        }
    }

    /// Records training samples of `count` calls on `threads` threads (0: one per core). Equal settings and seeds give equal
    /// samples for any number of threads. With `model`, the model decides in four calls of five, by randomly drawn
    /// rules; otherwise Sprout decides.
    ///
    /// # Errors
    /// If the setting is invalid, the model has another purpose, or threads cannot be started.
    pub fn record(
        &self,
        model: Option<&Arc<Model>>,
        count: usize,
        seed: u64,
        threads: usize,
    ) -> Result<Vec<Vec<TrainingSample>>, EnvironmentError> {
        let environment = self.environment();
        environment.validate()?;
        if self.frame_rates.is_empty() || self.pictures == 0 {
            return Err(EnvironmentError::Setting("expected at least one frame rate and one picture per call"));
        }
        Ok(build_in_parallel(count, seed, threads, |seed| self.call(&environment, model, seed))?.0)
    }

    fn call(
        &self,
        environment: &EnvironmentSetting,
        model: Option<&Arc<Model>>,
        seed: u64,
    ) -> Result<Vec<TrainingSample>, EnvironmentError> {
        let mut samples = self.run(environment, model, seed)?.lock().take_training_samples();
        samples.truncate(self.pictures as usize);
        Ok(samples)
    }

    /// Runs a call and returns its controller.
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

        let feedback = draw_one(&self.feedback, &mut generator).unwrap_or_default();
        let usual = ModelledSetting { frame_rate, feedback, ..ModelledSetting::new() };
        let (width, height) = drawn.clip.picture_size();
        let call = ModelledSetting {
            codec: if conventional { ModelledCodec::Conventional } else { usual.codec },
            ceiling: Some(bitrate_ceiling(width, height, usual.frame_interval())),
            ..usual
        };
        let mut control = ControllerSetup { latency, ..ControllerSetup::new(call.payload, call.frame_interval()) };
        // In calls the controller falls back to Sprout over long paths. In training calls it must not.
        control.tuning.lockstep.far = f64::INFINITY;
        let controller = match model {
            Some(model) => Lockstep::with_model(&control, model)
                .map_err(|_| EnvironmentError::Setting("the model is not for Lockstep's own controller"))?
                .with_rule(rule),
            None => Lockstep::without_model(&control),
        };
        let controller = controller.with_training_samples(known_path(&drawn.forward, Timestamp::ZERO));
        let controller = Shared(Arc::new(Mutex::new(controller)));
        let estimator = EstimatorKind::InterArrival(GracePeriod::LinkIdle).make(environment.bounds);
        let mut network = drawn.network(&call, Box::new(controller.clone()), estimator, None)?;
        // Runs slightly longer, so that the last picture has one.
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

    fn setting_over(trace: &str, delay: Duration) -> TrainingSetting {
        let model = CodecModel::built_in().expect("it comes with the crate");
        TrainingSetting {
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
    fn every_observation_varies_over_samples() {
        let rates = [24, 60].map(|rate| FrameRate::new(rate, 1).expect("a frame rate"));
        let path = setting_over("cellular:mean=1mbps,outage-every=5s,seed=1", Duration::from_millis(20));
        let setting = TrainingSetting { frame_rates: rates.into(), ..path };
        let model = Shipped::Lockstep.model().expect("it comes with the crate");
        let samples = setting.record(Some(&model), 8, 1, 1).expect("samples").concat();
        let seen = |place: usize| samples.iter().map(move |sample| sample.seen[place]);
        let constant: Vec<&str> = (0..OBSERVED)
            .filter(|&place| seen(place).fold(f32::MAX, f32::min) == seen(place).fold(f32::MIN, f32::max))
            .map(|place| OBSERVATIONS[place])
            .collect();
        assert!(constant.is_empty(), "{constant:?}");
    }

    #[test]
    fn the_model_controls_training_over_long_paths() {
        let setting = setting_over("constant:1mbps", Duration::from_millis(400));
        let model = Shipped::Lockstep.model().expect("it comes with the crate");
        let by_sprout = (0..4).map(|seed| {
            let controller = setting.run(&setting.environment(), Some(&model), seed).expect("a call");
            let counters = controller.counters();
            counters.into_iter().find(|(name, _)| *name == "sprout_as_the_path_is_long").expect("a counter").1
        });
        assert_eq!(by_sprout.collect::<Vec<_>>(), [0; 4]);
    }

    #[test]
    fn training_handles_skipped_pictures_as_calls_do() {
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
        assert!(budgets[0].1 > budgets[0].0, "the budget of the next frame must grow: {budgets:?}");
    }
}
