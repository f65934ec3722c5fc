//! One end of a call without sockets, clocks and threads.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use lockstep_call::{Display, PictureCodec, ReceivingEnd, SendingEnd, SerialMenu, Vp8};
use lockstep_socket::{Admission, Incoming, Origin};
use lockstep_transport::{SendError, SoundPacket};
use lockstep_units::Timestamp;
use lockstep_vp8::Picture;

use crate::connection::Connection;
use crate::control::CallKind;
use crate::event::CallEvent;
use crate::exchange::{Ends, Exchange, Patience, reason};
use crate::freshness::Freshness;
use crate::gate::Gate;
use crate::identity::Identity;
use crate::messages::{Message, MessageError};
use crate::presence::Presence;
use crate::receiving::refusal;
use crate::stream::StreamName;
use crate::ticket::{MOST_ADDRESSES, Ticket};
use crate::{END_LIMIT, Ended, LiveError, SILENT_END_LIMIT};

/// Configuration of a [`Peer`].
pub struct PeerConfig<C: PictureCodec = Vp8> {
    /// The direction of pictures; both ends must choose the same.
    pub kind: CallKind,
    /// An end for each video stream that is sent, the most important first. Their controllers should be in one
    /// [`FlowGroup`](lockstep_control::FlowGroup), and their connection numbers differ.
    pub sending: Vec<SendingEnd<C>>,
    /// The names of these streams, in their order. The other end learns them; streams may lack one.
    pub names: Vec<StreamName>,
    /// An end for each video stream that may be received; streams take them in the order in which they are announced. A call of
    /// more streams is refused.
    pub receiving: Vec<ReceivingEnd<C>>,
    /// Time that the other end may take to join; none waits forever.
    pub wait_limit: Option<Duration>,
    /// Silence that ends the call; none waits forever.
    pub idle_limit: Option<Duration>,
    /// Age at which the newest picture is stale ([`CallEvent::Stale`]); none means never.
    pub stale_after: Option<Duration>,
    /// Addresses of the application's sockets, where a rendezvous may tell the other end about them.
    pub addresses: Vec<SocketAddr>,
}

impl<C: PictureCodec> PeerConfig<C> {
    /// An end that sends to the giver of a ticket.
    #[must_use]
    pub fn sending(end: SendingEnd<C>) -> Self {
        Self { sending: vec![end], ..Self::of(CallKind::OneWay) }
    }

    /// An end that sends to whoever joins with its ticket.
    #[must_use]
    pub fn sending_to_joiner(end: SendingEnd<C>) -> Self {
        Self { sending: vec![end], ..Self::of(CallKind::FromListener) }
    }

    /// An end that receives from the giver of a ticket.
    #[must_use]
    pub fn receiving_from_listener(end: ReceivingEnd<C>) -> Self {
        Self { receiving: vec![end], ..Self::of(CallKind::FromListener) }
    }

    /// An end that receives from whoever joins with its ticket.
    #[must_use]
    pub fn receiving(end: ReceivingEnd<C>) -> Self {
        Self { receiving: vec![end], ..Self::of(CallKind::OneWay) }
    }

    /// An end that does both.
    #[must_use]
    pub fn both_ways(sending: SendingEnd<C>, receiving: ReceivingEnd<C>) -> Self {
        Self { sending: vec![sending], receiving: vec![receiving], ..Self::of(CallKind::TwoWay) }
    }

    /// An end that joins and sends no streams yet: [`PeerConfig::sending`] takes them.
    #[must_use]
    pub fn sending_nothing() -> Self {
        Self::of(CallKind::OneWay)
    }

    /// Ten seconds to join, and thirty of silence, as in the command.
    fn of(kind: CallKind) -> Self {
        Self {
            kind,
            sending: Vec::new(),
            names: Vec::new(),
            receiving: Vec::new(),
            wait_limit: Some(Duration::from_secs(10)),
            idle_limit: Some(Duration::from_secs(30)),
            stale_after: None,
            addresses: Vec::new(),
        }
    }
}

