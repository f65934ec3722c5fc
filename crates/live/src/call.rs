//! Main loop of a live call, the same at both ends.
//!
//! The loop connects the connection with the sending and receiving halves, one half per video stream. Every reason to
//! end a call is handled here.

use std::collections::VecDeque;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use lockstep_call::{FrameRecord, PictureCodec, ReceivingEnd, SendingEnd, SoundScores, Vp8};
use lockstep_socket::{Clock, Reader, Sockets, SystemError};
use lockstep_units::Timestamp;

use crate::call_state::CallState;
use crate::connection::{Connection, Traffic};
use crate::display_queue::Shown;
use crate::handle::{CallHandle, Changed, PushedFrame, Request};
use crate::loop_event::{LoopEvent, SoundEvent};
use crate::quic::Qlog;
use crate::receiving::{Receiving, ReceivingHalf};
use crate::remote_end::{Listener, RemoteEnd};
use crate::sending::{PictureSource, Sending, SendingHalf};
use crate::{END_LIMIT, Ended, LiveError, SILENT_END_LIMIT, Stop, Warning};
use lockstep_session::CallEvent;
use lockstep_session::Freshness;
use lockstep_session::control::CallKind;
use lockstep_session::messages::{Delivery, MessageError};
use lockstep_session::presence::{Command, Presence};
use lockstep_session::ticket::Ticket;
use lockstep_session::{Carrier, Ends, Exchange, SILENT, TimeLimits, reason};

/// Events that may wait for the call. If the machine cannot keep up, the queue fills and the threads wait.
const EVENT_QUEUE: usize = 1024;
/// Longest time between two looks at the clock.
const MAX_WAIT: Duration = Duration::from_millis(100);
/// Interval between two reports of the call's state to the observer.
const STATUS_INTERVAL: Duration = Duration::from_millis(200);

/// Options of one end of a live call.
pub struct CallOptions<C: PictureCodec = Vp8> {
    /// The other end.
    pub peer: RemoteEnd,
    /// Direction of the pictures; both ends must use the same kind.
    pub kind: CallKind,
    /// The video streams that this end sends, the most important first.
    pub sending: Vec<Sending<C>>,
    /// One half per video stream that may arrive; streams take them in the order of their announcement. A call with
    /// more streams is refused.
    pub receiving: Vec<Receiving<C>>,
    /// How long pictures are sent after the other end has joined; `None` sends until the source ends.
    pub length: Option<Duration>,
    /// Longest wait for the other end; `None` waits for ever.
    pub wait_limit: Option<Duration>,
    /// Starts the source before the other end has joined. A call over a dead link then ends after its length.
    pub starts_at_once: bool,
    /// Longest silence of the other end during the call; `None` means no limit.
    pub idle_limit: Option<Duration>,
    /// The call ends when this returns `true`.
    pub stop: Stop,
    /// Reports the other end's pictures as stale or fresh; [`Finished::freshness`] returns it for the next call.
    pub freshness: Freshness,
    /// Carries the application's requests while the call runs.
    pub handle: CallHandle,
    /// Log of QUIC packets, with the feature `qlog`.
    pub qlog: Option<Qlog>,
}

/// Observer of a running call.
pub trait CallObserver<C: PictureCodec = Vp8> {
    /// Receives every event except [`CallEvent::Ended`] and [`CallEvent::Failed`]; [`Finished::result`] reports these.
    fn event(&mut self, event: CallEvent);
    /// Receives the state of a sending end, a few times per second.
    fn status(&mut self, _now: Timestamp, _stream: usize, _end: &SendingEnd<C>) {}
    /// Receives the state of a receiving end, as often as [`Self::status`].
    fn receiving(&mut self, _now: Timestamp, _stream: usize, _end: &ReceivingEnd<C>) {}
    /// Receives the state of the call, after the states of its ends.
    fn at(&mut self, _state: &CallState) {}
    /// Receives the record of each captured picture of a stream, in order, as soon as the record is complete.
    fn captured(&mut self, _stream: usize, _record: FrameRecord) {}
    /// Receives each picture of a stream that the sink took for display.
    fn shown(&mut self, _stream: usize, _shown: &Shown) {}
}

