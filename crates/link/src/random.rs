//! The random numbers of a link: a generator for each purpose.

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

/// `factor` times `time`, to the nanosecond; zero for a negative factor.
pub(crate) fn times(time: Duration, factor: f64) -> Duration {
    Duration::from_nanos((time.as_nanos() as f64 * factor) as u64)
}
