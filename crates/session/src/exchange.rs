//! Core of a live call: a connection, the sending and receiving ends that use it, and the events for the application.
//!
//! It reads no clock and starts no thread. Three drivers exist: the loop of a live call, [`Peer`](crate::Peer), and
//! rehearsals in virtual time.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use lockstep_call::{PictureCodec, ReceivingEnd, SendingEnd, Vp8};
use lockstep_transport::wire::{DATA_HEADER, DATAGRAM_OVERHEAD};
use lockstep_transport::{CodecId, Datagram, Transmit, VideoFormat, WireError};
use lockstep_units::{ByteCount, Timestamp};

use crate::carrier::{AWAY, Carrier, CarrierEvent, Loss, Route, SILENT};
use crate::control::CloseReason;
use crate::event::{CallEvent, Quality, ReceivingQuality, SendingQuality};
use crate::freshness::Freshness;
use crate::messages::{MAX_LATEST_BYTES, Message, MessageError, ReceivedMessages};
use crate::presence::Presence;
use crate::stream::{MAX_STREAMS, StreamName};
use crate::{Ended, LiveError};

/// Interval of [`CallEvent::Quality`].
const QUALITY_INTERVAL: Duration = Duration::from_secs(1);
/// Events that may wait for the application; beyond this, the oldest are dropped.
const MAX_EVENTS: usize = 256;

/// Time limits for the other end.
#[derive(Debug, Clone, Copy)]
pub struct TimeLimits {
    /// Longest wait for the other end to join; `None` waits for ever.
    pub wait_limit: Option<Duration>,
    /// Longest silence of the other end after that; `None` means no limit.
    pub idle_limit: Option<Duration>,
}

/// The ends of the video streams of one end of a call, the most important first.
pub struct Ends<'a, C: PictureCodec = Vp8> {
    /// Ends of sent streams.
    pub sending: Vec<&'a mut SendingEnd<C>>,
    /// Ends of received streams.
    pub receiving: Vec<&'a mut ReceivingEnd<C>>,
}

/// A connection and its state.
pub struct Exchange<K> {
    /// The connection.
    pub connection: K,
    time_limits: TimeLimits,
    started: Timestamp,
    lost: Option<Loss>,
    /// Announced format of each connection number.
    announced: BTreeMap<u32, VideoFormat>,
    other: Presence,
    events: VecDeque<CallEvent>,
    received: ReceivedMessages,
    route: Option<Route>,
    joined_at: Option<Timestamp>,
    is_interrupted: bool,
    quality_at: Option<Timestamp>,
    /// Capture time of the newest displayed picture of each stream, on the other end's clock.
    shown: Vec<Option<Timestamp>>,
    /// Monitor of received pictures.
    pub freshness: Freshness,
    /// Names of the streams that this end sends, by stream.
    names: Vec<StreamName>,
    /// Names of the streams that the other end sends, by connection number.
    received_names: BTreeMap<u32, StreamName>,
    /// Number of streams that this end accepts, if the other end announced more.
    refused_beyond: Option<usize>,
    /// Whether a hello announced an invalid format. Such a stream would never show a picture.
    has_invalid_format: bool,
}

/// The close reason for the other end when this end closes the call.
pub fn reason(result: &Result<Ended, LiveError>) -> CloseReason {
    match result {
        Ok(_) => CloseReason::Done,
        Err(LiveError::UnknownEstimator { .. } | LiveError::UnknownCodec { .. }) => CloseReason::Unsupported,
        Err(LiveError::TooManyStreams { .. }) => CloseReason::TooManyStreams,
        Err(_) => CloseReason::Failed,
    }
}

impl<K: Carrier> Exchange<K> {
    /// Runs over a connection that began at `started`.
    pub fn new(connection: K, time_limits: TimeLimits, started: Timestamp) -> Self {
        Self {
            connection,
            time_limits,
            started,
            lost: None,
            announced: BTreeMap::new(),
            other: Presence::default(),
            events: VecDeque::new(),
            received: ReceivedMessages::default(),
            route: None,
            joined_at: None,
            is_interrupted: false,
            quality_at: None,
            shown: Vec::new(),
            freshness: Freshness::default(),
            names: Vec::new(),
            received_names: BTreeMap::new(),
            refused_beyond: None,
            has_invalid_format: false,
        }
    }

    /// Sets the names of the streams that this end sends, and the freshness monitor of received ones.
    pub fn with_streams(self, names: Vec<StreamName>, freshness: Freshness) -> Self {
        Self { names, freshness, ..self }
    }