/// Results of one end of a finished call.
pub struct Finished<C: PictureCodec = Vp8> {
    /// Sending ends by stream, in their final state.
    pub sending: Vec<SendingEnd<C>>,
    /// Receiving ends: at least the first, and one per announced stream.
    pub receiving: Vec<ReceivingEnd<C>>,
    /// Scores of the received sound, if sound was played.
    pub sound: Option<SoundScores>,
    /// Decoded pictures that the sink was too slow to display.
    pub dropped: u64,
    /// Traffic of the connection, if there was one.
    pub traffic: Option<Traffic>,
    /// Whether the other end ever joined.
    pub joined: bool,
    /// Freshness monitor of the pictures, for the next call.
    pub freshness: Freshness,
    /// How the call ended.
    pub result: Result<Ended, LiveError>,
}

/// A running call.
struct Call<C: PictureCodec> {
    clock: Clock,
    exchange: Exchange<Connection>,
    sockets: Sockets,
    readers: Vec<Reader>,
    /// A datagram on its way to a socket.
    buffer: Vec<u8>,
    incoming: mpsc::Receiver<LoopEvent<C>>,
    sending: Vec<SendingHalf<C>>,
    receiving: Vec<ReceivingHalf<C>>,
    /// Halves for streams that are not announced yet.
    spare: VecDeque<Receiving<C>>,
    events: mpsc::SyncSender<LoopEvent<C>>,
    length: Option<Duration>,
    stop: Stop,
    handle: CallHandle,
    /// Settings that requests changed.
    changed: Changed,
    started: Timestamp,
    /// When the source started.
    begun: Option<Timestamp>,
}

/// Starts to dial or to listen.
fn open(peer: RemoteEnd, kind: CallKind, qlog: Option<Qlog>, clock: Clock) -> Result<(Connection, Sockets), LiveError> {
    let (origin, now) = (clock.origin(), clock.now());
    match peer {
        RemoteEnd::Of(ticket) => join(ticket, false, kind, qlog, clock),
        RemoteEnd::ByRendezvous(ticket) => join(ticket, true, kind, qlog, clock),
        RemoteEnd::At(Listener { sockets, identity, rendezvous, hidden }) => {
            let mut connection = Connection::listening(&identity, kind, qlog, origin, now)?;
            let own = if hidden { Vec::new() } else { sockets.addresses()? };
            connection.meet(&identity.secret(), rendezvous, &own, hidden, now)?;
            Ok((connection, sockets))
        }
    }
}

/// Starts to dial.
fn join(
    mut ticket: Ticket,
    hidden: bool,
    kind: CallKind,
    qlog: Option<Qlog>,
    clock: Clock,
) -> Result<(Connection, Sockets), LiveError> {
    let (origin, now) = (clock.origin(), clock.now());
    let sockets = Sockets::any()?;
    if hidden {
        if ticket.rendezvous.is_empty() {
            return Err(LiveError::NoRendezvous);
        }
        ticket.addresses.clear();
    }
    let (secret, rendezvous) = (ticket.secret, std::mem::take(&mut ticket.rendezvous));
    let mut connection = Connection::joining(ticket, kind, qlog, origin, now)?;
    let own = if hidden || rendezvous.is_empty() { Vec::new() } else { sockets.addresses()? };
    connection.meet(&secret, rendezvous, &own, hidden, now)?;
    Ok((connection, sockets))
}

