//! What is looked at of all that comes to a socket. A flood of garbage costs a look at a few bytes of each datagram, on the
//! thread that reads the socket; the call never hears of it.
//!
//! This end gives the names by which the other one calls it (QUIC's connection identifiers), so they can be told from
//! garbage: the second half of a name is a code of the first that nobody can make who has not the key. It keeps nobody out
//! who has seen a packet of the call; that is left to QUIC's own seals.

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

/// Bytes of a connection's name in each packet: so few that they cost little.
pub(crate) const NAME: usize = 4;
/// Those of them that are drawn.
const DRAWN: usize = 2;
/// Packets a second, and as many at once, that begin a connection and are looked at while nobody has joined, and during a
/// call. Each costs some tens of microseconds.
const BEGINNINGS_WAITING: f64 = 2_000.0;
const BEGINNINGS_IN_CALL: f64 = 100.0;
/// Packets a second to names that are not ours, and are looked at all the same: the other end says by such that it was
/// started anew (RFC 9000, section 10.3).
const STRAYS: f64 = 20.0;
/// Messages a second of a rendezvous, and of the other end's probes, that are looked at; each costs a few microseconds.
const MEETING: f64 = 200.0;

/// Gives names, and knows them again.
#[derive(Debug, Clone)]
pub(crate) struct Names(Arc<Key>);

impl Names {
    pub(crate) fn new(key: Key) -> Self {
        Self(Arc::new(key))
    }

    fn code(&self, drawn: &[u8]) -> [u8; NAME - DRAWN] {
        let mut code = [0; NAME - DRAWN];
        code.copy_from_slice(&sign(&self.0, drawn).as_ref()[..NAME - DRAWN]);
        code
    }

    fn is_ours(&self, name: &[u8]) -> bool {
        name.len() == NAME && self.code(&name[..DRAWN]) == name[DRAWN..]
    }
}

impl ConnectionIdGenerator for Names {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut name = [0; NAME];
        // Without random numbers there would be no keys either, and no connection to name.
        let _ = SystemRandom::new().fill(&mut name[..DRAWN]);
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

/// Stands before a socket.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    names: Names,
    /// Whether strangers may begin connections.
    listens: bool,
    in_call: Arc<AtomicBool>,
    beginnings: Allowance,
    strays: Allowance,
    meeting: Allowance,
    /// Where the rendezvous is, if the call has one.
    rendezvous: Arc<[SocketAddr]>,
}

impl Gate {
    pub(crate) fn new(names: Names, listens: bool, in_call: Arc<AtomicBool>) -> Self {
        let (beginnings, strays) = (Allowance::new(BEGINNINGS_WAITING), Allowance::new(STRAYS));
        let meeting = Allowance::new(MEETING);
        Self { names, listens, in_call, beginnings, strays, meeting, rendezvous: Arc::new([]) }
    }

    /// The same for a call whose rendezvous is at one of `servers`.
    pub(crate) fn with_rendezvous(self, servers: &[SocketAddr]) -> Self {
        Self { rendezvous: servers.into(), ..self }
    }

    /// Whether a packet of QUIC's is to be looked at.
    fn admits_packet(&mut self, now: Timestamp, datagram: &[u8]) -> bool {
        match datagram {
            // Long headers have the name's length before it (RFC 8999, section 5.1).
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

    /// A datagram with a short header to that name.
    fn short(name: &[u8]) -> Vec<u8> {
        [&[0x40][..], name, &[9; 30]].concat()
    }

    /// One with a long header.
    fn long(name: &[u8]) -> Vec<u8> {
        [&[0xc3, 0, 0, 0, 1, name.len() as u8][..], name, &[9; 30]].concat()
    }

    #[test]
    fn names_are_known_again_and_by_their_own_end_only() {
        let other = Names::new(Key::new(HMAC_SHA256, &[8; 32]));
        let given: Vec<ConnectionId> = (0..100).map(|_| names().generate_cid()).collect();
        assert!(given.iter().all(|name| names().validate(name).is_ok()));
        assert!(given.iter().filter(|name| other.validate(name).is_ok()).count() <= 2);
    }

    #[test]
    fn of_a_flood_next_to_nothing_is_looked_at_and_all_of_the_call() {
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
            // What is saved up from when nobody had joined may be looked at once.
            assert!(admitted < 400, "{admitted} in a second");
        }
    }

    #[test]
    fn what_is_too_short_for_a_packet_is_none() {
        let mut gate = Gate::new(names(), true, Arc::default());
        for datagram in [&[][..], &[0xc3], &[0xc3, 0, 0, 0, 1]] {
            assert!(!gate.admits(Timestamp::ZERO, SOMEBODY, datagram), "{datagram:?}");
        }
        assert!(gate.admits(Timestamp::ZERO, SOMEBODY, &[0x40]), "a stray at most");
    }
}
