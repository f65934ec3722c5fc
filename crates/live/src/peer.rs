//! One end of a call as a state machine without sockets, clocks and threads.

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
use crate::gate::Gate;
use crate::identity::Identity;
use crate::{END_LIMIT, Ended, LiveError, SILENT_END_LIMIT};
use lockstep_session::CallEvent;
use lockstep_session::Freshness;
use lockstep_session::control::CallKind;
use lockstep_session::messages::{Message, MessageError};
use lockstep_session::presence::Presence;
use lockstep_session::stream::StreamName;
use lockstep_session::ticket::{MAX_ADDRESSES, Ticket};
use lockstep_session::{Carrier, Ends, Exchange, TimeLimits, reason};

/// Configuration of a [`Peer`].
pub struct PeerConfig<C: PictureCodec = Vp8> {
    /// Direction of the pictures; both ends must use the same kind.
    pub kind: CallKind,
    /// One end per sent video stream, the most important first. Their controllers should share one
    /// [`FlowGroup`](lockstep_control::FlowGroup), and their connection numbers must differ.
    pub sending: Vec<SendingEnd<C>>,
    /// Names of these streams in the same order, for the other end; an empty name means none.
    pub names: Vec<StreamName>,
    /// One end per video stream that may arrive; streams take them in the order of their announcement. A call with more
    /// streams is refused.
    pub receiving: Vec<ReceivingEnd<C>>,
    /// Longest wait for the other end to join; `None` waits for ever.
    pub wait_limit: Option<Duration>,
    /// Longest silence of the other end during the call; `None` means no limit.
    pub idle_limit: Option<Duration>,
    /// Age at which the newest picture is stale ([`CallEvent::Stale`]); `None` never reports any.
    pub stale_after: Option<Duration>,
    /// Addresses of the application's sockets, which a rendezvous may pass to the other end.
    pub addresses: Vec<SocketAddr>,
}

impl<C: PictureCodec> PeerConfig<C> {
    /// A peer that joins with a ticket and sends.
    #[must_use]
    pub fn sending(end: SendingEnd<C>) -> Self {
        Self { sending: vec![end], ..Self::of(CallKind::OneWay) }
    }

    /// A peer that listens and sends.
    #[must_use]
    pub fn sending_to_joiner(end: SendingEnd<C>) -> Self {
        Self { sending: vec![end], ..Self::of(CallKind::FromListener) }
    }

    /// A peer that joins with a ticket and receives.
    #[must_use]
    pub fn receiving_from_listener(end: ReceivingEnd<C>) -> Self {
        Self { receiving: vec![end], ..Self::of(CallKind::FromListener) }
    }

    /// A peer that listens and receives.
    #[must_use]
    pub fn receiving(end: ReceivingEnd<C>) -> Self {
        Self { receiving: vec![end], ..Self::of(CallKind::OneWay) }
    }

    /// A peer that sends and receives.
    #[must_use]
    pub fn both_ways(sending: SendingEnd<C>, receiving: ReceivingEnd<C>) -> Self {
        Self { sending: vec![sending], receiving: vec![receiving], ..Self::of(CallKind::TwoWay) }
    }

    /// A peer that joins without streams; add them to the field `sending`.
    #[must_use]
    pub fn sending_nothing() -> Self {
        Self::of(CallKind::OneWay)
    }

    /// The limits of the command: ten seconds to join, and thirty seconds of silence.
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

/// Input of a [`Peer`].
#[derive(Debug, Clone, Copy)]
pub enum Input<'a> {
    /// The time of [`Output::Timeout`] has come.
    Timeout,
    /// A UDP datagram arrived at the application's socket.
    Datagram {
        /// Its sender.
        from: SocketAddr,
        /// Its bytes.
        bytes: &'a [u8],
    },
}

