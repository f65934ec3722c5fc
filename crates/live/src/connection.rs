//! QUIC connection of a call, between the joiner and the listener of a ticket.
//!
//! The first peer that proves to know the ticket's secret becomes the other end of the call. Until then, links to
//! unknown peers are kept apart from the call, limited in number and time.
//!
//! The connection reads no clock and owns no socket. Its driver passes in datagrams and the time, and sends what
//! [`Connection::poll_transmit`] returns.

mod carrier;
mod closing;
mod link;
mod loss;
mod routes;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use lockstep_session::{Carrier, Loss};
use lockstep_socket::{Incoming, Origin};
use lockstep_units::Timestamp;
use quinn_proto::{ClientConfig, ConnectionHandle, DatagramEvent, Endpoint, EndpointEvent, Event, StreamEvent};

use crate::gate::{Gate, Names};
use crate::identity::{Identity, random};
use crate::quic::{PATIENCE, Qlog};
use crate::rendezvous::{Meeting, RELAY};
use crate::route::JoinerRoute;
use crate::unlimited::unacknowledged;
use crate::{LiveError, TicketRefusal, quic};
use closing::Closing;
use link::{Link, StreamRead};
use lockstep_session::control::{CallKind, Message};
use lockstep_session::messages::{self, Delivery, LatestChannels};
use lockstep_session::presence::Presence;
use lockstep_session::probe::{answer_to, answered, challenge, is_keep_alive, is_resumed, keep_alive, resumed};
use lockstep_session::ticket::{Secret, Ticket};
use loss::{code, loss_of, loss_of_page, loss_of_session};

/// Links at a listener that are not part of the call. A further peer with a proved address replaces the oldest one.
const MAX_PENDING_LINKS: usize = 8;
/// With more links than this, unknown peers must first validate their address (RFC 9000, section 8.1.2).
const MAX_UNVALIDATED_LINKS: usize = 2;
/// Longest interval between two datagrams to the other end, which show that this end is alive, and its address.
/// It holds also while nothing arrives, when QUIC would back off exponentially.
const KEEP_ALIVE: Duration = Duration::from_millis(200);
/// After this long without a datagram, which is longer than [`KEEP_ALIVE`], the path counts as interrupted.
const PAUSE: Duration = Duration::from_millis(500);
/// Packets to the other end that may be unacknowledged while it sends; QUIC remembers 280 bytes of each. With 100 Mb/s,
/// that many leave in 3 s. QUIC acknowledges after 0.2 s.
const MAX_UNACKNOWLEDGED: u64 = 1 << 15;
/// Answers to unknown peers that may wait to be sent; further ones are dropped.
const MAX_QUEUED_ANSWERS: usize = 64;

/// Event of a connection.
type ConnectionEvent = lockstep_session::CarrierEvent<Bytes>;

/// Role of this end.
enum Role {
    Joiner { secret: Secret, config: Box<ClientConfig>, tried: Vec<SocketAddr>, route: JoinerRoute },
    Listener { secret: Secret, reusable: bool, used: bool },
}

/// Connection of one end. Its owner passes in datagrams and the time, takes the events, and sends the datagrams.
pub(crate) struct Connection {
    origin: Origin,
    endpoint: Endpoint,
    links: BTreeMap<usize, Link>,
    /// The link of the call.
    chosen: Option<usize>,
    role: Role,
    kind: CallKind,
    names: Names,
    /// Filter in front of the sockets.
    gate: Gate,
    in_call: Arc<AtomicBool>,
    events: VecDeque<ConnectionEvent>,
    last_received: Timestamp,
    last_sent: Timestamp,
    closing: Option<Closing>,
    /// Silence of the other end at the end of a call of which the other end may not know.
    unconfirmed: Option<Duration>,
    over: bool,
    /// Datagrams for peers outside the call, with their addresses.
    answers: VecDeque<(SocketAddr, Vec<u8>)>,
    /// Search for the other end, if there is a rendezvous.
    meeting: Option<Meeting>,
    /// When a direct route last replaced a relayed or lost one.
    moved_at: Timestamp,
    latest: LatestChannels,
}

