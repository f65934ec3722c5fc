//! The core of a live call: a connection, the one or two ends that use it, and the events for the application.
//!
//! It reads no clock and starts no thread. The loop of a live call, [`Peer`](crate::Peer) and rehearsals in virtual time drive
//! it.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use lockstep_call::{PictureCodec, ReceivingEnd, SendingEnd, Vp8};
use lockstep_transport::wire::{CARRIAGE, DATA_HEADER};
use lockstep_transport::{Datagram, Transmit, VideoFormat, WireError};
use lockstep_units::{ByteCount, Timestamp};

use crate::connection::{Connection, Heard, Loss, SILENT, Way};
use crate::control::CloseReason;
use crate::event::{CallEvent, Quality, ReceivingQuality, SendingQuality};
use crate::messages::{LONGEST_LATEST, Message, MessageError, ReceivedMessages};
use crate::presence::Presence;
use crate::{Ended, LiveError};

/// Interval of [`CallEvent::Quality`].
const QUALITY_INTERVAL: Duration = Duration::from_secs(1);
/// Events that may wait for an application that asks for none; the oldest are dropped beyond.
const MOST_EVENTS: usize = 256;

/// How long things may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// How long the other end may take to be there; none means for ever.
    pub(crate) wait_limit: Option<Duration>,
    /// How long it may be silent later; none means for ever.
    pub(crate) idle_limit: Option<Duration>,
    /// The age at which the newest picture is stale; none means never.
    pub(crate) stale_after: Option<Duration>,
}

/// The halves of one end of a call.
pub(crate) struct Ends<'a, C: PictureCodec = Vp8> {
    pub(crate) sending: Option<&'a mut SendingEnd<C>>,
    pub(crate) receiving: Option<&'a mut ReceivingEnd<C>>,
}

/// A connection, and what was heard of its end.
pub(crate) struct Exchange {
    pub(crate) connection: Connection,
    patience: Patience,
    started: Timestamp,
    lost: Option<Loss>,
    /// The format that the other end was told.
    announced: Option<VideoFormat>,
    other: Presence,
    events: VecDeque<CallEvent>,
    received: ReceivedMessages,
    way: Option<Way>,
    joined_at: Option<Timestamp>,
    is_interrupted: bool,
    quality_at: Option<Timestamp>,
    /// When the newest picture was captured, on the other end's clock.
    newest_picture: Option<Timestamp>,
    is_stale: bool,
}

/// How an end that comes of itself is told to the other end.
pub(crate) fn reason(result: &Result<Ended, LiveError>) -> CloseReason {
    match result {
        Ok(_) => CloseReason::Done,
        Err(LiveError::UnknownEstimator { .. } | LiveError::UnknownCodec { .. }) => CloseReason::Unsupported,
        Err(_) => CloseReason::Failed,
    }
}

impl Exchange {
    /// Over a connection that began at `started`.
    pub(crate) fn new(connection: Connection, patience: Patience, started: Timestamp) -> Self {
        Self {
            connection,
            patience,
            started,
            lost: None,
            announced: None,
            other: Presence::default(),
            events: VecDeque::new(),
            received: ReceivedMessages::default(),
            way: None,
            joined_at: None,
            is_interrupted: false,
            quality_at: None,
            newest_picture: None,
            is_stale: false,
        }
    }

    /// The next event for the application.
    pub(crate) fn poll_event(&mut self) -> Option<CallEvent> {
        self.events.pop_front().or_else(|| self.received.pop().map(CallEvent::Message))
    }

    fn report(&mut self, event: CallEvent) {
        self.events.push_back(event);
        if self.events.len() > MOST_EVENTS {
            self.events.pop_front();
        }
    }

    /// Sends a message of the application.
    ///
    /// # Errors
    /// As [`Connection::send_message`].
    pub(crate) fn send_message<C: PictureCodec>(
        &mut self,
        now: Timestamp,
        ends: &mut Ends<'_, C>,
        message: &Message,
    ) -> Result<(), MessageError> {
        let bytes = self.connection.send_message(now, message)? as u64;
        if let Some(sending) = &mut ends.sending {
            let datagrams = bytes.div_ceil(LONGEST_LATEST as u64).max(1);
            sending.on_message(now, ByteCount::new(bytes + datagrams * CARRIAGE));
        }
        Ok(())
    }

    /// A picture that was captured at `captured_at`, on the other end's clock, is shown.
    pub(crate) fn on_shown(&mut self, captured_at: Timestamp) {
        self.newest_picture = self.newest_picture.max(Some(captured_at));
    }

    /// The age of the newest picture; before the first, the time since the other end joined.
    fn picture_age<C: PictureCodec>(&self, now: Timestamp, receiving: &ReceivingEnd<C>) -> Option<Duration> {
        let round_trip = self.connection.shortest_round_trip().unwrap_or_default();
        match self.newest_picture {
            Some(captured_at) => receiving.age(now, captured_at, round_trip),
            None => Some(now.saturating_since(self.joined_at?)),
        }
    }

