//! Bytes of a frame with and without its parity, as types of their own.

use lockstep_units::ByteCount;

/// Bytes of a frame with its parity.
///
/// Only [`Protection::frame_within`](crate::Protection::frame_within) makes [`Net`] bytes of them, so that parity cannot be
/// subtracted twice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gross(pub ByteCount);

/// Bytes of a coded frame, without its parity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Net(pub ByteCount);
