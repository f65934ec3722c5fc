//! Sends one source to many viewers that join with the same ticket.
//!
//! Each viewer has its own connection, transport, controller and encoder. So its frames fit its own path and build on
//! states that it holds. Loss on one path does not reach another viewer.
//!
//! ```text
//!  source --> picture --+--> encoder, sending end, QUIC --> viewer 1
//!                       +--> encoder, sending end, QUIC --> viewer 2
//! ```
//!
//! All connections share the sockets. The connection identifiers of one listener hold the number of its slot, which
//! routes packets. A packet that starts a connection goes to the slot of its sender's address, or to a new one.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::mpsc::{self, SyncSender};
use std::time::Duration;

use lockstep_call::{MenuRunner, PictureCodec, SendingEnd, Vp8};
use lockstep_media::Source;
use lockstep_session::control::CallKind;
use lockstep_session::stream::StreamName;
use lockstep_session::{CallEvent, Carrier, Ended, Ends, Exchange, Freshness, LiveError, TimeLimits, reason};
use lockstep_socket::{Clock, Incoming, Reader, Sockets};
use lockstep_sound::SoundSource;
use lockstep_units::Timestamp;
use lockstep_vp8::Picture;

use crate::capture::{self, Captured};
use crate::connection::Connection;
use crate::gate::Names;
use crate::identity::Identity;
use crate::loop_event::{LoopEvent, SendingEvent, SoundEvent};
use crate::quic::PATIENCE;
use crate::remote_end::Listener;
use crate::sending::{PictureSource, Sending, SendingHalf};
use crate::sound_splitter::SoundSplitter;
use crate::{END_LIMIT, Stop, Thread};

/// Most viewers of one broadcast: a slot's number is one byte of its connection identifiers.
pub const MAX_VIEWERS: usize = 200;
/// Slots of peers that have not joined; further peers share the newest of them, which limits them. An audience that opens
/// a link at once needs one each for some round trips.
const MAX_UNJOINED: usize = 32;
/// Interval of [`BroadcastObserver::status`].
const STATUS_INTERVAL: Duration = Duration::from_millis(200);
/// Longest wait without an event.
const MAX_WAIT: Duration = Duration::from_millis(100);
/// Events of threads and sockets that may wait for the loop.
const EVENT_QUEUE: usize = 1_024;
/// Stream number of events of the shared source.
const SOURCE: usize = usize::MAX;

/// Options of a broadcast.
pub struct BroadcastOptions<C: PictureCodec = Vp8> {
    /// Where viewers join.
    pub listener: Listener,
    /// Source of the pictures. It runs while somebody watches.
    pub source: Box<dyn Source>,
    /// Source of the sound, if any.
    pub microphone: Option<Box<dyn SoundSource>>,
    /// Makes the sending end of a viewer that joined.
    pub end: Box<dyn FnMut() -> Result<SendingEnd<C>, LiveError>>,
    /// Makes the runner of a viewer's candidates.
    pub runner: Box<dyn Fn() -> Box<dyn MenuRunner<C> + Send>>,
    /// Most viewers at a time, at most [`MAX_VIEWERS`]; further peers are refused as [`TicketRefusal::Busy`](crate::TicketRefusal::Busy).
    pub max_viewers: usize,
    /// Time after which the broadcast ends; `None` means no limit.
    pub length: Option<Duration>,
    /// Longest silence of a viewer before it is dropped.
    pub idle_limit: Option<Duration>,
    /// Whether the user wants to end the broadcast.
    pub stop: Stop,
}

/// Receives events and the state of a broadcast.
pub trait BroadcastObserver<C: PictureCodec = Vp8> {
    /// An event of the viewer with this number. Numbers start at 1 and are not reused.
    /// [`CallEvent::Ended`] or [`CallEvent::Failed`] is its last one.
    fn event(&mut self, viewer: u64, event: CallEvent);

    /// The camera failed. The broadcast continues, and so do its pictures once it is there again.
    fn source_failed(&mut self, error: &LiveError);

    /// Called several times per second with the sending ends of all viewers.
    fn status(&mut self, now: Timestamp, viewers: &mut dyn Iterator<Item = (u64, &SendingEnd<C>)>);
}

/// One viewer, or a peer that may become one.
struct Slot<C: PictureCodec> {
    exchange: Exchange<Connection>,
    since: Timestamp,
    /// Address of the first packet.
    from: SocketAddr,
    /// Number and sending half, once the peer has joined.
    viewer: Option<(u64, SendingHalf<C>)>,
    ending: Option<(Timestamp, Result<Ended, LiveError>)>,
}