    /// Reports what changed of the path, the age of pictures and the quality.
    fn watch<C: PictureCodec>(&mut self, now: Timestamp, ends: &Ends<'_, C>) {
        if !self.connection.is_open() {
            return;
        }
        let way = self.connection.way();
        if self.way.is_some() && way.is_some() && way != self.way {
            self.events.extend(way.map(CallEvent::PathChanged));
        }
        self.way = way.or(self.way);
        let is_interrupted = now.saturating_since(self.connection.last_heard()) >= SILENT;
        if is_interrupted != self.is_interrupted {
            self.is_interrupted = is_interrupted;
            self.report(if is_interrupted { CallEvent::Interrupted } else { CallEvent::Resumed });
        }
        if let (Some(limit), Some(receiving)) = (self.patience.stale_after, &ends.receiving)
            && let Some(age) = self.picture_age(now, receiving)
            && (age >= limit) != self.is_stale
        {
            self.is_stale = age >= limit;
            self.report(if self.is_stale { CallEvent::Stale { age } } else { CallEvent::Fresh });
        }
        if self.quality_at.is_some_and(|at| at <= now) {
            self.quality_at = Some(now + QUALITY_INTERVAL);
            self.report(CallEvent::Quality(self.quality(now, ends)));
        }
    }

    /// When [`Self::watch`] has something to report, if nothing arrives.
    fn watch_at<C: PictureCodec>(&self, ends: &Ends<'_, C>) -> Option<Timestamp> {
        let interrupted = (!self.is_interrupted).then(|| self.connection.last_heard() + SILENT);
        let stale =
            self.patience.stale_after.filter(|_| !self.is_stale && ends.receiving.is_some()).and_then(|limit| {
                let reference = self.connection.last_heard();
                let age = self.picture_age(reference, ends.receiving.as_ref()?)?;
                Some(reference + limit.saturating_sub(age))
            });
        Timestamp::earliest([interrupted, stale, self.quality_at])
    }

    fn quality<C: PictureCodec>(&self, now: Timestamp, ends: &Ends<'_, C>) -> Quality {
        let sending = ends.sending.as_ref().map(|end| {
            let status = end.status(now);
            SendingQuality {
                target: status.target,
                limited_by: status.limited_by,
                round_trip: status.round_trip_time,
                frames: end.statistics().frames,
            }
        });
        let receiving = ends.receiving.as_ref().map(|end| ReceivingQuality {
            frames: end.counts().decoded,
            missing: end.missing(),
            jitter: end.jitter(),
            age: self.newest_picture.and_then(|_| self.picture_age(now, end)),
        });
        Quality { sending, receiving }
    }

    /// What the other end gives of itself.
    pub(crate) fn other(&self) -> Presence {
        self.other
    }

    /// Takes what the connection has for the ends.
    pub(crate) fn hear<C: PictureCodec>(&mut self, now: Timestamp, ends: &mut Ends<'_, C>) {
        while let Some(heard) = self.connection.poll() {
            match heard {
                Heard::Joined => {
                    self.joined_at = Some(now);
                    self.quality_at = Some(now + QUALITY_INTERVAL);
                    self.report(CallEvent::Joined);
                }
                Heard::Returned => {
                    if let Some(sending) = &mut ends.sending {
                        sending.path_returned(now);
                    }
                }
                Heard::Moved => {
                    self.events.extend(self.connection.way().map(CallEvent::PathChanged));
                    if let Some(sending) = &mut ends.sending {
                        sending.path_moved(now);
                    }
                }
                Heard::Datagram(at, datagram) => {
                    let decoded = Datagram::decode(&datagram);
                    // Hellos come in the stream.
                    if !matches!(decoded, Ok(Datagram::Hello(_) | Datagram::HelloReply(_))) {
                        take(ends, at, decoded);
                    }
                }
                Heard::Control(datagram) => {
                    let decoded = Datagram::decode(&datagram);
                    if matches!(decoded, Ok(Datagram::Hello(_) | Datagram::HelloReply(_))) {
                        take(ends, now, decoded);
                    }
                }
                Heard::Presence(presence) => {
                    self.other = presence;
                    self.report(CallEvent::PeerChanged(presence));
                }
                Heard::Message { at, delivery, sent_at, payload } => {
                    let least = ends.receiving.as_ref().and_then(|end| end.least_delay());
                    let round_trip = self.connection.shortest_round_trip().unwrap_or_default();
                    self.received.push(at, delivery, sent_at, payload, least, round_trip);
                }
                Heard::Lost(loss) => self.lost = self.lost.take().or(Some(loss)),
            }
        }
        self.watch(now, ends);
    }

