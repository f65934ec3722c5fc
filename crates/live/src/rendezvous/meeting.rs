//! Client of a rendezvous: finds routes to the other end of a call.
//!
//! The end announces its addresses and receives those of the other end. Both ends probe each other's addresses at the
//! same time. A router admits packets from an address to which it sent one, so this opens the routers of both
//! ends. The connection then uses an open route, or the server's relay.
//!
//! The end trusts the server only for this end's own outside address; a wrong one costs a few probes. Keys from the
//! ticket's secret protect the other end's addresses, probes and answers.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use lockstep_units::Timestamp;
use ring::hmac::{HMAC_SHA256, Key, sign};

use super::keys::Keys;
use super::message::{Announce, Channel, Cookie, Kind, Message, Refusal, Side, Token};
use crate::LiveError;
use crate::identity::random;
use lockstep_session::ticket::{MAX_ADDRESSES, Secret};

/// Address that stands for the relayed route in QUIC, from the discard-only prefix (RFC 6666).
pub(crate) const RELAY: SocketAddr = SocketAddr::new(IpAddr::V6(Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 1)), 1);

/// Interval of announcements before the server's first answer: at first, and later.
pub(super) const FIRST_REPEAT: Duration = Duration::from_millis(250);
pub(super) const LATER_REPEAT: Duration = Duration::from_secs(2);
/// Duration of the first interval.
pub(super) const EAGER: Duration = Duration::from_secs(10);
/// Interval of announcements of an end that urgently seeks the other one, and of any other end.
const SEEKING_REPEAT: Duration = Duration::from_millis(500);
pub(super) const REPEAT: Duration = Duration::from_secs(5);
/// Shortest interval between announcements, whatever the server answers.
pub(super) const MIN_ANNOUNCE_INTERVAL: Duration = Duration::from_millis(50);
/// After this time without an answer, the server's next address is tried.
pub(super) const SERVER_PATIENCE: Duration = Duration::from_secs(2);
/// Probe intervals per address: during [`HASTE`] after the addresses became known or the route was lost; then without a
/// route; and while relayed.
const HASTY_PROBES: Duration = Duration::from_millis(100);
const SEEKING_PROBES: Duration = Duration::from_millis(250);
const RELAYED_PROBES: Duration = Duration::from_secs(5);
const HASTE: Duration = Duration::from_secs(3);
/// Most addresses that are probed: those that the other end announced, and as many from which it probed.
const MAX_CANDIDATES: usize = 2 * MAX_ADDRESSES;
/// How long direct routes are tried, once the other end's addresses are known, before packets are relayed.
const RELAY_AFTER: Duration = Duration::from_millis(1_500);
/// Messages that may wait to be sent.
const MAX_QUEUED_MESSAGES: usize = 128;

/// The kind of route that an end needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Any route: the other end has not joined, or nothing arrives.
    Any,
    /// A direct route instead of the relay.
    Direct,
    /// No other route.
    Nothing,
}

/// Newest answer of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServerAnswer {
    None,
    Met,
    Refused(Refusal),
}

/// Result of a datagram, for the connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The datagram needs no further handling.
    Handled,
    /// The server relayed the packet that starts at this offset of the datagram.
    Relayed(usize),
}

/// State of one end's search.
pub(crate) struct Meeting {
    keys: Keys,
    side: Side,
    servers: Vec<SocketAddr>,
    /// Index of the server address in use.
    server: usize,
    /// Whether the other end may learn this end's addresses.
    open: bool,
    own: Vec<SocketAddr>,
    /// Outside address of this end, as the server sees it.
    seen_at: Option<SocketAddr>,
    announce: Announce,
    channel: Option<Channel>,
    answer: ServerAnswer,
    began: Timestamp,
    answered_at: Option<Timestamp>,
    announced_at: Option<Timestamp>,
    announce_at: Timestamp,
    /// Number of the other end's newest announcement, and when it arrived.
    other: Option<(u32, Timestamp)>,
    candidates: Vec<SocketAddr>,
    tokens: Key,
    need: Need,
    hasty_until: Timestamp,
    probed_at: Option<Timestamp>,
    waiting: VecDeque<(SocketAddr, Vec<u8>)>,
    found: VecDeque<SocketAddr>,
}

impl Meeting {
    /// Starts to search at one of `servers`. The other end learns the `own` addresses and this end's outside address,
    /// or, with `hidden`, none.
    pub(crate) fn new(
        secret: &Secret,
        side: Side,
        mut servers: Vec<SocketAddr>,
        own: &[SocketAddr],
        hidden: bool,
        now: Timestamp,
    ) -> Result<Self, LiveError> {
        // IPv4 first, because most routers that translate addresses translate IPv4.
        servers.sort_by_key(SocketAddr::is_ipv6);
        let keys = Keys::of(secret)?;
        let own: Vec<SocketAddr> = if hidden { &[] } else { own }.iter().take(MAX_ADDRESSES - 1).copied().collect();
        let sealed = keys.seal(side, &own)?;
        let announce = Announce {
            call: keys.name(),
            side,
            session: random()?,
            number: u32::from_be_bytes(random()?),
            known: u32::from_be_bytes(random()?),
            cookie: Cookie::default(),
            sealed,
        };
        Ok(Self {
            keys,
            side,
            servers,
            server: 0,
            open: !hidden,
            own,
            seen_at: None,
            announce,
            channel: None,
            answer: ServerAnswer::None,
            began: now,
            answered_at: None,
            announced_at: None,
            announce_at: now,
            other: None,
            candidates: Vec::new(),
            tokens: Key::new(HMAC_SHA256, &random::<32>()?),
            need: Need::Any,
            hasty_until: now,
            probed_at: None,
            waiting: VecDeque::new(),
            found: VecDeque::new(),
        })
    }