impl<C: PictureCodec> Slot<C> {
    fn parts(&mut self) -> (&mut Exchange<Connection>, Ends<'_, C>) {
        let sending = self.viewer.iter_mut().map(|(_, half)| &mut half.end).collect();
        (&mut self.exchange, Ends { sending, receiving: Vec::new() })
    }

    /// Starts to close the connection, unless that has started.
    fn end(&mut self, now: Timestamp, result: Result<Ended, LiveError>) {
        if self.ending.is_none() {
            self.exchange.connection.close(now, reason(&result), END_LIMIT);
            if let Some((_, half)) = &mut self.viewer {
                half.stop_capturing(now);
            }
            self.ending = Some((now, result));
        }
    }

    /// Whether the connection is closed, or has taken too long.
    fn has_ended(&self, now: Timestamp) -> bool {
        self.ending
            .as_ref()
            .is_some_and(|(since, _)| self.exchange.connection.is_over() || now.saturating_since(*since) >= END_LIMIT)
    }
}

struct Broadcast<C: PictureCodec> {
    clock: Clock,
    identity: Identity,
    end: Box<dyn FnMut() -> Result<SendingEnd<C>, LiveError>>,
    runner: Box<dyn Fn() -> Box<dyn MenuRunner<C> + Send>>,
    limit: usize,
    length: Option<Duration>,
    idle_limit: Option<Duration>,
    stop: Stop,
    sockets: Sockets,
    readers: Vec<Reader>,
    names: Names,
    slots: BTreeMap<u8, Slot<C>>,
    events: SyncSender<LoopEvent<C>>,
    incoming: mpsc::Receiver<LoopEvent<C>>,
    source: Thread,
    wants_pictures: mpsc::Sender<bool>,
    is_wanted: bool,
    is_over: bool,
    sound: Option<SoundSplitter>,
    joined: u64,
    begun: Option<Timestamp>,
    buffer: Vec<u8>,
}

/// Sends to every peer that joins, until the source ends, the time is up or the user stops.
///
/// # Errors
/// The sockets, the source or the microphone fail. The failure of one viewer's connection is an event.
pub fn broadcast<C: PictureCodec>(
    clock: Clock,
    options: BroadcastOptions<C>,
    observer: &mut impl BroadcastObserver<C>,
) -> Result<Ended, LiveError> {
    let BroadcastOptions { listener, mut source, microphone, end, runner, max_viewers, length, idle_limit, stop } =
        options;
    let Listener { sockets, identity, .. } = listener;
    let (events, incoming) = mpsc::sync_channel(EVENT_QUEUE);
    // The keys of its identifiers and its filter are those of every slot.
    let first = Connection::listening_slot(&identity, CallKind::FromListener, 0, clock.origin(), clock.now())?;
    let readers = sockets.read(clock, &events, Some(&first.gate()), LoopEvent::Network)?;
    source.prepare();
    let interval = source.format().frame_interval();
    let (wants_pictures, is_wanted) = mpsc::channel();
    let source = capture::spawn(source, interval, is_wanted, events.clone(), |captured| {
        LoopEvent::Sending(SOURCE, SendingEvent::Captured(captured))
    })?;
    let mut broadcast = Broadcast {
        clock,
        identity,
        end,
        runner,
        limit: max_viewers.min(MAX_VIEWERS),
        length,
        idle_limit,
        stop,
        sockets,
        readers,
        names: first.names(),
        slots: BTreeMap::new(),
        events,
        incoming,
        source,
        wants_pictures,
        is_wanted: false,
        is_over: false,
        sound: microphone.map(SoundSplitter::start).transpose()?,
        joined: 0,
        begun: None,
        buffer: Vec::new(),
    };
    broadcast.run(observer)
}

impl<C: PictureCodec> Broadcast<C> {
    fn run(&mut self, observer: &mut impl BroadcastObserver<C>) -> Result<Ended, LiveError> {
        let mut next_status = self.clock.now();
        let mut ending: Option<(Timestamp, Result<Ended, LiveError>)> = None;
        loop {
            let now = self.clock.now();
            if ending.is_none()
                && let Some(result) = self.reason_to_end(now).transpose()
            {
                for slot in self.slots.values_mut() {
                    slot.end(now, result.as_ref().map(|&ended| ended).map_err(|_| LiveError::PeerFailed));
                }
                ending = Some((now, result));
            }
            self.step(now, ending.is_none(), observer);
            if let Err(error) = self.transmit() {
                ending.get_or_insert((now, Err(error)));
            }
            self.remove_ended(now, observer);
            if ending
                .as_ref()
                .is_some_and(|(since, _)| self.slots.is_empty() || now.saturating_since(*since) >= END_LIMIT)
                && let Some((_, result)) = ending
            {
                return result;
            }
            if now >= next_status {
                next_status = now + STATUS_INTERVAL;
                let mut viewers = self
                    .slots
                    .values()
                    .filter_map(|slot| slot.viewer.as_ref())
                    .map(|(number, half)| (*number, &half.end));
                observer.status(now, &mut viewers);
            }
            self.wait(next_status, observer);
        }
    }