    /// Name of the stream that `end` receives.
    pub fn name_of<C: PictureCodec>(&self, end: &ReceivingEnd<C>) -> StreamName {
        end.connection().and_then(|connection| self.received_names.get(&connection)).cloned().unwrap_or_default()
    }

    /// The next event for the application.
    pub fn poll_event(&mut self) -> Option<CallEvent> {
        self.events.pop_front().or_else(|| self.received.pop().map(CallEvent::Message))
    }

    /// Queues an event for the application.
    pub fn report(&mut self, event: CallEvent) {
        self.events.push_back(event);
        if self.events.len() > MAX_EVENTS {
            self.events.pop_front();
        }
    }

    /// Sends a message of the application.
    ///
    /// # Errors
    /// See [`Carrier::send_message`].
    pub fn send_message<C: PictureCodec>(
        &mut self,
        now: Timestamp,
        ends: &mut Ends<'_, C>,
        message: &Message,
    ) -> Result<(), MessageError> {
        let bytes = self.connection.send_message(now, message)? as u64;
        if let Some(sending) = ends.sending.first_mut() {
            let datagrams = bytes.div_ceil(MAX_LATEST_BYTES as u64).max(1);
            sending.on_message(now, ByteCount::new(bytes + datagrams * DATAGRAM_OVERHEAD));
        }
        Ok(())
    }

    /// Records that a picture of a stream is displayed. It was captured at `captured_at` on the other end's clock.
    pub fn on_shown(&mut self, stream: usize, captured_at: Timestamp) {
        if self.shown.len() <= stream {
            self.shown.resize(stream + 1, None);
        }
        self.shown[stream] = self.shown[stream].max(Some(captured_at));
    }

    /// Age of the newest picture of a stream that this connection displayed.
    fn picture_age<C: PictureCodec>(&self, now: Timestamp, stream: usize, ends: &Ends<'_, C>) -> Option<Duration> {
        let captured_at = self.shown.get(stream).copied().flatten()?;
        let round_trip = self.connection.min_round_trip().unwrap_or_default();
        ends.receiving.get(stream)?.age(now, captured_at, round_trip)
    }

    /// Reports streams that become stale or fresh. An earlier connection may have shown them, so this runs also before
    /// the other end joins.
    fn watch_freshness<C: PictureCodec>(&mut self, now: Timestamp, ends: &Ends<'_, C>) {
        if self.connection.is_joined() && !self.connection.is_open() {
            return;
        }
        for stream in (0..ends.receiving.len()).filter(|&stream| is_awaited(stream, ends)) {
            if let Some(joined_at) = self.joined_at {
                self.freshness.expect(stream, joined_at);
            }
            if let Some(age) = self.picture_age(now, stream, ends) {
                self.freshness.set_age(stream, now, age);
            }
        }
        while let Some(event) = self.freshness.poll(now) {
            self.report(event);
        }
    }

    /// Reports changes of the path and the age of pictures, and the quality once per second.
    fn watch<C: PictureCodec>(&mut self, now: Timestamp, ends: &Ends<'_, C>) {
        self.watch_freshness(now, ends);
        if !self.connection.is_open() {
            return;
        }
        let route = self.connection.route();
        if self.route.is_some() && route.is_some() && route != self.route {
            self.events.extend(route.map(CallEvent::PathChanged));
        }
        self.route = route.or(self.route);
        let is_interrupted = now.saturating_since(self.connection.last_received()) >= SILENT;
        if is_interrupted != self.is_interrupted {
            self.is_interrupted = is_interrupted;
            self.report(if is_interrupted { CallEvent::Interrupted } else { CallEvent::Resumed });
        }
        if self.quality_at.is_some_and(|at| at <= now) {
            self.quality_at = Some(now + QUALITY_INTERVAL);
            let received = (0..ends.receiving.len()).take_while(|&stream| is_awaited(stream, ends)).count();
            for stream in 0..received.max(ends.sending.len()) {
                self.report(CallEvent::Quality(self.quality(now, stream, ends)));
            }
        }
    }

    /// When [`Self::watch`] must report next, if nothing arrives.
    fn watch_at(&self) -> Option<Timestamp> {
        let interrupted = (!self.is_interrupted).then(|| self.connection.last_received() + SILENT);
        Timestamp::earliest([interrupted, self.quality_at])
    }

