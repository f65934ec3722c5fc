//! Calls for learning agents: an episode is a call over a path drawn at random, a step is one window of feedback, an
//! action is a bit rate. No pixels; see [`crate::modelled`].

mod agent;
mod features;
mod pictures;
mod vector;

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use lockstep_control::learned::ObservationKind;
use lockstep_control::{Controller, ControllerSetup, Estimator, RateBounds, ReceiverEstimate};
use lockstep_link::{ConfigError, Link, LinkConfig, LossConfig, QueueConfig, REVERSE_CAPACITY, Trace};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use crate::activity::Activity;
use crate::modelled::{FeedbackInterval, ModelledCall, ModelledSetting};
use crate::modelled_clip::{ClipCurves, ModelledClip};
use crate::network::Network;
use crate::step_statistics::StepStatistics;
use agent::{Agent, AgentController, AgentEstimator, AgentObservation, AgentRate};

pub use features::{FEATURES, Feature, Features};
pub use pictures::LessonSetting;
pub use vector::{EnvironmentError, MOST_ENVIRONMENTS, Seeds, VectorEnvironment};

/// Where the agent sits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentPlace {
    /// At the receiver, as BoB's: its rate is the estimate that feedback carries to the sender, which targets it.
    Receiver,
    /// At the sender, as Concerto's: its rate is the target at once.
    Sender,
}

/// What episodes are drawn from. Every range is drawn from evenly.
#[derive(Debug, Clone)]
pub struct EnvironmentSetting {
    /// Capacity traces; each episode takes one, from a moment in it.
    pub traces: Vec<Trace>,
    /// Whether an episode begins anywhere in its trace, and not at the trace's beginning.
    pub random_start: bool,
    /// The clips that the codec models.
    pub clips: Vec<Arc<ClipCurves>>,
    /// Propagation delay each way.
    pub delay: RangeInclusive<Duration>,
    /// Packets that the bottleneck's queue holds.
    pub queue_packets: RangeInclusive<u32>,
    /// Share of packets lost at random, 0-1.
    pub loss: RangeInclusive<f64>,
    /// Length of a step.
    pub step: Duration,
    /// Steps in an episode.
    pub steps: u32,
    /// Where the agent sits.
    pub place: AgentPlace,
    /// What a model would see of the call, if that is wanted.
    pub observation: Option<ObservationKind>,
    /// The rate before the first action, and the bounds that actions are clamped to.
    pub bounds: RateBounds,
    /// The call itself; when it is and that it is not logged are the environment's.
    pub call: ModelledSetting,
    /// How often receivers acknowledge: each episode takes one of these. Without any, all do as `call` says.
    pub feedback: Vec<FeedbackInterval>,
}

impl EnvironmentSetting {
    /// The usual setting over `traces` with `clips`: steps of 200 ms (AlphaRTC's interval), episodes of a minute, 10-60
    /// ms of delay each way, queues of 20-256 packets, no random loss, rates from 10 kb/s to 8 Mb/s (BoB's bounds).
    #[must_use]
    pub fn new(traces: Vec<Trace>, clips: Vec<Arc<ClipCurves>>) -> Self {
        Self {
            traces,
            random_start: true,
            clips,
            delay: Duration::from_millis(10)..=Duration::from_millis(60),
            queue_packets: 20..=256,
            loss: 0.0..=0.0,
            step: Duration::from_millis(200),
            steps: 300,
            place: AgentPlace::Receiver,
            observation: None,
            bounds: RateBounds {
                initial: Bitrate::from_kbps(300),
                least: Bitrate::from_kbps(10),
                most: Bitrate::from_kbps(8_000),
            },
            call: ModelledSetting::new(),
            feedback: Vec::new(),
        }
    }

