//! The loop of a live call, the same at both ends: between the connection, the half that sends and the half that receives,
//! of which there is one or both. Whatever ends a call ends it here.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use lockstep_call::{FrameRecord, PictureCodec, ReceivingEnd, SendingEnd, SoundScores, Vp8};
use lockstep_socket::{Clock, Reader, Sockets, SystemError};
use lockstep_units::Timestamp;

use crate::call_state::CallState;
use crate::connection::{Connection, Traffic};
use crate::control::CallKind;
use crate::display_queue::Shown;
use crate::event::CallEvent;
use crate::exchange::{Ends, Exchange, Patience, reason};
use crate::handle::{CallHandle, PushedFrame, Request};
use crate::loop_event::{LoopEvent, SoundEvent};
use crate::messages::{Delivery, MessageError};
use crate::other_end::{Listener, OtherEnd};
use crate::presence::{Command, Presence};
use crate::quic::Qlog;
use crate::receiving::{Receiving, ReceivingHalf};
use crate::sending::{PictureSource, Sending, SendingHalf};
use crate::ticket::Ticket;
use crate::{END_LIMIT, Ended, LiveError, SILENT_END_LIMIT, Stop, Warning};

/// Events that may wait for the call; more is a machine that cannot keep up, and then the threads wait.
const EVENT_QUEUE: usize = 1024;
/// The longest time without looking at the clock.
const LONGEST_WAIT: Duration = Duration::from_millis(100);
/// How often the caller hears of the call's state.
const STATUS_INTERVAL: Duration = Duration::from_millis(200);

/// What one end of a live call is told.
pub struct CallOptions<C: PictureCodec = Vp8> {
    /// The other end.
    pub peer: OtherEnd,
    /// Which way pictures go; both ends must say the same.
    pub kind: CallKind,
    /// What this end sends.
    pub sending: Option<Sending<C>>,
    /// What it receives.
    pub receiving: Option<Receiving<C>>,
    /// How long pictures are sent once the other end is there; none means until the source ends. Without a
    /// [`CallOptions::wait_limit`] whoever joins begins at once, so that the call ends even if nobody answers.
    pub length: Option<Duration>,
    /// How long the other end may take to be there; none means for ever.
    pub wait_limit: Option<Duration>,
    /// How long it may be silent later; none means for ever.
    pub idle_limit: Option<Duration>,
    /// Asked whether the call shall end.
    pub stop: Stop,
    /// The age at which the other end's newest picture is stale ([`CallEvent::Stale`]); none means never.
    pub stale_after: Option<Duration>,
    /// The application's requests while the call runs.
    pub handle: CallHandle,
    /// The log of QUIC's packets, with the feature `qlog`.
    pub qlog: Option<Qlog>,
}

/// Hears of a call while it runs.
pub trait Witness<C: PictureCodec = Vp8> {
    /// An event; all but [`CallEvent::Ended`] and [`CallEvent::Failed`], which [`Finished::result`] is.
    fn event(&mut self, event: CallEvent);
    /// A few times a second: what the end that sends is at.
    fn status(&mut self, _now: Timestamp, _end: &SendingEnd<C>) {}
    /// As often: what the end that receives is at.
    fn receiving(&mut self, _now: Timestamp, _end: &ReceivingEnd<C>) {}
    /// After these: what the call is at.
    fn at(&mut self, _state: &CallState) {}
    /// The record of every captured picture, in order, as soon as this end knows all of it.
    fn captured(&mut self, _record: FrameRecord) {}
    /// The sink took a picture to show it.
    fn shown(&mut self, _shown: &Shown) {}
}

/// One end of a live call that is over.
pub struct Finished<C: PictureCodec = Vp8> {
    /// The ends as the call left them, however it ended.
    pub sending: Option<SendingEnd<C>>,
    /// The end that received.
    pub receiving: Option<ReceivingEnd<C>>,
    /// How the other's sound was heard, if it was.
    pub sound: Option<SoundScores>,
    /// Pictures that were decoded and not shown, because the sink was too slow.
    pub dropped: u64,
    /// What the connection carried, if there was one.
    pub traffic: Option<Traffic>,
    /// Whether the other end was ever there.
    pub joined: bool,
    /// How it ended.
    pub result: Result<Ended, LiveError>,
}