    fn quality<C: PictureCodec>(&self, now: Timestamp, stream: usize, ends: &Ends<'_, C>) -> Quality {
        let sending = ends.sending.get(stream).map(|end| {
            let status = end.status(now);
            SendingQuality {
                target: status.target,
                limited_by: status.limited_by,
                round_trip: status.round_trip_time,
                frames: end.statistics().frames,
            }
        });
        let is_received = is_awaited(stream, ends);
        let receiving = ends.receiving.get(stream).filter(|_| is_received).map(|end| ReceivingQuality {
            frames: end.counts().decoded,
            missing: end.missing(),
            jitter: end.jitter(),
            age: self.picture_age(now, stream, ends),
        });
        Quality { stream, sending, receiving }
    }

    /// Whether pictures are worth coding: the other end has joined and is not away.
    pub fn is_attended(&self, now: Timestamp) -> bool {
        self.connection.is_joined() && now.saturating_since(self.connection.last_received()) < AWAY
    }

    /// Presence of the other end.
    pub fn other(&self) -> Presence {
        self.other
    }

    /// Handles the events of the connection.
    pub fn handle_events<C: PictureCodec>(&mut self, now: Timestamp, ends: &mut Ends<'_, C>) {
        while let Some(event) = self.connection.poll() {
            match event {
                CarrierEvent::Joined => {
                    self.joined_at = Some(now);
                    self.quality_at = Some(now + QUALITY_INTERVAL);
                    self.report(CallEvent::Joined);
                }
                CarrierEvent::Returned => {
                    ends.sending.iter_mut().for_each(|sending| sending.path_returned(now));
                }
                CarrierEvent::Moved => {
                    self.events.extend(self.connection.route().map(CallEvent::PathChanged));
                    ends.sending.iter_mut().for_each(|sending| sending.path_moved(now));
                }
                CarrierEvent::Datagram(at, datagram) => {
                    let decoded = Datagram::decode(datagram.as_ref());
                    // Hellos arrive in the stream instead.
                    if !matches!(decoded, Ok(Datagram::Hello(_) | Datagram::HelloReply(_))) {
                        take(ends, at, decoded);
                    }
                }
                CarrierEvent::Control(datagram) => {
                    let decoded = Datagram::decode(&datagram);
                    self.has_invalid_format |= matches!(decoded, Err(WireError::Format)) && !ends.receiving.is_empty();
                    let of = decoded.as_ref().ok().map(Datagram::connection);
                    let is_known = stream_of(ends, of).is_some();
                    if matches!(decoded, Ok(Datagram::Hello(_) | Datagram::HelloReply(_))) && !take(ends, now, decoded)
                    {
                        self.refused_beyond = Some(ends.receiving.len());
                    }
                    if let Some(stream) = stream_of(ends, of).filter(|_| !is_known) {
                        let name = self.name_of(ends.receiving[stream]);
                        if !name.is_empty() {
                            self.report(CallEvent::StreamAnnounced { stream, name });
                        }
                    }
                }
                CarrierEvent::Stream { connection, name } => {
                    // A hello beyond the limit refuses the call.
                    if self.received_names.len() < MAX_STREAMS {
                        self.received_names.insert(connection, name);
                    }
                }
                CarrierEvent::Presence(presence) => {
                    self.other = presence;
                    self.report(CallEvent::PeerChanged(presence));
                }
                CarrierEvent::Missed => self.report(CallEvent::Missed),
                CarrierEvent::Message { at, delivery, sent_at, payload } => {
                    let least = ends.receiving.iter().filter_map(|end| end.min_delay()).min();
                    let round_trip = self.connection.min_round_trip().unwrap_or_default();
                    self.received.push(at, delivery, sent_at, payload, least, round_trip);
                }
                CarrierEvent::Lost(loss) => self.lost = self.lost.take().or(Some(loss)),
            }
        }
        self.watch(now, ends);
    }

