//! Calls as environments for learning agents, without pixels (see [`crate::modelled`]).
//!
//! An episode is a call over a randomly drawn path. A step is one feedback window; an action is a bit rate.

mod agent;
mod company;
mod features;
mod pictures;
mod vector;

use std::iter;
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
use crate::any_flow::AnyFlow;
use crate::modelled::{FeedbackInterval, ModelledSetting};
use crate::modelled_clip::{ClipCurves, ModelledClip};
use crate::network::Network;
use crate::step_statistics::StepStatistics;
use agent::{Agent, AgentController, AgentEstimator, AgentObservation, AgentRate};

pub use company::Company;
pub use features::{FEATURES, Feature, Features};
pub use pictures::TrainingSetting;
pub use vector::{EnvironmentError, MAX_ENVIRONMENTS, Seeds, VectorEnvironment};

/// End of the call at which the agent acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentPlace {
    /// Receiver, as in BoB. The rate is the estimate in feedback, and the sender targets it.
    Receiver,
    /// Sender, as in Concerto. The rate is the target.
    Sender,
}

/// Distribution of episodes. Every range is sampled uniformly.
#[derive(Debug, Clone)]
pub struct EnvironmentSetting {
    /// Capacity traces. Each episode uses one of them.
    pub traces: Vec<Trace>,
    /// Whether an episode starts at a random time of its trace instead of the beginning.
    pub random_start: bool,
    /// Clips of the codec model.
    pub clips: Vec<Arc<ClipCurves>>,
    /// Propagation delay in each direction.
    pub delay: RangeInclusive<Duration>,
    /// Capacity of the bottleneck queue, packets.
    pub queue_packets: RangeInclusive<u32>,
    /// Random loss, 0-1.
    pub loss: RangeInclusive<f64>,
    /// Duration of a step.
    pub step: Duration,
    /// Number of steps per episode.
    pub steps: u32,
    /// End of the call at which the agent acts.
    pub place: AgentPlace,
    /// Kind of the model's observation; `None` if no observation is needed.
    pub observation: Option<ObservationKind>,
    /// Initial rate, and the bounds to which actions are clamped.
    pub bounds: RateBounds,
    /// Settings of the call. The environment overrides its activity and does not log it.
    pub call: ModelledSetting,
    /// Intervals of acknowledgements; each episode draws one. If empty, `call` determines the interval.
    pub feedback: Vec<FeedbackInterval>,
    /// Share of episodes with cross traffic, 0-1.
    pub shared: f64,
    /// Kinds of cross traffic; each such episode draws one.
    pub cross_traffic: Vec<Company>,
}

impl EnvironmentSetting {
    /// Default setting over `traces` with `clips`: steps of 200 ms (AlphaRTC's interval) and episodes of one minute.
    /// Delays are 10-60 ms in each direction, queues hold 20-256 packets, and there is no random loss. Rates are 10
    /// kb/s to 8 Mb/s (BoB's bounds).
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
                min: Bitrate::from_kbps(10),
                max: Bitrate::from_kbps(8_000),
            },
            call: ModelledSetting::new(),
            feedback: Vec::new(),
            shared: 0.0,
            cross_traffic: Vec::new(),
        }
    }

    /// Checks that episodes can be drawn.
    ///
    /// # Errors
    /// If something is missing or out of bounds.
    pub fn validate(&self) -> Result<(), EnvironmentError> {
        let wrong = |what: &'static str| Err(EnvironmentError::Setting(what));
        if self.traces.is_empty() {
            return wrong("expected at least one trace");
        }
        if self.clips.is_empty() {
            return wrong("expected at least one clip");
        }
        if self.delay.is_empty() || self.queue_packets.is_empty() || *self.queue_packets.start() == 0 {
            return wrong("expected non-empty ranges of delays and of queue lengths of one packet or more");
        }
        if !(0.0..=1.0).contains(self.loss.start()) || !(0.0..=1.0).contains(self.loss.end()) || self.loss.is_empty() {
            return wrong("expected a range of loss within 0 to 1");
        }
        if !(0.0..=1.0).contains(&self.shared) || (self.shared > 0.0 && self.cross_traffic.is_empty()) {
            return wrong("expected a share of episodes with cross traffic within 0 to 1, and kinds of cross traffic");
        }
        if self.step < Duration::from_millis(10) || self.step > Duration::from_secs(60) || self.steps == 0 {
            return wrong("expected steps of 10 ms to 60 s, and at least one per episode");
        }
        if self.bounds.min.as_bps() == 0 || self.bounds.min > self.bounds.max {
            return wrong("expected a smallest rate above zero and not above the largest");
        }
        Ok(())
    }
}

/// A call that an agent controls.
pub struct Environment {
    setting: Arc<EnvironmentSetting>,
    generator: Pcg64,
    rate: AgentRate,
    observation: AgentObservation,
    network: Network<AnyFlow>,
    /// Times at which cross traffic shares the link.
    shared: Activity,
    steps: u32,
}

impl Environment {
    /// Creates an environment at the start of its first episode. Equal settings, seeds and actions give equal features.
    ///
    /// # Errors
    /// If the setting or a link is invalid.
    pub fn new(setting: Arc<EnvironmentSetting>, seed: u64) -> Result<Self, EnvironmentError> {
        setting.validate()?;
        let mut generator = Pcg64::seed_from_u64(seed);
        let rate = AgentRate::new(setting.bounds.initial);
        let observation = AgentObservation::new(setting.observation.map(ObservationKind::make));
        let (network, shared) = episode(&setting, &rate, &observation, &mut generator)?;
        Ok(Self { setting, generator, rate, observation, network, shared, steps: 0 })
    }