    /// The reason to end the broadcast, if there is one.
    fn reason_to_end(&mut self, now: Timestamp) -> Result<Option<Ended>, LiveError> {
        if (self.stop)() {
            return Ok(Some(Ended::Stopped));
        }
        self.readers.iter_mut().try_for_each(Reader::check)?;
        self.source.check()?;
        if let Some(sound) = &mut self.sound {
            sound.check()?;
        }
        let is_late = self.length.zip(self.begun).is_some_and(|(length, begun)| now >= begun + length);
        Ok((self.is_over || is_late).then_some(Ended::Done))
    }

    /// Drives every slot.
    fn step(&mut self, now: Timestamp, is_open: bool, observer: &mut impl BroadcastObserver<C>) {
        let numbers: Vec<u8> = self.slots.keys().copied().collect();
        for number in numbers {
            let Some(slot) = self.slots.get_mut(&number) else { continue };
            slot.exchange.connection.handle_timeout(now);
            let is_new = slot.viewer.is_none() && slot.exchange.connection.is_joined() && slot.ending.is_none();
            if is_new && is_open {
                self.join(number, now);
            }
            let Some(slot) = self.slots.get_mut(&number) else { continue };
            let (exchange, mut ends) = slot.parts();
            exchange.handle_events(now, &mut ends);
            if let Some((viewer, _)) = &slot.viewer {
                // A peer without room was refused by the slot of any viewer.
                let events = std::iter::from_fn(|| slot.exchange.poll_event());
                events.filter(|event| *event != CallEvent::Missed).for_each(|event| observer.event(*viewer, event));
            }
            if let Some(result) = slot.exchange.reason_to_end::<C>(now, [], []) {
                slot.end(now, result);
            }
            let is_sending = slot.ending.is_none();
            if let Some((_, half)) = &mut slot.viewer {
                half.step(now, is_sending, &mut |_| {});
                if let Err(error) = half.check() {
                    slot.end(now, Err(error));
                }
            }
        }
        let is_wanted = is_open && self.slots.values().any(|slot| slot.viewer.is_some() && slot.ending.is_none());
        if std::mem::replace(&mut self.is_wanted, is_wanted) != is_wanted {
            let _ = self.wants_pictures.send(is_wanted); // a failed thread is detected by `check`
        }
    }

    /// Makes a viewer of the peer in a slot.
    fn join(&mut self, number: u8, now: Timestamp) {
        let started = (self.end)().and_then(|end| {
            let microphone = self.sound.as_ref().map(SoundSplitter::listen);
            let sending = Sending {
                end,
                name: StreamName::default(),
                source: PictureSource::Pushed,
                runner: (self.runner)(),
                microphone,
                measures_quality: false,
            };
            SendingHalf::start(sending, usize::from(number), self.clock, &self.events).map_err(|(_, error)| error)
        });
        let Some(slot) = self.slots.get_mut(&number) else { return };
        match started {
            Ok(mut half) => {
                half.begin();
                self.joined += 1;
                self.begun.get_or_insert(now);
                slot.viewer = Some((self.joined, half));
            }
            Err(error) => slot.end(now, Err(error)),
        }
    }

    /// Removes slots whose connection is closed.
    fn remove_ended(&mut self, now: Timestamp, observer: &mut impl BroadcastObserver<C>) {
        let ended: Vec<u8> =
            self.slots.iter().filter(|(_, slot)| slot.has_ended(now)).map(|(&number, _)| number).collect();
        for number in ended {
            let Some(Slot { exchange, viewer: Some((viewer, _)), ending: Some((_, result)), .. }) =
                self.slots.remove(&number)
            else {
                continue;
            };
            observer.event(
                viewer,
                match exchange.result_after_close(result) {
                    Ok(ended) => CallEvent::Ended(ended),
                    Err(error) => CallEvent::Failed(error.into()),
                },
            );
        }
    }

