//! Content of a frame in datagrams: bytes in a call with pixels, a length in a modelled call.

use std::fmt::Debug;
use std::ops::Range;

use lockstep_units::ByteCount;

use crate::parity::{self, Parity};

/// Content of a frame, or a part of it.
pub trait Payload: Clone + Debug {
    /// Number of bytes that the content has or represents.
    fn length(&self) -> usize;

    /// The part in `range`, which must lie within [`Self::length`].
    #[must_use]
    fn part(&self, range: Range<usize>) -> Self;

    /// Concatenates parts; empty for no parts.
    #[must_use]
    fn join(parts: impl Iterator<Item = Self>) -> Self;

    /// Computes `count` parity fragments for a frame that is cut into fragments of `payload` bytes, an even number.
    /// Empty if the code does not support these lengths.
    #[must_use]
    fn protect(&self, payload: usize, count: u16) -> Vec<Self>;

    /// Restores a frame of `fragments` fragments from parts and their indices; parity has the indices after the others.
    /// `None` if the parts are too few or contradict each other.
    #[must_use]
    fn restore(parts: &[(u16, Self)], fragments: u16, parity: Parity) -> Option<Self>;
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

    fn protect(&self, payload: usize, count: u16) -> Vec<Self> {
        parity::protect(self, payload, count)
    }

    fn restore(parts: &[(u16, Self)], fragments: u16, parity: Parity) -> Option<Self> {
        parity::restore(parts, fragments, parity)
    }
}

/// Length of a frame, or of a part of it, without content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Length(pub u32);

impl From<ByteCount> for Length {
    /// Saturates at [`u32::MAX`].
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

    fn protect(&self, payload: usize, count: u16) -> Vec<Self> {
        vec![Self(parity::symbol_length(self.length(), payload) as u32); count.into()]
    }

    fn restore(parts: &[(u16, Self)], fragments: u16, parity: Parity) -> Option<Self> {
        let whole = parts.len() >= usize::from(fragments);
        let (_, symbol) = parts.iter().find(|&&(place, _)| place >= fragments).filter(|_| whole)?;
        Some(Self(symbol.0.saturating_mul(u32::from(fragments) - 1).saturating_add(parity.last.into())))
    }
}

/// Assembles a frame: joins its fragments if all are present, and otherwise restores it with parity. `parts` are in the
/// order of their indices.
pub(crate) fn assemble<P: Payload>(parts: &mut Vec<(u16, P)>, fragments: u16, parity: Option<Parity>) -> Option<P> {
    let own = parts.partition_point(|&(place, _)| place < fragments);
    if own == usize::from(fragments) {
        return Some(P::join(parts.drain(..).take(own).map(|(_, part)| part)));
    }
    P::restore(parts, fragments, parity?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_parts_equal_the_payload() {
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