/// Output of a [`Peer`].
#[derive(Debug)]
pub enum Output {
    /// Send this UDP datagram.
    Transmit {
        /// Its destination.
        to: SocketAddr,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// Display this picture.
    Frame(ReceivedFrame),
    /// Play this packet of sound: 20 ms of Opus.
    Sound(SoundPacket),
    /// An event, messages included. [`CallEvent::Ended`] or [`CallEvent::Failed`] is the last one.
    Event(CallEvent),
    /// No output remains. Call [`Peer::handle_input`] at this time, or when a datagram arrives.
    Timeout(Timestamp),
}

/// A picture of the other end.
#[derive(Debug, Clone)]
pub struct ReceivedFrame {
    /// The video stream; 0 is the first, and the only one of most calls.
    pub stream: usize,
    /// Name that the sender gave the stream, or empty.
    pub name: StreamName,
    /// The picture.
    pub picture: Picture,
    /// Capture time, on the other end's clock.
    pub captured_at: Timestamp,
    /// Age from capture until now; `None` before the clocks are aligned.
    pub age: Option<Duration>,
}

/// One end of a call as a state machine: QUIC, transport, control and codec, over the application's own socket and
/// clock.
///
/// All times come from one monotonic clock of the application, counted from any origin. The codec runs inside
/// [`Peer::poll_output`] and takes some milliseconds per picture; [`run`](crate::run) uses threads for it.
///
/// The owner repeats: call [`Peer::poll_output`] until it returns [`Output::Timeout`], wait for a datagram or that
/// time, and call [`Peer::handle_input`]. After any other method, poll again.
pub struct Peer<C: PictureCodec = Vp8> {
    exchange: Exchange<Connection>,
    gate: Gate,
    sending: Vec<SendingEnd<C>>,
    receiving: Vec<ReceivingEnd<C>>,
    own: Presence,
    joined: bool,
    ending: Option<(Timestamp, Result<Ended, LiveError>)>,
    is_over: bool,
    buffer: Vec<u8>,
}

/// Longest time until [`Output::Timeout`].
const MAX_WAIT: Duration = Duration::from_secs(3_600);

impl Peer {
    /// The ticket of `identity` for a listener whose socket has `addresses`; at most [`MAX_ADDRESSES`] of them are
    /// used.
    #[must_use]
    pub fn ticket(identity: &Identity, addresses: &[SocketAddr], servers: &[SocketAddr]) -> Ticket {
        let addresses = addresses.iter().copied().take(MAX_ADDRESSES).collect();
        let (key, secret, rendezvous) = (identity.key(), identity.secret(), servers.to_vec());
        Ticket { key, secret, addresses, rendezvous, is_room: false }
    }
}

impl<C: PictureCodec> Peer<C> {
    /// Joins the owner of `ticket`.
    ///
    /// # Errors
    /// The system provides no random numbers, or the ticket's key is invalid.
    pub fn join(mut ticket: Ticket, config: PeerConfig<C>, now: Timestamp) -> Result<Self, LiveError> {
        let origin = Origin::new(Instant::now());
        let (secret, servers) = (ticket.secret, std::mem::take(&mut ticket.rendezvous));
        let mut connection = Connection::joining(ticket, config.kind, None, origin, now)?;
        connection.meet(&secret, servers, &config.addresses, false, now)?;
        Ok(Self::new(connection, config, now))
    }

    /// Waits for a peer with the ticket of `identity`; `servers` are rendezvous that the ticket names.
    ///
    /// # Errors
    /// The system provides no random numbers, or the identity's key is invalid.
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
            exchange: Exchange::new(connection, TimeLimits { wait_limit, idle_limit }, now)
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

    /// Handles an input at `now`.
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
        exchange.handle_events(now, &mut ends);
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
        Output::Timeout(timeout.unwrap_or(now + MAX_WAIT).max(now))
    }

    fn on_joined(&mut self) {
        if self.exchange.connection.is_joined()
            && !std::mem::replace(&mut self.joined, true)
            && self.own != Presence::default()
        {
            self.exchange.connection.show(self.own);
        }
    }