    /// Whether episodes can be drawn.
    ///
    /// # Errors
    /// What is missing or out of bounds.
    pub fn validate(&self) -> Result<(), EnvironmentError> {
        let wrong = |what: &'static str| Err(EnvironmentError::Setting(what));
        if self.traces.is_empty() {
            return wrong("there is no trace");
        }
        if self.clips.is_empty() {
            return wrong("there is no clip");
        }
        if self.delay.is_empty() || self.queue_packets.is_empty() || *self.queue_packets.start() == 0 {
            return wrong("the range of delays or of queue lengths is empty");
        }
        if !(0.0..=1.0).contains(self.loss.start()) || !(0.0..=1.0).contains(self.loss.end()) || self.loss.is_empty() {
            return wrong("the range of loss is no range of shares from 0 to 1");
        }
        if self.step < Duration::from_millis(10) || self.step > Duration::from_secs(60) || self.steps == 0 {
            return wrong("a step is not 10 ms to 60 s long, or an episode has none");
        }
        if self.bounds.least.as_bps() == 0 || self.bounds.least > self.bounds.most {
            return wrong("the least rate is zero or above the most");
        }
        Ok(())
    }
}

/// One call that an agent controls.
pub struct Environment {
    setting: Arc<EnvironmentSetting>,
    generator: Pcg64,
    rate: AgentRate,
    observation: AgentObservation,
    network: Network<ModelledCall>,
    steps: u32,
}

impl Environment {
    /// An environment at the start of its first episode. Equal settings, seeds and actions give equal features.
    ///
    /// # Errors
    /// If the setting or a link made from it makes no sense.
    pub fn new(setting: Arc<EnvironmentSetting>, seed: u64) -> Result<Self, EnvironmentError> {
        setting.validate()?;
        let mut generator = Pcg64::seed_from_u64(seed);
        let rate = AgentRate::new(setting.bounds.initial);
        let observation = AgentObservation::new(setting.observation.map(ObservationKind::make));
        let network = episode(&setting, &rate, &observation, &mut generator)?;
        Ok(Self { setting, generator, rate, observation, network, steps: 0 })
    }

    /// Begins a new episode; with `seed`, randomness begins anew from it.
    ///
    /// # Errors
    /// If a link makes no sense, which [`EnvironmentSetting::validate`] would have told before.
    pub fn reset(&mut self, seed: Option<u64>) -> Result<Features, EnvironmentError> {
        if let Some(seed) = seed {
            self.generator = Pcg64::seed_from_u64(seed);
        }
        self.rate.set(self.setting.bounds.initial);
        self.observation = AgentObservation::new(self.setting.observation.map(ObservationKind::make));
        self.network = episode(&self.setting, &self.rate, &self.observation, &mut self.generator)?;
        self.steps = 0;
        let mut features = Features::default();
        features.set("target_bps", self.setting.bounds.initial.as_bps() as f64);
        features.set("next_capacity_bps", self.capacity(Timestamp::ZERO).as_bps() as f64);
        Ok(features)
    }

    fn capacity(&self, from: Timestamp) -> Bitrate {
        let bytes = self.network.capacity_between(from, from + self.setting.step);
        Bitrate::mean(bytes, self.setting.step)
    }

    /// Writes what the model sees now over `into`, whose numbers are as many as its observation has; nothing where no
    /// observation is wanted.
    pub fn observe(&self, into: &mut [f32]) {
        if let Some(mut observation) = self.observation.get() {
            observation.observe(self.network.now(), into);
        }
    }

    /// Sets `rate`, clamped to the bounds, and lets a step of time pass. Gives what there is to observe, and whether the
    /// episode is over.
    pub fn step(&mut self, rate: Bitrate) -> (Features, bool) {
        let rate = rate.clamp(self.setting.bounds.least, self.setting.bounds.most);
        self.rate.set(rate);
        let from = self.network.now();
        if let Some(mut observation) = self.observation.get() {
            observation.on_decision(from, rate);
        }
        let to = from + self.setting.step;
        self.network.run_until(to);
        self.steps += 1;
        let capacity = [from, to].map(|moment| self.capacity(moment));
        let call = &mut self.network.flows_mut()[0];
        let (frames, arrivals) = call.steps().map(StepStatistics::take).unwrap_or_default();
        let status = call.sender().status(to);
        let round_trip = status.round_trip_time;
        let queued = self.network.links().first().map_or(ByteCount::ZERO, |link| link.queued().bytes);
        let mut features =
            features::observe(&self.setting, to, &arrivals, &frames, status.target, round_trip, capacity);
        features.set("queued_bytes", queued.as_f64());
        (features, self.steps >= self.setting.steps)
    }
}

