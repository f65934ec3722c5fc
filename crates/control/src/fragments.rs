//! Constants of fragments, as fractions of bytes and seconds.

use lockstep_transport::wire::DATAGRAM_OVERHEAD;

/// Link overhead of one datagram, bytes.
pub(crate) const DATAGRAM_OVERHEAD_BYTES: f64 = DATAGRAM_OVERHEAD as f64;
/// Upper bound of the time between two fragments of a frame, seconds (Salsify's published code).
pub(crate) const MAX_PACING_SECONDS: f64 = 0.002;
/// Shortest time between two pictures, frame intervals. A decision that is repeated sooner belongs to the same picture.
pub(crate) const PICTURE: f64 = 0.75;