    /// The next datagram that leaves, into `buffer`, which is empty; gives where it goes. Asked until there is none, after
    /// everything else that happens to the connection or the ends.
    pub(crate) fn poll_transmit<C: PictureCodec>(
        &mut self,
        now: Timestamp,
        ends: &mut Ends<'_, C>,
        buffer: &mut Vec<u8>,
    ) -> Option<SocketAddr> {
        if let (Some(sending), Some(largest)) = (&mut ends.sending, self.connection.largest_datagram()) {
            sending.set_payload(largest.saturating_sub(DATA_HEADER));
        }
        if let (Some(sending), Some(receiving)) = (&ends.sending, &mut ends.receiving) {
            receiving.thin_feedback(sending.is_way_narrow(now));
        }
        loop {
            // Each by itself, but for feedback that rides along, as the simulator has them.
            if let Some(to) = self.connection.poll_transmit(now, buffer) {
                return Some(to);
            }
            let transmit = self.connection.is_open().then(|| next_transmit(now, ends)).flatten()?;
            let largest = self.connection.largest_datagram().unwrap_or(0);
            let riding = ends.receiving.as_mut().and_then(|end| end.poll_riding(now, &transmit, largest));
            self.say(transmit);
            if let Some(riding) = riding {
                self.say(riding);
            }
        }
    }

    fn say(&mut self, transmit: Transmit) {
        let bytes = transmit.to_bytes();
        match transmit.datagram {
            // In the stream no hello is repeated. A later one of the same format asks whether the path works; QUIC's own
            // packets are acknowledged for that.
            Datagram::Hello(hello) if self.announced.replace(hello.format) == Some(hello.format) => {
                self.connection.ping()
            }
            Datagram::Hello(_) | Datagram::HelloReply(_) => self.connection.tell(bytes),
            Datagram::Data(_) | Datagram::Sound(_) | Datagram::Acknowledgement(_) => self.connection.send(bytes),
        }
    }

    /// Whether what the connection was told ends the call, and how; once.
    pub(crate) fn loss(&mut self) -> Result<Option<Ended>, LiveError> {
        match self.lost.take() {
            None => Ok(None),
            Some(Loss::Closed(CloseReason::Failed)) => Err(LiveError::PeerFailed),
            Some(Loss::Closed(CloseReason::Unsupported)) => Err(LiveError::Refused),
            Some(Loss::Closed(CloseReason::Done | CloseReason::Other(_))) => Ok(Some(Ended::ByPeer)),
            Some(Loss::Refused(refusal)) => Err(LiveError::Ticket(refusal)),
            Some(Loss::Restarted) => Err(LiveError::Restarted),
            Some(Loss::Replaced) => Err(LiveError::Replaced),
            Some(Loss::Broken(reason)) => Err(LiveError::Connection(reason)),
        }
    }

    /// What a call comes to that ended like this, now that the other end was told: to end it is one thing, that the other end
    /// knows is another.
    pub(crate) fn told(&self, result: Result<Ended, LiveError>) -> Result<Ended, LiveError> {
        match self.connection.unheard() {
            Some(silence) => result.and(Err(LiveError::Unheard { silence })),
            None => result,
        }
    }

    /// An error if the other end takes too long to join, or is silent for too long.
    pub(crate) fn silence(&self, now: Timestamp) -> Result<(), LiveError> {
        let waited = now.saturating_since(self.started);
        if !self.connection.is_joined() {
            if self.patience.wait_limit.is_some_and(|limit| waited >= limit) {
                return Err(match self.connection.tried() {
                    tried if tried.is_empty() => LiveError::NotCalled { waited },
                    tried => LiveError::Unanswered { waited, tried },
                });
            }
        } else if let Some(limit) = self.patience.idle_limit
            && now.saturating_since(self.connection.last_heard()) >= limit
        {
            return Err(LiveError::Silent { silence: limit });
        }
        Ok(())
    }

    /// When the connection or the ends are to be asked next.
    pub(crate) fn poll_timeout<C: PictureCodec>(&mut self, ends: &Ends<'_, C>) -> Option<Timestamp> {
        let joined = self.connection.is_open();
        // Before anybody is there the ends have much to say, and nobody to say it to.
        let sending = ends.sending.as_ref().and_then(|end| end.poll_timeout()).filter(|_| joined);
        let receiving = ends.receiving.as_ref().and_then(|end| end.poll_timeout()).filter(|_| joined);
        let watch = self.watch_at(ends).filter(|_| joined);
        Timestamp::earliest([self.connection.poll_timeout(), sending, receiving, watch])
    }
}

/// Gives a datagram to the end that it is for: what a sender says to the one that receives, and the other way round.
fn take<C: PictureCodec>(ends: &mut Ends<'_, C>, at: Timestamp, decoded: Result<Datagram, WireError>) {
    let of_a_receiver = matches!(decoded, Ok(Datagram::Acknowledgement(_) | Datagram::HelloReply(_)));
    match (&mut ends.sending, &mut ends.receiving) {
        (Some(sending), None) => drop(sending.handle_datagram(at, decoded)),
        (Some(sending), Some(_)) if of_a_receiver => drop(sending.handle_datagram(at, decoded)),
        (_, Some(receiving)) => drop(receiving.handle_datagram(at, decoded, false)),
        (None, None) => {}
    }
}

fn next_transmit<C: PictureCodec>(now: Timestamp, ends: &mut Ends<'_, C>) -> Option<Transmit> {
    let sending = ends.sending.as_mut().and_then(|end| end.poll_transmit(now));
    sending.or_else(|| ends.receiving.as_mut().and_then(|end| end.poll_transmit(now)))
}
