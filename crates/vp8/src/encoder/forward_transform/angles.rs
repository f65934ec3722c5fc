//! Constants of the forward DCT.

/// sqrt(2) * sin(pi / 8), in 1/4096.
pub(super) const SINE: i32 = 2217;
/// sqrt(2) * cos(pi / 8), in 1/4096.
pub(super) const COSINE: i32 = 5352;