/// A call while it runs.
struct Call<C: PictureCodec> {
    clock: Clock,
    exchange: Exchange,
    sockets: Sockets,
    readers: Vec<Reader>,
    /// A datagram on its way to a socket.
    buffer: Vec<u8>,
    incoming: mpsc::Receiver<LoopEvent<C>>,
    sending: Option<SendingHalf<C>>,
    receiving: Option<ReceivingHalf<C>>,
    length: Option<Duration>,
    stop: Stop,
    handle: CallHandle,
    own: Presence,
    started: Timestamp,
    /// When the source was told to begin.
    begun: Option<Timestamp>,
}

/// Begins to dial or to listen.
fn open(peer: OtherEnd, kind: CallKind, qlog: Option<Qlog>, clock: Clock) -> Result<(Connection, Sockets), LiveError> {
    let (origin, now) = (clock.origin(), clock.now());
    match peer {
        OtherEnd::Of(ticket) => join(ticket, false, kind, qlog, clock),
        OtherEnd::ByRendezvous(ticket) => join(ticket, true, kind, qlog, clock),
        OtherEnd::At(Listener { sockets, identity, rendezvous, hidden }) => {
            let mut connection = Connection::listening(&identity, kind, qlog, origin, now)?;
            let own = if hidden { Vec::new() } else { sockets.addresses()? };
            connection.meet(&identity.secret(), rendezvous, &own, hidden, now)?;
            Ok((connection, sockets))
        }
    }
}

/// Begins to dial.
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

/// Runs one end of a call on `clock` until the time is up, the source ends, the other end closes the call or is silent for
/// too long, or the user stops it or closes the window; then tells the other end. Gives the ends back, however it ended.
pub fn run<C: PictureCodec>(clock: Clock, options: CallOptions<C>, witness: &mut impl Witness<C>) -> Finished<C> {
    let CallOptions { peer, kind, sending, receiving, length, wait_limit, idle_limit, stale_after, stop, handle, qlog } =
        options;
    if let Some(warning) = Warning::of_build(lockstep_vp8::IS_OPTIMISED) {
        witness.event(CallEvent::Warning(warning));
    }
    let (events, incoming) = mpsc::sync_channel(EVENT_QUEUE);
    let failed = |sending, receiving, error| Finished {
        sending,
        receiving,
        sound: None,
        dropped: 0,
        traffic: None,
        joined: false,
        result: Err(error),
    };
    let waits = matches!(peer, OtherEnd::At(_));
    let opened = open(peer, kind, qlog, clock).and_then(|(connection, sockets)| {
        let readers = sockets.read(clock, &events, Some(&connection.gate()), LoopEvent::Network)?;
        Ok((connection, sockets, readers))
    });
    let (connection, sockets, readers) = match opened {
        Ok(opened) => opened,
        Err(error) => return failed(sending.map(|half| half.end), receiving.map(|half| half.end), error),
    };
    let receiving = match receiving.map(|half| ReceivingHalf::start(half, clock, &events)).transpose() {
        Ok(receiving) => receiving,
        Err((end, error)) => return failed(sending.map(|half| half.end), Some(*end), error),
    };
    // Before the first picture is due.
    let sending = sending.map(|mut half| {
        if let PictureSource::Source(source) = &mut half.source {
            source.prepare();
        }
        half
    });
    let started = clock.now();
    let sending = match sending.map(|half| SendingHalf::start(half, clock, &events)).transpose() {
        Ok(sending) => sending,
        Err((end, error)) => return failed(Some(*end), receiving.map(|half| half.end), error),
    };
    handle.attach(move || drop(events.try_send(LoopEvent::Woken)));
    let mut call = Call {
        clock,
        exchange: Exchange::new(connection, Patience { wait_limit, idle_limit, stale_after }, started),
        sockets,
        readers,
        buffer: Vec::new(),
        incoming,
        sending,
        receiving,
        length,
        stop,
        handle,
        own: Presence::default(),
        started,
        begun: None,
    };
    if !waits && wait_limit.is_none() {
        call.begin(started);
    }
    let result = call.run(witness);
    call.handle.detach();
    if let Some(sending) = &mut call.sending {
        sending.log_the_rest(&mut |record| witness.captured(record));
    }
    // However the call ended, what was shown is written whole.
    let round_trip = call.exchange.connection.shortest_round_trip();
    let stuck = matches!(result, Err(LiveError::System(SystemError::Stuck { .. })));
    let (sound, shown) = call.receiving.as_mut().map_or((None, Ok(())), |half| half.finish(round_trip, stuck));
    if let Some(receiving) = &call.receiving {
        receiving.log_shown(&mut |shown| witness.shown(shown));
    }
    let result = result.and_then(|ended| shown.map(|()| ended));
    Finished {
        dropped: call.receiving.as_ref().map_or(0, ReceivingHalf::dropped),
        traffic: call.exchange.connection.traffic(),
        joined: call.exchange.connection.is_joined(),
        sound,
        sending: call.sending.map(|half| half.end),
        receiving: call.receiving.map(|half| half.end),
        result,
    }
}

