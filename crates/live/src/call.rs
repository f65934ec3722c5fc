//! The loop of a live call, the same at both ends: between the connection, the half that sends and the half that receives,
//! of which there is one or both. Whatever ends a call ends it here.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use lockstep_call::{DecodeOutcome, FrameRecord, ReceivingEnd, SendingEnd, SoundScores};
use lockstep_emulator::{Clock, Incoming, Reader, Sockets};
use lockstep_units::Timestamp;

use crate::connection::{Connection, Traffic};
use crate::control::CallKind;
use crate::exchange::{Ends, Exchange, Patience, reason};
use crate::peer::{Listener, Peer};
use crate::presence::{CallState, Command, Presence};
use crate::quic::Qlog;
use crate::receiving::{Receiving, ReceivingHalf, Shown};
use crate::sending::{Sending, SendingEvent, SendingHalf};
use crate::sound::SoundEvent;
use crate::ticket::Ticket;
use crate::{END_LIMIT, Ended, LiveError, SILENT_END_LIMIT, Stop, Warning};

/// Events that may wait for the call; more is a machine that cannot keep up, and then the threads wait.
const EVENT_QUEUE: usize = 1024;
/// The longest time without looking at the clock.
const LONGEST_WAIT: Duration = Duration::from_millis(100);
/// How often the caller hears of the call's state.
const STATUS_INTERVAL: Duration = Duration::from_millis(200);

/// What happens to a call.
pub(crate) enum Event {
    Network(Incoming),
    Sending(SendingEvent),
    Decoded(DecodeOutcome),
    Sound(SoundEvent),
}

/// What one end of a live call is told.
pub struct CallOptions {
    /// The other end.
    pub peer: Peer,
    /// Which way pictures go; both ends must say the same.
    pub kind: CallKind,
    /// What this end sends.
    pub sending: Option<Sending>,
    /// What it receives.
    pub receiving: Option<Receiving>,
    /// How long pictures are sent once the other end is there; none means until the source ends. Without a
    /// [`CallOptions::wait_limit`] whoever joins begins at once, so that the call ends even if nobody answers.
    pub length: Option<Duration>,
    /// How long the other end may take to be there; none means for ever.
    pub wait_limit: Option<Duration>,
    /// How long it may be silent later; none means for ever.
    pub idle_limit: Option<Duration>,
    /// Asked whether the call shall end.
    pub stop: Stop,
    /// What the person wants while the call runs.
    pub commands: Option<mpsc::Receiver<Command>>,
    /// Where QUIC logs its packets.
    pub qlog: Option<Qlog>,
}

/// Hears of a call while it runs.
pub trait Witness {
    /// A condition degrades the call that is about to begin.
    fn warned(&mut self, warning: Warning);
    /// The other end is there.
    fn joined(&mut self) {}
    /// A few times a second: what the end that sends is at.
    fn status(&mut self, _now: Timestamp, _end: &SendingEnd) {}
    /// As often: what the end that receives is at.
    fn receiving(&mut self, _now: Timestamp, _end: &ReceivingEnd) {}
    /// After these: what the call is at.
    fn at(&mut self, _state: &CallState) {}
    /// The record of every captured picture, in order, as soon as this end knows all of it.
    fn captured(&mut self, _record: FrameRecord) {}
    /// The sink took a picture to show it.
    fn shown(&mut self, _shown: &Shown) {}
}

/// One end of a live call that is over.
pub struct Finished {
    /// The ends as the call left them, however it ended.
    pub sending: Option<SendingEnd>,
    /// The end that received.
    pub receiving: Option<ReceivingEnd>,
    /// How the other's sound was heard, if it was.
    pub sound: Option<SoundScores>,
    /// Pictures that were decoded and not shown, because the sink was too slow.
    pub dropped: u64,
    /// What the connection carried, if there was one.
    pub traffic: Option<Traffic>,
    /// Whether the other end was ever there.
    pub joined: bool,
    /// [`CallOptions::commands`] of a call that could begin, for the next one.
    pub commands: Option<mpsc::Receiver<Command>>,
    /// How it ended.
    pub result: Result<Ended, LiveError>,
}

/// A call while it runs.
struct Call {
    clock: Clock,
    exchange: Exchange,
    sockets: Sockets,
    readers: Vec<Reader>,
    /// A datagram on its way to a socket.
    buffer: Vec<u8>,
    incoming: mpsc::Receiver<Event>,
    sending: Option<SendingHalf>,
    receiving: Option<ReceivingHalf>,
    length: Option<Duration>,
    stop: Stop,
    commands: Option<mpsc::Receiver<Command>>,
    own: Presence,
    started: Timestamp,
    /// When the source was told to begin.
    begun: Option<Timestamp>,
}

