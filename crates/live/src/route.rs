//! Where a joiner sends: to the address at which it found the listener, and after that has moved (its network changed, or a
//! router on the way forgot it), to where it now is. QUIC has that for those who join only (RFC 9000, section 9), so this
//! is below it: QUIC is told that everything comes from the first address.
//!
//! Only packets that are new and sealed by the listener count. Somebody on the way may still catch such a packet and send it
//! on in the name of a third, so that nothing but challenges goes to a new address until the listener has answered one of
//! them, and those are no more than three times what came from there (RFC 9000, sections 8.1 and 8.2).

use std::net::SocketAddr;
use std::time::Duration;

use lockstep_units::Timestamp;

/// What a challenge says, and its answer.
pub(crate) type Token = [u8; 8];

/// The first byte of a datagram that challenges, and of one that answers; none of the transport's begins so.
const CHALLENGE: u8 = 1;
const ANSWER: u8 = 2;
/// The datagram that says that this end hears the other one again.
const HEARD_AGAIN: u8 = 3;
/// A challenge is repeated so often as long as something comes from the address.
const REPEAT: Duration = Duration::from_millis(50);
/// How long a new address is tried.
const TRIAL: Duration = Duration::from_secs(3);
/// Bytes that a challenge may take with all headers of QUIC's, an acknowledgement that rides along included.
const CHALLENGE_BYTES: u64 = 100;
/// What may be sent to an address that has not answered, over what came from it.
const AMPLIFICATION: u64 = 3;

/// What a challenge, or the answer to one, is as a datagram.
pub(crate) fn challenge(token: Token) -> Vec<u8> {
    [&[CHALLENGE][..], &token[..]].concat()
}

/// What says to the other end, after nothing came from it for a while, that something came.
pub(crate) fn heard_again() -> Vec<u8> {
    vec![HEARD_AGAIN]
}

/// Whether `datagram` says that.
pub(crate) fn says_heard_again(datagram: &[u8]) -> bool {
    datagram == [HEARD_AGAIN]
}

/// The answer to a challenge, if `datagram` is one.
pub(crate) fn answer_to(datagram: &[u8]) -> Option<Vec<u8>> {
    let [CHALLENGE, token @ ..] = datagram else { return None };
    (token.len() == size_of::<Token>()).then(|| [&[ANSWER][..], token].concat())
}

/// The token that is answered with, if `datagram` is an answer.
pub(crate) fn answered(datagram: &[u8]) -> Option<Token> {
    let [ANSWER, token @ ..] = datagram else { return None };
    token.try_into().ok()
}

/// An address at which the listener may be.
#[derive(Debug, Clone, Copy)]
struct Trial {
    address: SocketAddr,
    token: Token,
    since: Timestamp,
    challenged_at: Option<Timestamp>,
    received: u64,
    sent: u64,
}

/// The address in use, and one that may follow it.
#[derive(Debug, Default)]
pub(crate) struct Route {
    /// The address that QUIC knows.
    known: Option<SocketAddr>,
    current: Option<SocketAddr>,
    trial: Option<Trial>,
}

impl Route {
    /// None is known.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// The listener was found at `address`.
    pub(crate) fn begin(&mut self, address: SocketAddr) {
        (self.known, self.current) = (Some(address), Some(address));
    }

    /// The address under which QUIC knows the listener, once it was found.
    pub(crate) fn known(&self) -> Option<SocketAddr> {
        self.known
    }

    /// Where the listener is.
    pub(crate) fn current(&self) -> Option<SocketAddr> {
        self.current
    }

    /// The listener is known to be at `address`, by what only it can have said there.
    pub(crate) fn move_to(&mut self, address: SocketAddr) {
        self.current = Some(address);
        self.trial = None;
    }

    /// A new packet of the listener's, of `length` bytes, came from `from`. Says what to challenge that address with, where
    /// it is another: `token`, which nobody can guess, or what it was challenged with before.
    pub(crate) fn heard(
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

    /// The listener answered with that token: it is where it was challenged. Says whether that is news.
    pub(crate) fn answered(&mut self, token: Token) -> bool {
        let trial = self.trial.take_if(|trial| trial.token == token);
        self.current = trial.map_or(self.current, |trial| Some(trial.address));
        trial.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: Token = [5; 8];

    fn address(last: u8) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, last], 4600))
    }

    fn at(milliseconds: u64) -> Timestamp {
        Timestamp::from_millis(milliseconds)
    }

    fn found() -> Route {
        let mut route = Route::new();
        route.begin(address(1));
        route
    }

    #[test]
    fn a_listener_that_moved_is_followed_once_it_has_answered_from_there() {
        let mut route = found();
        assert_eq!(route.heard(at(0), address(1), 60, || Some(TOKEN)), None, "it is where it was");
        let asked = route.heard(at(10), address(2), 60, || Some(TOKEN));
        assert_eq!((asked, route.current()), (Some((address(2), TOKEN)), Some(address(1))));
        let answer = answer_to(&challenge(TOKEN)).expect("it is a challenge");
        let token = answered(&answer).expect("it is an answer");
        assert_eq!([route.answered(token), route.answered(token)], [true, false], "a copy of the answer is no news");
        assert_eq!((route.current(), route.known()), (Some(address(2)), Some(address(1))), "QUIC need not hear of it");
    }

    #[test]
    fn nobody_is_flooded_by_packets_that_somebody_else_sent_on_in_his_name() {
        let mut route = found();
        let challenges = (0..100).filter_map(|step| route.heard(at(10 * step), address(9), 60, || Some(TOKEN))).count();
        assert!(challenges as u64 * CHALLENGE_BYTES <= 3 * 60 * 100 && challenges <= 20, "{challenges}");
        assert!(!route.answered([6; 8]), "a wrong answer is none");
        assert_eq!(route.current(), Some(address(1)));
        // While one address is tried, another waits.
        assert_eq!(route.heard(at(1_000), address(8), 60, || Some([7; 8])), None);
        assert!(route.heard(at(3_000), address(8), 60, || Some([7; 8])).is_some());
    }

    #[test]
    fn datagrams_of_the_transport_are_no_challenges() {
        for first in [0x21, 0x22] {
            let datagram = [first; 9];
            assert!(answer_to(&datagram).is_none() && answered(&datagram).is_none());
        }
        assert!(answer_to(&[CHALLENGE; 8]).is_none() && answered(&[ANSWER; 10]).is_none() && answer_to(&[]).is_none());
    }
}
