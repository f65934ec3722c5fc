//! Random numbers with equal values on every platform.
//!
//! The generator is PCG64. Mathematical functions are those of `libm`: the standard ones are the C library's, and their
//! results differ between platforms.

use rand::Rng;
use rand_pcg::Pcg64;

/// Returns `true` with probability `share`. Always draws one number.
#[must_use]
pub fn happens(generator: &mut Pcg64, share: f64) -> bool {
    generator.random::<f64>() < share
}

/// Draws from the exponential distribution with mean 1; at most 36.8.
#[must_use]
pub fn exponential(generator: &mut Pcg64) -> f64 {
    // 1 - u is in (0, 1], so the logarithm is finite.
    -libm::log(1.0 - generator.random::<f64>())
}

/// Draws from the normal distribution with mean 0 and deviation 1 (Box and Muller 1958, the cosine half).
#[must_use]
pub fn normal(generator: &mut Pcg64) -> f64 {
    let radius = libm::sqrt(2.0 * exponential(generator));
    radius * libm::cos(std::f64::consts::TAU * generator.random::<f64>())
}

/// One step of the finalizer of SplitMix64 (Steele, Lea and Flood 2014): each bit of the result depends on all bits.
#[must_use]
pub fn mix(seed: u64, value: u64) -> u64 {
    let mut word = seed ^ value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}
