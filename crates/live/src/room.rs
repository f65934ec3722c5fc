//! A call of several people. Everyone sends to everyone, in separate calls over separate paths. Each has its own
//! connection, controller and encoder, so the frames for a person fit that person's path. A slow path costs nobody else
//! anything but its share of the common uplink.
//!
//! ```text
//!  camera --> picture, halved where it is shown small --+--> call with person 1 --> tile 1
//!  microphone ------------------------------------------+--> call with person 2 --> tile 2
//!                                        sounds of all calls --> mixer --> loudspeaker
//! ```
//!
//! # Entering
//! The person who opens a room has its ticket. A person who enters makes a call without pictures with that ticket, the
//! door. The opener answers with a ticket for one call. It asks everyone else for such a ticket too, and passes it on.
//! ```text
//!  newcomer          opener              other
//!     | -- enter ------> |                 |     at the door
//!     | <- welcome ----- |                 |
//!     | == call ======== | -- introduce -> |
//!     |                  | <- invite ----- |
//!     | <- call -------- |                 |
//!     | == call ========================== |
//! ```
//! So the one who enters always calls. A caller whose call broke enters again, and calls those again who are missing.
//! Without the opener the room continues, and nobody can enter any more.

mod halves;
mod message;
mod mixer;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use std::{mem, thread};

use lockstep_call::{FrameRecord, MenuRunner, PictureCodec, ReceivingEnd, SendingEnd, Vp8};
use lockstep_media::Source;
use lockstep_session::CallEvent;
use lockstep_session::control::CallKind;
use lockstep_session::messages::Message;
use lockstep_session::presence::{Command, Presence};
use lockstep_session::stream::StreamName;
use lockstep_session::ticket::Ticket;
use lockstep_socket::Clock;
use lockstep_sound::SoundSource;
use lockstep_units::Timestamp;

use self::halves::Halves;
use self::message::{Person, RoomMessage};
use self::mixer::Mixer;
use crate::call::{CallObserver, CallOptions, run};
use crate::call_state::CallState;
use crate::capture::{self, Captured};
use crate::display_queue::Shown;
use crate::handle::{CallHandle, Request};
use crate::receiving::{OpenSink, Receiving};
use crate::remote_end::{Listener, RemoteEnd};
use crate::sending::{PictureSource, Sending};
use crate::sound::Loudspeaker;
use crate::sound_splitter::SoundSplitter;
use crate::{END_LIMIT, Ended, Freshness, LiveError, Stop, Thread, TicketRefusal};

/// Most people in a room, this end included.
pub const MAX_PEOPLE: usize = 6;
/// Longest time at the door, and longest wait for the call of an invited person.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// Pause of a person who found the door busy or who enters again.
const RETRY_INTERVAL: Duration = Duration::from_millis(300);
/// Longest time between two looks at the clock.
const MAX_WAIT: Duration = Duration::from_millis(100);
/// Interval at which others learn the size of their pictures here. A new size costs a key frame.
const SIZE_INTERVAL: Duration = Duration::from_secs(1);
/// Events that may wait for the room's loop; beyond this, calls wait.
const EVENT_QUEUE: usize = 1_024;

/// Reads a message of a room, for the fuzzer.
#[doc(hidden)]
pub fn read_message(payload: &[u8]) {
    if let Ok(message) = RoomMessage::read(payload) {
        assert_eq!(RoomMessage::read(message.to_string().as_bytes()), Ok(message));
    }
}

/// How an end gets into a room.
#[derive(Debug)]
pub enum Entrance {
    /// Opens the room. Others enter with the ticket of this listener, one after the other.
    Open(Listener),
    /// Enters the room of this ticket.
    Enter(Ticket),
}

/// Options of an end of a room.
pub struct RoomOptions<C: PictureCodec = Vp8> {
    /// How this end gets in.
    pub entrance: Entrance,
    /// Whether calls go through a rendezvous only, which hides the addresses of this end.
    pub relay_only: bool,
    /// Name of this end for the others.
    pub name: StreamName,
    /// Source of the pictures. It runs while somebody else is there.
    pub source: Box<dyn Source>,
    /// Source of the sound, if any.
    pub microphone: Option<Box<dyn SoundSource>>,
    /// Loudspeaker for everyone's sound, if it is played.
    pub loudspeaker: Option<Loudspeaker>,
    /// Opens a listener for one call of one person.
    pub listener: Box<dyn FnMut() -> Result<Listener, LiveError> + Send>,
    /// Prepares the call with a person. Numbers start at 1 and are not reused.
    pub seat: Box<dyn FnMut(u64) -> Result<Seat<C>, LiveError> + Send>,
    /// Time after which this end leaves; `None` means no limit.
    pub length: Option<Duration>,
    /// Longest wait of a person who enters; `None` waits for ever.
    pub wait_limit: Option<Duration>,
    /// Longest silence of a person before that call ends; `None` means no limit.
    pub idle_limit: Option<Duration>,
    /// This end leaves when this returns `true`.
    pub stop: Stop,
    /// Carries the commands and the presence of this end.
    pub handle: CallHandle,
}

