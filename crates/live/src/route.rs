//! Route of a joiner: the address to which it sends.
//!
//! The joiner first sends to the address at which it found the listener. When the listener moves, for example because
//! its network changed, the joiner follows. QUIC lets only clients migrate (RFC 9000, section 9), so this module works
//! below it. QUIC sees every packet as if it came from the first address.
//!
//! Only new packets with the listener's authentication count. An attacker on the path may resend such a packet from a
//! third party's address. So a new address first receives only challenges, until the listener answers one of them.
//! Their size is at most three times that of the packets from there (RFC 9000, sections 8.1 and 8.2).

use std::net::SocketAddr;
use std::time::Duration;

use lockstep_session::probe::Token;
use lockstep_units::Timestamp;

/// Interval between challenges while packets arrive from the address.
const REPEAT: Duration = Duration::from_millis(50);
/// How long a new address is tried.
const TRIAL: Duration = Duration::from_secs(3);
/// Size of a challenge with all headers of QUIC, including an acknowledgement in the same packet.
const CHALLENGE_BYTES: u64 = 100;
/// Largest ratio of sent to received bytes of an unvalidated address.
const AMPLIFICATION: u64 = 3;

/// A possible new address of the listener.
#[derive(Debug, Clone, Copy)]
struct Trial {
    address: SocketAddr,
    token: Token,
    since: Timestamp,
    challenged_at: Option<Timestamp>,
    received: u64,
    sent: u64,
}

/// The address in use, and its possible successor.
#[derive(Debug, Default)]
pub(crate) struct JoinerRoute {
    /// The address that QUIC knows.
    known: Option<SocketAddr>,
    current: Option<SocketAddr>,
    trial: Option<Trial>,
}

impl JoinerRoute {
    /// A route without an address.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Sets the address at which the listener was found.
    pub(crate) fn begin(&mut self, address: SocketAddr) {
        (self.known, self.current) = (Some(address), Some(address));
    }

    /// The address by which QUIC knows the listener, once found.
    pub(crate) fn known(&self) -> Option<SocketAddr> {
        self.known
    }

    /// Current address of the listener.
    pub(crate) fn current(&self) -> Option<SocketAddr> {
        self.current
    }

    /// Switches to an address that an authenticated answer has validated.
    pub(crate) fn move_to(&mut self, address: SocketAddr) {
        self.current = Some(address);
        self.trial = None;
    }

    /// Records an authentic new packet of `length` bytes from `from`. If the address is new, returns a challenge for
    /// it, with a `token` or the one of its earlier challenge.
    pub(crate) fn on_packet(
        &mut self,
        now: Timestamp,
        from: SocketAddr,
        length: usize,
        token: impl FnOnce() -> Option<Token>,
    ) -> Option<(SocketAddr, Token)> {
        if self.current.is_none_or(|current| current == from) {
            return None;
        }
        self.trial = self.trial.filter(|trial| now.saturating_since(trial.since) < TRIAL);
        if self.trial.is_none() {
            let (challenged_at, received, sent) = (None, 0, 0);
            self.trial = Some(Trial { address: from, token: token()?, since: now, challenged_at, received, sent });
        }
        let trial = self.trial.as_mut().filter(|trial| trial.address == from)?;
        trial.received += length as u64;
        let early = trial.challenged_at.is_some_and(|at| now.saturating_since(at) < REPEAT);
        if early || trial.sent + CHALLENGE_BYTES > AMPLIFICATION * trial.received {
            return None;
        }
        trial.sent += CHALLENGE_BYTES;
        trial.challenged_at = Some(now);
        Some((from, trial.token))
    }

    /// Handles the answer with this token: the listener is at the challenged address. Returns whether the address
    /// changed.
    pub(crate) fn answered(&mut self, token: Token) -> bool {
        let trial = self.trial.take_if(|trial| trial.token == token);
        self.current = trial.map_or(self.current, |trial| Some(trial.address));
        trial.is_some()
    }
}

#[cfg(test)]
mod tests {
    use lockstep_session::probe::{answer_to, answered, challenge};

    use super::*;

    const TOKEN: Token = [5; 8];

    fn address(last: u8) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, last], 4600))
    }

    fn at(milliseconds: u64) -> Timestamp {
        Timestamp::from_millis(milliseconds)
    }

    fn found() -> JoinerRoute {
        let mut route = JoinerRoute::new();
        route.begin(address(1));
        route
    }

    #[test]
    fn moved_listener_is_followed_after_its_answer() {
        let mut route = found();
        assert_eq!(route.on_packet(at(0), address(1), 60, || Some(TOKEN)), None, "it is where it was");
        let asked = route.on_packet(at(10), address(2), 60, || Some(TOKEN));
        assert_eq!((asked, route.current()), (Some((address(2), TOKEN)), Some(address(1))));
        let answer = answer_to(&challenge(TOKEN)).expect("it is a challenge");
        let token = answered(&answer).expect("it is an answer");
        assert_eq!([route.answered(token), route.answered(token)], [true, false], "a copy of the answer is no news");
        assert_eq!(
            (route.current(), route.known()),
            (Some(address(2)), Some(address(1))),
            "QUIC keeps the first address"
        );
    }

    #[test]
    fn challenges_to_a_forged_address_are_limited() {
        let mut route = found();
        let challenges =
            (0..100).filter_map(|step| route.on_packet(at(10 * step), address(9), 60, || Some(TOKEN))).count();
        assert!(challenges as u64 * CHALLENGE_BYTES <= 3 * 60 * 100 && challenges <= 20, "{challenges}");
        assert!(!route.answered([6; 8]), "a wrong answer is none");
        assert_eq!(route.current(), Some(address(1)));
        // While one address is tried, another waits.
        assert_eq!(route.on_packet(at(1_000), address(8), 60, || Some([7; 8])), None);
        assert!(route.on_packet(at(3_000), address(8), 60, || Some([7; 8])).is_some());
    }
}
