//! How an end of a call meets the other one with the help of a rendezvous: it says where it may be reached, hears where the
//! other end may be, and probes all of those addresses while the other end does the same, so that routers on the way, which
//! let in whoever was sent something, let both in. What comes of it, a way that is open or the server's relaying, is for
//! the connection to use.
//!
//! Nothing that the server says is believed but where this end seems to be, which costs a few probes if it is wrong: the
//! other's addresses are sealed by a key of the ticket's secret, and so are probes and answers.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use lockstep_units::Timestamp;
use ring::hmac::{HMAC_SHA256, Key, sign};

use super::keys::Keys;
use super::message::{Announce, Channel, Cookie, Kind, Message, Refusal, Side, Token};
use crate::LiveError;
use crate::identity::random;
use crate::ticket::{MOST_ADDRESSES, Secret};

/// The address that stands for the way through the rendezvous, for QUIC: of those that lead nowhere (RFC 6666).
pub(crate) const RELAY: SocketAddr = SocketAddr::new(IpAddr::V6(Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 1)), 1);

/// How often an end that the server has not answered yet says that it is there: at first, and later.
const FIRST_REPEAT: Duration = Duration::from_millis(250);
const LATER_REPEAT: Duration = Duration::from_secs(2);
/// How long it does so often.
const EAGER: Duration = Duration::from_secs(10);
/// How often an end says that it is there that waits for the other and was told to hurry, and how often any does.
const SEEKING_REPEAT: Duration = Duration::from_millis(500);
const REPEAT: Duration = Duration::from_secs(5);
/// No answer of the server's makes it be asked again sooner than this.
const LEAST_REPEAT: Duration = Duration::from_millis(50);
/// The next of a server's addresses is tried after so long without an answer.
const SERVER_PATIENCE: Duration = Duration::from_secs(2);
/// How often each address is probed: for [`HASTE`] from when the other's addresses are known or the way was lost, then as
/// long as there is none, and while packets are relayed.
const HASTY_PROBES: Duration = Duration::from_millis(100);
const SEEKING_PROBES: Duration = Duration::from_millis(250);
const RELAYED_PROBES: Duration = Duration::from_secs(5);
const HASTE: Duration = Duration::from_secs(3);
/// The most addresses that are probed: those that the other end says, and as many from which it probed.
const MOST_CANDIDATES: usize = 2 * MOST_ADDRESSES;
/// How long other ways are tried, from when the other end's addresses are known, before packets are relayed.
const RELAY_AFTER: Duration = Duration::from_millis(1_500);
/// Messages that wait to be sent.
const MOST_WAITING: usize = 128;

/// What an end is looking for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Any way: nobody is there, or nothing comes.
    Any,
    /// A better way than by the server.
    Direct,
    /// Nothing.
    Nothing,
}

/// What a server last said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    None,
    Met,
    Refused(Refusal),
}

/// What came, for the connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Came {
    /// Nothing more is to be done.
    Nothing,
    /// The packet that begins so far into the datagram was relayed.
    Relayed(usize),
}

/// One end's part of meeting.
pub(crate) struct Meeting {
    keys: Keys,
    side: Side,
    servers: Vec<SocketAddr>,
    /// Which of them is used.
    server: usize,
    /// Whether the other end may learn where this one is.
    open: bool,
    own: Vec<SocketAddr>,
    /// Where the server sees this end.
    seen_at: Option<SocketAddr>,
    announce: Announce,
    channel: Option<Channel>,
    word: Word,
    began: Timestamp,
    answered_at: Option<Timestamp>,
    announced_at: Option<Timestamp>,
    announce_at: Timestamp,
    /// The number of what is known of the other end, and since when.
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
    /// Begins to look for the server at one of `servers`. The other end is told `own` addresses and where the server sees this
    /// end, or, with `hidden`, nothing.
    pub(crate) fn new(
        secret: &Secret,
        side: Side,
        mut servers: Vec<SocketAddr>,
        own: &[SocketAddr],
        hidden: bool,
        now: Timestamp,
    ) -> Result<Self, LiveError> {
        // Routers that translate addresses, for which all this is, are those of IPv4.
        servers.sort_by_key(SocketAddr::is_ipv6);
        let keys = Keys::of(secret)?;
        let own: Vec<SocketAddr> = if hidden { &[] } else { own }.iter().take(MOST_ADDRESSES - 1).copied().collect();
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
            word: Word::None,
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

    /// What this end is looking for now.
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

    /// Whether packets can be relayed to the other end, as far as is known.
    pub(crate) fn can_relay(&self) -> bool {
        self.channel.is_some() && self.other.is_some()
    }

    /// When packets are to be relayed if no better way was found before; none while they cannot be.
    pub(crate) fn relay_at(&self) -> Option<Timestamp> {
        let (_, since) = self.other.filter(|_| self.can_relay())?;
        Some(if self.open && !self.candidates.is_empty() { since + RELAY_AFTER } else { since })
    }

    /// The next address that is open in both directions.
    pub(crate) fn poll_found(&mut self) -> Option<SocketAddr> {
        self.found.pop_front()
    }

    /// A packet for the other end, as the server relays it, and where the server is; none if that cannot be.
    pub(crate) fn relayed(&self, packet: &[u8]) -> Option<(SocketAddr, Vec<u8>)> {
        Some((self.server(), Message::Relay { channel: self.channel?, packet }.to_bytes()))
    }

    /// A datagram came that begins as messages do.
    pub(crate) fn handle_datagram(&mut self, now: Timestamp, from: SocketAddr, datagram: &[u8]) -> Came {
        let of_server = self.servers.contains(&from);
        match Message::decode(datagram) {
            Some(Message::Relayed(packet)) if of_server => return Came::Relayed(datagram.len() - packet.len()),
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
                self.word = Word::Met;
                self.channel = Some(channel);
                if self.seen(address) {
                    self.announce_soon(now);
                }
                if let Some(other) = other
                    && self.other.is_none_or(|(number, _)| number != other.number)
                    && let Some(addresses) = self.keys.unseal(self.side.other(), &other.sealed)
                {
                    self.hear_of(now, other.number, addresses);
                }
            }
            Some(Message::Refused { session, refusal }) if of_server && session == self.announce.session => {
                self.answered(now, from);
                self.word = Word::Refused(refusal);
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
                if right && self.keys.is_code_of(&code, coded) && self.found.len() < MOST_CANDIDATES {
                    self.found.push_back(from);
                }
            }
            _ => {}
        }
        Came::Nothing
    }