/// This end's part of the call with one person.
pub struct Seat<C: PictureCodec = Vp8> {
    /// The end that sends to the person.
    pub sending: SendingEnd<C>,
    /// Codes the candidates of a menu.
    pub runner: Box<dyn MenuRunner<C> + Send>,
    /// The end that receives from the person.
    pub receiving: ReceivingEnd<C>,
    /// Opens the sink of the person's pictures.
    pub open_sink: OpenSink,
    /// Observes the call, on its thread.
    pub observer: Box<dyn CallObserver<C> + Send>,
    /// The width and height in pixels at which this end shows the person now; `None` if it does not know.
    pub shown_size: Box<dyn Fn() -> Option<(usize, usize)>>,
}

/// Observer of a room.
pub trait RoomObserver {
    /// A person is there.
    fn joined(&mut self, person: u64);
    /// A person is not there any more.
    fn left(&mut self, person: u64, result: &Result<Ended, LiveError>);
    /// A person found no place, because the room is full.
    fn turned_away(&mut self) {}
    /// A person could not be reached, the source failed, or nobody can enter any more. The room continues.
    fn failed(&mut self, error: &LiveError);
    /// Called several times per second with the presence of this end, and the newest speaker.
    fn at(&mut self, own: Presence, speaker: Option<u64>);
}

/// Event for the room's loop.
enum Event {
    Captured(Captured),
    /// A person is at the door of this end.
    Entering(CallHandle, Person),
    /// The door of another end is open.
    Welcome(Person, Ticket),
    /// The door stays shut.
    Shut(LiveError),
    Joined(u64),
    Said(u64, RoomMessage),
    Left {
        number: u64,
        joined: bool,
        result: Result<Ended, LiveError>,
    },
    Woken,
}

/// Another person, before and after joining.
struct Guest {
    person: Person,
    handle: CallHandle,
    thread: Thread,
    is_joined: bool,
    /// Whether this end called.
    has_called: bool,
    /// Whether a newer call with the same person replaces this one.
    is_replaced: bool,
    shown_size: Box<dyn Fn() -> Option<(usize, usize)>>,
    /// Whether the pictures of this end show a screen, as far as the call knows.
    sees_screen: bool,
    /// The size that the person knows.
    sent_size: Option<(usize, usize)>,
    /// The size at which the person shows the pictures of this end.
    wanted_size: Option<(usize, usize)>,
}

impl Guest {
    fn send(&self, message: &RoomMessage) {
        // Only a person whose connection is lost does not take messages.
        let _ = self.handle.send_message(Message::reliable(message.to_string()));
    }
}

/// Passes the events of a call to its observer, and those that concern the room to its loop.
struct GuestObserver<C: PictureCodec> {
    number: u64,
    observer: Box<dyn CallObserver<C> + Send>,
    events: SyncSender<Event>,
}

impl<C: PictureCodec> CallObserver<C> for GuestObserver<C> {
    fn event(&mut self, event: CallEvent) {
        let of_room = match &event {
            CallEvent::Joined => Some(Event::Joined(self.number)),
            CallEvent::Message(message) => match RoomMessage::read(&message.payload) {
                Ok(message) => Some(Event::Said(self.number, message)),
                Err(message::Malformed) => None, // of a newer version
            },
            _ => None,
        };
        if let Some(of_room) = of_room {
            let _ = self.events.send(of_room); // the loop has ended
        }
        self.observer.event(event);
    }

    fn status(&mut self, now: Timestamp, stream: usize, end: &SendingEnd<C>) {
        self.observer.status(now, stream, end);
    }

    fn receiving(&mut self, now: Timestamp, stream: usize, end: &ReceivingEnd<C>) {
        self.observer.receiving(now, stream, end);
    }