    /// Writes the next datagram into the empty `buffer` and returns its destination. The caller repeats this until it
    /// returns `None`, after every other event of the connection and the ends.
    pub fn poll_transmit<C: PictureCodec>(
        &mut self,
        now: Timestamp,
        ends: &mut Ends<'_, C>,
        buffer: &mut Vec<u8>,
    ) -> Option<K::Destination> {
        if let Some(largest) = self.connection.largest_datagram() {
            let payload = largest.saturating_sub(DATA_HEADER);
            ends.sending.iter_mut().for_each(|sending| sending.set_payload(payload));
        }
        if let Some(sending) = ends.sending.first() {
            let is_narrow = sending.is_path_narrow(now);
            ends.receiving.iter_mut().for_each(|receiving| receiving.thin_feedback(is_narrow));
        }
        loop {
            // One datagram per packet, as in the simulator; only feedback shares a packet with other data.
            if let Some(to) = self.connection.poll_transmit(now, buffer) {
                return Some(to);
            }
            let transmit = self.connection.is_open().then(|| next_transmit(now, ends)).flatten()?;
            let largest = self.connection.largest_datagram().unwrap_or(0);
            let piggybacked = ends.receiving.iter_mut().find_map(|end| end.poll_piggybacked(now, &transmit, largest));
            self.name(&transmit, ends);
            self.send(transmit);
            if let Some(piggybacked) = piggybacked {
                self.send(piggybacked);
            }
        }
    }

    /// Announces the name of a stream before its first hello, if it has a name.
    fn name<C: PictureCodec>(&mut self, transmit: &Transmit, ends: &Ends<'_, C>) {
        let Datagram::Hello(hello) = &transmit.datagram else { return };
        let stream = ends.sending.iter().position(|end| end.connection() == hello.connection);
        let name = stream.and_then(|stream| self.names.get(stream)).filter(|name| !name.is_empty());
        if let Some(name) = name.filter(|_| !self.announced.contains_key(&hello.connection)) {
            self.connection.name_stream(hello.connection, name.clone());
        }
    }

    fn send(&mut self, transmit: Transmit) {
        let bytes = transmit.to_bytes();
        match transmit.datagram {
            // The stream is reliable, so a hello is sent once. A later one of the same format asks whether the path
            // works; a ping of QUIC answers that.
            Datagram::Hello(hello) if self.announced.insert(hello.connection, hello.format) == Some(hello.format) => {
                self.connection.ping()
            }
            Datagram::Hello(_) | Datagram::HelloReply(_) => self.connection.send_control(bytes),
            Datagram::Data(_) | Datagram::Sound(_) | Datagram::Acknowledgement(_) => self.connection.send(bytes),
        }
    }

    /// Returns once whether the other end or the connection ended the call, and how.
    pub fn loss(&mut self) -> Result<Option<Ended>, LiveError> {
        if let Some(limit) = self.refused_beyond.take() {
            return Err(LiveError::TooManyStreams { limit });
        }
        if std::mem::take(&mut self.has_invalid_format) {
            return Err(LiveError::InvalidFormat);
        }
        match self.lost.take() {
            None => Ok(None),
            Some(Loss::Closed(CloseReason::Failed)) => Err(LiveError::PeerFailed),
            Some(Loss::Closed(CloseReason::Unsupported)) => Err(LiveError::Refused),
            Some(Loss::Closed(CloseReason::TooManyStreams)) => Err(LiveError::StreamsRefused),
            Some(Loss::Closed(CloseReason::Done | CloseReason::Other(_))) => Ok(Some(Ended::ByPeer)),
            Some(Loss::Refused(refusal)) => Err(LiveError::Ticket(refusal)),
            Some(Loss::Restarted) => Err(LiveError::Restarted),
            Some(Loss::Replaced) => Err(LiveError::Replaced),
            Some(Loss::Broken(reason)) => Err(LiveError::Connection(reason)),
        }
    }

