//! Prediction of blocks from their neighbours and from reference frames.

pub(crate) mod inter;
pub(crate) mod intra;
#[cfg(target_arch = "aarch64")]
mod six_tap_neon;
#[cfg(simd128)]
mod six_tap_simd128;
#[cfg(target_arch = "x86_64")]
mod six_tap_x86;