    fn at(&mut self, state: &CallState) {
        self.observer.at(state);
    }

    fn captured(&mut self, stream: usize, record: FrameRecord) {
        self.observer.captured(stream, record);
    }

    fn shown(&mut self, stream: usize, shown: &Shown) {
        self.observer.shown(stream, shown);
    }
}

/// Observer of a call at a door.
struct DoorObserver<Heard> {
    joined_at: Arc<OnceLock<Instant>>,
    heard: Heard,
}

impl<Heard: FnMut(RoomMessage)> CallObserver for DoorObserver<Heard> {
    fn event(&mut self, event: CallEvent) {
        match event {
            CallEvent::Joined => drop(self.joined_at.set(Instant::now())),
            CallEvent::Message(message) => {
                if let Ok(message) = RoomMessage::read(&message.payload) {
                    (self.heard)(message);
                }
            }
            _ => {}
        }
    }
}

/// Makes one call at a door, and returns how it ended.
fn call_at_door(
    clock: Clock,
    peer: RemoteEnd,
    wait_limit: Option<Duration>,
    is_over: &Arc<AtomicBool>,
    handle: CallHandle,
    heard: impl FnMut(RoomMessage),
) -> Result<Ended, LiveError> {
    let joined_at = Arc::<OnceLock<Instant>>::default();
    let (over, since) = (is_over.clone(), joined_at.clone());
    let is_late = move || since.get().is_some_and(|at| at.elapsed() >= ANSWER_LIMIT);
    let options: CallOptions = CallOptions {
        peer,
        kind: CallKind::Room,
        sending: Vec::new(),
        receiving: Vec::new(),
        length: None,
        wait_limit,
        starts_at_once: false,
        idle_limit: Some(ANSWER_LIMIT),
        stop: Box::new(move || over.load(Ordering::Relaxed) || is_late()),
        freshness: Freshness::default(),
        handle,
        qlog: None,
    };
    run(clock, options, &mut DoorObserver { joined_at, heard }).result
}

/// Serves the door of this end until the room is over.
fn serve_door(
    clock: Clock,
    door: &Listener,
    is_over: &Arc<AtomicBool>,
    events: &SyncSender<Event>,
) -> Result<(), LiveError> {
    while !is_over.load(Ordering::Relaxed) {
        let handle = CallHandle::new();
        let (events, of_call) = (events.clone(), handle.clone());
        let mut has_asked = false;
        let heard = move |message| {
            if let RoomMessage::Enter(person) = message
                && !std::mem::replace(&mut has_asked, true)
            {
                let _ = events.send(Event::Entering(of_call.clone(), person)); // the loop has ended
            }
        };
        // A person at the door may fail, but not the socket.
        if let Err(error @ LiveError::System(_)) =
            call_at_door(clock, RemoteEnd::At(door.try_clone()?), None, is_over, handle, heard)
        {
            return Err(error);
        }
    }
    Ok(())
}

/// Enters at the door of another end; returns its answer.
fn enter(
    clock: Clock,
    ticket: &Ticket,
    relay_only: bool,
    me: Person,
    wait_limit: Option<Duration>,
    is_over: &Arc<AtomicBool>,
) -> Result<Option<(Person, Ticket)>, LiveError> {
    let since = Instant::now();
    loop {
        let handle = CallHandle::new();
        let _ = handle.send_message(Message::reliable(RoomMessage::Enter(me).to_string())); // the first one has room
        let (mut answer, done) = (None, handle.clone());
        let heard = |message| {
            answer = match message {
                RoomMessage::Welcome(person, ticket) => Some(Ok((person, ticket))),
                RoomMessage::Full => Some(Err(LiveError::RoomFull)),
                _ => return,
            };
            done.leave();
        };
        let result = call_at_door(clock, peer(ticket.clone(), relay_only), wait_limit, is_over, handle, heard);
        if let Some(answer) = answer {
            return answer.map(Some);
        }
        if is_over.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let is_late = wait_limit.is_some_and(|limit| since.elapsed() >= limit);
        let error = match result {
            // The one before left the door.
            Ok(_) => LiveError::Ticket(TicketRefusal::Busy),
            Err(error) => error,
        };
        if is_late || !is_of_busy_door(&error) {
            return Err(error);
        }
        thread::sleep(RETRY_INTERVAL);
    }
}

