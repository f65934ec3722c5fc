//! Bytes that a link carries for one datagram.

use lockstep_units::ByteCount;

use crate::wire::{DATAGRAM_OVERHEAD, NETWORK_HEADERS};

/// Bytes that a link carries for a UDP datagram of `size`: the datagram and the headers of IP and UDP.
#[must_use]
pub fn udp_size_on_link(size: ByteCount) -> ByteCount {
    size + ByteCount::new(NETWORK_HEADERS)
}

/// Bytes that a link carries for a transport datagram of `size`: the datagram, the overhead of QUIC and the headers of
/// IP and UDP.
#[must_use]
pub fn size_on_link(size: ByteCount) -> ByteCount {
    size + ByteCount::new(DATAGRAM_OVERHEAD)
}

/// Overhead of a transport datagram that shares a packet with another one, bytes. A QUIC DATAGRAM frame has a type and
/// a length before its data (RFC 9221, section 4).
pub const PIGGYBACK_OVERHEAD: u64 = 3;
