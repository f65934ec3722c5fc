//! Filter in front of a socket: a flood of garbage costs a check of a few bytes per datagram, on the thread that reads
//! the socket.
//!
//! This end chooses the connection identifiers by which the other end addresses it. The second half of an identifier is
//! a keyed code (HMAC) of the first half, so garbage cannot match. The filter does not stop an attacker that has seen a
//! packet of the call; the authentication of QUIC does.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lockstep_socket::Admission;
use lockstep_units::Timestamp;
use quinn_proto::{ConnectionId, ConnectionIdGenerator, InvalidCid};
use ring::hmac::{Key, sign};
use ring::rand::{SecureRandom, SystemRandom};

use crate::allowance::Allowance;
use crate::rendezvous::{Kind, MAGIC, RELAYED_HEADER};

/// Length of a connection identifier in bytes. It is short because each packet carries it.
pub(crate) const NAME: usize = 4;
/// Random bytes of it.
const DRAWN: usize = 2;
/// Packets per second, and in one burst, that may start a connection, before anybody has joined and during a call. Each
/// costs some tens of microseconds.
const BEGINNINGS_WAITING: f64 = 2_000.0;
const BEGINNINGS_IN_CALL: f64 = 100.0;
/// Packets per second with unknown identifiers that pass nevertheless. A restarted peer resets a connection with such a
/// packet (RFC 9000, section 10.3).
const STRAYS: f64 = 20.0;
/// Messages per second from a rendezvous, and probes of the other end, that pass. Each costs a few microseconds.
const MEETING: f64 = 200.0;

/// Generates connection identifiers and recognises them.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    key: Arc<Key>,
    /// Second byte of each generated identifier; without it the byte is random.
    slot: Option<u8>,
}

impl Names {
    pub(crate) fn new(key: Key) -> Self {
        Self { key: Arc::new(key), slot: None }
    }

    /// The same keys, for identifiers that hold the number of a slot.
    pub(crate) fn of_slot(&self, slot: u8) -> Self {
        Self { key: self.key.clone(), slot: Some(slot) }
    }

    /// The slot in the identifier of a packet with that identifier, if it is one of ours.
    pub(crate) fn slot_of(&self, datagram: &[u8]) -> Option<u8> {
        let name = match datagram {
            [first, _, _, _, _, length, rest @ ..] if first & 0x80 != 0 => rest.get(..usize::from(*length))?,
            [first, rest @ ..] if first & 0x80 == 0 => rest.get(..NAME)?,
            _ => return None,
        };
        self.is_ours(name).then(|| name[DRAWN - 1])
    }

    fn code(&self, drawn: &[u8]) -> [u8; NAME - DRAWN] {
        let mut code = [0; NAME - DRAWN];
        code.copy_from_slice(&sign(&self.key, drawn).as_ref()[..NAME - DRAWN]);
        code
    }

    fn is_ours(&self, name: &[u8]) -> bool {
        name.len() == NAME && self.code(&name[..DRAWN]) == name[DRAWN..]
    }
}

impl ConnectionIdGenerator for Names {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut name = [0; NAME];
        // Without random numbers there would be no keys either, and so no connection.
        let _ = SystemRandom::new().fill(&mut name[..DRAWN]);
        name[DRAWN - 1] = self.slot.unwrap_or(name[DRAWN - 1]);
        let code = self.code(&name[..DRAWN]);
        name[DRAWN..].copy_from_slice(&code);
        ConnectionId::new(&name)
    }

    fn validate(&self, name: &ConnectionId) -> Result<(), InvalidCid> {
        if self.is_ours(name) { Ok(()) } else { Err(InvalidCid) }
    }

    fn cid_len(&self) -> usize {
        NAME
    }

    fn cid_lifetime(&self) -> Option<std::time::Duration> {
        None
    }
}

/// Filter in front of a socket.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    names: Names,
    /// Whether unknown peers may start connections.
    listens: bool,
    in_call: Arc<AtomicBool>,
    beginnings: Allowance,
    strays: Allowance,
    meeting: Allowance,
    /// Addresses of the rendezvous, if the call has one.
    rendezvous: Arc<[SocketAddr]>,
}

impl Gate {
    pub(crate) fn new(names: Names, listens: bool, in_call: Arc<AtomicBool>) -> Self {
        let (beginnings, strays) = (Allowance::new(BEGINNINGS_WAITING), Allowance::new(STRAYS));
        let meeting = Allowance::new(MEETING);
        Self { names, listens, in_call, beginnings, strays, meeting, rendezvous: Arc::new([]) }
    }

