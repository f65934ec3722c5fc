//! Server of a rendezvous: passes each end's addresses to the other end of its call, and relays packets if no direct
//! route exists. It knows no keys of a call: relayed packets are encrypted QUIC packets.
//!
//! The server reads no clock and owns no socket. [`Limits`] bounds its memory. The ends repeat their announcements, so
//! the server may forget everything, for example in a restart.
//!
//! The server keeps no state for an address that is not validated. Its first answer is a cookie as in QUIC's Retry
//! (RFC 9000, section 8.1.2): a code of the address and the time. No answer is longer than its request. An end then signs
//! for its call with a key derived from the ticket's secret.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use lockstep_units::{Bitrate, Timestamp};
use ring::hmac::{HMAC_SHA256, Key, sign};

use super::keys::is_signed;
use super::limits::{CONSENT, FORGOTTEN, Limits, network};
use super::message::{
    Announce, Channel, Cookie, Exchange, Message, Name, Other, Refusal, Sealed, Session, Side, Signature,
};
use super::nameplates::Nameplates;
use crate::LiveError;
use crate::allowance::Allowance;
use crate::identity::random;

/// Shortest validity of a cookie; the longest is twice this.
const COOKIE_PERIOD: Duration = Duration::from_secs(30);
/// An end that relayed a packet within this time keeps its place when another end shows the same ticket.
const IN_USE: Duration = Duration::from_secs(3);
/// Longest relayed packet in bytes.
const MAX_PACKET_BYTES: usize = 2_048;
/// Announcements per second, and in one burst, that are answered per address. An end sends at most 4 per second, and
/// several may share one router.
const ANNOUNCEMENTS: f64 = 40.0;
/// Reports of an unknown channel per second and address.
const UNKNOWNS: f64 = 40.0;
/// Signatures per second that are checked in total; each takes about 50 microseconds.
const SIGNATURES: f64 = 4_000.0;
/// Addresses with a separate allowance; all further ones share one.
const MAX_SENDERS: usize = 65_536;
/// After this silence, an address has its full allowance again and is forgotten.
const SENDER_FORGOTTEN: Duration = Duration::from_secs(2);
/// Interval of the cleanup.
const CLEANING: Duration = Duration::from_secs(1);
/// Burst that is relayed after a pause, in seconds of the rate.
const RELAY_BURST: f64 = 0.25;
/// Datagrams that may wait to be sent; the limit matters only if the owner does not send.
const MAX_QUEUED_DATAGRAMS: usize = 1_024;

/// Counters of a rendezvous.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct RendezvousStatus {
    /// Current calls, including those that wait for their second end.
    pub calls: usize,
    /// Current codes ([`Code`](crate::Code)).
    pub codes: usize,
    /// Calls whose ends have met since the start.
    pub met: u64,
    /// Relayed packets.
    pub relayed_packets: u64,
    /// Relayed bytes.
    pub relayed_bytes: u64,
    /// Packets dropped because of the limits.
    pub dropped_packets: u64,
    /// Announcements refused, because of the limits or because the place was taken.
    pub refused: u64,
}

/// An end of a call.
#[derive(Debug)]
struct End {
    session: Session,
    address: SocketAddr,
    channel: Channel,
    number: u32,
    known: u32,
    sealed: Sealed,
    received_at: Timestamp,
    relayed_at: Option<Timestamp>,
    allowance: Allowance,
}

#[derive(Debug)]
struct Call {
    /// Network of the end that started the call.
    network: IpAddr,
    ends: [Option<End>; 2],
    met: bool,
}

/// State machine of a rendezvous. Its owner passes in datagrams and the time, and sends its output.
pub struct Rendezvous {
    limits: Limits,
    key: Key,
    /// Number of channels created so far.
    given: u64,
    calls: BTreeMap<Name, Call>,
    channels: BTreeMap<Channel, (Name, Side)>,
    networks: BTreeMap<IpAddr, usize>,
    nameplates: Nameplates,
    senders: BTreeMap<IpAddr, [Allowance; 2]>,
    others: [Allowance; 2],
    signatures: Allowance,
    relayed: Allowance,
    cleaned_at: Timestamp,
    waiting: VecDeque<(SocketAddr, Vec<u8>)>,
    status: RendezvousStatus,
}

