//! Limits of a rendezvous: how much it holds, and for how long.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use lockstep_units::Bitrate;

/// An end is forgotten after this silence, and a call together with its last end.
pub(super) const FORGOTTEN: Duration = Duration::from_secs(60);
/// Packets are relayed only to an end that was active within this time. Later its address may belong to somebody else.
/// Active ends announce themselves every 5 s.
pub(super) const CONSENT: Duration = Duration::from_secs(15);

/// Limits of a rendezvous.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Concurrent calls, including those that wait for their second end, and as many codes; each takes about 1 kB.
    pub calls: usize,
    /// Concurrent calls started from one IPv4 address, or one IPv6 network of 64 bits; and as many codes and tries of
    /// codes.
    pub calls_per_address: usize,
    /// Rate of the relay per call and direction; zero disables the relay.
    pub relay_rate: Bitrate,
    /// Rate of the relay for all calls together.
    pub total_relay_rate: Bitrate,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            calls: 1_000,
            calls_per_address: 20,
            relay_rate: Bitrate::from_kbps(4_000),
            total_relay_rate: Bitrate::from_kbps(100_000),
        }
    }
}

/// Key of the per-address limits: an IPv4 address, or the IPv6 network of one customer (RFC 6177).
pub(super) fn network(address: SocketAddr) -> IpAddr {
    match address.ip() {
        IpAddr::V4(ip) => ip.into(),
        IpAddr::V6(ip) => Ipv6Addr::from(u128::from(ip) & !u128::from(u64::MAX)).into(),
    }
}