impl Connection {
    /// Dials the owner of `ticket`; QUIC logs to `qlog`, if given.
    pub(crate) fn joining(
        ticket: Ticket,
        kind: CallKind,
        qlog: Option<Qlog>,
        origin: Origin,
        now: Timestamp,
    ) -> Result<Self, LiveError> {
        let Ticket { key, secret, addresses, .. } = ticket;
        let config = Box::new(quic::dialling(&key, qlog.map(|qlog| (qlog, origin.instant(Timestamp::ZERO))))?);
        let role = Role::Joiner { secret, config, tried: Vec::new(), route: JoinerRoute::new() };
        let (config, names) = quic::endpoint(&random::<32>()?, None)?;
        let mut connection = Self::new(role, kind, Endpoint::new(config, None, true, None), names, origin, now);
        for address in addresses {
            connection.dial(address, now)?;
        }
        Ok(connection)
    }

    /// Waits for a peer with the ticket of `identity`; QUIC logs to `qlog`, if given.
    pub(crate) fn listening(
        identity: &Identity,
        kind: CallKind,
        qlog: Option<Qlog>,
        origin: Origin,
        now: Timestamp,
    ) -> Result<Self, LiveError> {
        Self::listening_as(identity, identity.is_reusable(), kind, None, qlog, origin, now)
    }

    /// Waits in one of several slots of a listener. The connection identifiers hold the number of the slot.
    pub(crate) fn listening_slot(
        identity: &Identity,
        kind: CallKind,
        slot: u8,
        origin: Origin,
        now: Timestamp,
    ) -> Result<Self, LiveError> {
        Self::listening_as(identity, true, kind, Some(slot), None, origin, now)
    }

    fn listening_as(
        identity: &Identity,
        reusable: bool,
        kind: CallKind,
        slot: Option<u8>,
        qlog: Option<Qlog>,
        origin: Origin,
        now: Timestamp,
    ) -> Result<Self, LiveError> {
        let role = Role::Listener { secret: identity.secret(), reusable, used: false };
        let server = Some(quic::server(identity, qlog.map(|qlog| (qlog, origin.instant(Timestamp::ZERO))))?);
        let (config, names) = quic::endpoint(&identity.seed(), slot)?;
        Ok(Self::new(role, kind, Endpoint::new(config, server, true, None), names, origin, now))
    }

    fn new(role: Role, kind: CallKind, endpoint: Endpoint, names: Names, origin: Origin, now: Timestamp) -> Self {
        let in_call = Arc::new(AtomicBool::new(false));
        let gate = Gate::new(names.clone(), matches!(role, Role::Listener { .. }), in_call.clone());
        Self {
            origin,
            endpoint,
            links: BTreeMap::new(),
            chosen: None,
            role,
            kind,
            names,
            gate,
            in_call,
            events: VecDeque::new(),
            last_received: now,
            last_sent: now,
            closing: None,
            unconfirmed: None,
            over: false,
            answers: VecDeque::new(),
            meeting: None,
            moved_at: now,
            latest: LatestChannels::default(),
        }
    }

    /// Keys of the connection identifiers.
    pub(crate) fn names(&self) -> Names {
        self.names.clone()
    }

    /// Filter for the readers of the sockets; only datagrams that it admits may be passed in.
    pub(crate) fn gate(&self) -> Gate {
        self.gate.clone()
    }