impl std::fmt::Debug for Rendezvous {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Rendezvous").field("status", &self.status).finish_non_exhaustive()
    }
}

/// Bits per second.
fn bits(rate: Bitrate) -> f64 {
    rate.as_bps() as f64
}

/// Full allowances of an address.
fn allowances() -> [Allowance; 2] {
    [Allowance::new(ANNOUNCEMENTS), Allowance::new(UNKNOWNS)]
}

impl Rendezvous {
    /// A rendezvous with a random key.
    ///
    /// # Errors
    /// The system provides no random numbers.
    pub fn new(limits: Limits) -> Result<Self, LiveError> {
        Ok(Self::with_key(limits, random()?))
    }

    /// A rendezvous that creates cookies and channels with `key`.
    pub(crate) fn with_key(limits: Limits, key: [u8; 32]) -> Self {
        Self {
            limits,
            key: Key::new(HMAC_SHA256, &key),
            given: 0,
            calls: BTreeMap::new(),
            channels: BTreeMap::new(),
            networks: BTreeMap::new(),
            nameplates: Nameplates::default(),
            senders: BTreeMap::new(),
            others: allowances(),
            signatures: Allowance::new(SIGNATURES),
            relayed: Allowance::new(bits(limits.total_relay_rate) * RELAY_BURST),
            cleaned_at: Timestamp::ZERO,
            waiting: VecDeque::new(),
            status: RendezvousStatus::default(),
        }
    }

    /// Number of networks with calls.
    #[cfg(test)]
    pub(super) fn remembered_networks(&self) -> usize {
        self.networks.len()
    }

    /// The counters so far.
    #[must_use]
    pub fn status(&self) -> RendezvousStatus {
        RendezvousStatus { calls: self.calls.len(), codes: self.nameplates.len(), ..self.status }
    }

    /// Handles a datagram.
    pub fn handle_datagram(&mut self, now: Timestamp, from: SocketAddr, datagram: &[u8]) {
        match Message::decode(datagram) {
            Some(Message::Announce(announce, signature, signed)) => {
                self.announced(now, from, &announce, &signature, signed);
            }
            Some(Message::Exchange(exchange)) => self.exchange(now, from, &exchange),
            Some(Message::Relay { channel, packet }) => self.relay(now, from, channel, packet),
            _ => {}
        }
    }

    /// The next datagram to send, and its destination. The caller repeats this until it returns `None`, after every
    /// other event.
    pub fn poll_transmit(&mut self) -> Option<(SocketAddr, Vec<u8>)> {
        self.waiting.pop_front()
    }

    /// When [`Self::handle_timeout`] must be called next.
    #[must_use]
    pub fn poll_timeout(&self) -> Timestamp {
        self.cleaned_at + CLEANING
    }