/// Runs one end of a call on `clock` and returns its ends, however the call ended.
///
/// The call ends when its time is up or the source ends. It ends when the other end closes it or is silent for too long. It also
/// ends when the user stops it or closes the window. This end then informs the other one.
pub fn run<C: PictureCodec>(clock: Clock, options: CallOptions<C>, observer: &mut impl CallObserver<C>) -> Finished<C> {
    let CallOptions { peer, kind, sending, receiving, length, wait_limit, starts_at_once, .. } = options;
    let CallOptions { idle_limit, freshness, stop, handle, qlog, .. } = options;
    if let Some(warning) = Warning::of_build(lockstep_vp8::IS_OPTIMISED) {
        observer.event(CallEvent::Warning(warning));
    }
    let (events, incoming) = mpsc::sync_channel(EVENT_QUEUE);
    let failed = |sending, receiving, freshness, error| Finished {
        sending,
        receiving,
        sound: None,
        dropped: 0,
        traffic: None,
        joined: false,
        freshness,
        result: Err(error),
    };
    let names = sending.iter().map(|half| half.name.clone()).collect();
    let mut spare = VecDeque::from(receiving);
    let first = spare.pop_front();
    let opened = open(peer, kind, qlog, clock).and_then(|(connection, sockets)| {
        let readers = sockets.read(clock, &events, Some(&connection.gate()), LoopEvent::Network)?;
        Ok((connection, sockets, readers))
    });
    let ends = |sending: Vec<Sending<C>>| sending.into_iter().map(|half| half.end).collect();
    let (connection, sockets, readers) = match opened {
        Ok(opened) => opened,
        Err(error) => return failed(ends(sending), first.into_iter().map(|half| half.end).collect(), freshness, error),
    };
    let receiving = match first.map(|half| ReceivingHalf::start(half, 0, clock, &events)).transpose() {
        Ok(receiving) => Vec::from_iter(receiving),
        Err((end, error)) => return failed(ends(sending), vec![*end], freshness, error),
    };
    // Sources prepare before the first picture is due.
    let mut waiting = VecDeque::from(sending);
    for half in &mut waiting {
        if let PictureSource::Source(source) = &mut half.source {
            source.prepare();
        }
    }
    let started = clock.now();
    let mut sending = Vec::new();
    while let Some(half) = waiting.pop_front() {
        match SendingHalf::start(half, sending.len(), clock, &events) {
            Ok(half) => sending.push(half),
            Err((end, error)) => {
                let started = sending.into_iter().map(|half| half.end);
                let sending = started.chain([*end]).chain(waiting.into_iter().map(|half| half.end)).collect();
                let receiving = receiving.into_iter().map(|half| half.end).collect();
                return failed(sending, receiving, freshness, error);
            }
        }
    }
    let wake = events.clone();
    let changed = handle.attach(move || drop(wake.try_send(LoopEvent::Woken)));
    for (stream, half) in sending.iter_mut().enumerate() {
        half.set_presence(changed.own);
        let settings = changed.streams.iter().filter(|(other, _)| *other == stream);
        settings.for_each(|(_, setting)| half.set(started, *setting));
    }
    let mut call = Call {
        clock,
        exchange: Exchange::new(connection, TimeLimits { wait_limit, idle_limit }, started)
            .with_streams(names, freshness),
        sockets,
        readers,
        buffer: Vec::new(),
        incoming,
        sending,
        receiving,
        spare,
        events,
        length,
        stop,
        handle,
        changed,
        started,
        begun: None,
    };
    if starts_at_once {
        call.begin(started);
    }
    let result = call.run(observer);
    call.handle.detach(std::mem::take(&mut call.changed));
    for (stream, sending) in call.sending.iter_mut().enumerate() {
        sending.log_remaining(&mut |record| observer.captured(stream, record));
    }
    // The display queue is drained, however the call ended.
    let round_trip = call.exchange.connection.min_round_trip();
    let stuck = matches!(result, Err(LiveError::System(SystemError::Stuck { .. })));
    let (mut sound, mut shown) = (None, Ok(()));
    for (stream, half) in call.receiving.iter_mut().enumerate() {
        let (of_half, written) = half.finish(round_trip, stuck);
        sound = sound.or(of_half);
        shown = shown.and(written);
        half.log_shown(&mut |shown| observer.shown(stream, shown));
    }
    let result = result.and_then(|ended| shown.map(|()| ended));
    Finished {
        dropped: call.receiving.iter().map(ReceivingHalf::dropped).sum(),
        traffic: call.exchange.connection.traffic(),
        joined: call.exchange.connection.is_joined(),
        sound,
        sending: call.sending.into_iter().map(|half| half.end).collect(),
        receiving: call.receiving.into_iter().map(|half| half.end).collect(),
        freshness: call.exchange.freshness,
        result,
    }
}