/// Whether somebody else is at the door, or it closed after the one before.
fn is_of_busy_door(error: &LiveError) -> bool {
    let is_closed = matches!(error, LiveError::Restarted | LiveError::Connection(_) | LiveError::Silent { .. });
    is_closed || matches!(error, LiveError::Ticket(TicketRefusal::Busy))
}

fn peer(ticket: Ticket, relay_only: bool) -> RemoteEnd {
    if relay_only { RemoteEnd::ByRendezvous(ticket) } else { RemoteEnd::Of(ticket) }
}

struct Room<C: PictureCodec> {
    clock: Clock,
    me: Person,
    /// Whether this end entered the room of another one.
    has_entered: bool,
    /// Ticket of that room's door, while the person who opened it is there.
    door: Option<Ticket>,
    /// That person.
    host: Option<Person>,
    /// Whether this end is at that door.
    is_entering: bool,
    relay_only: bool,
    name: StreamName,
    listener: Box<dyn FnMut() -> Result<Listener, LiveError> + Send>,
    seat: Box<dyn FnMut(u64) -> Result<Seat<C>, LiveError> + Send>,
    idle_limit: Option<Duration>,
    handle: CallHandle,
    own: Presence,
    has_left: bool,
    guests: BTreeMap<u64, Guest>,
    last_number: u64,
    begun: Option<Instant>,
    events: SyncSender<Event>,
    incoming: Receiver<Event>,
    is_over: Arc<AtomicBool>,
    /// Serves the door of this end, or enters at that of another one.
    at_door: Option<Thread>,
    source: Thread,
    wants_pictures: Sender<bool>,
    are_wanted: bool,
    has_ended: bool,
    microphone: Option<SoundSplitter>,
    mixer: Option<(Mixer, bool)>,
}

/// Runs one end of a room on `clock` until it leaves. An end that entered also leaves when everybody else has left.
///
/// # Errors
/// The room cannot be entered, or the microphone or the loudspeaker fails. The observer receives the failure of the
/// source, and those of single calls.
pub fn room<C: PictureCodec>(
    clock: Clock,
    options: RoomOptions<C>,
    observer: &mut impl RoomObserver,
) -> Result<Ended, LiveError> {
    let RoomOptions { entrance, relay_only, name, mut source, microphone, loudspeaker, listener, seat, .. } = options;
    let RoomOptions { length, wait_limit, idle_limit, stop, handle, .. } = options;
    let (events, incoming) = mpsc::sync_channel(EVENT_QUEUE);
    let interval = source.format().frame_interval();
    source.prepare();
    let (wants_pictures, are_wanted) = mpsc::channel();
    let source = capture::spawn(source, interval, are_wanted, events.clone(), Event::Captured)?;
    let mixer = loudspeaker.map(|Loudspeaker { sink, lip_sync }| Ok::<_, LiveError>((Mixer::start(sink)?, lip_sync)));
    let wake = events.clone();
    let own = handle.attach(move || drop(wake.try_send(Event::Woken))).own;
    let mut room = Room {
        clock,
        me: Person::new()?,
        has_entered: false,
        door: None,
        host: None,
        is_entering: false,
        relay_only,
        name,
        listener,
        seat,
        idle_limit,
        handle,
        own,
        has_left: false,
        guests: BTreeMap::new(),
        last_number: 0,
        begun: None,
        events,
        incoming,
        is_over: Arc::default(),
        at_door: None,
        source,
        wants_pictures,
        are_wanted: false,
        has_ended: false,
        microphone: microphone.map(SoundSplitter::start).transpose()?,
        mixer: mixer.transpose()?,
    };
    match entrance {
        Entrance::Open(door) => {
            let (is_over, events, door) = (room.is_over.clone(), room.events.clone(), door.many_times());
            room.at_door = Some(Thread::spawn("door", move || serve_door(clock, &door, &is_over, &events))?);
        }
        Entrance::Enter(ticket) => {
            (room.has_entered, room.door) = (true, Some(ticket));
            room.enter(wait_limit)?;
        }
    }
    let result = room.run(length, &stop, observer);
    let ended = room.end(observer);
    result.and_then(|result| ended.map(|()| result))
}

