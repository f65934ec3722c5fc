//! What a datagram carries of a frame: bytes in a call, only how many they are in a modelled one.

use std::fmt::Debug;
use std::ops::Range;

use lockstep_units::ByteCount;

/// A frame's content or a part of it.
pub trait Payload: Clone + Debug {
    /// How many bytes it has or stands for.
    fn length(&self) -> usize;

    /// The bytes in `range`, which must lie within [`Self::length`].
    #[must_use]
    fn part(&self, range: Range<usize>) -> Self;

    /// The parts one after the other; nothing of no parts.
    #[must_use]
    fn join(parts: impl Iterator<Item = Self>) -> Self;
}

impl Payload for Vec<u8> {
    fn length(&self) -> usize {
        self.len()
    }

    fn part(&self, range: Range<usize>) -> Self {
        self[range].to_vec()
    }

    fn join(mut parts: impl Iterator<Item = Self>) -> Self {
        let mut joined = parts.next().unwrap_or_default();
        parts.for_each(|part| joined.extend_from_slice(&part));
        joined
    }
}

/// A frame, or a part of one, of which nothing but its length is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Length(pub u32);

impl From<ByteCount> for Length {
    /// Saturates.
    fn from(size: ByteCount) -> Self {
        Self(u32::try_from(size.get()).unwrap_or(u32::MAX))
    }
}

impl Payload for Length {
    fn length(&self) -> usize {
        self.0 as usize
    }

    fn part(&self, range: Range<usize>) -> Self {
        Self(range.len() as u32)
    }

    fn join(parts: impl Iterator<Item = Self>) -> Self {
        Self(parts.map(|part| part.0).fold(0, u32::saturating_add))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_payload_make_the_whole_again() {
        let whole: Vec<u8> = (0..10).collect();
        let parts = [0..4, 4..8, 8..10].map(|range| whole.part(range));
        assert_eq!(parts.each_ref().map(Payload::length), [4, 4, 2]);
        assert_eq!(Vec::join(parts.into_iter()), whole);
        assert_eq!(Vec::join(std::iter::empty()).length(), 0);
        let whole = Length(10);
        let parts = [0..4, 4..8, 8..10].map(|range| whole.part(range));
        assert_eq!(parts, [4, 4, 2].map(Length));
        assert_eq!(Length::join(parts.into_iter()), whole);
        assert_eq!(Length::join(std::iter::empty()), Length(0));
    }
}