impl<C: PictureCodec> Call<C> {
    fn run(&mut self, witness: &mut impl Witness<C>) -> Result<Ended, LiveError> {
        let mut ending: Option<(Timestamp, Result<Ended, LiveError>)> = None;
        let mut next_status = self.started;
        let mut joined = false;
        loop {
            let now = self.clock.now();
            if self.exchange.connection.is_joined() && !std::mem::replace(&mut joined, true) {
                self.begin(now);
                if self.own != Presence::default() {
                    self.exchange.connection.show(self.own);
                }
            }
            if ending.is_none()
                && let Some(result) = self.reason_to_end(now).transpose()
            {
                ending = Some((now, self.begin_to_end(now, result)));
            }
            self.exchange.connection.handle_timeout(now);
            let (exchange, mut ends) = self.parts();
            exchange.hear(now, &mut ends);
            while let Some(event) = exchange.poll_event() {
                witness.event(event);
            }
            if let Some(receiving) = &mut self.receiving {
                let round_trip = self.exchange.connection.shortest_round_trip();
                let exchange = &mut self.exchange;
                receiving.step(now, round_trip, &mut |shown| {
                    exchange.on_shown(0, shown.captured_at);
                    witness.shown(shown);
                });
            }
            if let Some(sending) = &mut self.sending {
                sending.step(now, joined && ending.is_none(), &mut |record| witness.captured(record));
            }
            if let Err(error) = self.transmit()
                && ending.is_none()
            {
                ending = Some((now, self.begin_to_end(now, Err(error))));
            }
            if let Some((since, result)) = ending.take_if(|(since, result)| self.has_ended(*since, result)) {
                let late = self.clock.now().saturating_since(since) >= END_LIMIT;
                let stuck = late && self.receiving.as_ref().is_some_and(ReceivingHalf::is_waiting);
                return match result {
                    Ok(_) if stuck => Err(SystemError::Stuck { name: "sink", seconds: END_LIMIT.as_secs() }.into()),
                    result => self.exchange.told(result),
                };
            }
            if now >= next_status {
                next_status = now + STATUS_INTERVAL;
                if let Some(sending) = &self.sending {
                    witness.status(now, &sending.end);
                }
                if let Some(receiving) = &self.receiving {
                    witness.receiving(now, &receiving.end);
                }
                witness.at(&self.state(now));
            }
            let over_at = self.sending.as_ref().and_then(SendingHalf::over_at);
            let wake = Timestamp::earliest([Some(next_status), over_at.filter(|_| ending.is_none())]);
            self.wait(wake);
        }
    }

    fn state(&self, now: Timestamp) -> CallState {
        let dropped = self.receiving.as_ref().map_or(0, ReceivingHalf::dropped);
        let sound = self.receiving.as_ref().and_then(ReceivingHalf::heard_so_far);
        let (traffic, peer) = (self.exchange.connection.traffic(), self.exchange.other());
        let connection = &self.exchange.connection;
        let (way, rendezvous_answers) = (connection.way(), connection.rendezvous_answers());
        CallState { now, dropped, traffic, sound, own: self.own, peer, way, rendezvous_answers }
    }