    /// The slot for a datagram; `None` if no slot may take it.
    fn slot_of(&mut self, incoming: &Incoming) -> Option<u8> {
        if let Some(number) = self.names.slot_of(&incoming.datagram) {
            return Some(number);
        }
        // It starts a connection, or is garbage.
        let of_address = self.slots.iter().filter(|(_, slot)| slot.viewer.is_none() && slot.from == incoming.from);
        if let Some((&number, _)) = of_address.last() {
            return Some(number);
        }
        let unjoined = self.slots.iter().filter(|(_, slot)| slot.viewer.is_none());
        if unjoined.clone().count() >= MAX_UNJOINED || self.slots.len() >= self.limit {
            let newest = unjoined.max_by_key(|(_, slot)| slot.since);
            // With a full house, a viewer's own connection refuses the peer: the ticket is in use.
            return newest.or(self.slots.iter().next()).map(|(&number, _)| number);
        }
        let number = (1..=u8::MAX).find(|number| !self.slots.contains_key(number))?;
        let (origin, now) = (self.clock.origin(), incoming.at);
        let connection =
            Connection::listening_slot(&self.identity, CallKind::FromListener, number, origin, now).ok()?;
        let time_limits = TimeLimits { wait_limit: Some(PATIENCE), idle_limit: self.idle_limit };
        let exchange = Exchange::new(connection, time_limits, now).with_streams(Vec::new(), Freshness::default());
        self.slots.insert(number, Slot { exchange, since: now, from: incoming.from, viewer: None, ending: None });
        Some(number)
    }

    fn transmit(&mut self) -> Result<(), LiveError> {
        let mut buffer = std::mem::take(&mut self.buffer);
        for slot in self.slots.values_mut() {
            loop {
                let now = self.clock.now();
                buffer.clear();
                let (exchange, mut ends) = slot.parts();
                let Some(to) = exchange.poll_transmit(now, &mut ends, &mut buffer) else { break };
                self.sockets.send(now, &buffer, to)?;
            }
        }
        self.buffer = buffer;
        Ok(())
    }

    fn capture(&mut self, captured: Captured, observer: &mut impl BroadcastObserver<C>) {
        let now = self.clock.now();
        match captured {
            Captured::Picture(picture, is_screen) => self.push(now, &picture, is_screen),
            Captured::Ended => self.is_over = true,
            Captured::Lost(reason) => observer.source_failed(&LiveError::Source(reason)),
        }
    }

    fn push(&mut self, now: Timestamp, picture: &Picture, is_screen: bool) {
        for slot in self.slots.values_mut() {
            if let Some((_, half)) = &mut slot.viewer {
                half.end.set_screen(is_screen);
                half.push(now, now, picture.clone());
            }
        }
    }

    fn half(&mut self, stream: usize) -> Option<&mut SendingHalf<C>> {
        let slot = self.slots.get_mut(&u8::try_from(stream).ok()?)?;
        slot.viewer.as_mut().map(|(_, half)| half)
    }

    /// Waits for an event, and handles all that wait.
    fn wait(&mut self, wake: Timestamp, observer: &mut impl BroadcastObserver<C>) {
        let mut earliest = Some(wake);
        for slot in self.slots.values_mut() {
            let (exchange, ends) = slot.parts();
            earliest = Timestamp::earliest([earliest, exchange.poll_timeout(&ends)]);
        }
        let wait = earliest.map_or(MAX_WAIT, |wake| self.clock.until(wake).min(MAX_WAIT));
        let mut next = self.incoming.recv_timeout(wait).ok();
        while let Some(event) = next {
            self.handle(event, observer);
            next = self.incoming.try_recv().ok();
        }
    }

    fn handle(&mut self, event: LoopEvent<C>, observer: &mut impl BroadcastObserver<C>) {
        match event {
            LoopEvent::Network(incoming) => {
                self.sockets.note(&incoming);
                if let Some(slot) = self.slot_of(&incoming).and_then(|number| self.slots.get_mut(&number)) {
                    slot.exchange.connection.handle_datagram(incoming);
                }
            }
            LoopEvent::Sending(SOURCE, SendingEvent::Captured(captured)) => self.capture(captured, observer),
            LoopEvent::Sending(stream, event) => {
                let now = self.clock.now();
                if let Some(half) = self.half(stream) {
                    half.handle(now, event);
                }
            }
            LoopEvent::Sound(SoundEvent::Spoken(stream, packet)) => {
                let now = self.clock.now();
                if let Some(half) = self.half(stream) {
                    half.send_sound(now, packet);
                }
            }
            LoopEvent::Sound(SoundEvent::Playback(..)) | LoopEvent::Decoded(..) | LoopEvent::Woken => {}
        }
    }
}