    fn answered(&mut self, now: Timestamp, from: SocketAddr) {
        self.answered_at = Some(now);
        self.server = self.servers.iter().position(|&server| server == from).unwrap_or(self.server);
    }

    /// The server sees this end at `address`; says whether that is news for the other end.
    fn seen(&mut self, address: SocketAddr) -> bool {
        if !self.open || self.seen_at == Some(address) {
            return false;
        }
        self.seen_at = Some(address);
        let mut addresses = self.own.clone();
        if !addresses.contains(&address) {
            addresses.push(address);
        }
        // Without random numbers nothing is said any more.
        if let Ok(sealed) = self.keys.seal(self.side, &addresses) {
            self.announce.sealed = sealed;
            self.announce.number = self.announce.number.wrapping_add(1);
        }
        true
    }

    fn hear_of(&mut self, now: Timestamp, number: u32, addresses: Vec<SocketAddr>) {
        self.other = Some((number, now));
        self.announce.known = number;
        self.candidates = if self.open { addresses } else { Vec::new() };
        let servers = &self.servers;
        self.candidates.retain(|address| !servers.contains(address) && *address != RELAY);
        self.hasty_until = now + HASTE;
        self.probed_at = None;
        self.announce_soon(now);
    }

    /// The other end asks whether there is a way from `from`.
    fn probed(&mut self, from: SocketAddr, token: Token) {
        self.send(from, self.keys.probe(Kind::Answer, self.side, token));
        // A router may have given it another address towards this end than towards the server.
        if !self.candidates.contains(&from) && self.candidates.len() < MOST_CANDIDATES {
            self.candidates.push(from);
            if self.need != Need::Nothing {
                self.send(from, self.keys.probe(Kind::Probe, self.side, self.token(from)));
            }
        }
    }

    /// What only who is at that address can know.
    fn token(&self, of: SocketAddr) -> Token {
        let mut token = Token::default();
        token.copy_from_slice(&sign(&self.tokens, of.to_string().as_bytes()).as_ref()[..size_of::<Token>()]);
        token
    }

    fn send(&mut self, to: SocketAddr, message: Vec<u8>) {
        if self.waiting.len() < MOST_WAITING {
            self.waiting.push_back((to, message));
        }
    }

    fn announce_soon(&mut self, now: Timestamp) {
        let soonest = self.announced_at.map_or(now, |at| (at + LEAST_REPEAT).max(now));
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

    /// When [`Self::handle_timeout`] wants to be called next.
    pub(crate) fn poll_timeout(&self) -> Option<Timestamp> {
        Timestamp::earliest([Some(self.announce_at), self.probe_at()])
    }

    /// Tells the time.
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

    /// Says that this end is there.
    fn announce(&mut self, now: Timestamp) {
        let silent_since = self.answered_at.unwrap_or(self.began);
        let silence = now.saturating_since(silent_since);
        // An answer has been waited for, too.
        if silence >= SERVER_PATIENCE + REPEAT || (self.answered_at.is_none() && silence >= SERVER_PATIENCE) {
            self.server = (self.server + 1) % self.servers.len();
        }
        self.announced_at = Some(now);
        let repeat = match self.word {
            Word::None if silence < EAGER => FIRST_REPEAT,
            Word::None => LATER_REPEAT,
            // A listener may wait for days, a joiner's coming is told at once.
            _ if self.need == Need::Any && (self.side == Side::Joiner || self.other.is_some()) => SEEKING_REPEAT,
            Word::Met => REPEAT,
            Word::Refused(_) => LATER_REPEAT,
        };
        self.announce_at = now + repeat;
        let message = self.keys.sign(self.announce.clone());
        self.send(self.server(), message);
    }

    /// The next message that leaves, and where it goes.
    pub(crate) fn poll_transmit(&mut self) -> Option<(SocketAddr, Vec<u8>)> {
        self.waiting.pop_front()
    }

    /// Whether the server has taken this end.
    pub(crate) fn is_answered(&self) -> bool {
        self.word == Word::Met
    }

    /// How it stands, for a person whose call nobody answered.
    pub(crate) fn standing(&self) -> String {
        let server = self.server();
        match (self.word, self.other) {
            (Word::None, _) => format!("the rendezvous at {server}, which does not answer"),
            (Word::Refused(Refusal::Taken), _) => {
                format!("the rendezvous at {server}, where somebody else with the same ticket is in a call")
            }
            (Word::Refused(_), _) => format!("the rendezvous at {server}, which takes no more calls now"),
            (Word::Met, None) => format!("the rendezvous at {server}, where the other end is not"),
            (Word::Met, Some(_)) => format!("the rendezvous at {server}, where the other end was"),
        }
    }
}
