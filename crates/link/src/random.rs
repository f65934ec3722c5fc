//! Random numbers that are the same on every platform: PCG64 and, for logarithms and the like, `libm`, whose results
//! (unlike those of the C library behind the standard ones) depend on nothing but their arguments.

use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;

/// What a generator is for. Each purpose has a stream of its own, so that asking for jitter does not move the
/// losses. The numbers are part of what a seed means: a new purpose takes a new one.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Purpose {
    RandomLoss = 1,
    BurstLoss = 2,
    OnOffLoss = 3,
    ScheduledLoss = 4,
    TraceLoss = 5,
    Jitter = 6,
    TraceJitter = 7,
    Reordering = 8,
    Duplication = 9,
    Trace = 10,
    OnOffTimes = 11,
    QueueDrops = 12,
    Medium = 13,
    FittedTrace = 14,
}

/// The generator of `seed` for `purpose`.
pub(crate) fn generator(seed: u64, purpose: Purpose) -> Pcg64 {
    // Streams of one state are shifted copies of each other, so that each purpose gets a state of its own too: the
    // golden ratio keeps (seed, purpose) pairs apart, and seed_from_u64 spreads neighbours over all bits.
    let seed = seed.wrapping_add((purpose as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let state: u128 = Pcg64::seed_from_u64(seed).random();
    Pcg64::new(state, purpose as u128)
}

/// True with probability `share`. Takes one draw whatever the share.
#[must_use]
pub fn happens(generator: &mut Pcg64, share: f64) -> bool {
    generator.random::<f64>() < share
}

/// Exponential with mean 1, at most 36.8.
#[must_use]
pub fn exponential(generator: &mut Pcg64) -> f64 {
    // 1 - u lies in (0, 1], so that the logarithm is finite.
    -libm::log(1.0 - generator.random::<f64>())
}

/// Normal with mean 0 and deviation 1 (Box and Muller 1958, the cosine half).
#[must_use]
pub fn normal(generator: &mut Pcg64) -> f64 {
    let radius = libm::sqrt(2.0 * exponential(generator));
    radius * libm::cos(std::f64::consts::TAU * generator.random::<f64>())
}

/// `factor` times `time`, to the nanosecond; zero for a negative factor.
pub(crate) fn times(time: Duration, factor: f64) -> Duration {
    Duration::from_nanos((time.as_nanos() as f64 * factor) as u64)
}
