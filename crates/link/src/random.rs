//! Random numbers of a link: a generator for each purpose.

use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;

/// Purpose of a generator. Each purpose has a separate stream, so that jitter, for example, does not affect losses. The
/// numbers are part of the meaning of a seed: a new purpose needs a new number.
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

/// Generator of `seed` for `purpose`.
pub(crate) fn generator(seed: u64, purpose: Purpose) -> Pcg64 {
    // Streams with one state are shifted copies of each other, so each purpose has a different state as well. The
    // golden ratio separates (seed, purpose) pairs, and `seed_from_u64` spreads close values over all bits.
    let seed = seed.wrapping_add((purpose as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let state: u128 = Pcg64::seed_from_u64(seed).random();
    Pcg64::new(state, purpose as u128)
}

/// `factor` times `time`, truncated to nanoseconds; zero for a negative factor.
pub(crate) fn times(time: Duration, factor: f64) -> Duration {
    Duration::from_nanos((time.as_nanos() as f64 * factor) as u64)
}
