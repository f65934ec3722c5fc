//! Constants of the inverse DCT (RFC 6386, section 14.3).

/// sqrt(2) cos(pi / 8) - 1 and sqrt(2) sin(pi / 8), in 16 fractional bits (section 14.3).
pub(super) const COSINE: i32 = 20_091;
pub(super) const SINE: i32 = 35_468;