/// What a [`Peer`] takes from its owner.
#[derive(Debug, Clone, Copy)]
pub enum Input<'a> {
    /// The time that [`Output::Timeout`] gave has come, or passed.
    Timeout,
    /// A UDP datagram arrived at the application's socket.
    Datagram {
        /// Its sender.
        from: SocketAddr,
        /// Its bytes.
        bytes: &'a [u8],
    },
}

/// What a [`Peer`] gives its owner.
#[derive(Debug)]
pub enum Output {
    /// Send this UDP datagram.
    Transmit {
        /// Its destination.
        to: SocketAddr,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// Show this picture.
    Frame(ReceivedFrame),
    /// Play this packet of sound: 20 ms of Opus.
    Sound(SoundPacket),
    /// An event, messages included. After [`CallEvent::Ended`] or [`CallEvent::Failed`] there is no other.
    Event(CallEvent),
    /// Nothing else now. Call [`Peer::handle_input`] at this time, or when a datagram arrives.
    Timeout(Timestamp),
}

/// A picture of the other end.
#[derive(Debug, Clone)]
pub struct ReceivedFrame {
    /// The video stream; 0 is the first, and the only one of most calls.
    pub stream: usize,
    /// The name that the sender gave the stream; empty if it gave none.
    pub name: StreamName,
    /// The picture.
    pub picture: Picture,
    /// The time of its capture, on the other end's clock.
    pub captured_at: Timestamp,
    /// Its age now, from capture until now; none before the clocks can be compared.
    pub age: Option<Duration>,
}

/// One end of a call as a state machine: QUIC, transport, control and codec, over the application's own socket and clock.
///
/// All times are of one clock of the application that never goes back, counted from an origin of its choice. The codec runs
/// inside [`Peer::poll_output`], for some milliseconds a picture; [`run`](crate::run) has threads for it.
///
/// The owner's loop: [`Peer::poll_output`] until it returns [`Output::Timeout`], then wait for a datagram or that time, then
/// [`Peer::handle_input`]. After any other method, poll again.
pub struct Peer<C: PictureCodec = Vp8> {
    exchange: Exchange,
    gate: Gate,
    sending: Vec<SendingEnd<C>>,
    receiving: Vec<ReceivingEnd<C>>,
    own: Presence,
    joined: bool,
    ending: Option<(Timestamp, Result<Ended, LiveError>)>,
    is_over: bool,
    buffer: Vec<u8>,
}

/// Longest time that [`Output::Timeout`] asks for.
const LONGEST_WAIT: Duration = Duration::from_secs(3_600);

impl Peer {
    /// The ticket of `identity` for a listener whose socket others reach at `addresses`; more than eight are cut off.
    #[must_use]
    pub fn ticket(identity: &Identity, addresses: &[SocketAddr], servers: &[SocketAddr]) -> Ticket {
        let addresses = addresses.iter().copied().take(MOST_ADDRESSES).collect();
        Ticket { key: identity.public(), secret: identity.secret(), addresses, rendezvous: servers.to_vec() }
    }
}

impl<C: PictureCodec> Peer<C> {
    /// Joins the giver of `ticket`.
    ///
    /// # Errors
    /// If the system has no random numbers, or the ticket's key is not one.
    pub fn join(mut ticket: Ticket, config: PeerConfig<C>, now: Timestamp) -> Result<Self, LiveError> {
        let origin = Origin::new(Instant::now());
        let (secret, servers) = (ticket.secret, std::mem::take(&mut ticket.rendezvous));
        let mut connection = Connection::joining(ticket, config.kind, None, origin, now)?;
        connection.meet(&secret, servers, &config.addresses, false, now)?;
        Ok(Self::new(connection, config, now))
    }

    /// Waits for whoever has the ticket of `identity`; `servers` are rendezvous that the ticket names.
    ///
    /// # Errors
    /// If the system has no random numbers, or the identity's key is not one.
    pub fn listen(
        identity: &Identity,
        servers: &[SocketAddr],
        config: PeerConfig<C>,
        now: Timestamp,
    ) -> Result<Self, LiveError> {
        let origin = Origin::new(Instant::now());
        let mut connection = Connection::listening(identity, config.kind, None, origin, now)?;
        connection.meet(&identity.secret(), servers.to_vec(), &config.addresses, false, now)?;
        Ok(Self::new(connection, config, now))
    }