    /// Starts a new episode. With `seed`, the random generator is seeded again.
    ///
    /// # Errors
    /// If a link is invalid. [`EnvironmentSetting::validate`] reports this earlier.
    pub fn reset(&mut self, seed: Option<u64>) -> Result<Features, EnvironmentError> {
        if let Some(seed) = seed {
            self.generator = Pcg64::seed_from_u64(seed);
        }
        self.rate.set(self.setting.bounds.initial);
        self.observation = AgentObservation::new(self.setting.observation.map(ObservationKind::make));
        (self.network, self.shared) = episode(&self.setting, &self.rate, &self.observation, &mut self.generator)?;
        self.steps = 0;
        let mut features = Features::default();
        features.set("target_bps", self.setting.bounds.initial.as_bps() as f64);
        features.set("next_capacity_bps", self.fair_share(Timestamp::ZERO).as_bps() as f64);
        Ok(features)
    }

    fn capacity(&self, from: Timestamp) -> Bitrate {
        let bytes = self.network.capacity_between(from, from + self.setting.step);
        Bitrate::mean(bytes, self.setting.step)
    }

    /// The agent's share of the capacity of the step from `from`: half of it beside cross traffic.
    fn fair_share(&self, from: Timestamp) -> Bitrate {
        self.capacity(from).mul_f64(if self.shared.contains(from) { 0.5 } else { 1.0 })
    }

    /// Writes the model's current observation to `into`, whose length must match. Does nothing if there is no
    /// observation.
    pub fn observe(&self, into: &mut [f32]) {
        if let Some(mut observation) = self.observation.get() {
            observation.observe(self.network.now(), into);
        }
    }

    /// Sets `rate`, clamped to the bounds, and advances time by a step. Returns the features and whether the episode is
    /// over.
    pub fn step(&mut self, rate: Bitrate) -> (Features, bool) {
        let rate = rate.clamp(self.setting.bounds.min, self.setting.bounds.max);
        self.rate.set(rate);
        let from = self.network.now();
        if let Some(mut observation) = self.observation.get() {
            observation.on_decision(from, rate);
        }
        let to = from + self.setting.step;
        self.network.run_until(to);
        self.steps += 1;
        let capacity = [self.capacity(from), self.fair_share(to)];
        let is_shared = self.shared.contains(to);
        let Some(AnyFlow::Modelled(call)) = self.network.flows_mut().first_mut() else {
            return (Features::default(), true);
        };
        let (frames, arrivals) = call.steps().map(StepStatistics::take).unwrap_or_default();
        let status = call.sender().status(to);
        let round_trip = status.round_trip_time;
        // Cross traffic may keep the queue full. Waiting until it is empty would starve the agent.
        let queued = self.network.links().first().map_or(ByteCount::ZERO, |link| link.queued().bytes);
        let mut features =
            features::observe(&self.setting, to, &arrivals, &frames, status.target, round_trip, capacity);
        features.set("queued_bytes", if is_shared { 0.0 } else { queued.as_f64() });
        (features, self.steps >= self.setting.steps)
    }
}

/// Randomly drawn parameters of an episode.
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

    /// Network with the call, cross traffic if there is any, and the two links that they share.
    fn network(
        self,
        call: &ModelledSetting,
        controller: Box<dyn Controller>,
        estimator: Box<dyn Estimator>,
        other: Option<AnyFlow>,
    ) -> Result<Network<AnyFlow>, EnvironmentError> {
        let Self { forward, reverse, clip, seed } = self;
        let activity = Activity::between(Timestamp::ZERO, Timestamp::MAX);
        let call = ModelledSetting { activity, ..call.clone() };
        let clip = ModelledClip::new(clip, call.frame_interval(), seed);
        let call = call.call(controller, estimator, clip);
        let link = |config, seed| Link::new(config, seed).map_err(|error: ConfigError| EnvironmentError::Link(error));
        let flows = iter::once(AnyFlow::Modelled(Box::new(call.unlogged()))).chain(other).collect();
        Ok(Network::new(flows, link(forward, seed)?, link(reverse, seed ^ 1)?))
    }
}

/// Draws one of `choices` with equal probability. Returns `None`, without drawing, if there are none.
fn draw_one<T: Copy>(choices: &[T], generator: &mut Pcg64) -> Option<T> {
    if choices.is_empty() { None } else { Some(choices[generator.random_range(0..choices.len())]) }
}

fn episode(
    setting: &EnvironmentSetting,
    rate: &AgentRate,
    observation: &AgentObservation,
    generator: &mut Pcg64,
) -> Result<(Network<AnyFlow>, Activity), EnvironmentError> {
    let drawn = Drawn::from(setting, generator);
    let feedback = draw_one(&setting.feedback, generator).unwrap_or(setting.call.feedback);
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
    // In calls, `ReceiverEstimate` follows such an estimator, so training uses the same controller.
    let follows =
        setting.place == AgentPlace::Receiver && setting.observation.is_some_and(ObservationKind::is_receivers);
    let controller: Box<dyn Controller> = if follows {
        Box::new(ReceiverEstimate::new(&control))
    } else {
        Box::new(AgentController::new(agent(sender), &control))
    };
    let length = setting.step * setting.steps;
    let is_shared = setting.shared > 0.0 && generator.random::<f64>() < setting.shared;
    let activity = if is_shared { company::draw_activity(length, generator) } else { Activity::of([]) };
    let other = if is_shared {
        let kind = &setting.cross_traffic[generator.random_range(0..setting.cross_traffic.len())];
        Some(kind.flow(activity.clone(), &call, &control, drawn.clip.clone(), generator.random())?)
    } else {
        None
    };
    let estimator = Box::new(AgentEstimator(agent(receiver)));
    Ok((drawn.network(&call, controller, estimator, other)?, activity))
}
