//! Calls that an agent controls picture by picture: a step is a picture, what is observed and decided is what the policy of
//! [`Lockstep`] sees and says. What is learned here is what runs in a call.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use rayon::ThreadPool;
use rayon::prelude::*;

use lockstep_control::learned::{DECIDED, Decision, Lockstep, OBSERVED, delay_weight};
use lockstep_control::{Allowance, Controller, EstimatorKind, GracePeriod, InFlight, Latency, Setting};
use lockstep_media::FrameRate;
use lockstep_transport::{Feedback, LostFragment};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use super::{Drawn, EnvironmentError, EnvironmentSetting};
use crate::modelled::{ModelledCall, ModelledSetting};
use crate::network::Network;
use crate::step_statistics::StepStatistics;

/// What a step tells of its outcome, for rewards, in this order: pictures over with, the sum of their video delays (s, each
/// at most [`crate::step_statistics::MOST_WAITED`]), frames shown, the sum of what their SSIM lacks to 1, bytes that left,
/// and how much more a delay counts than in a balanced call.
pub const OUTCOMES: [&str; 6] = ["over", "waited_s", "shown", "shortfall", "sent_bytes", "delay_weight"];

/// Environments that a core takes at a time.
const TAKEN_TOGETHER: usize = 8;

/// The controller of a call, which the environment speaks with between pictures.
#[derive(Clone)]
struct Shared(Arc<Mutex<Lockstep>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Lockstep> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Controller for Shared {
    fn on_transmit(&mut self, now: Timestamp, size: ByteCount) {
        self.lock().on_transmit(now, size);
    }

    fn on_feedback(&mut self, now: Timestamp, feedback: &Feedback) {
        self.lock().on_feedback(now, feedback);
    }

    fn on_time(&mut self, now: Timestamp) {
        self.lock().on_time(now);
    }

    fn on_loss(&mut self, now: Timestamp, lost: &[LostFragment]) {
        self.lock().on_loss(now, lost);
    }

    fn allowance(&self, now: Timestamp, in_flight: InFlight) -> Allowance {
        self.lock().allowance(now, in_flight)
    }

    fn pacing_interval(&self, now: Timestamp, in_flight: InFlight) -> Duration {
        self.lock().pacing_interval(now, in_flight)
    }

    fn estimate(&self) -> Option<Bitrate> {
        self.lock().estimate()
    }
}

/// One call.
struct PictureEnvironment {
    setting: Arc<EnvironmentSetting>,
    generator: Pcg64,
    controller: Shared,
    network: Network<ModelledCall>,
    frame_rate: FrameRate,
    delay_weight: f64,
    steps: u32,
    observation: [f32; OBSERVED],
    outcome: [f32; OUTCOMES.len()],
    done: bool,
}

impl PictureEnvironment {
    fn new(setting: Arc<EnvironmentSetting>, frame_rates: &[FrameRate], seed: u64) -> Result<Self, EnvironmentError> {
        let mut generator = Pcg64::seed_from_u64(seed);
        let latency = Latency::ALL[generator.random_range(0..Latency::ALL.len())];
        let frame_rate = frame_rates[generator.random_range(0..frame_rates.len())];
        let call = ModelledSetting { frame_rate, ..setting.call.clone() };
        let control = Setting { latency, ..Setting::new(call.payload, call.frame_interval()) };
        let controller = Shared(Arc::new(Mutex::new(Lockstep::new(&control, None))));
        let estimator = EstimatorKind::InterArrival(GracePeriod::LinkIdle).make(setting.bounds);
        let network = Drawn::from(&setting, &mut generator).network(&call, Box::new(controller.clone()), estimator)?;
        let mut environment = Self {
            setting,
            generator,
            controller,
            network,
            frame_rate,
            delay_weight: delay_weight(latency),
            steps: 0,
            observation: [0.0; OBSERVED],
            outcome: [0.0; OUTCOMES.len()],
            done: false,
        };
        environment.look(Timestamp::ZERO);
        Ok(environment)
    }

    /// Sees what the policy would see at `now`.
    fn look(&mut self, now: Timestamp) {
        let mut controller = self.controller.lock();
        controller.on_time(now);
        self.observation = controller.observe(now);
    }

    /// Lets the next picture be sent by `decision`, and goes on until the one after it is due.
    fn step(&mut self, decision: Decision) {
        self.controller.lock().set_decision(decision);
        self.steps += 1;
        let next = Timestamp::ZERO + self.frame_rate.time_of(u64::from(self.steps));
        // What happens in the moment of a capture is decided by the next step's decision.
        self.network.run_until(Timestamp::from_nanos(next.as_nanos() - 1));
        self.look(next);
        let (frames, _) = self.network.flows_mut()[0].steps().map(StepStatistics::take).unwrap_or_default();
        self.outcome = [
            frames.over as f64,
            frames.waited_seconds,
            frames.shown as f64,
            frames.shown as f64 - frames.ssim,
            frames.transmitted.as_f64(),
            self.delay_weight,
        ]
        .map(|value| value as f32);
        self.done = self.steps >= self.setting.steps;
    }
}

/// Calls that are stepped together, a picture at a time. One that has ended begins anew in the step after, whose decision
/// counts for nothing, with a path, a clip, a frame rate and a latency drawn again.
pub struct PictureVectorEnvironment {
    slots: Vec<PictureEnvironment>,
    frame_rates: Vec<FrameRate>,
    pool: ThreadPool,
}

impl PictureVectorEnvironment {
    /// `count` calls of pictures at any of `frame_rates`, over `threads` threads (0: one a core). Of the setting, steps are
    /// pictures, and the length of a step and the agent's place mean nothing.
    ///
    /// # Errors
    /// If the setting makes no sense, or threads cannot be started.
    pub fn new(
        setting: EnvironmentSetting,
        frame_rates: Vec<FrameRate>,
        count: usize,
        seed: u64,
        threads: usize,
    ) -> Result<Self, EnvironmentError> {
        if count == 0 || frame_rates.is_empty() {
            return Err(EnvironmentError::Count(count));
        }
        setting.validate()?;
        let setting = Arc::new(setting);
        let slots = (0..count)
            .map(|index| PictureEnvironment::new(setting.clone(), &frame_rates, super::vector::seed_of(seed, index)))
            .collect::<Result<_, _>>()?;
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
        Ok(Self { slots, frame_rates, pool })
    }

    /// How many calls there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Never: there is at least one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Decides for the next picture of each call, [`DECIDED`] values a call, and lets it pass.
    ///
    /// # Errors
    /// If there is not a decision for each.
    pub fn step(&mut self, decisions: &[f32]) -> Result<(), EnvironmentError> {
        let environments = self.slots.len();
        if decisions.len() != environments * DECIDED {
            return Err(EnvironmentError::Actions { actions: decisions.len() / DECIDED, environments });
        }
        let Self { slots, pool, frame_rates } = self;
        pool.install(|| {
            slots.par_iter_mut().with_min_len(TAKEN_TOGETHER).zip(decisions.par_chunks_exact(DECIDED)).try_for_each(
                |(slot, decision)| {
                    if slot.done {
                        let seed = slot.generator.random();
                        *slot = PictureEnvironment::new(slot.setting.clone(), frame_rates, seed)?;
                    } else {
                        slot.step(Decision::of([decision[0], decision[1]]));
                    }
                    Ok(())
                },
            )
        })
    }

    /// Writes what is observed, [`OBSERVED`] values a call, what came of the step, [`OUTCOMES`] values, and who is done.
    ///
    /// # Panics
    /// If there is not room for exactly that.
    pub fn write(&self, observations: &mut [f32], outcomes: &mut [f32], done: &mut [bool]) {
        assert_eq!(observations.len(), self.slots.len() * OBSERVED, "room for the observations");
        assert_eq!(outcomes.len(), self.slots.len() * OUTCOMES.len(), "room for the outcomes");
        assert_eq!(done.len(), self.slots.len(), "room for the flags");
        for (index, slot) in self.slots.iter().enumerate() {
            observations[index * OBSERVED..][..OBSERVED].copy_from_slice(&slot.observation);
            outcomes[index * OUTCOMES.len()..][..OUTCOMES.len()].copy_from_slice(&slot.outcome);
            done[index] = slot.done;
        }
    }
}
