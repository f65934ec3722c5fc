//! Many environments, stepped together on all cores.

use std::sync::Arc;

use rayon::ThreadPool;
use rayon::prelude::*;

use lockstep_link::ConfigError;
use lockstep_units::Bitrate;

use super::{Environment, EnvironmentSetting, FEATURES, Features};

/// Limit on the environments of one vector. More would exhaust memory.
pub const MAX_ENVIRONMENTS: usize = 1 << 20;
/// Environments per task: large enough to outweigh scheduling, small enough to balance the load.
const BATCH: usize = 16;

/// Reason why an environment cannot be created or stepped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnvironmentError {
    /// The setting is invalid.
    #[error("cannot set up the environment: {0}")]
    Setting(&'static str),
    /// A link is invalid.
    #[error("cannot set up the environment's link: {0}")]
    Link(#[from] ConfigError),
    /// The controller of the cross traffic cannot be made.
    #[error("cannot set up the environment's cross traffic: {0}")]
    CrossTraffic(String),
    /// Zero environments or too many.
    #[error("cannot create {0} environments: expected 1 to {MAX_ENVIRONMENTS}")]
    Count(usize),
    /// The number of actions or mask flags is not the number of environments.
    #[error("expected one action per environment, found {actions} actions for {environments} environments")]
    Actions {
        /// Number of actions or flags.
        actions: usize,
        /// Number of environments.
        environments: usize,
    },
    /// The number of seeds is not the number of environments.
    #[error("expected one seed per environment, found {seeds} seeds for {environments} environments")]
    Seeds {
        /// Number of seeds.
        seeds: usize,
        /// Number of environments.
        environments: usize,
    },
    /// An action is not a bit rate.
    #[error("the action of environment {environment} is {value}: expected a bit rate of zero or more")]
    Rate {
        /// Index of the environment.
        environment: usize,
        /// Value of the action, bit/s.
        value: f64,
    },
    /// The threads cannot be started.
    #[error("cannot start the threads of the environments: {0}")]
    Threads(#[from] rayon::ThreadPoolBuildError),
}

struct Slot {
    environment: Environment,
    features: Features,
    /// Observation of the agent's model.
    observed: Vec<f32>,
    done: bool,
}

impl Slot {
    fn observe(&mut self) {
        self.environment.observe(&mut self.observed);
    }
}

/// Environments that are stepped together, each with its own random generator. Results do not depend on the number of
/// threads.
///
/// After the end of an episode, the next step starts a new one and ignores its action (Gymnasium's
/// `AutoresetMode.NEXT_STEP`).
pub struct VectorEnvironment {
    slots: Vec<Slot>,
    pool: ThreadPool,
    observation_shape: Vec<usize>,
}

/// Source of randomness for new episodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seeds {
    /// Each environment continues its own random sequence.
    Continue,
    /// Each environment derives its seed from this one; the first uses it unchanged. Derived seeds are far apart, so
    /// vectors with consecutive seeds share no episodes.
    Derived(u64),
    /// One seed per environment, as for a single environment. `None` continues its random sequence.
    Each(Vec<Option<u64>>),
}

impl Seeds {
    fn of(&self, index: usize) -> Option<u64> {
        match self {
            Self::Continue => None,
            Self::Derived(seed) => Some(seed_of(*seed, index)),
            Self::Each(seeds) => seeds[index],
        }
    }
}

/// Seed of environment `index` in a vector with `seed`.
fn seed_of(seed: u64, index: usize) -> u64 {
    // The golden ratio keeps consecutive seeds apart; seed_from_u64 spreads them.
    seed.wrapping_add((index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Creates `count` things on `threads` threads (0: one per core), each from its own seed. Returns the thread pool, too.
/// The results do not depend on the number of threads.
///
/// # Errors
/// If `count` is zero or too large, `make` fails, or threads cannot be started.
pub(super) fn build_in_parallel<Thing: Send>(
    count: usize,
    seed: u64,
    threads: usize,
    make: impl Fn(u64) -> Result<Thing, EnvironmentError> + Send + Sync,
) -> Result<(Vec<Thing>, ThreadPool), EnvironmentError> {
    if count == 0 || count > MAX_ENVIRONMENTS {
        return Err(EnvironmentError::Count(count));
    }
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    let one = |index| make(seed_of(seed, index));
    let things = pool.install(|| (0..count).into_par_iter().map(one).collect::<Result<_, _>>())?;
    Ok((things, pool))
}

impl VectorEnvironment {
    /// Creates `count` environments on `threads` threads (0: one per core).
    ///
    /// # Errors
    /// If the setting is invalid, or threads cannot be started.
    pub fn new(setting: EnvironmentSetting, count: usize, seed: u64, threads: usize) -> Result<Self, EnvironmentError> {
        let setting = Arc::new(setting);
        let observation_shape = setting.observation.map_or_else(|| vec![0], |kind| kind.make().shape());
        let numbers = observation_shape.iter().product();
        let slot = |seed| {
            let environment = Environment::new(setting.clone(), seed)?;
            Ok(Slot { environment, features: Features::default(), observed: vec![0.0; numbers], done: false })
        };
        let (slots, pool) = build_in_parallel(count, seed, threads, slot)?;
        Ok(Self { slots, pool, observation_shape })
    }

    /// Shape of the model's observation in one environment; `[0]` if there is none.
    #[must_use]
    pub fn observation_shape(&self) -> &[usize] {
        &self.observation_shape
    }

    /// Number of environments.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Always false: there is at least one environment.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Starts new episodes with randomness from `seeds`. With `mask`, only where it is true.
    ///
    /// # Errors
    /// If the length of the mask or of the seeds is not the number of environments. Nothing changes then.
    pub fn reset(&mut self, seeds: &Seeds, mask: Option<&[bool]>) -> Result<(), EnvironmentError> {
        let environments = self.slots.len();
        if let Seeds::Each(seeds) = seeds
            && seeds.len() != environments
        {
            return Err(EnvironmentError::Seeds { seeds: seeds.len(), environments });
        }
        if let Some(mask) = mask.filter(|mask| mask.len() != environments) {
            return Err(EnvironmentError::Actions { actions: mask.len(), environments });
        }
        let Self { slots, pool, .. } = self;
        pool.install(|| {
            slots.par_iter_mut().with_min_len(BATCH).enumerate().try_for_each(|(index, slot)| {
                if mask.is_none_or(|mask| mask[index]) {
                    slot.features = slot.environment.reset(seeds.of(index))?;
                    slot.done = false;
                    slot.observe();
                }
                Ok(())
            })
        })
    }

    /// Sets the rates (bit/s) and advances every environment by a step.
    ///
    /// # Errors
    /// If the number of rates is wrong, or a rate is NaN or negative. Nothing changes then.
    pub fn step(&mut self, rates: &[f64]) -> Result<(), EnvironmentError> {
        let environments = self.slots.len();
        if rates.len() != environments {
            return Err(EnvironmentError::Actions { actions: rates.len(), environments });
        }
        if let Some((environment, &value)) = rates.iter().enumerate().find(|(_, rate)| rate.is_nan() || **rate < 0.0) {
            return Err(EnvironmentError::Rate { environment, value });
        }
        let Self { slots, pool, .. } = self;
        pool.install(|| {
            slots.par_iter_mut().with_min_len(BATCH).zip(rates).try_for_each(|(slot, &rate)| {
                if slot.done {
                    slot.features = slot.environment.reset(None)?;
                    slot.done = false;
                } else {
                    (slot.features, slot.done) = slot.environment.step(Bitrate::from_bps(rate as u64));
                }
                slot.observe();
                Ok(())
            })
        })
    }

    /// Writes the features of each environment, one row of [`FEATURES`] each, and whether its episode is over.
    ///
    /// # Panics
    /// If the length of `features` or `done` is wrong.
    pub fn write(&self, features: &mut [f64], done: &mut [bool]) {
        assert_eq!(features.len(), self.slots.len() * FEATURES.len(), "length of features");
        assert_eq!(done.len(), self.slots.len(), "length of done");
        for ((slot, row), done) in self.slots.iter().zip(features.chunks_exact_mut(FEATURES.len())).zip(done) {
            row.copy_from_slice(slot.features.values());
            *done = slot.done;
        }
    }
}

impl VectorEnvironment {
    /// Writes the model's observation of each environment, one row each.
    ///
    /// # Panics
    /// If the length of `observed` is wrong.
    pub fn write_observations(&self, observed: &mut [f32]) {
        let numbers: usize = self.observation_shape.iter().product();
        assert_eq!(observed.len(), self.slots.len() * numbers, "length of observed");
        for (slot, into) in self.slots.iter().zip(observed.chunks_exact_mut(numbers.max(1))) {
            into.copy_from_slice(&slot.observed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lockstep_control::learned::ObservationKind;
    use lockstep_link::Trace;

    use super::super::AgentPlace;
    use super::*;
    use crate::codec_model::CodecModel;
    use crate::modelled_clip::ClipCurves;

    fn setting() -> EnvironmentSetting {
        let model = CodecModel::built_in().unwrap();
        let clips = model.clips.iter().map(|clip| Arc::new(ClipCurves::new(clip, 640, 360))).collect();
        let traces = ["cellular:mean=2mbps,seed=1", "constant:1mbps"].map(|spec| Trace::from_spec(spec).unwrap());
        EnvironmentSetting { steps: 20, ..EnvironmentSetting::new(traces.into(), clips) }
    }

    fn run(setting: EnvironmentSetting, threads: usize, rates: impl Fn(usize, usize) -> f64) -> (Vec<f64>, Vec<bool>) {
        const COUNT: usize = 40;
        let mut vector = VectorEnvironment::new(setting, COUNT, 3, threads).unwrap();
        vector.reset(&Seeds::Derived(11), None).unwrap();
        let (mut all, mut ends) = (Vec::new(), Vec::new());
        for step in 0..45 {
            let rates: Vec<f64> = (0..COUNT).map(|index| rates(step, index)).collect();
            vector.step(&rates).unwrap();
            let mut features = vec![0.0; COUNT * FEATURES.len()];
            let mut done = vec![false; COUNT];
            vector.write(&mut features, &mut done);
            all.extend(features);
            ends.extend(done);
        }
        (all, ends)
    }

    #[test]
    fn results_do_not_depend_on_the_number_of_threads() {
        let rates = |step: usize, index: usize| 2e5 * (1 + (step * 7 + index) % 13) as f64;
        assert_eq!(run(setting(), 1, rates), run(setting(), 3, rates));
    }

    #[test]
    fn equal_seeds_give_the_recorded_features() {
        let rates = |step: usize, index: usize| 2e5 * (1 + (step * 7 + index) % 13) as f64;
        for (place, recorded) in
            [(AgentPlace::Receiver, 0xbf01_c609_a556_4727), (AgentPlace::Sender, 0x1d17_6523_e731_a786)]
        {
            let setting = EnvironmentSetting { place, loss: 0.0..=0.05, ..setting() };
            let (features, _) = run(setting, 2, rates);
            let digest = features.iter().fold(0_u64, |digest, value| digest.rotate_left(5) ^ value.to_bits());
            assert_eq!(digest, recorded, "{place:?}: {digest:#018x}");
        }
    }

    fn shared_by(kind: &str) -> EnvironmentSetting {
        let traces = vec![Trace::from_spec("constant:2mbps").unwrap()];
        EnvironmentSetting { traces, shared: 1.0, cross_traffic: vec![kind.parse().unwrap()], steps: 100, ..setting() }
    }

    /// Sums of a feature over the steps in which the link is shared, and over the others.
    fn sums(features: &[f64], name: &str) -> [f64; 2] {
        let place = |name| FEATURES.iter().position(|feature| feature.name == name).unwrap();
        let (shared, other): (Vec<_>, Vec<_>) = features
            .chunks_exact(FEATURES.len())
            .partition(|row| row[place("next_capacity_bps")] < 0.75 * row[place("capacity_bps")]);
        [shared, other]
            .map(|rows: Vec<&[f64]>| rows.iter().map(|row| row[place(name)]).sum::<f64>() / rows.len() as f64)
    }

    #[test]
    fn cross_traffic_delays_the_agent_while_it_is_active() {
        for kind in ["tcp", "gcc"] {
            let (features, _) = run(shared_by(kind), 2, |_, _| 1e6);
            let [shared, alone] = sums(&features, "delay_ms");
            assert!(shared > 1.2 * alone, "{kind}: {shared} ms beside it, {alone} ms alone");
            assert_eq!(sums(&features, "queued_bytes")[0], 0.0);
        }
    }

    #[test]
    fn cross_traffic_of_unknown_kind_is_refused() {
        assert!("tpc".parse::<super::super::Company>().is_err());
        let none = EnvironmentSetting { shared: 0.5, ..setting() };
        assert!(matches!(VectorEnvironment::new(none, 1, 0, 1), Err(EnvironmentError::Setting(_))));
    }

    #[test]
    fn an_ended_episode_restarts_in_the_next_step() {
        let (features, done) = run(setting(), 1, |_, _| 5e5);
        let of_first: Vec<bool> = done.iter().step_by(40).copied().collect();
        let ends: Vec<usize> = (0..45).filter(|&step| of_first[step]).collect();
        assert_eq!(ends, [19, 40]);
        let time = |step: usize| features[step * 40 * FEATURES.len()];
        assert_eq!((time(19), time(20), time(21)), (4.0, 0.0, 0.2));
    }

    #[test]
    fn observations_start_empty_and_do_not_depend_on_threads() {
        let seen = |threads| {
            let setting = EnvironmentSetting {
                observation: Some(ObservationKind::Concerto),
                place: AgentPlace::Sender,
                steps: 5,
                ..setting()
            };
            let mut vector = VectorEnvironment::new(setting, 3, 3, threads).unwrap();
            let numbers = 3 * vector.observation_shape().iter().product::<usize>();
            vector.reset(&Seeds::Derived(11), None).unwrap();
            let mut seen = Vec::new();
            for _ in 0..8 {
                vector.step(&[3e5, 6e5, 2e6]).unwrap();
                let mut observed = vec![f32::NAN; numbers];
                vector.write_observations(&mut observed);
                seen.push(observed);
            }
            seen
        };
        let one = seen(1);
        assert_eq!(one, seen(2));
        let empty = |observed: &[f32]| observed.iter().all(|&number| number == 0.0);
        // The fifth step ends the episode; the sixth starts the next one.
        assert_eq!(
            one.iter().map(|observed| empty(observed)).collect::<Vec<_>>(),
            [0, 0, 0, 0, 0, 1, 0, 0].map(|flag| flag == 1)
        );
        let calls: Vec<&[f32]> = one[4].chunks_exact(one[4].len() / 3).collect();
        assert!(calls[0] != calls[1] && calls[1] != calls[2]);
        assert!(one.iter().flatten().all(|number| number.is_finite()));
    }

    #[test]
    fn rates_above_capacity_fill_the_queue_and_lower_ones_do_not() {
        let value = |rate: f64, place, name: &str| {
            let traces = vec![Trace::from_spec("constant:1mbps").unwrap()];
            let setting = EnvironmentSetting {
                traces,
                place,
                delay: Duration::from_millis(20)..=Duration::from_millis(20),
                queue_packets: 256..=256,
                ..setting()
            };
            let mut environment = Environment::new(Arc::new(setting), 5).unwrap();
            environment.reset(Some(5)).unwrap();
            let steps = (0..20).map(|_| environment.step(Bitrate::from_bps(rate as u64)).0.get(name).unwrap());
            // Average of ten steps: one packet at a step's boundary is 5 % of a step at 1 Mb/s.
            steps.skip(10).sum::<f64>() / 10.0
        };
        for place in [AgentPlace::Receiver, AgentPlace::Sender] {
            let received = value(6e5, place, "received_bps");
            assert!((5.3e5..=6.9e5).contains(&received), "{received}");
            assert!(value(6e5, place, "delay_ms") < 60.0);
            let greedy = value(1.5e6, place, "received_bps");
            // Bytes of a 1 Mb/s link in 200 ms, plus the rest of a packet in transmission.
            let most = 1e6 + 8.0 * 1_500.0 / 0.2;
            assert!((8.5e5..=most).contains(&greedy), "{greedy}");
            assert!(value(1.5e6, place, "delay_ms") > 150.0);
            assert!(value(6e5, place, "frames_shown") >= 5.0);
        }
        assert_eq!(value(6e5, AgentPlace::Sender, "capacity_bps"), 1e6);
    }

    #[test]
    fn invalid_settings_and_actions_are_refused() {
        let none = EnvironmentSetting { traces: Vec::new(), ..setting() };
        assert!(matches!(VectorEnvironment::new(none, 1, 0, 1), Err(EnvironmentError::Setting(_))));
        assert!(matches!(VectorEnvironment::new(setting(), 0, 0, 1), Err(EnvironmentError::Count(0))));
        let mut vector = VectorEnvironment::new(setting(), 2, 0, 1).unwrap();
        assert!(matches!(vector.step(&[1e6]), Err(EnvironmentError::Actions { .. })));
        assert!(matches!(vector.step(&[1e6, f64::NAN]), Err(EnvironmentError::Rate { environment: 1, .. })));
    }
}