impl<C: PictureCodec> Call<C> {
    fn run(&mut self, observer: &mut impl CallObserver<C>) -> Result<Ended, LiveError> {
        let mut ending: Option<(Timestamp, Result<Ended, LiveError>)> = None;
        let mut next_status = self.started;
        let mut joined = false;
        loop {
            let now = self.clock.now();
            if self.exchange.connection.is_joined() && !std::mem::replace(&mut joined, true) {
                self.begin(now);
                if self.changed.own != Presence::default() {
                    self.exchange.connection.show(self.changed.own);
                }
            }
            if ending.is_none()
                && let Some(result) = self.reason_to_end(now).transpose()
            {
                ending = Some((now, self.begin_to_end(now, result)));
            }
            self.exchange.connection.handle_timeout(now);
            let (exchange, mut ends) = self.parts();
            exchange.handle_events(now, &mut ends);
            while let Some(event) = exchange.poll_event() {
                observer.event(event);
            }
            let begun = self.begin_announced();
            let round_trip = self.exchange.connection.min_round_trip();
            for (stream, receiving) in self.receiving.iter_mut().enumerate() {
                let exchange = &mut self.exchange;
                let name = exchange.name_of(&receiving.end);
                receiving.step(now, name, round_trip, &mut |shown| {
                    exchange.on_shown(stream, shown.captured_at);
                    observer.shown(stream, shown);
                });
            }
            let encodes = ending.is_none() && self.exchange.is_attended(now);
            for (stream, sending) in self.sending.iter_mut().enumerate() {
                sending.step(now, encodes, &mut |record| observer.captured(stream, record));
            }
            if let Err(error) = begun.and_then(|()| self.transmit())
                && ending.is_none()
            {
                ending = Some((now, self.begin_to_end(now, Err(error))));
            }
            if let Some((since, result)) = ending.take_if(|(since, result)| self.has_ended(*since, result)) {
                let late = self.clock.now().saturating_since(since) >= END_LIMIT;
                let stuck = late && self.receiving.iter().any(ReceivingHalf::is_waiting);
                return match result {
                    Ok(_) if stuck => Err(SystemError::Stuck { name: "sink", seconds: END_LIMIT.as_secs() }.into()),
                    result => self.exchange.result_after_close(result),
                };
            }
            if now >= next_status {
                next_status = now + STATUS_INTERVAL;
                for (stream, sending) in self.sending.iter().enumerate() {
                    observer.status(now, stream, &sending.end);
                }
                for (stream, receiving) in self.receiving.iter().enumerate() {
                    observer.receiving(now, stream, &receiving.end);
                }
                observer.at(&self.state(now));
            }
            let over_at = self.over_at();
            let wake = Timestamp::earliest([Some(next_status), over_at.filter(|_| ending.is_none())]);
            self.wait(wake);
        }
    }

    /// Starts halves for streams that were announced.
    fn begin_announced(&mut self) -> Result<(), LiveError> {
        while self.spare.front().is_some_and(|half| half.end.connection().is_some()) {
            let Some(half) = self.spare.pop_front() else { break };
            let started = ReceivingHalf::start(half, self.receiving.len(), self.clock, &self.events);
            self.receiving.push(started.map_err(|(_, error)| error)?);
        }
        Ok(())
    }

    /// When this end stops waiting for the last pictures; `None` until every stream has sent its last one. A failed
    /// source does not end a call that also receives.
    fn over_at(&self) -> Option<Timestamp> {
        let running = self.sending.iter().filter(|half| !half.has_failed() || half.over_at().is_some());
        let each: Option<Vec<Timestamp>> = running.map(SendingHalf::over_at).collect();
        each?.into_iter().max()
    }