/// Begins to dial or to listen.
fn open(peer: Peer, kind: CallKind, qlog: Option<Qlog>, clock: Clock) -> Result<(Connection, Sockets), LiveError> {
    let (origin, now) = (clock.origin(), clock.now());
    match peer {
        Peer::Of(ticket) => join(ticket, false, kind, qlog, clock),
        Peer::ByRendezvous(ticket) => join(ticket, true, kind, qlog, clock),
        Peer::At(Listener { sockets, identity, rendezvous, hidden }) => {
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
pub fn run(clock: Clock, options: CallOptions, witness: &mut impl Witness) -> Finished {
    let CallOptions { peer, kind, sending, receiving, length, wait_limit, idle_limit, stop, commands, qlog } = options;
    if let Some(warning) = Warning::of_build(lockstep_vp8::IS_OPTIMISED) {
        witness.warned(warning);
    }
    let (events, incoming) = mpsc::sync_channel(EVENT_QUEUE);
    let failed = |sending, receiving, error| Finished {
        sending,
        receiving,
        sound: None,
        dropped: 0,
        traffic: None,
        joined: false,
        commands: None,
        result: Err(error),
    };
    let waits = matches!(peer, Peer::At(_));
    let opened = open(peer, kind, qlog, clock).and_then(|(connection, sockets)| {
        let readers = sockets.read(clock, &events, Some(&connection.gate()), Event::Network)?;
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
        half.source.prepare();
        half
    });
    let started = clock.now();
    let sending = match sending.map(|half| SendingHalf::start(half, clock, &events)).transpose() {
        Ok(sending) => sending,
        Err((end, error)) => return failed(Some(*end), receiving.map(|half| half.end), error),
    };
    // What the threads still say when the call is over is said to nobody.
    drop(events);
    let mut call = Call {
        clock,
        exchange: Exchange::new(connection, Patience { wait_limit, idle_limit }, started),
        sockets,
        readers,
        buffer: Vec::new(),
        incoming,
        sending,
        receiving,
        length,
        stop,
        commands,
        own: Presence::default(),
        started,
        begun: None,
    };
    if !waits && wait_limit.is_none() {
        call.begin(started);
    }
    let result = call.run(witness);
    if let Some(sending) = &mut call.sending {
        sending.log_the_rest(&mut |record| witness.captured(record));
    }
    // However the call ended, what was shown is written whole.
    let round_trip = call.exchange.connection.shortest_round_trip();
    let stuck = matches!(result, Err(LiveError::Stuck { .. }));
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
        commands: call.commands,
        sending: call.sending.map(|half| half.end),
        receiving: call.receiving.map(|half| half.end),
        result,
    }
}

impl Call {
    fn run(&mut self, witness: &mut impl Witness) -> Result<Ended, LiveError> {
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
                witness.joined();
            }
            if ending.is_none()
                && let Some(result) = self.reason_to_end(now).transpose()
            {
                ending = Some((now, self.begin_to_end(now, result)));
            }
            self.exchange.connection.handle_timeout(now);
            let (exchange, mut ends) = self.parts();
            exchange.hear(now, &mut ends);
            if let Some(receiving) = &mut self.receiving {
                let round_trip = self.exchange.connection.shortest_round_trip();
                receiving.step(now, round_trip, &mut |shown| witness.shown(shown));
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
                    Ok(_) if stuck => Err(LiveError::Stuck { name: "sink", seconds: END_LIMIT.as_secs() }),
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

    /// Does what the person wants; says whether that is to leave.
    fn obey(&mut self) -> bool {
        let before = self.own;
        while let Some(command) = self.commands.as_ref().and_then(|commands| commands.try_recv().ok()) {
            match command {
                Command::Mute => self.own.muted = !self.own.muted,
                Command::Camera => self.own.camera_off = !self.own.camera_off,
                Command::Leave => return true,
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
        if self.obey() {
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
    fn parts(&mut self) -> (&mut Exchange, Ends<'_>) {
        let sending = self.sending.as_mut().map(|half| &mut half.end);
        let receiving = self.receiving.as_mut().map(|half| &mut half.end);
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
            Ok(Event::Network(incoming)) => {
                self.sockets.note(&incoming);
                self.exchange.connection.handle_datagram(incoming);
            }
            Ok(Event::Sending(event)) => {
                if let Some(sending) = &mut self.sending {
                    sending.handle(self.clock.now(), event);
                }
            }
            Ok(Event::Decoded(outcome)) => {
                if let Some(receiving) = &mut self.receiving {
                    receiving.decoded(self.clock.now(), outcome);
                }
            }
            Ok(Event::Sound(SoundEvent::Spoken(packet))) => {
                if let Some(sending) = &mut self.sending {
                    sending.speak(self.clock.now(), packet);
                }
            }
            Ok(Event::Sound(SoundEvent::Heard(at, captured))) => {
                if let Some(receiving) = &mut self.receiving {
                    receiving.heard(at, captured);
                }
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
    }
}