    fn new(connection: Connection, config: PeerConfig<C>, now: Timestamp) -> Self {
        let PeerConfig { sending, names, receiving, wait_limit, idle_limit, stale_after, .. } = config;
        Self {
            gate: connection.gate(),
            exchange: Exchange::new(connection, Patience { wait_limit, idle_limit }, now)
                .with_streams(names, Freshness::new(stale_after)),
            sending,
            receiving,
            own: Presence::default(),
            joined: false,
            ending: None,
            is_over: false,
            buffer: Vec::new(),
        }
    }

    /// Takes an input at `now`.
    pub fn handle_input(&mut self, now: Timestamp, input: Input<'_>) {
        if let Input::Datagram { from, bytes } = input
            && self.gate.admits(now, from, bytes)
        {
            let datagram = BytesMut::from(bytes);
            self.exchange.connection.handle_datagram(Incoming { at: now, from, to: None, datagram });
        }
        self.exchange.connection.handle_timeout(now);
        for sending in self.sending.iter_mut().filter(|end| end.poll_timeout().is_some_and(|at| at <= now)) {
            sending.handle_timeout(now);
        }
    }

    /// The next output at `now`.
    pub fn poll_output(&mut self, now: Timestamp) -> Output {
        let (exchange, mut ends) = parts(&mut self.exchange, &mut self.sending, &mut self.receiving);
        exchange.hear(now, &mut ends);
        self.on_joined();
        if let Some(output) = self.decode(now) {
            return output;
        }
        if let Some(event) = self.exchange.poll_event() {
            return Output::Event(event);
        }
        self.encode(now);
        self.end_if_due(now);
        self.buffer.clear();
        let (exchange, mut ends) = parts(&mut self.exchange, &mut self.sending, &mut self.receiving);
        if let Some(to) = exchange.poll_transmit(now, &mut ends, &mut self.buffer) {
            return Output::Transmit { to, bytes: std::mem::take(&mut self.buffer) };
        }
        if let Some(event) = self.ended(now) {
            return Output::Event(event);
        }
        let (exchange, ends) = parts(&mut self.exchange, &mut self.sending, &mut self.receiving);
        let timeout = if self.is_over { None } else { exchange.poll_timeout(&ends) };
        Output::Timeout(timeout.unwrap_or(now + LONGEST_WAIT).max(now))
    }

    fn on_joined(&mut self) {
        if self.exchange.connection.is_joined()
            && !std::mem::replace(&mut self.joined, true)
            && self.own != Presence::default()
        {
            self.exchange.connection.show(self.own);
        }
    }

    /// Decodes what arrived, and gives the next picture or packet of sound.
    fn decode(&mut self, now: Timestamp) -> Option<Output> {
        for (stream, receiving) in self.receiving.iter_mut().enumerate() {
            while let Some(job) = receiving.poll_decode() {
                receiving.decoded(now, job.run());
                if let Some(Display { captured_at, picture, .. }) = receiving.poll_display() {
                    self.exchange.on_shown(stream, captured_at);
                    let round_trip = self.exchange.connection.shortest_round_trip().unwrap_or_default();
                    let age = receiving.age(now, captured_at, round_trip);
                    let name = self.exchange.name_of(receiving);
                    return Some(Output::Frame(ReceivedFrame { stream, name, picture, captured_at, age }));
                }
            }
        }
        self.receiving.iter_mut().find_map(ReceivingEnd::poll_sound).map(Output::Sound)
    }

    /// Codes the picture that waits, once the other end is there.
    fn encode(&mut self, now: Timestamp) {
        let open = self.joined && self.ending.is_none();
        for sending in self.sending.iter_mut().filter(|_| open) {
            while let Some(job) = sending.poll_encode(now) {
                sending.encoded(now, job.run(&SerialMenu));
            }
            let _ = sending.poll_committed();
            while sending.poll_record().is_some() {}
        }
    }