    fn state(&self, now: Timestamp) -> CallState {
        let dropped = self.receiving.iter().map(ReceivingHalf::dropped).collect();
        let sound = self.receiving.first().and_then(ReceivingHalf::sound_quality);
        let (traffic, peer) = (self.exchange.connection.traffic(), self.exchange.other());
        let connection = &self.exchange.connection;
        let (route, rendezvous_answers) = (connection.route(), connection.rendezvous_answers());
        let silence = now.saturating_since(connection.last_received());
        let silence = (connection.is_joined() && silence >= SILENT).then_some(silence);
        CallState { now, dropped, traffic, sound, own: self.changed.own, peer, route, rendezvous_answers, silence }
    }

    /// Applies the application's requests; returns whether the application leaves the call.
    fn serve_requests(&mut self, now: Timestamp) -> bool {
        let before = self.changed.own;
        while let Some((stream, PushedFrame { captured_at, picture })) = self.handle.take_frame() {
            if let Some(sending) = self.sending.get_mut(stream) {
                sending.push(now, self.clock.origin().moment(captured_at), picture);
            }
        }
        while let Some(request) = self.handle.take_request() {
            match request {
                Request::Command(Command::Mute) => self.changed.own.muted = !self.changed.own.muted,
                Request::Command(Command::Camera) => self.changed.own.camera_off = !self.changed.own.camera_off,
                Request::Command(Command::Leave) => return true,
                Request::Presence(presence) => self.changed.own = presence,
                Request::Stream(stream, setting) => {
                    if let Some(sending) = self.sending.get_mut(stream) {
                        sending.set(now, setting);
                        self.changed.insert(stream, setting);
                    }
                }
                Request::Controller(stream, controller) => {
                    if let Some(sending) = self.sending.get_mut(stream) {
                        sending.end.set_controller(controller);
                    }
                }
            }
        }
        while let Some(message) = self.handle.take_message() {
            let (exchange, mut ends) = self.parts();
            let is_kept = match exchange.send_message(now, &mut ends, &message) {
                Err(MessageError::NotConnected) => message.delivery == Delivery::Reliable,
                Err(MessageError::QueueFull { .. }) => true,
                Ok(()) | Err(_) => false,
            };
            if is_kept {
                self.handle.put_back(message);
                break;
            }
        }
        if self.changed.own != before {
            self.sending.iter_mut().for_each(|sending| sending.set_presence(self.changed.own));
            self.exchange.connection.show(self.changed.own);
        }
        false
    }

    /// Starts the sources.
    fn begin(&mut self, now: Timestamp) {
        self.begun.get_or_insert(now);
        self.sending.iter_mut().for_each(SendingHalf::begin);
    }

    /// Starts to close the connection, which informs the other end.
    fn begin_to_end(&mut self, now: Timestamp, result: Result<Ended, LiveError>) -> Result<Ended, LiveError> {
        let limit = if matches!(result, Err(LiveError::Silent { .. })) { SILENT_END_LIMIT } else { END_LIMIT };
        self.sending.iter_mut().for_each(|sending| sending.stop_capturing(now));
        self.exchange.connection.close(now, reason(&result), limit);
        result
    }

    /// Whether a call that has been ending since `since` is finished. After a failure, only the close message counts.
    fn has_ended(&self, since: Timestamp, result: &Result<Ended, LiveError>) -> bool {
        let shown = result.is_err() || self.receiving.iter().all(ReceivingHalf::is_shown);
        let late = self.clock.now().saturating_since(since) >= END_LIMIT;
        late || (self.exchange.connection.is_over() && shown)
    }

    /// The reason to end the call, if there is one.
    fn reason_to_end(&mut self, now: Timestamp) -> Result<Option<Ended>, LiveError> {
        if let Some(ended) = self.exchange.loss()? {
            return Ok(Some(ended));
        }
        if (self.stop)() {
            return Ok(Some(Ended::Stopped));
        }
        if self.serve_requests(now) {
            return Ok(Some(Ended::Left));
        }
        self.readers.iter_mut().try_for_each(Reader::check)?;
        // If a call has several windows, it ends when the last one is closed.
        let mut closed = Vec::new();
        for receiving in &mut self.receiving {
            closed.push(receiving.reason_to_end()?);
        }
        if let Some(ended) = closed.into_iter().collect::<Option<Vec<_>>>().and_then(|closed| closed.last().copied()) {
            return Ok(Some(ended));
        }
        self.check_sending()?;
        if self.length.zip(self.begun).is_some_and(|(length, begun)| now >= begun + length) {
            self.sending.iter_mut().for_each(|sending| sending.stop_capturing(now));
        }
        let done = self.over_at().is_some_and(|at| at <= now);
        self.exchange.silence(now)?;
        Ok(done.then_some(Ended::Done))
    }