impl<C: PictureCodec> Room<C> {
    fn run(
        &mut self,
        length: Option<Duration>,
        stop: &Stop,
        observer: &mut impl RoomObserver,
    ) -> Result<Ended, LiveError> {
        let mut sized_at = Instant::now();
        loop {
            if stop() {
                return Ok(Ended::Stopped);
            }
            if let Err(error) = self.source.check() {
                observer.failed(&error); // the others are still seen and heard
            }
            if let Some(ended) = self.reason_to_end(length)? {
                return Ok(ended);
            }
            if sized_at.elapsed() >= SIZE_INTERVAL {
                sized_at = Instant::now();
                self.send_sizes();
            }
            observer.at(self.own, self.mixer.as_ref().and_then(|(mixer, _)| mixer.speaker()));
            let mut next = self.incoming.recv_timeout(MAX_WAIT).ok();
            while let Some(event) = next {
                self.handle(event, observer)?;
                next = self.incoming.try_recv().ok();
            }
        }
    }

    /// The reason for this end to leave, if there is one.
    fn reason_to_end(&mut self, length: Option<Duration>) -> Result<Option<Ended>, LiveError> {
        if let Some(microphone) = &mut self.microphone {
            microphone.check()?;
        }
        if let Some((mixer, _)) = &mut self.mixer {
            mixer.check()?;
        }
        if let Some(door) = &mut self.at_door {
            door.check()?;
        }
        self.serve_requests();
        if self.has_left {
            return Ok(Some(Ended::Left));
        }
        let is_late = length.zip(self.begun).is_some_and(|(length, begun)| begun.elapsed() >= length);
        if is_late || self.has_ended {
            return Ok(Some(Ended::Done));
        }
        // The opener waits for others; a person who entered does not.
        let is_alone = self.has_entered && self.guests.is_empty() && !self.is_entering;
        Ok(is_alone.then_some(Ended::ByPeer))
    }

    /// Applies the commands of the application.
    fn serve_requests(&mut self) {
        let before = self.own;
        while let Some(request) = self.handle.take_request() {
            match request {
                Request::Command(Command::Mute) => self.own.muted = !self.own.muted,
                Request::Command(Command::Camera) => self.own.camera_off = !self.own.camera_off,
                Request::Command(Command::Leave) => self.has_left = true,
                Request::Presence(presence) => self.own = presence,
                Request::Stream(..) | Request::Controller(..) => {} // of single calls
            }
        }
        if self.own != before {
            self.guests.values().for_each(|guest| guest.handle.set_presence(self.own));
        }
        let are_wanted = !self.own.camera_off && self.guests.values().any(|guest| guest.is_joined);
        if std::mem::replace(&mut self.are_wanted, are_wanted) != are_wanted {
            let _ = self.wants_pictures.send(are_wanted); // a failed thread is detected by `check`
        }
    }

    /// Sends others the sizes of their pictures here, where these have changed.
    fn send_sizes(&mut self) {
        for guest in self.guests.values_mut().filter(|guest| guest.is_joined) {
            let size = (guest.shown_size)();
            if let Some((width, height)) = size.filter(|_| size != guest.sent_size) {
                guest.sent_size = size;
                guest.send(&RoomMessage::Size(width, height));
            }
        }
    }

    /// Starts to enter at the door of the other end, unless that has started.
    fn enter(&mut self, wait_limit: Option<Duration>) -> Result<(), LiveError> {
        let Some(ticket) = self.door.clone().filter(|_| !self.is_entering) else { return Ok(()) };
        self.is_entering = true;
        let (clock, relay_only, me) = (self.clock, self.relay_only, self.me);
        let (is_over, events) = (self.is_over.clone(), self.events.clone());
        self.at_door = Some(Thread::spawn("door", move || {
            let event = match enter(clock, &ticket, relay_only, me, wait_limit, &is_over) {
                Ok(Some((person, ticket))) => Event::Welcome(person, ticket),
                Ok(None) => return Ok(()),
                Err(error) => Event::Shut(error),
            };
            let _ = events.send(event); // the loop has ended
            Ok(())
        })?);
        Ok(())
    }

