//! What fragments take of a link and of time, for all who work it out in fractions of bytes and seconds.

use lockstep_transport::wire::CARRIAGE;

/// What a link carries with a datagram beside it, bytes.
pub(crate) const DATAGRAM_CARRIAGE: f64 = CARRIAGE as f64;
/// The longest time between two fragments of a frame, seconds (Salsify's published code).
pub(crate) const LONGEST_PACE: f64 = 0.002;
/// A picture lasts so many frame intervals at least: what is decided may be asked for again while it is coded.
pub(crate) const PICTURE: f64 = 0.75;