    /// Admits messages of a rendezvous at one of `servers`.
    pub(crate) fn with_rendezvous(self, servers: &[SocketAddr]) -> Self {
        Self { rendezvous: servers.into(), ..self }
    }

    /// Whether a QUIC packet passes.
    fn admits_packet(&mut self, now: Timestamp, datagram: &[u8]) -> bool {
        match datagram {
            // A long header holds the identifier's length before the identifier (RFC 8999, section 5.1).
            [first, _, _, _, _, length, rest @ ..] if first & 0x80 != 0 => {
                let ours = rest.get(..usize::from(*length)).is_some_and(|name| self.names.is_ours(name));
                let in_call = self.in_call.load(Ordering::Relaxed);
                let rate = if in_call { BEGINNINGS_IN_CALL } else { BEGINNINGS_WAITING };
                ours || (self.listens && self.beginnings.take(now, rate, rate, 1.0))
            }
            [first, name @ ..] if first & 0x80 == 0 => {
                name.get(..NAME).is_some_and(|name| self.names.is_ours(name))
                    || self.strays.take(now, STRAYS, STRAYS, 1.0)
            }
            _ => false,
        }
    }
}

impl Admission for Gate {
    fn admits(&mut self, now: Timestamp, from: SocketAddr, datagram: &[u8]) -> bool {
        if self.rendezvous.is_empty() || !datagram.starts_with(&MAGIC) {
            return self.admits_packet(now, datagram);
        }
        match datagram.get(MAGIC.len()).copied().and_then(Kind::from_number) {
            Some(Kind::Relayed) => {
                self.rendezvous.contains(&from) && self.admits_packet(now, &datagram[RELAYED_HEADER..])
            }
            Some(kind) => {
                (kind.is_between_ends() || self.rendezvous.contains(&from))
                    && self.meeting.take(now, MEETING, MEETING, 1.0)
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use ring::hmac::HMAC_SHA256;

    use super::*;

    fn names() -> Names {
        Names::new(Key::new(HMAC_SHA256, &[7; 32]))
    }

    const SOMEBODY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 9)), 9);

    /// A datagram with a short header and this identifier.
    fn short(name: &[u8]) -> Vec<u8> {
        [&[0x40][..], name, &[9; 30]].concat()
    }

    /// A datagram with a long header and this identifier.
    fn long(name: &[u8]) -> Vec<u8> {
        [&[0xc3, 0, 0, 0, 1, name.len() as u8][..], name, &[9; 30]].concat()
    }

    #[test]
    fn identifiers_are_recognised_only_by_the_end_that_chose_them() {
        let other = Names::new(Key::new(HMAC_SHA256, &[8; 32]));
        let given: Vec<ConnectionId> = (0..100).map(|_| names().generate_cid()).collect();
        assert!(given.iter().all(|name| names().validate(name).is_ok()));
        assert!(given.iter().filter(|name| other.validate(name).is_ok()).count() <= 2);
    }

    #[test]
    fn flood_is_filtered_and_packets_of_the_call_pass() {
        for listens in [true, false] {
            let mut gate = Gate::new(names(), listens, Arc::new(AtomicBool::new(true)));
            let ours = names().generate_cid();
            let mut admitted = 0;
            for step in 0..20_000_u32 {
                let now = Timestamp::from_micros(50 * u64::from(step) + 5_000_000);
                let garbage = (u64::from(step).wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_be_bytes();
                admitted += u32::from(gate.admits(now, SOMEBODY, &short(&garbage[..4])));
                admitted += u32::from(gate.admits(now, SOMEBODY, &long(&garbage)));
                assert!(gate.admits(now, SOMEBODY, &short(&ours)) && gate.admits(now, SOMEBODY, &long(&ours)));
            }
            // The burst allowance from the time before the call may pass at once.
            assert!(admitted < 400, "{admitted} in a second");
        }
    }

    #[test]
    fn datagram_too_short_for_a_packet_is_refused() {
        let mut gate = Gate::new(names(), true, Arc::default());
        for datagram in [&[][..], &[0xc3], &[0xc3, 0, 0, 0, 1]] {
            assert!(!gate.admits(Timestamp::ZERO, SOMEBODY, datagram), "{datagram:?}");
        }
        assert!(gate.admits(Timestamp::ZERO, SOMEBODY, &[0x40]), "a stray at most");
    }
}