/// What an episode is drawn to be.
struct Drawn {
    forward: LinkConfig,
    reverse: LinkConfig,
    clip: Arc<ClipCurves>,
    seed: u64,
}

impl Drawn {
    fn from(setting: &EnvironmentSetting, generator: &mut Pcg64) -> Self {
        let trace = setting.traces[generator.random_range(0..setting.traces.len())].clone();
        let start = generator.random::<f64>();
        let clip = setting.clips[generator.random_range(0..setting.clips.len())].clone();
        let delay = generator.random_range(setting.delay.clone());
        let packets = generator.random_range(setting.queue_packets.clone());
        let loss = generator.random_range(setting.loss.clone());
        let seed = generator.random();
        let offset = if setting.random_start { trace.period().mul_f64(start) } else { Duration::ZERO };
        let forward = LinkConfig {
            trace_offset: offset,
            delay,
            queue: QueueConfig::drop_tail(packets as usize),
            loss: LossConfig { random: loss, ..LossConfig::default() },
            ..LinkConfig::new(trace)
        };
        let reverse = LinkConfig { delay, ..LinkConfig::new(Trace::constant(REVERSE_CAPACITY)) };
        Self { forward, reverse, clip, seed }
    }

    /// The call over its links, which controllers control.
    fn network(
        self,
        call: &ModelledSetting,
        controller: Box<dyn Controller>,
        estimator: Box<dyn Estimator>,
    ) -> Result<Network<ModelledCall>, EnvironmentError> {
        let Self { forward, reverse, clip, seed } = self;
        let activity = Activity::between(Timestamp::ZERO, Timestamp::MAX);
        let call = ModelledSetting { activity, ..call.clone() };
        let clip = ModelledClip::new(clip, call.frame_interval(), seed);
        let call = call.call(controller, estimator, clip);
        let link = |config, seed| Link::new(config, seed).map_err(|error: ConfigError| EnvironmentError::Link(error));
        Ok(Network::new(vec![call.unlogged()], link(forward, seed)?, link(reverse, seed ^ 1)?))
    }
}

/// One of them, each as likely as another; none of none, for which nothing is drawn.
fn any_of<T: Copy>(choices: &[T], generator: &mut Pcg64) -> Option<T> {
    if choices.is_empty() { None } else { Some(choices[generator.random_range(0..choices.len())]) }
}

fn episode(
    setting: &EnvironmentSetting,
    rate: &AgentRate,
    observation: &AgentObservation,
    generator: &mut Pcg64,
) -> Result<Network<ModelledCall>, EnvironmentError> {
    let drawn = Drawn::from(setting, generator);
    let feedback = any_of(&setting.feedback, generator).unwrap_or(setting.call.feedback);
    let call = ModelledSetting { feedback, ..setting.call.clone() };
    let control = ControllerSetup {
        bounds: setting.bounds,
        ..ControllerSetup::new(setting.call.payload, setting.call.frame_interval())
    };
    let (receiver, sender) = match setting.place {
        AgentPlace::Receiver => (Some(rate.clone()), None),
        AgentPlace::Sender => (None, Some(rate.clone())),
    };
    let agent = |rate| Agent { rate, observation: observation.clone() };
    // An estimator is learned with the controller that follows it in calls.
    let follows =
        setting.place == AgentPlace::Receiver && setting.observation.is_some_and(ObservationKind::is_receivers);
    let controller: Box<dyn Controller> = if follows {
        Box::new(ReceiverEstimate::new(&control))
    } else {
        Box::new(AgentController::new(agent(sender), &control))
    };
    drawn.network(&call, controller, Box::new(AgentEstimator(agent(receiver))))
}