    /// Removes expired state.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        if now < self.poll_timeout() {
            return;
        }
        self.cleaned_at = now;
        self.nameplates.clean(now);
        self.senders.retain(|_, allowances| {
            allowances.iter().any(|allowance| now.saturating_since(allowance.last_asked()) < SENDER_FORGOTTEN)
        });
        let (channels, networks) = (&mut self.channels, &mut self.networks);
        self.calls.retain(|_, call| {
            for place in &mut call.ends {
                if let Some(end) = place.take_if(|end| now.saturating_since(end.received_at) >= FORGOTTEN) {
                    channels.remove(&end.channel);
                }
            }
            let lasts = call.ends.iter().any(Option::is_some);
            if !lasts && let Some(count) = networks.get_mut(&call.network) {
                *count -= 1;
                if *count == 0 {
                    networks.remove(&call.network);
                }
            }
            lasts
        });
    }

    fn send(&mut self, to: SocketAddr, message: &Message<'_>) {
        if self.waiting.len() < MAX_QUEUED_DATAGRAMS {
            self.waiting.push_back((to, message.to_bytes()));
        }
    }

    /// Allowances of the network of `from`.
    fn allowances(&mut self, from: SocketAddr) -> &mut [Allowance; 2] {
        let network = network(from);
        if self.senders.len() >= MAX_SENDERS && !self.senders.contains_key(&network) {
            return &mut self.others;
        }
        self.senders.entry(network).or_insert_with(allowances)
    }

    /// The cookie of an address in a period.
    fn cookie(&self, of: SocketAddr, period: u64) -> Cookie {
        let text = format!("cookie {of} {period}");
        let mut cookie = Cookie::default();
        cookie.copy_from_slice(&sign(&self.key, text.as_bytes()).as_ref()[..size_of::<Cookie>()]);
        cookie
    }

    fn is_at(&self, now: Timestamp, address: SocketAddr, cookie: &Cookie) -> bool {
        let period = period(now);
        [period, period.saturating_sub(1)].into_iter().any(|period| {
            let right = self.cookie(address, period);
            right.iter().zip(cookie).fold(0, |wrong, (one, other)| wrong | (one ^ other)) == 0
        })
    }

    /// A new channel that nobody can guess.
    fn channel(&mut self) -> Channel {
        self.given += 1;
        let code = sign(&self.key, format!("channel {}", self.given).as_bytes());
        let mut channel = Channel::default();
        channel.copy_from_slice(&code.as_ref()[..size_of::<Channel>()]);
        channel
    }

    /// Whether an end may send now, and has proved its address; otherwise it receives a cookie.
    fn admits(&mut self, now: Timestamp, from: SocketAddr, session: Session, cookie: &Cookie) -> bool {
        let [announcements, _] = self.allowances(from);
        if !announcements.take(now, ANNOUNCEMENTS, ANNOUNCEMENTS, 1.0) {
            return false;
        }
        let is_at = self.is_at(now, from, cookie);
        if !is_at {
            let cookie = self.cookie(from, period(now));
            self.send(from, &Message::Prove { session, cookie, address: from });
        }
        is_at
    }

    fn refuse(&mut self, to: SocketAddr, session: Session, refusal: Refusal) {
        self.status.refused += 1;
        self.send(to, &Message::Refused { session, refusal });
    }

    /// Passes a parcel to the other end of a code.
    fn exchange(&mut self, now: Timestamp, from: SocketAddr, exchange: &Exchange) {
        if !self.admits(now, from, exchange.session, &exchange.cookie) {
            return;
        }
        let drawn = u64::from_be_bytes(self.channel());
        match self.nameplates.place(now, from, exchange, &self.limits, drawn) {
            Ok(answers) => answers.iter().for_each(|(to, answer)| self.send(*to, answer)),
            Err(refusal) => self.refuse(from, exchange.session, refusal),
        }
    }

    fn announced(
        &mut self,
        now: Timestamp,
        from: SocketAddr,
        announce: &Announce,
        signature: &Signature,
        signed: &[u8],
    ) {
        let session = announce.session;
        if !self.admits(now, from, session, &announce.cookie) {
            return;
        }
        let may_check = self.signatures.take(now, SIGNATURES, SIGNATURES, 1.0);
        if !may_check || !is_signed(&announce.call, signed, signature) {
            return;
        }
        match self.place(now, from, announce) {
            Ok(()) => self.introduce(announce.call, announce.side),
            Err(refusal) => self.refuse(from, session, refusal),
        }
    }

    /// Stores the announcement of an end.
    fn place(&mut self, now: Timestamp, from: SocketAddr, announce: &Announce) -> Result<(), Refusal> {
        let network = network(from);
        if !self.calls.contains_key(&announce.call) {
            if self.calls.len() >= self.limits.calls {
                return Err(Refusal::Full);
            }
            // The count is stored only if the network may start a call.
            let count = self.networks.get(&network).copied().unwrap_or(0);
            if count >= self.limits.calls_per_address {
                return Err(Refusal::TooMany);
            }
            self.networks.insert(network, count + 1);
            self.calls.insert(announce.call, Call { network, ends: [None, None], met: false });
        }
        let place = usize::from(announce.side.number());
        let old = self.calls.get_mut(&announce.call).and_then(|call| call.ends[place].as_mut());
        let channel = match old {
            Some(old) if old.session == announce.session => {
                // An old announcement may be replayed with its valid signature; an older number is ignored.
                if announce.number.wrapping_sub(old.number) < 1 << 31 {
                    (old.number, old.known, old.sealed) = (announce.number, announce.known, announce.sealed);
                    (old.address, old.received_at) = (from, now);
                }
                return Ok(());
            }
            Some(old) if old.relayed_at.is_some_and(|at| now.saturating_since(at) < IN_USE) => {
                return Err(Refusal::Taken);
            }
            Some(old) => {
                let before = old.channel;
                self.channels.remove(&before);
                self.channel()
            }
            None => self.channel(),
        };
        self.channels.insert(channel, (announce.call, announce.side));
        if let Some(call) = self.calls.get_mut(&announce.call) {
            call.ends[place] = Some(End {
                session: announce.session,
                address: from,
                channel,
                number: announce.number,
                known: announce.known,
                sealed: announce.sealed,
                received_at: now,
                relayed_at: None,
                allowance: Allowance::new(bits(self.limits.relay_rate) * RELAY_BURST),
            });
        }
        Ok(())
    }

    /// Confirms `side`'s announcement with the other end's data, and informs the other end of news.
    fn introduce(&mut self, call: Name, side: Side) {
        let Some(call) = self.calls.get_mut(&call) else { return };
        let at = |side: Side| usize::from(side.number());
        let [Some(this), other] = [&call.ends[at(side)], &call.ends[at(side.other())]] else { return };
        let met = |end: &End, other: &Option<End>| {
            let other = other.as_ref().map(|other| Box::new(Other { number: other.number, sealed: other.sealed }));
            (end.address, Message::Met { session: end.session, address: end.address, channel: end.channel, other })
        };
        let mut answers = vec![met(this, other)];
        if let Some(there) = other.as_ref().filter(|other| other.known != this.number) {
            answers.push(met(there, &call.ends[at(side)]));
        }
        let first = other.is_some() && !std::mem::replace(&mut call.met, true);
        self.status.met += u64::from(first);
        for (to, answer) in answers {
            self.send(to, &answer);
        }
    }

    fn relay(&mut self, now: Timestamp, from: SocketAddr, channel: Channel, packet: &[u8]) {
        let ends = self.channels.get(&channel).and_then(|(call, side)| {
            let [joiner, listener] = &mut self.calls.get_mut(call)?.ends;
            let (this, other) = match side {
                Side::Joiner => (joiner, listener),
                Side::Listener => (listener, joiner),
            };
            let this = this.as_mut().filter(|this| this.address == from)?;
            Some((this, other.as_ref()))
        });
        let Some((this, other)) = ends else {
            let [_, unknowns] = self.allowances(from);
            if unknowns.take(now, UNKNOWNS, UNKNOWNS, 1.0) {
                self.send(from, &Message::Unknown { channel });
            }
            return;
        };
        this.received_at = now;
        let there = other.filter(|other| now.saturating_since(other.received_at) < CONSENT).map(|other| other.address);
        let Some(to) = there.filter(|_| self.limits.relay_rate > Bitrate::ZERO && packet.len() <= MAX_PACKET_BYTES)
        else {
            return;
        };
        let size = packet.len() as f64 * 8.0;
        let (rate, total) = (bits(self.limits.relay_rate), bits(self.limits.total_relay_rate));
        let allowed = this.allowance.take(now, rate, rate * RELAY_BURST, size)
            && self.relayed.take(now, total, total * RELAY_BURST, size);
        if !allowed {
            self.status.dropped_packets += 1;
            return;
        }
        this.relayed_at = Some(now);
        self.status.relayed_packets += 1;
        self.status.relayed_bytes += packet.len() as u64;
        self.send(to, &Message::Relayed(packet));
    }
}

/// The cookie period that contains `now`.
fn period(now: Timestamp) -> u64 {
    now.as_nanos() / (COOKIE_PERIOD.as_nanos() as u64)
}