    /// The reason to close the call, if there is one: its loss, an encoder that failed, a receiving end that cannot
    /// continue, or silence.
    pub fn reason_to_end<'a, C: PictureCodec>(
        &mut self,
        now: Timestamp,
        sending: impl IntoIterator<Item = &'a SendingEnd<C>>,
        receiving: impl IntoIterator<Item = &'a ReceivingEnd<C>>,
    ) -> Option<Result<Ended, LiveError>> {
        let reason = self.loss().and_then(|ended| match ended {
            Some(ended) => Ok(Some(ended)),
            None => {
                sending.into_iter().try_for_each(encoder_failure)?;
                receiving.into_iter().try_for_each(refusal)?;
                self.silence(now).map(|()| None)
            }
        });
        reason.transpose()
    }

    /// Result of the call after the close message. It is an error if the other end does not seem to know of the end.
    pub fn result_after_close(&self, result: Result<Ended, LiveError>) -> Result<Ended, LiveError> {
        match self.connection.unconfirmed() {
            Some(silence) => result.and(Err(LiveError::PeerSilent { silence })),
            None => result,
        }
    }

    /// An error if the other end takes too long to join, or is silent for too long.
    pub fn silence(&self, now: Timestamp) -> Result<(), LiveError> {
        let waited = now.saturating_since(self.started);
        if !self.connection.is_joined() {
            if self.time_limits.wait_limit.is_some_and(|limit| waited >= limit) {
                return Err(match self.connection.tried() {
                    tried if tried.is_empty() => LiveError::NotCalled { waited },
                    tried => LiveError::Unanswered { waited, tried },
                });
            }
        } else if let Some(limit) = self.time_limits.idle_limit
            && now.saturating_since(self.connection.last_received()) >= limit
        {
            return Err(LiveError::Silent { silence: limit });
        }
        Ok(())
    }

    /// When the connection or the ends must be driven next.
    pub fn poll_timeout<C: PictureCodec>(&mut self, ends: &Ends<'_, C>) -> Option<Timestamp> {
        let joined = self.connection.is_open();
        // Before the other end joins, the ends have data to send, but no receiver.
        let sending = ends.sending.iter().filter_map(|end| end.poll_timeout()).min().filter(|_| joined);
        let receiving = ends.receiving.iter().filter_map(|end| end.poll_timeout()).min().filter(|_| joined);
        let watch = self.watch_at().filter(|_| joined);
        let stale = self.freshness.poll_timeout().filter(|_| joined || !self.connection.is_joined());
        Timestamp::earliest([self.connection.poll_timeout(), sending, receiving, watch, stale])
    }
}

/// Why a receiving end cannot continue: it lacks the estimator or the decoder, or the pictures are too large.
///
/// # Errors
/// That reason.
pub fn refusal<C: PictureCodec>(end: &ReceivingEnd<C>) -> Result<(), LiveError> {
    if let Some(number) = end.refused_estimator() {
        return Err(LiveError::UnknownEstimator { number });
    }
    if let Some(CodecId(number)) = end.refused_codec() {
        return Err(LiveError::UnknownCodec { number });
    }
    if let Some((format, limit)) = end.format_beyond_limit() {
        return Err(LiveError::TooManyPixels { width: format.width, height: format.height, limit });
    }
    Ok(())
}

/// Checks whether the encoder of a sending end failed, after which no frame is sent.
///
/// # Errors
/// [`LiveError::Encoder`], once.
pub fn encoder_failure<C: PictureCodec>(end: &SendingEnd<C>) -> Result<(), LiveError> {
    end.check().map_err(|reason| LiveError::Encoder(reason.to_string()))
}

/// Whether pictures of a stream are expected: it is the first, or its hello arrived.
fn is_awaited<C: PictureCodec>(stream: usize, ends: &Ends<'_, C>) -> bool {
    stream == 0 || ends.receiving.get(stream).is_some_and(|end| end.connection().is_some())
}

/// The received stream with this connection number.
fn stream_of<C: PictureCodec>(ends: &Ends<'_, C>, connection: Option<u32>) -> Option<usize> {
    ends.receiving.iter().position(|end| end.connection().is_some() && end.connection() == connection)
}

/// Passes a datagram to the end of its stream. The hello of a new stream goes to the first free receiving end; returns
/// `false` if none is free.
fn take<C: PictureCodec>(ends: &mut Ends<'_, C>, at: Timestamp, decoded: Result<Datagram, WireError>) -> bool {
    let connection = decoded.as_ref().ok().map(Datagram::connection);
    let of_a_receiver = matches!(decoded, Ok(Datagram::Acknowledgement(_) | Datagram::HelloReply(_)));
    if !ends.sending.is_empty() && (of_a_receiver || ends.receiving.is_empty()) {
        let place = ends.sending.iter().position(|end| Some(end.connection()) == connection).unwrap_or(0);
        ends.sending[place].handle_datagram(at, decoded);
    } else if !ends.receiving.is_empty() {
        let known = stream_of(ends, connection);
        let free = || ends.receiving.iter().position(|end| end.connection().is_none());
        let place = known.or_else(free);
        if place.is_none() && matches!(decoded, Ok(Datagram::Hello(_))) {
            return false;
        }
        ends.receiving[place.unwrap_or(0)].handle_datagram(at, decoded, false);
    }
    true
}

fn next_transmit<C: PictureCodec>(now: Timestamp, ends: &mut Ends<'_, C>) -> Option<Transmit> {
    let sending = ends.sending.iter_mut().find_map(|end| end.poll_transmit(now));
    sending.or_else(|| ends.receiving.iter_mut().find_map(|end| end.poll_transmit(now)))
}