    /// All addresses of the server.
    pub(crate) fn servers(&self) -> &[SocketAddr] {
        &self.servers
    }

    fn server(&self) -> SocketAddr {
        self.servers[self.server % self.servers.len()]
    }

    /// Sets which route this end needs now.
    pub(crate) fn need(&mut self, now: Timestamp, need: Need) {
        if need != self.need {
            self.need = need;
            if need != Need::Nothing {
                self.hasty_until = now + HASTE;
            }
            if need == Need::Any {
                self.announce_at = self.announce_at.min(now);
            }
        }
    }

    /// Whether the server can relay packets to the other end, as far as known.
    pub(crate) fn can_relay(&self) -> bool {
        self.channel.is_some() && self.other.is_some()
    }

    /// When relaying must start if no direct route is found before; `None` while relaying is impossible.
    pub(crate) fn relay_at(&self) -> Option<Timestamp> {
        let (_, since) = self.other.filter(|_| self.can_relay())?;
        Some(if self.open && !self.candidates.is_empty() { since + RELAY_AFTER } else { since })
    }

    /// The next address that works in both directions.
    pub(crate) fn poll_found(&mut self) -> Option<SocketAddr> {
        self.found.pop_front()
    }

    /// Wraps a packet for the relay, and returns the server's address; `None` if relaying is impossible.
    pub(crate) fn relayed(&self, packet: &[u8]) -> Option<(SocketAddr, Vec<u8>)> {
        Some((self.server(), Message::Relay { channel: self.channel?, packet }.to_bytes()))
    }

    /// Handles a datagram that starts with [`MAGIC`](super::MAGIC).
    pub(crate) fn handle_datagram(&mut self, now: Timestamp, from: SocketAddr, datagram: &[u8]) -> Outcome {
        let of_server = self.servers.contains(&from);
        match Message::decode(datagram) {
            Some(Message::Relayed(packet)) if of_server => return Outcome::Relayed(datagram.len() - packet.len()),
            Some(Message::Prove { session, cookie, address }) if of_server && session == self.announce.session => {
                self.announce.cookie = cookie;
                self.answered(now, from);
                self.seen(address);
                self.announce_soon(now);
            }
            Some(Message::Met { session, address, channel, other })
                if of_server && session == self.announce.session =>
            {
                self.answered(now, from);
                self.answer = ServerAnswer::Met;
                self.channel = Some(channel);
                if self.seen(address) {
                    self.announce_soon(now);
                }
                if let Some(other) = other
                    && self.other.is_none_or(|(number, _)| number != other.number)
                    && let Some(addresses) = self.keys.unseal(self.side.other(), &other.sealed)
                {
                    self.on_other_end(now, other.number, addresses);
                }
            }
            Some(Message::Refused { session, refusal }) if of_server && session == self.announce.session => {
                self.answered(now, from);
                self.answer = ServerAnswer::Refused(refusal);
                self.channel = None;
            }
            Some(Message::Unknown { channel }) if of_server && self.channel == Some(channel) => {
                self.announce_soon(now);
            }
            Some(Message::Probe(side, token, code, coded))
                if self.open && side == self.side.other() && self.keys.is_code_of(&code, coded) =>
            {
                self.probed(from, token);
            }
            Some(Message::Answer(side, token, code, coded)) => {
                let right = side == self.side.other() && token == self.token(from);
                if right && self.keys.is_code_of(&code, coded) && self.found.len() < MAX_CANDIDATES {
                    self.found.push_back(from);
                }
            }
            _ => {}
        }
        Outcome::Handled
    }

    fn answered(&mut self, now: Timestamp, from: SocketAddr) {
        self.answered_at = Some(now);
        self.server = self.servers.iter().position(|&server| server == from).unwrap_or(self.server);
    }

    /// Records that the server sees this end at `address`; returns whether that is new.
    fn seen(&mut self, address: SocketAddr) -> bool {
        if !self.open || self.seen_at == Some(address) {
            return false;
        }
        self.seen_at = Some(address);
        let mut addresses = self.own.clone();
        if !addresses.contains(&address) {
            addresses.push(address);
        }
        // Without random numbers, the announcement stays as before.
        if let Ok(sealed) = self.keys.seal(self.side, &addresses) {
            self.announce.sealed = sealed;
            self.announce.number = self.announce.number.wrapping_add(1);
        }
        true
    }