    fn handle(&mut self, event: Event, observer: &mut impl RoomObserver) -> Result<(), LiveError> {
        match event {
            Event::Captured(Captured::Picture(picture, is_screen)) => {
                let (captured_at, mut halves) = (Instant::now(), Halves::of(picture));
                for guest in self.guests.values_mut().filter(|guest| guest.is_joined) {
                    if mem::replace(&mut guest.sees_screen, is_screen) != is_screen {
                        guest.handle.set_screen(0, is_screen);
                    }
                    let picture = halves.at_least(guest.wanted_size.unwrap_or((usize::MAX, usize::MAX)));
                    guest.handle.send_frame(0, picture, captured_at);
                }
            }
            Event::Captured(Captured::Ended) => self.has_ended = true,
            Event::Captured(Captured::Lost(reason)) => observer.failed(&LiveError::Source(reason)),
            Event::Entering(door, person) => {
                let answer = self.admit(person, observer);
                let _ = door.send_message(Message::reliable(answer.to_string())); // as in `Guest::send`
            }
            Event::Welcome(host, ticket) => {
                (self.host, self.is_entering) = (Some(host), false);
                self.take_seat(host, peer(ticket, self.relay_only), true, observer);
            }
            Event::Shut(error) => {
                self.is_entering = false;
                return self.lose(error, observer);
            }
            Event::Joined(number) => self.joined(number, observer),
            Event::Said(number, message) => self.on_message(number, message, observer),
            Event::Left { number, joined, result } => return self.left(number, joined, result, observer),
            Event::Woken => {}
        }
        Ok(())
    }

    /// Whether there is a place for a person. After a call broke, a person has two for a while.
    fn has_place(&self, person: Person) -> bool {
        let others: BTreeSet<Person> = self.guests.values().map(|guest| guest.person).collect();
        let is_known = others.contains(&person) && self.guests.len() < 2 * MAX_PEOPLE;
        person != self.me && (is_known || others.len() + 1 < MAX_PEOPLE)
    }

    /// Admits a person at the door, and introduces that person to everyone.
    fn admit(&mut self, person: Person, observer: &mut impl RoomObserver) -> RoomMessage {
        if !self.has_place(person) {
            observer.turned_away();
            return RoomMessage::Full;
        }
        let Some(ticket) = self.expect(person, observer) else { return RoomMessage::Full };
        for guest in self.guests.values().filter(|guest| guest.person != person) {
            guest.send(&RoomMessage::Introduce(person));
        }
        RoomMessage::Welcome(self.me, ticket)
    }

    /// Waits for the call of a person; returns the ticket for it.
    fn expect(&mut self, person: Person, observer: &mut impl RoomObserver) -> Option<Ticket> {
        let opened = (self.listener)().and_then(|listener| Ok((listener.ticket(&[])?, listener)));
        match opened {
            Ok((ticket, listener)) => {
                self.take_seat(person, RemoteEnd::At(listener), false, observer).then_some(ticket)
            }
            Err(error) => {
                observer.failed(&error);
                None
            }
        }
    }

    /// Starts the call with a person; returns whether that worked.
    fn take_seat(
        &mut self,
        person: Person,
        peer: RemoteEnd,
        has_called: bool,
        observer: &mut impl RoomObserver,
    ) -> bool {
        self.last_number += 1;
        let started = self.start(self.last_number, person, peer, has_called);
        started
            .map(|guest| self.guests.insert(self.last_number, guest))
            .map_err(|error| observer.failed(&error))
            .is_ok()
    }

    fn start(&mut self, number: u64, person: Person, peer: RemoteEnd, has_called: bool) -> Result<Guest, LiveError> {
        let Seat { sending, runner, receiving, open_sink, observer, shown_size } = (self.seat)(number)?;
        let handle = CallHandle::new();
        handle.set_presence(self.own);
        let loudspeaker = self.mixer.as_ref();
        let loudspeaker =
            loudspeaker.map(|(mixer, lip_sync)| Loudspeaker { sink: mixer.sink_of(number), lip_sync: *lip_sync });
        let is_over = self.is_over.clone();
        let options = CallOptions {
            peer,
            kind: CallKind::TwoWay,
            sending: vec![Sending {
                end: sending,
                name: self.name.clone(),
                source: PictureSource::Pushed,
                runner,
                microphone: self.microphone.as_ref().map(SoundSplitter::listen),
                measures_quality: false,
            }],
            receiving: vec![Receiving { end: receiving, open_sink, loudspeaker }],
            length: None,
            wait_limit: Some(ANSWER_LIMIT),
            starts_at_once: false,
            idle_limit: self.idle_limit,
            stop: Box::new(move || is_over.load(Ordering::Relaxed)),
            freshness: Freshness::default(),
            handle: handle.clone(),
            qlog: None,
        };
        let (clock, events) = (self.clock, self.events.clone());
        let thread = Thread::spawn("person", move || {
            let mut observer = GuestObserver { number, observer, events };
            let finished = run(clock, options, &mut observer);
            let (joined, result) = (finished.joined, finished.result);
            let _ = observer.events.send(Event::Left { number, joined, result }); // the loop has ended
            Ok(())
        })?;
        let (is_joined, is_replaced, sees_screen, sent_size, wanted_size) = (false, false, false, None, None);
        Ok(Guest {
            person,
            handle,
            thread,
            is_joined,
            has_called,
            is_replaced,
            shown_size,
            sees_screen,
            sent_size,
            wanted_size,
        })
    }