    /// Does what the application requested; says whether that is to leave.
    fn serve_requests(&mut self, now: Timestamp) -> bool {
        let before = self.own;
        if let (Some(sending), Some(PushedFrame { captured_at, picture })) =
            (&mut self.sending, self.handle.take_frame())
        {
            sending.push(now, self.clock.origin().moment(captured_at), picture);
        }
        while let Some(request) = self.handle.take_request() {
            match request {
                Request::Command(Command::Mute) => self.own.muted = !self.own.muted,
                Request::Command(Command::Camera) => self.own.camera_off = !self.own.camera_off,
                Request::Command(Command::Leave) => return true,
                Request::Presence(presence) => self.own = presence,
                Request::MaxBitrate(cap) => {
                    if let Some(sending) = &mut self.sending {
                        sending.end.set_max_bitrate(cap);
                    }
                }
                Request::FrameRate(frame_rate) => {
                    if let Some(sending) = &mut self.sending {
                        sending.set_frame_rate(now, frame_rate);
                    }
                }
                Request::Controller(controller) => {
                    if let Some(sending) = &mut self.sending {
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
                Ok(()) | Err(MessageError::TooLong { .. }) => false,
            };
            if is_kept {
                self.handle.put_back(message);
                break;
            }
        }
        if self.own != before {
            if let Some(sending) = &mut self.sending {
                sending.be(self.own);
            }
            self.exchange.connection.show(self.own);
        }
        false
    }

    /// Has the source begin.
    fn begin(&mut self, now: Timestamp) {
        self.begun.get_or_insert(now);
        if let Some(sending) = &mut self.sending {
            sending.begin();
        }
    }

    /// Tells the other end.
    fn begin_to_end(&mut self, now: Timestamp, result: Result<Ended, LiveError>) -> Result<Ended, LiveError> {
        let limit = if matches!(result, Err(LiveError::Silent { .. })) { SILENT_END_LIMIT } else { END_LIMIT };
        if let Some(sending) = &mut self.sending {
            sending.stop_capturing(now);
        }
        self.exchange.connection.close(now, reason(&result), limit);
        result
    }

    /// Whether nothing is left to be done for a call that has been ending since `since`: after a failure, nothing but to
    /// tell the other end.
    fn has_ended(&self, since: Timestamp, result: &Result<Ended, LiveError>) -> bool {
        let shown = result.is_err() || self.receiving.as_ref().is_none_or(ReceivingHalf::is_shown);
        let late = self.clock.now().saturating_since(since) >= END_LIMIT;
        late || (self.exchange.connection.is_over() && shown)
    }

    /// Whether the call is over, and why.
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
        if let Some(receiving) = &mut self.receiving
            && let Some(ended) = receiving.reason_to_end()?
        {
            return Ok(Some(ended));
        }
        let mut done = false;
        if let Some(sending) = &mut self.sending {
            sending.check()?;
            if self.length.zip(self.begun).is_some_and(|(length, begun)| now >= begun + length) {
                sending.stop_capturing(now);
            }
            done = sending.is_over(now);
        }
        self.exchange.silence(now)?;
        Ok(done.then_some(Ended::Done))
    }

    /// The exchange, and the ends that it is for.
    fn parts(&mut self) -> (&mut Exchange, Ends<'_, C>) {
        let sending = self.sending.iter_mut().map(|half| &mut half.end).collect();
        let receiving = self.receiving.iter_mut().map(|half| &mut half.end).collect();
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

    /// Waits for something to happen, at most until `wake` or until somebody wants to be asked.
    fn wait(&mut self, wake: Option<Timestamp>) {
        let shows = self.receiving.as_ref().and_then(ReceivingHalf::poll_timeout);
        let (exchange, ends) = self.parts();
        let wake = Timestamp::earliest([wake, exchange.poll_timeout(&ends), shows]);
        let wait = wake.map_or(LONGEST_WAIT, |wake| self.clock.until(wake).min(LONGEST_WAIT));
        match self.incoming.recv_timeout(wait) {
            Ok(LoopEvent::Network(incoming)) => {
                self.sockets.note(&incoming);
                self.exchange.connection.handle_datagram(incoming);
            }
            Ok(LoopEvent::Sending(event)) => {
                if let Some(sending) = &mut self.sending {
                    sending.handle(self.clock.now(), event);
                }
            }
            Ok(LoopEvent::Decoded(outcome)) => {
                if let Some(receiving) = &mut self.receiving {
                    receiving.decoded(self.clock.now(), outcome);
                }
            }
            Ok(LoopEvent::Sound(SoundEvent::Spoken(packet))) => {
                if let Some(sending) = &mut self.sending {
                    sending.speak(self.clock.now(), packet);
                }
            }
            Ok(LoopEvent::Sound(SoundEvent::Heard(at, captured))) => {
                if let Some(receiving) = &mut self.receiving {
                    receiving.heard(at, captured);
                }
            }
            Ok(LoopEvent::Woken) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
    }
}
