//! Bytes that a link carries for one datagram.

use lockstep_units::ByteCount;

use crate::wire::{CARRIAGE, NETWORK_HEADERS};

/// Bytes that a link carries for a UDP datagram of `size`: the datagram and the headers of IP and UDP.
#[must_use]
pub fn on_the_link(size: ByteCount) -> ByteCount {
    size + ByteCount::new(NETWORK_HEADERS)
}

/// Bytes that a link carries for a transport datagram of `size`: the datagram, the overhead of QUIC and the headers of
/// IP and UDP.
#[must_use]
pub fn carried(size: ByteCount) -> ByteCount {
    size + ByteCount::new(CARRIAGE)
}

/// Overhead of a transport datagram that shares a packet with another one, bytes. A QUIC DATAGRAM frame has a type and
/// a length before its data (RFC 9221, section 4).
pub const RIDING: u64 = 3;