    /// Begins to end the call if it is over.
    fn end_if_due(&mut self, now: Timestamp) {
        if self.ending.is_some() || self.is_over {
            return;
        }
        let reason = self.exchange.loss().and_then(|ended| match ended {
            Some(ended) => Ok(Some(ended)),
            None => {
                self.receiving.iter().try_for_each(refusal)?;
                self.exchange.silence(now).map(|()| None)
            }
        });
        if let Some(result) = reason.transpose() {
            self.begin_to_end(now, result);
        }
    }

    fn begin_to_end(&mut self, now: Timestamp, result: Result<Ended, LiveError>) {
        let limit = if matches!(result, Err(LiveError::Silent { .. })) { SILENT_END_LIMIT } else { END_LIMIT };
        self.exchange.connection.close(now, reason(&result), limit);
        self.ending = Some((now, result));
    }

    /// The last event, once the other end knows, or cannot be reached.
    fn ended(&mut self, now: Timestamp) -> Option<CallEvent> {
        let is_closed = self.exchange.connection.is_over();
        let (_, result) = self.ending.take_if(|(since, _)| is_closed || now.saturating_since(*since) >= END_LIMIT)?;
        self.is_over = true;
        Some(match self.exchange.told(result) {
            Ok(ended) => CallEvent::Ended(ended),
            Err(error) => CallEvent::Failed(Arc::new(error)),
        })
    }

    /// Sends a picture of a stream that was captured at `captured_at`; nothing of a stream that does not exist. Of pictures that
    /// wait for the encoder only the newest is kept. A picture of another size is announced to the other end.
    pub fn send_frame(&mut self, now: Timestamp, stream: usize, captured_at: Timestamp, picture: Picture) {
        let sends = self.ending.is_none() && !self.own.camera_off;
        if let Some(sending) = self.sending.get_mut(stream).filter(|_| sends) {
            sending.capture(now, captured_at, picture);
        }
    }

    /// Sends 20 ms of Opus.
    ///
    /// # Errors
    /// [`SendError::Sound`] for a packet that is too long, or not newer than those before.
    pub fn send_sound(&mut self, now: Timestamp, packet: SoundPacket) -> Result<(), SendError> {
        self.sending.first_mut().map_or(Ok(()), |sending| sending.send_sound(now, packet))
    }

    /// Sends a message.
    ///
    /// # Errors
    /// Before the other end is there, or if it is too long, or if too many wait.
    pub fn send_message(&mut self, now: Timestamp, message: &Message) -> Result<(), MessageError> {
        let (exchange, mut ends) = parts(&mut self.exchange, &mut self.sending, &mut self.receiving);
        exchange.send_message(now, &mut ends, message)
    }

    /// Mutes this end or turns its camera off, and tells the other end.
    pub fn set_presence(&mut self, presence: Presence) {
        if std::mem::replace(&mut self.own, presence) != presence && self.joined {
            self.exchange.connection.show(presence);
        }
    }

    /// The end that sends a stream, to change its bit-rate cap or controller or to read its status.
    pub fn sending_end(&mut self, stream: usize) -> Option<&mut SendingEnd<C>> {
        self.sending.get_mut(stream)
    }

    /// The end that receives a stream, to read its counters.
    pub fn receiving_end(&mut self, stream: usize) -> Option<&mut ReceivingEnd<C>> {
        self.receiving.get_mut(stream)
    }

    /// Ends the call; poll outputs until [`CallEvent::Ended`], so that the other end learns it.
    pub fn close(&mut self, now: Timestamp) {
        if self.ending.is_none() && !self.is_over {
            self.begin_to_end(now, Ok(Ended::Stopped));
        }
    }

    /// Whether the call is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_over
    }
}

/// The exchange, and the ends that it is for.
fn parts<'a, C: PictureCodec>(
    exchange: &'a mut Exchange,
    sending: &'a mut [SendingEnd<C>],
    receiving: &'a mut [ReceivingEnd<C>],
) -> (&'a mut Exchange, Ends<'a, C>) {
    (exchange, Ends { sending: sending.iter_mut().collect(), receiving: receiving.iter_mut().collect() })
}

#[cfg(test)]
mod tests;