    fn joined(&mut self, number: u64, observer: &mut impl RoomObserver) {
        let Some(guest) = self.guests.get_mut(&number) else { return };
        guest.is_joined = true;
        let person = guest.person;
        // The person called again, because the earlier call broke.
        for (_, earlier) in self.guests.range_mut(..number).filter(|(_, earlier)| earlier.person == person) {
            earlier.is_replaced = true;
            earlier.handle.leave();
        }
        self.begun.get_or_insert_with(Instant::now);
        observer.joined(number);
    }

    fn on_message(&mut self, number: u64, message: RoomMessage, observer: &mut impl RoomObserver) {
        let Some(guest) = self.guests.get_mut(&number) else { return };
        let (from, is_host) = (guest.person, self.host == Some(guest.person));
        match message {
            RoomMessage::Size(width, height) => guest.wanted_size = Some((width, height)),
            RoomMessage::Introduce(person) if is_host && self.has_place(person) => {
                if let Some(ticket) = self.expect(person, observer)
                    && let Some(host) = self.guests.get(&number)
                {
                    host.send(&RoomMessage::Invite(person, ticket));
                }
            }
            RoomMessage::Invite(person, ticket) if !self.has_entered => {
                let newest = self.guests.values().rev().find(|guest| guest.person == person);
                newest.into_iter().for_each(|guest| guest.send(&RoomMessage::Call(from, ticket.clone())));
            }
            RoomMessage::Call(person, ticket) if is_host && self.has_place(person) => {
                let is_there = self.guests.values().any(|guest| guest.person == person && !guest.is_replaced);
                if !is_there {
                    self.take_seat(person, peer(ticket, self.relay_only), true, observer);
                }
            }
            _ => {}
        }
    }

    /// Reports an error that ends the room only if nobody is there.
    fn lose(&mut self, error: LiveError, observer: &mut impl RoomObserver) -> Result<(), LiveError> {
        if self.has_entered && self.guests.is_empty() && !self.is_entering {
            return Err(error);
        }
        observer.failed(&error);
        Ok(())
    }

    fn left(
        &mut self,
        number: u64,
        joined: bool,
        result: Result<Ended, LiveError>,
        observer: &mut impl RoomObserver,
    ) -> Result<(), LiveError> {
        let Some(mut guest) = self.guests.remove(&number) else { return Ok(()) };
        guest.thread.finish(END_LIMIT)?;
        if guest.is_replaced {
            if joined {
                observer.left(number, &Err(LiveError::Replaced));
            }
            return Ok(());
        }
        if joined {
            observer.left(number, &result);
            match result {
                Ok(_) if self.host == Some(guest.person) => self.door = None,
                Err(LiveError::Silent { .. } | LiveError::Restarted | LiveError::Connection(_)) if guest.has_called => {
                    self.enter(None)?;
                }
                _ => {}
            }
            return Ok(());
        }
        result.map_or_else(|error| self.lose(error, observer), |_| Ok(()))
    }

    /// Ends all calls and threads.
    fn end(&mut self, observer: &mut impl RoomObserver) -> Result<(), LiveError> {
        self.is_over.store(true, Ordering::Relaxed);
        let _ = self.wants_pictures.send(false); // the thread may have ended
        let deadline = Instant::now() + END_LIMIT;
        while !self.guests.is_empty() && Instant::now() < deadline {
            if let Ok(Event::Left { number, joined, result }) = self.incoming.recv_timeout(MAX_WAIT)
                && let Some(guest) = self.guests.remove(&number)
                && joined
                && !guest.is_replaced
            {
                observer.left(number, &result);
            }
        }
        if let Some(door) = &mut self.at_door {
            door.finish(END_LIMIT)?;
        }
        self.handle.detach(crate::handle::Changed { own: self.own, ..Default::default() });
        self.mixer.as_mut().map_or(Ok(()), |(mixer, _)| mixer.finish())
    }
}
