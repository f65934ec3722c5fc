//! What a datagram carries of a frame: its bytes, or no more than what a simulation needs to know of them.

use std::fmt::Debug;
use std::ops::Range;

/// A frame, or a part of one, as the transport sees it: something that has a length and can be cut and put together.
pub trait Payload: Clone + Debug {
    /// Bytes that it takes on the wire.
    fn length(&self) -> usize;
    /// The part of it in `range`, which lies within its length.
    #[must_use]
    fn part(&self, range: Range<usize>) -> Self;
    /// The parts put together in their order; all of them are of one whole.
    fn join(parts: impl Iterator<Item = Self>) -> Self;
}

impl Payload for Vec<u8> {
    fn length(&self) -> usize {
        self.len()
    }

    fn part(&self, range: Range<usize>) -> Self {
        self[range].to_vec()
    }

    fn join(parts: impl Iterator<Item = Self>) -> Self {
        parts.flatten().collect()
    }
}