    /// Fails if a thread of a stream failed. A failed source ends only its stream while other streams still capture, or
    /// the other end's pictures are received.
    fn check_sending(&mut self) -> Result<(), LiveError> {
        for stream in 0..self.sending.len() {
            if let Some(reason) = self.sending[stream].poll_lost() {
                self.exchange.report(CallEvent::SourceFailed { stream, reason });
            }
            match self.sending[stream].check() {
                Ok(()) => {}
                Err(LiveError::Source(reason)) if self.others_capture(stream) || !self.receiving.is_empty() => {
                    self.sending[stream].fail();
                    self.exchange.report(CallEvent::SourceFailed { stream, reason });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Whether another stream has more pictures to send.
    fn others_capture(&self, stream: usize) -> bool {
        self.sending
            .iter()
            .enumerate()
            .any(|(other, half)| other != stream && !half.has_failed() && half.over_at().is_none())
    }

    /// The exchange, and its ends.
    fn parts(&mut self) -> (&mut Exchange<Connection>, Ends<'_, C>) {
        let sending = self.sending.iter_mut().map(|half| &mut half.end).collect();
        let receiving = self.receiving.iter_mut().map(|half| &mut half.end);
        let receiving = receiving.chain(self.spare.iter_mut().map(|half| &mut half.end)).collect();
        (&mut self.exchange, Ends { sending, receiving })
    }

    fn transmit(&mut self) -> Result<(), LiveError> {
        loop {
            let now = self.clock.now();
            let mut buffer = std::mem::take(&mut self.buffer);
            buffer.clear();
            let (exchange, mut ends) = self.parts();
            let to = exchange.poll_transmit(now, &mut ends, &mut buffer);
            self.buffer = buffer;
            let Some(to) = to else { return Ok(()) };
            self.sockets.send(now, &self.buffer, to)?;
        }
    }

    /// Waits for an event, at most until `wake` or the earliest timeout of a part.
    fn wait(&mut self, wake: Option<Timestamp>) {
        let shows = self.receiving.iter().filter_map(ReceivingHalf::poll_timeout).min();
        let (exchange, ends) = self.parts();
        let wake = Timestamp::earliest([wake, exchange.poll_timeout(&ends), shows]);
        let wait = wake.map_or(MAX_WAIT, |wake| self.clock.until(wake).min(MAX_WAIT));
        match self.incoming.recv_timeout(wait) {
            Ok(LoopEvent::Network(incoming)) => {
                self.sockets.note(&incoming);
                self.exchange.connection.handle_datagram(incoming);
            }
            Ok(LoopEvent::Sending(stream, event)) => {
                if let Some(sending) = self.sending.get_mut(stream) {
                    sending.handle(self.clock.now(), event);
                }
            }
            Ok(LoopEvent::Decoded(stream, outcome)) => {
                if let Some(receiving) = self.receiving.get_mut(stream) {
                    receiving.decoded(self.clock.now(), outcome);
                }
            }
            Ok(LoopEvent::Sound(SoundEvent::Spoken(_, packet))) => {
                let (now, is_over) = (self.clock.now(), self.over_at().is_some());
                match self.sending.first_mut() {
                    Some(sending) if is_over => sending.allow_sound(now),
                    Some(sending) => sending.send_sound(now, packet),
                    None => {}
                }
            }
            Ok(LoopEvent::Sound(SoundEvent::Playback(at, captured))) => {
                if let Some(receiving) = self.receiving.first_mut() {
                    receiving.on_playback(at, captured);
                }
            }
            Ok(LoopEvent::Woken) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
    }
}