    /// Decodes received frames, and returns the next picture or packet of sound.
    fn decode(&mut self, now: Timestamp) -> Option<Output> {
        for (stream, receiving) in self.receiving.iter_mut().enumerate() {
            while let Some(job) = receiving.poll_decode() {
                receiving.decoded(now, job.run());
                if let Some(Display { captured_at, picture, .. }) = receiving.poll_display() {
                    self.exchange.on_shown(stream, captured_at);
                    let round_trip = self.exchange.connection.min_round_trip().unwrap_or_default();
                    let age = receiving.age(now, captured_at, round_trip);
                    let name = self.exchange.name_of(receiving);
                    return Some(Output::Frame(ReceivedFrame { stream, name, picture, captured_at, age }));
                }
            }
        }
        self.receiving.iter_mut().find_map(ReceivingEnd::poll_sound).map(Output::Sound)
    }

    /// Encodes the waiting picture, once the other end has joined.
    fn encode(&mut self, now: Timestamp) {
        let open = self.ending.is_none() && self.exchange.is_attended(now);
        for sending in self.sending.iter_mut().filter(|_| open) {
            while let Some(job) = sending.poll_encode(now) {
                sending.encoded(now, job.run(&SerialMenu));
            }
            let _ = sending.poll_committed();
            while sending.poll_record().is_some() {}
        }
    }

    /// Starts to close the call if there is a reason.
    fn end_if_due(&mut self, now: Timestamp) {
        if self.ending.is_some() || self.is_over {
            return;
        }
        if let Some(result) = self.exchange.reason_to_end(now, &self.sending, &self.receiving) {
            self.begin_to_end(now, result);
        }
    }

    fn begin_to_end(&mut self, now: Timestamp, result: Result<Ended, LiveError>) {
        let limit = if matches!(result, Err(LiveError::Silent { .. })) { SILENT_END_LIMIT } else { END_LIMIT };
        self.exchange.connection.close(now, reason(&result), limit);
        self.ending = Some((now, result));
    }

    /// The last event, once the other end has acknowledged the end, or the limit has passed.
    fn ended(&mut self, now: Timestamp) -> Option<CallEvent> {
        let is_closed = self.exchange.connection.is_over();
        let (_, result) = self.ending.take_if(|(since, _)| is_closed || now.saturating_since(*since) >= END_LIMIT)?;
        self.is_over = true;
        Some(match self.exchange.result_after_close(result) {
            Ok(ended) => CallEvent::Ended(ended),
            Err(error) => CallEvent::Failed(Arc::new(error)),
        })
    }

    /// Sends a picture of a stream that was captured at `captured_at`. Only the newest picture waits for the encoder. A
    /// picture of a new size is announced to the other end. An unknown stream is ignored.
    pub fn send_frame(&mut self, now: Timestamp, stream: usize, captured_at: Timestamp, picture: Picture) {
        let sends = self.ending.is_none() && !self.own.camera_off;
        if let Some(sending) = self.sending.get_mut(stream).filter(|_| sends) {
            sending.capture(now, captured_at, picture);
        }
    }

    /// Sends 20 ms of Opus.
    ///
    /// # Errors
    /// [`SendError::Sound`] if the packet is too long, or not newer than the previous ones.
    pub fn send_sound(&mut self, now: Timestamp, packet: SoundPacket) -> Result<(), SendError> {
        self.sending.first_mut().map_or(Ok(()), |sending| sending.send_sound(now, packet))
    }

    /// Sends a message.
    ///
    /// # Errors
    /// The other end has not joined, the message is too long, or too many messages wait.
    pub fn send_message(&mut self, now: Timestamp, message: &Message) -> Result<(), MessageError> {
        let (exchange, mut ends) = parts(&mut self.exchange, &mut self.sending, &mut self.receiving);
        exchange.send_message(now, &mut ends, message)
    }

    /// Mutes this end or turns its camera off, and informs the other end.
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

    /// Ends the call. Poll outputs until [`CallEvent::Ended`], so that the close message reaches the other end.
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

/// The exchange, and its ends.
fn parts<'a, C: PictureCodec>(
    exchange: &'a mut Exchange<Connection>,
    sending: &'a mut [SendingEnd<C>],
    receiving: &'a mut [ReceivingEnd<C>],
) -> (&'a mut Exchange<Connection>, Ends<'a, C>) {
    (exchange, Ends { sending: sending.iter_mut().collect(), receiving: receiving.iter_mut().collect() })
}

#[cfg(test)]
mod tests;
