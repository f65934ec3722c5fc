//! Types for the bytes of a frame with and without its parity.

use lockstep_units::ByteCount;

/// Bytes of a frame with its parity.
///
/// Only [`Protection::frame_within`](crate::Protection::frame_within) converts them to [`Net`] bytes, so parity cannot
/// be subtracted twice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gross(pub ByteCount);

/// Bytes of a coded frame, without its parity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Net(pub ByteCount);
