//! What the links of calls carry with a datagram.

use lockstep_units::ByteCount;

use crate::wire::{CARRIAGE, NETWORK_HEADERS};

/// What a link carries of a UDP datagram of `size`: its bytes and those of the headers before it.
#[must_use]
pub fn on_the_link(size: ByteCount) -> ByteCount {
    size + ByteCount::new(NETWORK_HEADERS)
}

/// What a link carries of one of the transport's datagrams of `size`: its bytes and all that
/// is wrapped around it on the way.
#[must_use]
pub fn carried(size: ByteCount) -> ByteCount {
    size + ByteCount::new(CARRIAGE)
}

/// What a datagram of the transport's adds to another with which it goes in one packet: a frame of QUIC's has its type and
/// a length before its bytes (RFC 9221, section 4).
pub const RIDING: u64 = 3;
