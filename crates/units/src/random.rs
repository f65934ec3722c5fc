//! Random numbers that are the same on every platform: PCG64 and, for logarithms and the like, `libm`, whose results
//! (unlike those of the C library behind the standard ones) depend on nothing but their arguments.

use rand::Rng;
use rand_pcg::Pcg64;

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