    fn on_other_end(&mut self, now: Timestamp, number: u32, addresses: Vec<SocketAddr>) {
        self.other = Some((number, now));
        self.announce.known = number;
        self.candidates = if self.open { addresses } else { Vec::new() };
        let servers = &self.servers;
        self.candidates.retain(|address| !servers.contains(address) && *address != RELAY);
        self.hasty_until = now + HASTE;
        self.probed_at = None;
        self.announce_soon(now);
    }

    /// Answers a probe of the other end from `from`.
    fn probed(&mut self, from: SocketAddr, token: Token) {
        self.send(from, self.keys.probe(Kind::Answer, self.side, token));
        // A router may give the other end different outside addresses towards this end and towards the server.
        if !self.candidates.contains(&from) && self.candidates.len() < MAX_CANDIDATES {
            self.candidates.push(from);
            if self.need != Need::Nothing {
                self.send(from, self.keys.probe(Kind::Probe, self.side, self.token(from)));
            }
        }
    }

    /// Random-looking token that only a receiver at that address can know.
    fn token(&self, of: SocketAddr) -> Token {
        let mut token = Token::default();
        token.copy_from_slice(&sign(&self.tokens, of.to_string().as_bytes()).as_ref()[..size_of::<Token>()]);
        token
    }

    fn send(&mut self, to: SocketAddr, message: Vec<u8>) {
        if self.waiting.len() < MAX_QUEUED_MESSAGES {
            self.waiting.push_back((to, message));
        }
    }

    fn announce_soon(&mut self, now: Timestamp) {
        let soonest = self.announced_at.map_or(now, |at| (at + MIN_ANNOUNCE_INTERVAL).max(now));
        self.announce_at = self.announce_at.min(soonest);
    }

    /// When the other end's addresses are probed next.
    fn probe_at(&self) -> Option<Timestamp> {
        if self.candidates.is_empty() || self.need == Need::Nothing {
            return None;
        }
        let Some(last) = self.probed_at else { return Some(Timestamp::ZERO) };
        let later = if self.need == Need::Any { SEEKING_PROBES } else { RELAYED_PROBES };
        Some(last + if last < self.hasty_until { HASTY_PROBES } else { later })
    }

    /// When [`Self::handle_timeout`] must be called next.
    pub(crate) fn poll_timeout(&self) -> Option<Timestamp> {
        Timestamp::earliest([Some(self.announce_at), self.probe_at()])
    }

    /// Handles the timeouts that are due at `now`.
    pub(crate) fn handle_timeout(&mut self, now: Timestamp) {
        if self.announce_at <= now {
            self.announce(now);
        }
        if self.probe_at().is_some_and(|at| at <= now) {
            self.probed_at = Some(now);
            for place in 0..self.candidates.len() {
                let to = self.candidates[place];
                self.send(to, self.keys.probe(Kind::Probe, self.side, self.token(to)));
            }
        }
    }

    /// Announces this end to the server.
    fn announce(&mut self, now: Timestamp) {
        let silent_since = self.answered_at.unwrap_or(self.began);
        let silence = now.saturating_since(silent_since);
        // Announcements are up to `REPEAT` apart, so the last one had `SERVER_PATIENCE` to be answered.
        if silence >= SERVER_PATIENCE + REPEAT || (self.answered_at.is_none() && silence >= SERVER_PATIENCE) {
            self.server = (self.server + 1) % self.servers.len();
        }
        self.announced_at = Some(now);
        let repeat = match self.answer {
            ServerAnswer::None if silence < EAGER => FIRST_REPEAT,
            ServerAnswer::None => LATER_REPEAT,
            // A listener may wait for days; the server reports the arrival of a joiner at once.
            _ if self.need == Need::Any && (self.side == Side::Joiner || self.other.is_some()) => SEEKING_REPEAT,
            ServerAnswer::Met => REPEAT,
            ServerAnswer::Refused(_) => LATER_REPEAT,
        };
        self.announce_at = now + repeat;
        let message = self.keys.sign(self.announce.clone());
        self.send(self.server(), message);
    }

    /// The next message to send, and its destination.
    pub(crate) fn poll_transmit(&mut self) -> Option<(SocketAddr, Vec<u8>)> {
        self.waiting.pop_front()
    }

    /// Whether the server has accepted this end.
    pub(crate) fn is_answered(&self) -> bool {
        self.answer == ServerAnswer::Met
    }

    /// State of the search, for the error message of an unanswered call.
    pub(crate) fn standing(&self) -> String {
        let server = self.server();
        match (self.answer, self.other) {
            (ServerAnswer::None, _) => format!("the rendezvous at {server}, which does not answer"),
            (ServerAnswer::Refused(Refusal::Taken), _) => {
                format!("the rendezvous at {server}, where another peer with the same ticket is in a call")
            }
            (ServerAnswer::Refused(_), _) => format!("the rendezvous at {server}, which accepts no more calls now"),
            (ServerAnswer::Met, None) => format!("the rendezvous at {server}, which does not know the other end"),
            (ServerAnswer::Met, Some(_)) => format!("the rendezvous at {server}, which knows the other end"),
        }
    }
}