    /// Handles a datagram that the gate admitted.
    pub(crate) fn handle_datagram(&mut self, incoming: Incoming) {
        let Some(Incoming { at, from, datagram, .. }) = self.unwrapped(incoming) else { return };
        let Some(&first) = datagram.first() else { return };
        let known = match &self.role {
            Role::Listener { .. } => true,
            // Only packets with long headers can start a connection.
            Role::Joiner { tried, .. } => first & 0x80 == 0 || tried.contains(&from),
        };
        if !known {
            return;
        }
        let remote = self.as_known(from);
        let now = self.origin.instant(at);
        let mut buffer = Vec::new();
        let length = datagram.len();
        match self.endpoint.handle(now, remote, None, None, datagram, &mut buffer) {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                let Some(link) = self.links.get_mut(&handle.0) else { return };
                let before = link.quic.remote_address();
                link.quic.handle_event(event);
                // A joiner's QUIC knows a single address, whatever the route is.
                if self.chosen == Some(handle.0) && link.quic.remote_address() != before {
                    self.events.push_back(ConnectionEvent::Moved);
                }
                let is_new = link.has_received() && self.chosen.is_none_or(|chosen| chosen == handle.0);
                self.follow(handle.0, at);
                if is_new {
                    self.bound_unacknowledged(handle.0, at);
                    let pause = at.saturating_since(self.last_received);
                    self.last_received = self.last_received.max(at);
                    if pause >= PAUSE && self.is_open() {
                        self.events.push_back(ConnectionEvent::Returned);
                        self.send(resumed());
                    }
                    self.find(handle.0, at, from, length);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.accept_incoming(incoming, at),
            Some(DatagramEvent::Response(answer)) => self.answer(answer.destination, buffer),
            None => {}
        }
    }

    /// Ends the call if the other end sends, but has acknowledged no packet for long.
    fn bound_unacknowledged(&mut self, handle: usize, at: Timestamp) {
        let Some(link) = self.links.get_mut(&handle) else { return };
        if unacknowledged(&link.quic) <= MAX_UNACKNOWLEDGED {
            link.unacknowledging = None;
        } else if at >= *link.unacknowledging.get_or_insert(at) + PATIENCE {
            // After an outage, the first packets of an honest end may come before its acknowledgements.
            link.quic.close(self.origin.instant(at), 0u32.into(), Bytes::new());
            self.lost(handle, Loss::Broken("the other end acknowledges no QUIC packets".to_owned()));
        }
    }

    /// Queues a datagram for a peer outside the call.
    fn answer(&mut self, to: SocketAddr, datagram: Vec<u8>) {
        if self.answers.len() < MAX_QUEUED_ANSWERS {
            self.answers.push_back((to, datagram));
        }
    }

    /// Challenges a new address of the listener.
    fn find(&mut self, handle: usize, at: Timestamp, from: SocketAddr, length: usize) {
        let Role::Joiner { route, .. } = &mut self.role else { return };
        if from == RELAY {
            return; // this end alone chooses the relayed route
        }
        let Some((to, token)) = route.on_packet(at, from, length, || random().ok()) else { return };
        let Some(link) = self.links.get_mut(&handle) else { return };
        let _ = link.quic.datagrams().send(challenge(token).into(), true);
        let mut buffer = Vec::new();
        if link.quic.poll_transmit(self.origin.instant(at), 1, &mut buffer).is_some() {
            self.answer(to, buffer);
        }
    }

    /// Handles a connection attempt.
    fn accept_incoming(&mut self, incoming: quinn_proto::Incoming, at: Timestamp) {
        let now = self.origin.instant(at);
        let pending = self.links.len() - usize::from(self.chosen.is_some());
        let is_validated = incoming.remote_address_validated();
        let mut buffer = Vec::new();
        if pending >= MAX_UNVALIDATED_LINKS && !is_validated && incoming.may_retry() {
            if let Ok(answer) = self.endpoint.retry(incoming, &mut buffer) {
                self.answer(answer.destination, buffer);
            }
        } else if pending >= MAX_PENDING_LINKS && !is_validated {
            self.endpoint.ignore(incoming);
        } else {
            if pending >= MAX_PENDING_LINKS {
                self.evict_link();
            }
            match self.endpoint.accept(incoming, now, &mut buffer, None) {
                Ok((handle, accepted)) => {
                    self.links.insert(handle.0, Link::new(accepted, at));
                    self.follow(handle.0, at);
                }
                Err(refused) => {
                    if let Some(answer) = refused.response {
                        self.answer(answer.destination, buffer);
                    }
                }
            }
        }
    }

    /// Forgets the oldest link of a peer that has not shown the ticket.
    fn evict_link(&mut self) {
        let unknown = self.links.iter().filter(|&(&handle, _)| self.chosen != Some(handle));
        let oldest = unknown.min_by_key(|(_, link)| (!link.quic.is_closed(), link.since)).map(|(&handle, _)| handle);
        if let Some(handle) = oldest {
            self.links.remove(&handle);
            self.endpoint.handle_event(ConnectionHandle(handle), EndpointEvent::drained());
        }
    }

    /// Handles the events of a link.
    fn follow(&mut self, handle: usize, at: Timestamp) {
        loop {
            let Some(link) = self.links.get_mut(&handle) else { return };
            while let Some(event) = link.quic.poll_endpoint_events() {
                if let Some(event) = self.endpoint.handle_event(ConnectionHandle(handle), event) {
                    link.quic.handle_event(event);
                }
            }
            let Some(event) = link.quic.poll() else { break };
            match event {
                Event::HandshakeDataReady if matches!(self.role, Role::Listener { .. }) => link.on_handshake(),
                Event::Connected => {
                    self.connected(handle, at);
                    self.read(handle, at);
                }
                Event::Stream(StreamEvent::Opened { .. } | StreamEvent::Readable { .. }) => {
                    self.read(handle, at);
                    self.read_reliable(handle, at);
                }
                Event::Stream(StreamEvent::Writable { .. } | StreamEvent::Available { .. }) => {
                    link.write();
                    link.write_reliable();
                }
                Event::Stream(StreamEvent::Finished { id }) if link.is_last(id) => {
                    link.is_acknowledged = link.is_page();
                    if self.chosen == Some(handle) {
                        self.end(at);
                    }
                }
                Event::DatagramReceived => {
                    while let Some(datagram) = link.next_datagram() {
                        if self.chosen != Some(handle) {
                            continue;
                        }
                        match (&mut self.role, answer_to(&datagram), answered(&datagram)) {
                            (Role::Listener { .. }, Some(answer), _) => {
                                link.send_datagram(answer);
                            }
                            (Role::Joiner { route, .. }, _, Some(token)) => {
                                self.events.extend(route.answered(token).then_some(ConnectionEvent::Moved));
                            }
                            _ if is_keep_alive(&datagram) => {}
                            _ if is_resumed(&datagram) => self.events.push_back(ConnectionEvent::Returned),
                            _ if messages::is_latest(&datagram) => {
                                if let Some((channel, sent_at, payload)) = self.latest.received(&datagram) {
                                    let delivery = Delivery::Latest { channel };
                                    self.events.push_back(ConnectionEvent::Message { at, delivery, sent_at, payload });
                                }
                            }
                            _ => self.events.push_back(ConnectionEvent::Datagram(at, datagram)),
                        }
                    }
                }
                Event::ConnectionLost { reason } => {
                    let by_listener = matches!(self.role, Role::Joiner { .. });
                    let loss = if link.is_page() { loss_of_page(reason) } else { loss_of(reason, by_listener) };
                    self.lost(handle, loss);
                }
                _ => {}
            }
        }
        if self.links.get(&handle).is_some_and(|link| link.quic.is_drained()) && self.chosen != Some(handle) {
            self.links.remove(&handle);
        }
    }

    /// Handles a completed handshake.
    fn connected(&mut self, handle: usize, at: Timestamp) {
        let Role::Joiner { secret, route, .. } = &mut self.role else { return };
        let Some(link) = self.links.get_mut(&handle) else { return };
        if self.chosen.is_some() {
            link.quic.close(self.origin.instant(at), 0u32.into(), Bytes::new());
            return;
        }
        // The first peer that answered holds the key; nobody else learns the secret.
        self.chosen = Some(handle);
        route.begin(link.quic.remote_address());
        link.open();
        link.send(&Message::Join { secret: *secret, kind: self.kind });
        // The event precedes everything that is sent from here on.
        self.events.push_back(ConnectionEvent::Joined);
        let now = self.origin.instant(at);
        for (_, other) in self.links.iter_mut().filter(|(other, _)| **other != handle) {
            other.quic.close(now, 0u32.into(), Bytes::new());
        }
    }

    /// Reads the messages in the stream of a link.
    fn read(&mut self, handle: usize, at: Timestamp) {
        loop {
            let Some(link) = self.links.get_mut(&handle) else { return };
            let read = link.next();
            let chosen = self.chosen == Some(handle);
            match read {
                StreamRead::Nothing => return,
                StreamRead::Malformed => return self.refuse(handle, TicketRefusal::Malformed, at),
                StreamRead::Closed(code) if chosen => {
                    self.events.push_back(ConnectionEvent::Lost(loss_of_session(code)));
                    return self.end(at);
                }
                StreamRead::Closed(_) => return link.quic.close(self.origin.instant(at), 0u32.into(), Bytes::new()),
                StreamRead::Message(Message::Join { secret, kind }) if !chosen => self.asked(handle, &secret, kind, at),
                StreamRead::Message(Message::Welcome) if chosen => {}
                StreamRead::Message(Message::Transport(datagram)) if chosen => {
                    self.events.push_back(ConnectionEvent::Control(datagram));
                }
                StreamRead::Message(Message::Presence(presence)) if chosen => {
                    self.events.push_back(ConnectionEvent::Presence(presence));
                }
                StreamRead::Message(Message::Stream { connection, name }) if chosen => {
                    self.events.push_back(ConnectionEvent::Stream { connection, name });
                }
                StreamRead::Message(Message::Close(reason)) if chosen => {
                    self.events.push_back(ConnectionEvent::Lost(Loss::Closed(reason)));
                    self.end(at);
                }
                StreamRead::Message(_) => return self.refuse(handle, TicketRefusal::Malformed, at),
            }
        }
    }

    /// Reads the reliable messages of the call's link.
    fn read_reliable(&mut self, handle: usize, at: Timestamp) {
        while self.chosen == Some(handle) {
            let Some(link) = self.links.get_mut(&handle) else { return };
            match link.next_reliable() {
                Ok(Some((sent_at, payload))) => {
                    self.events.push_back(ConnectionEvent::Message {
                        at,
                        delivery: Delivery::Reliable,
                        sent_at,
                        payload,
                    });
                }
                Ok(None) => return,
                Err(messages::Malformed) => return self.refuse(handle, TicketRefusal::Malformed, at),
            }
        }
    }

    /// Checks the ticket that an unknown peer shows.
    fn asked(&mut self, handle: usize, shown: &Secret, kind: CallKind, at: Timestamp) {
        let is_silent = self.is_silent(at);
        let Role::Listener { secret, reusable, used } = &mut self.role else { return };
        // Comparison in constant time, so that its duration reveals nothing about the secret.
        let right = secret.iter().zip(shown).fold(0, |wrong, (one, other)| wrong | (one ^ other)) == 0;
        let refusal = match (right, kind == self.kind, self.chosen) {
            (false, ..) => Some(TicketRefusal::Wrong),
            (_, _, Some(_)) if *reusable => {
                // The holder of a standing ticket that restarted need not wait until its old call times out.
                if is_silent {
                    self.events.push_back(ConnectionEvent::Lost(Loss::Replaced));
                    self.over = true;
                } else {
                    self.events.push_back(ConnectionEvent::Missed);
                }
                Some(TicketRefusal::Busy)
            }
            (_, _, Some(_)) => Some(TicketRefusal::Used),
            _ if *used && !*reusable => Some(TicketRefusal::Used),
            (_, false, _) => Some(TicketRefusal::OtherKind),
            _ => None,
        };
        if let Some(refusal) = refusal {
            return self.refuse(handle, refusal, at);
        }
        *used = true;
        self.chosen = Some(handle);
        self.in_call.store(true, Ordering::Relaxed);
        if let Some(link) = self.links.get_mut(&handle) {
            link.send(&Message::Welcome);
        }
        self.events.push_back(ConnectionEvent::Joined);
    }

    fn refuse(&mut self, handle: usize, refusal: TicketRefusal, at: Timestamp) {
        let now = self.origin.instant(at);
        if let Some(link) = self.links.get_mut(&handle) {
            link.close(at, now, code(refusal));
        }
        if self.chosen == Some(handle) {
            self.lost(handle, Loss::Broken("the other end sent a malformed message".to_owned()));
        }
    }

    /// Handles the loss of a link.
    fn lost(&mut self, handle: usize, loss: Loss) {
        let only = self.has_tried_all() && self.links.values().all(|link| link.quic.is_closed());
        if self.chosen == Some(handle) || (self.chosen.is_none() && only) {
            self.events.push_back(ConnectionEvent::Lost(loss));
            self.over = true;
        }
    }

    /// Number of links, to the other end of the call and to unknown peers.
    #[cfg(test)]
    pub(crate) fn links(&self) -> usize {
        self.links.len()
    }

    /// Sends the presence of this end in the stream.
    pub(crate) fn show(&mut self, presence: Presence) {
        if let Some(link) = self.chosen.and_then(|chosen| self.links.get_mut(&chosen)) {
            link.send(&Message::Presence(presence));
        }
    }

    /// The first link after `last` in ascending order; the first link if `last` is `None`.
    fn handle_after(&self, last: Option<usize>) -> Option<usize> {
        let from = last.map_or(0, |last| last + 1);
        self.links.range(from..).next().map(|(&handle, _)| handle)
    }

    /// Handles the timeouts that are due at `now`.
    pub(crate) fn handle_timeout(&mut self, now: Timestamp) {
        let instant = self.origin.instant(now);
        let mut last = None;
        while let Some(handle) = self.handle_after(last) {
            last = Some(handle);
            let Some(link) = self.links.get_mut(&handle) else { continue };
            if link.quic.poll_timeout().is_some_and(|at| at <= instant) {
                link.quic.handle_timeout(instant);
            }
            link.close_if_due(now, instant);
            let late = self.chosen != Some(handle) && now >= link.since + PATIENCE;
            if late && matches!(self.role, Role::Listener { .. }) {
                if !link.quic.is_closed() {
                    link.quic.close(instant, 0u32.into(), Bytes::new());
                }
                link.since = now;
            }
            self.follow(handle, now);
        }
        self.find_routes(now);
        if self.keep_alive_at().is_some_and(|at| at <= now)
            && let Some(link) = self.chosen.and_then(|chosen| self.links.get_mut(&chosen))
        {
            // The timer restarts even if the ping or the datagram cannot be sent.
            if link.is_page() {
                link.send_datagram(keep_alive());
                link.note_datagram(now);
            } else {
                link.quic.ping();
            }
            self.last_sent = now;
        }
        self.give_up(now);
    }

    /// When the other end must next see that this end is alive. A page sees datagrams only.
    fn keep_alive_at(&self) -> Option<Timestamp> {
        let link = self.links.get(&self.chosen?)?;
        let since = if link.is_page() { link.datagram_at() } else { self.last_sent };
        Some(since + KEEP_ALIVE)
    }

    /// UDP datagrams and bytes of the call's link, sent and received.
    pub(crate) fn traffic(&self) -> Option<Traffic> {
        let statistics = self.links.get(&self.chosen?)?.quic.stats();
        Some(Traffic {
            sent_datagrams: statistics.udp_tx.datagrams,
            sent_bytes: statistics.udp_tx.bytes,
            received_datagrams: statistics.udp_rx.datagrams,
            received_bytes: statistics.udp_rx.bytes,
        })
    }

    /// The peer address that QUIC knows for packets from `from`. A joiner's peer may move, which QUIC does not support.
    fn as_known(&self, from: SocketAddr) -> SocketAddr {
        match &self.role {
            Role::Joiner { route, .. } => route.known().unwrap_or(from),
            Role::Listener { .. } => from,
        }
    }
}

/// Traffic of a connection: whole QUIC packets, without UDP and IP headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Traffic {
    /// Datagrams sent.
    pub sent_datagrams: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Datagrams received.
    pub received_datagrams: u64,
    /// Bytes received.
    pub received_bytes: u64,
}
