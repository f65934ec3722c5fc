//! A call that runs on its own threads.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use lockstep_call::{Preset, ReceivingEnd, SerialMenu};
use lockstep_control::{Controller, ControllerSetup, Latency};
use lockstep_live::{
    CallEvent, CallHandle, CallKind, CallObserver, CallOptions, Ended, Freshness, Identity, Listener, LiveError,
    Loudspeaker, MAX_STREAMS, Message, MessageError, OpenSink, Presence, ReceivedFrame, Receiving, RemoteEnd, Sending,
    Shown, StreamName, Ticket, TicketRefusal,
};
use lockstep_media::{FrameRate, Sink, SinkError, Source, SourceError, VideoFormat};
use lockstep_socket::{Clock, SystemError};
use lockstep_sound::{DiscardSoundSink, SoundSink, SoundSource};
use lockstep_units::{Bitrate, Timestamp};
use lockstep_vp8::Picture;

use crate::options::{ReceiveOptions, SendOptions};
use crate::queue::Queue;
use crate::streams::{SentStream, Share, Stream, shares, split, unopened};

/// Events that wait for the application; beyond this, the oldest are dropped.
const MAX_EVENTS: usize = 1_024;
/// Frames of each stream that wait for the application; beyond this, the oldest are dropped, so that none is stale.
const MAX_FRAMES: usize = 3;
/// Pause between two attempts to resume a call.
const RESUME_INTERVAL: Duration = Duration::from_millis(250);

type OpenAnySink = Box<dyn FnMut(&StreamName, VideoFormat) -> Result<Box<dyn Sink>, SinkError> + Send>;
type OpenMicrophone = Box<dyn FnMut() -> Result<Box<dyn SoundSource>, String> + Send>;
type OpenLoudspeaker = Box<dyn FnMut() -> Result<Box<dyn SoundSink>, String> + Send>;

/// The destination of the other end's pictures.
enum Shows {
    Nothing,
    Frames,
    Sinks(Arc<Mutex<OpenAnySink>>),
}

/// Builds a [`Call`].
///
/// Without a source or stream, this end sends no pictures; without a sink, it receives none. With a sink it receives
/// every stream of the other end, up to [`MAX_STREAMS`].
#[must_use]
pub struct CallBuilder {
    streams: Vec<Stream>,
    shows: Shows,
    microphone: Option<OpenMicrophone>,
    loudspeaker: Option<OpenLoudspeaker>,
    /// Whether sound is decoded even without a loudspeaker, for the recording.
    records_sound: bool,
    send: SendOptions,
    receive: ReceiveOptions,
    wait_limit: Option<Duration>,
    idle_limit: Option<Duration>,
    stale_after: Option<Duration>,
    reconnects: bool,
}

impl std::fmt::Debug for CallBuilder {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("CallBuilder").field("send", &self.send).finish_non_exhaustive()
    }
}

impl CallBuilder {
    fn new() -> Self {
        Self {
            streams: Vec::new(),
            shows: Shows::Nothing,
            microphone: None,
            loudspeaker: None,
            records_sound: false,
            send: SendOptions::new(VideoFormat::new(640, 480)),
            receive: ReceiveOptions::default(),
            wait_limit: Some(Duration::from_secs(10)),
            idle_limit: Some(Duration::from_secs(30)),
            stale_after: None,
            reconnects: false,
        }
    }

    /// Sends the pictures of a source, which a thread of the call reads. `open` runs for each connection. If it fails,
    /// the other streams continue, in both directions ([`CallEvent::SourceFailed`]); without any, the call fails.
    pub fn source(self, open: impl FnMut() -> Result<Box<dyn Source>, SourceError> + Send + 'static) -> Self {
        self.only(Stream::source("", open))
    }

    /// Sends only this stream, without a name.
    fn only(mut self, stream: Stream) -> Self {
        self.streams = vec![stream];
        self
    }

    /// Adds a video stream; the first is the most important. Streams share one budget by their priorities. The other
    /// end receives their names.
    pub fn stream(mut self, stream: Stream) -> Self {
        self.streams.push(stream);
        self
    }

    /// Sends the source that `specification` names: `camera`, `/dev/video0`, `generated`, a y4m file, or any input of
    /// ffmpeg.
    pub fn open_source(self, specification: &str) -> Self {
        self.only(Stream::open_source("", specification))
    }

    /// Sends the pictures that the application passes to [`Call::send_frame`], in this format.
    pub fn send_frames(self, format: VideoFormat) -> Self {
        self.only(Stream::frames("", format))
    }

    /// Shows pictures on a sink, on a thread of the call. `open` runs for the first picture of each stream and
    /// connection.
    pub fn sink(self, mut open: impl FnMut(VideoFormat) -> Result<Box<dyn Sink>, SinkError> + Send + 'static) -> Self {
        self.sinks(move |_, format| open(format))
    }

    /// Like [`Self::sink`], with the name of the stream, which is empty for the only stream of a call.
    pub fn sinks(
        mut self,
        open: impl FnMut(&StreamName, VideoFormat) -> Result<Box<dyn Sink>, SinkError> + Send + 'static,
    ) -> Self {
        self.shows = Shows::Sinks(Arc::new(Mutex::new(Box::new(open))));
        self.records_sound = false;
        self
    }

    /// Shows pictures where `specification` says: `window`, `none`, or a file.
    ///
    /// A file ends in .webm or .mkv (with the other end's sound), .ivf or .y4m. A named stream has a separate window or
    /// file, such as `x.front.webm` for `x.webm`. Connections after the first have separate files: call.webm,
    /// call-2.webm, call-3.webm. Existing files are kept.
    pub fn open_sink(self, specification: &str) -> Self {
        let records_sound = lockstep_media::records_sound(specification);
        let (specification, mut connections) = (specification.to_owned(), BTreeMap::<StreamName, u32>::new());
        let builder = self.sinks(move |name, format| {
            let specification = lockstep_media::sink_of_stream(&specification, name)?;
            let connection = connections.entry(name.clone()).or_default();
            *connection += 1;
            lockstep_media::open_sink(&sink_of_connection(&specification, connection), format)
        });
        Self { records_sound, ..builder }
    }

    /// Keeps the newest pictures for [`Call::next_frame`].
    pub fn receive_frames(mut self) -> Self {
        self.shows = Shows::Frames;
        self
    }

    /// Sends sound; `open` runs for each connection.
    pub fn microphone(mut self, open: impl FnMut() -> Result<Box<dyn SoundSource>, String> + Send + 'static) -> Self {
        self.microphone = Some(Box::new(open));
        self
    }

    /// Plays the other end's sound; `open` runs for each connection.
    pub fn loudspeaker(mut self, open: impl FnMut() -> Result<Box<dyn SoundSink>, String> + Send + 'static) -> Self {
        self.loudspeaker = Some(Box::new(open));
        self
    }

    /// Sets the delay that the call tolerates for a better picture.
    pub fn latency(mut self, latency: Latency) -> Self {
        self.send = self.send.latency(latency);
        self
    }

    /// Sets a cap of the bit rate; see [`SendOptions::max_bitrate`]. Streams share it by their priorities.
    pub fn max_bitrate(mut self, cap: Bitrate) -> Self {
        self.send = self.send.max_bitrate(cap);
        self
    }

    /// Sets the effort of the encoder.
    pub fn preset(mut self, preset: Preset) -> Self {
        self.send = self.send.preset(preset);
        self
    }

    /// Sets a controller of the application; see [`SendOptions::controller`].
    pub fn controller(
        mut self,
        make: impl Fn(&ControllerSetup) -> Box<dyn Controller> + Send + Sync + 'static,
    ) -> Self {
        self.send = self.send.controller(make);
        self
    }

    /// Sets the most pixels that a received picture may have; see [`ReceiveOptions::max_pixels`].
    pub fn max_pixels(mut self, pixels: usize) -> Self {
        self.receive = self.receive.max_pixels(pixels);
        self
    }

    /// Sets the longest wait for the other end to join; `None` waits for ever. The default is 10 s for an end that
    /// joins.
    pub fn wait_limit(mut self, limit: Option<Duration>) -> Self {
        self.wait_limit = limit;
        self
    }

    /// Sets the silence that ends the call; `None` means no limit. The default is 30 s.
    pub fn idle_limit(mut self, limit: Option<Duration>) -> Self {
        self.idle_limit = limit;
        self
    }

    /// Sets the age at which the other end's newest picture is stale ([`CallEvent::Stale`]).
    pub fn stale_after(mut self, age: Duration) -> Self {
        self.stale_after = Some(age);
        self
    }

    /// Resumes the call after every failure or departure of the other end, until [`Call::leave`]: for an unattended
    /// robot. Settings that changed during the call stay. A listener then requires a standing identity ([`Identity::standing`]).
    pub fn reconnect(mut self) -> Self {
        self.reconnects = true;
        self
    }

    /// Starts the call with the owner of `ticket`.
    ///
    /// # Errors
    /// No thread can be started, or streams have invalid names or priorities. Later failures are [`CallEvent::Failed`].
    pub fn join(self, ticket: Ticket) -> Result<Call, LiveError> {
        self.start(Other::Giver(ticket))
    }

    /// Listens at `address`, such as `0.0.0.0:0`, for one call; returns the ticket for the other end.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub fn listen(self, address: SocketAddr) -> Result<(Call, Ticket), LiveError> {
        self.listen_as(Identity::new()?, address)
    }

    /// Like [`Self::listen`], with the ticket of `identity`. With a standing identity and [`CallBuilder::reconnect`],
    /// the ticket admits consecutive calls.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub fn listen_as(mut self, identity: Identity, address: SocketAddr) -> Result<(Call, Ticket), LiveError> {
        let listener = Listener::bind(address, identity)?;
        let ticket = listener.ticket(&[])?;
        self.wait_limit = None;
        Ok((self.start(Other::Joiner(listener))?, ticket))
    }

    fn start(self, other: Other) -> Result<Call, LiveError> {
        let shares = shares(&self.streams)?;
        let shared = Arc::new(Shared {
            handle: CallHandle::new(),
            events: Queue::new(MAX_EVENTS),
            frames: Queue::new(MAX_FRAMES),
            progress: Progress::default(),
            leaves: AtomicBool::new(false),
            received: Mutex::default(),
            send: Mutex::new(self.send.clone()),
            clock: Clock::start(),
        });
        let format = self.streams.first().and_then(Stream::pushed);
        let freshness = Freshness::new(self.stale_after);
        let runner = Runner { builder: self, other, shares: shares.clone(), freshness, shared: Arc::clone(&shared) };
        let thread = thread::Builder::new().name("lockstep call".to_owned()).spawn(move || runner.run());
        let thread = thread.map_err(|error| SystemError::Thread { name: "call", reason: error.to_string() })?;
        Ok(Call { shared, shares, format, thread: Some(thread) })
    }
}

/// The sink of connection `number`. A connection after the first uses the next file that does not exist.
fn sink_of_connection(specification: &str, number: &mut u32) -> String {
    let path = Path::new(specification);
    let (Some(stem), Some(extension)) = (path.file_stem(), path.extension()) else { return specification.to_owned() };
    let (stem, extension) = (stem.to_string_lossy(), extension.to_string_lossy());
    while *number > 1 {
        let name = path.with_file_name(format!("{stem}-{number}.{extension}"));
        if !name.exists() {
            return name.to_string_lossy().into_owned();
        }
        *number += 1;
    }
    specification.to_owned()
}

/// The other end of a call.
enum Other {
    Giver(Ticket),
    Joiner(Listener),
}

/// Names of the other end's streams, and data to align its clock with this one.
#[derive(Debug, Default)]
struct Received {
    /// Smallest delay by stream.
    min_delays: BTreeMap<usize, i64>,
    names: BTreeMap<usize, StreamName>,
    round_trip: Option<Duration>,
}

/// A picture that waits for the application.
struct WaitingFrame {
    stream: usize,
    name: StreamName,
    picture: Picture,
    captured_at: Timestamp,
}

/// Progress of a call.
#[derive(Debug, Clone, Default)]
struct Stage {
    has_joined: bool,
    outcome: Option<Result<Ended, Arc<LiveError>>>,
}

/// The stage of a call, and a signal for threads that wait for a later one.
#[derive(Default)]
struct Progress(Mutex<Stage>, Condvar);

impl Progress {
    fn change(&self, change: impl FnOnce(&mut Stage)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
        self.1.notify_all();
    }

    /// Waits until the call ends or `is_reached`, at most for `limit`; returns the stage.
    fn wait(&self, limit: Duration, is_reached: impl Fn(&Stage) -> bool) -> Stage {
        let stage = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = |stage: &mut Stage| stage.outcome.is_none() && !is_reached(stage);
        // The system adds the limit to its clock, which must not overflow; decades suffice.
        let limit = limit.min(Duration::from_secs(1 << 30));
        self.1.wait_timeout_while(stage, limit, waits).unwrap_or_else(PoisonError::into_inner).0.clone()
    }
}

/// State that the call's thread shares with the application.
struct Shared {
    handle: CallHandle,
    events: Queue<CallEvent>,
    frames: Queue<WaitingFrame>,
    progress: Progress,
    leaves: AtomicBool,
    received: Mutex<Received>,
    /// Options of the sending ends of the next connection.
    send: Mutex<SendOptions>,
    clock: Clock,
}

impl Shared {
    fn received(&self) -> MutexGuard<'_, Received> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self) -> MutexGuard<'_, SendOptions> {
        self.send.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Current age of a stream's picture.
    fn age(&self, stream: usize, captured_at: Timestamp) -> Option<Duration> {
        let received = self.received();
        let min_delay = *received.min_delays.get(&stream)?;
        Some(lockstep_call::age(self.clock.now(), captured_at, min_delay, received.round_trip?))
    }
}

/// Sink that queues the pictures of a stream for the application.
struct FrameSink {
    stream: usize,
    name: StreamName,
    shared: Arc<Shared>,
}

impl Sink for FrameSink {
    fn show(&mut self, picture: &Picture, captured_at: Timestamp) -> Result<(), SinkError> {
        let Self { stream, name, .. } = self;
        let frame = WaitingFrame { stream: *stream, name: name.clone(), picture: picture.clone(), captured_at };
        self.shared.frames.push_among(frame, |other| other.stream == *stream);
        Ok(())
    }

    fn is_live(&self) -> bool {
        true
    }
}

/// Forwards events to the application.
struct Observer(Arc<Shared>);

impl CallObserver for Observer {
    fn event(&mut self, event: CallEvent) {
        match &event {
            CallEvent::Joined => self.0.progress.change(|stage| stage.has_joined = true),
            CallEvent::StreamAnnounced { stream, name } => drop(self.0.received().names.insert(*stream, name.clone())),
            _ => {}
        }
        self.0.events.push(event);
    }

    fn receiving(&mut self, _now: Timestamp, stream: usize, end: &ReceivingEnd) {
        let mut received = self.0.received();
        match end.min_delay() {
            Some(delay) => received.min_delays.insert(stream, delay),
            None => received.min_delays.remove(&stream),
        };
    }

    fn shown(&mut self, _stream: usize, shown: &Shown) {
        self.0.received().round_trip = shown.min_round_trip;
    }
}

/// State of the call's thread.
struct Runner {
    builder: CallBuilder,
    other: Other,
    shares: Vec<Share>,
    /// Monitors the age of pictures, also between two connections.
    freshness: Freshness,
    shared: Arc<Shared>,
}

impl Runner {
    fn run(mut self) {
        let result = loop {
            let result = self.connect();
            let resumes = self.builder.reconnects && can_resume(&result) && !self.leaves();
            if !resumes {
                break result;
            }
            self.pause();
        };
        let outcome = result.map_err(Arc::new);
        self.shared.progress.change(|stage| stage.outcome = Some(outcome.clone()));
        self.shared.events.push(match outcome {
            Ok(ended) => CallEvent::Ended(ended),
            Err(error) => CallEvent::Failed(error),
        });
        self.shared.events.close();
        self.shared.frames.close();
    }

    /// Waits before the next attempt, and reports pictures that become stale.
    fn pause(&mut self) {
        let clock = self.shared.clock;
        let end = clock.now() + RESUME_INTERVAL;
        loop {
            let now = clock.now();
            while let Some(event) = self.freshness.poll(now) {
                self.shared.events.push(event);
            }
            if now >= end {
                return;
            }
            let next = self.freshness.poll_timeout().map_or(end, |at| at.min(end));
            thread::sleep(clock.until(next));
        }
    }

    fn leaves(&self) -> bool {
        self.shared.leaves.load(Ordering::Relaxed)
    }

    /// Runs one connection until it ends.
    fn connect(&mut self) -> Result<Ended, LiveError> {
        let options = self.options()?;
        let finished = lockstep_live::run(self.shared.clock, options, &mut Observer(Arc::clone(&self.shared)));
        if finished.joined && self.builder.reconnects && can_resume(&finished.result) {
            self.shared.events.push(CallEvent::Interrupted);
        }
        self.freshness = finished.freshness;
        finished.result
    }

    fn options(&mut self) -> Result<CallOptions, LiveError> {
        let sending = self.sending()?;
        let receiving = self.receiving()?;
        let kind = match (&self.other, !sending.is_empty(), !receiving.is_empty()) {
            (_, true, true) => CallKind::TwoWay,
            (Other::Giver(_), true, _) | (Other::Joiner(_), _, true) => CallKind::OneWay,
            _ => CallKind::FromListener,
        };
        let peer = match &mut self.other {
            Other::Giver(ticket) => RemoteEnd::Of(ticket.clone()),
            Other::Joiner(listener) => RemoteEnd::At(listener.try_clone()?),
        };
        let shared = Arc::clone(&self.shared);
        Ok(CallOptions {
            peer,
            kind,
            sending,
            receiving,
            length: None,
            wait_limit: self.builder.wait_limit,
            starts_at_once: false,
            idle_limit: self.builder.idle_limit,
            freshness: std::mem::take(&mut self.freshness),
            stop: Box::new(move || shared.leaves.load(Ordering::Relaxed)),
            handle: self.shared.handle.clone(),
            qlog: None,
        })
    }

    fn sending(&mut self) -> Result<Vec<Sending>, LiveError> {
        let builder = &mut self.builder;
        let priorities: Vec<f64> = self.shares.iter().map(|share| share.priority).collect();
        let opened: Vec<_> = builder.streams.iter_mut().map(Stream::open).collect();
        let has_pictures = !matches!(builder.shows, Shows::Nothing) || opened.iter().any(Result::is_ok);
        let mut sending = Vec::new();
        let sends = self.shared.send().shared(&priorities);
        for ((opened, share), send) in opened.into_iter().zip(&self.shares).zip(sends) {
            let (source, format) = match opened {
                Ok(opened) => opened,
                Err(error) if has_pictures => (unopened(error, send.format()), send.format()),
                Err(error) => return Err(LiveError::Source(error.to_string())),
            };
            // The first stream carries the sound.
            let microphone = builder.microphone.as_mut().filter(|_| sending.is_empty());
            sending.push(Sending {
                end: send.with_format(format).on_cores().end()?,
                name: share.name.clone(),
                source,
                runner: Box::new(SerialMenu),
                microphone: microphone.map(|open| open()).transpose().map_err(LiveError::Sound)?,
                measures_quality: false,
            });
        }
        Ok(sending)
    }

    fn receiving(&mut self) -> Result<Vec<Receiving>, LiveError> {
        if matches!(self.builder.shows, Shows::Nothing) {
            return Ok(Vec::new());
        }
        let loudspeaker = self.builder.loudspeaker.as_mut().map(|open| open()).transpose().map_err(LiveError::Sound)?;
        let nowhere = || self.builder.records_sound.then(|| Box::new(DiscardSoundSink) as Box<dyn SoundSink>);
        let mut loudspeaker = loudspeaker.or_else(nowhere).map(|sink| Loudspeaker { sink, lip_sync: true });
        let receiving = |stream| Receiving {
            end: self.builder.receive.end(),
            open_sink: self.open_sink(stream),
            loudspeaker: loudspeaker.take(),
        };
        Ok((0..MAX_STREAMS).map(receiving).collect())
    }

    fn open_sink(&self, stream: usize) -> OpenSink {
        match &self.builder.shows {
            Shows::Sinks(open) => {
                let open = Arc::clone(open);
                Box::new(move |name, format| (open.lock().unwrap_or_else(PoisonError::into_inner))(name, format))
            }
            Shows::Frames | Shows::Nothing => {
                let shared = Arc::clone(&self.shared);
                Box::new(move |name, _| Ok(Box::new(FrameSink { stream, name: name.clone(), shared })))
            }
        }
    }
}

/// Whether a call with this result can be resumed: the other end or the path ended it, not this end's user or devices.
fn can_resume(result: &Result<Ended, LiveError>) -> bool {
    match result {
        Ok(ended) => matches!(ended, Ended::ByPeer),
        Err(error) => matches!(
            error,
            LiveError::Silent { .. }
                | LiveError::PeerSilent { .. }
                | LiveError::Unanswered { .. }
                | LiveError::NotCalled { .. }
                | LiveError::Restarted
                | LiveError::Replaced
                | LiveError::PeerFailed
                | LiveError::Connection(_)
                | LiveError::Ticket(TicketRefusal::Busy)
        ),
    }
}

/// A call that runs on its own threads. Dropping it ends the call.
///
/// All methods except [`Call::leave`] take `&self`: threads may share a call by reference or in an [`Arc`].
pub struct Call {
    shared: Arc<Shared>,
    shares: Vec<Share>,
    format: Option<VideoFormat>,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Call {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Call").field("format", &self.format).finish_non_exhaustive()
    }
}

impl Call {
    /// Starts to build a call.
    pub fn builder() -> CallBuilder {
        CallBuilder::new()
    }

    /// Sends a picture of the first stream that was captured at `captured_at`.
    ///
    /// Only the newest picture waits for the encoder; returns whether this one replaced another. A picture of a new
    /// size changes the size of the video.
    pub fn send_frame(&self, picture: Picture, captured_at: Instant) -> bool {
        self.shared.handle.send_frame(0, picture, captured_at)
    }

    /// The sent stream with this name; `None` if there is none.
    pub fn stream(&self, name: &str) -> Option<SentStream<'_>> {
        let stream = self.shares.iter().position(|share| *share.name == *name)?;
        Some(SentStream::new(self.handle(), stream))
    }

    /// Name of a stream that this end sends; empty if it has none.
    pub fn stream_name(&self, stream: usize) -> StreamName {
        self.shares.get(stream).map(|share| share.name.clone()).unwrap_or_default()
    }

    /// Name of a stream that the other end announced; empty if it has none.
    pub fn received_stream_name(&self, stream: usize) -> StreamName {
        self.shared.received().names.get(&stream).cloned().unwrap_or_default()
    }

    fn handle(&self) -> &CallHandle {
        &self.shared.handle
    }

    /// Waits up to `limit` for the next picture of the other end, and returns it with its stream and age. Returns
    /// `None` if none arrived, or the call has ended. If the application is too slow, the oldest pictures are dropped.
    pub fn next_frame(&self, limit: Duration) -> Option<ReceivedFrame> {
        let WaitingFrame { stream, name, picture, captured_at } = self.shared.frames.pop(limit)?;
        Some(ReceivedFrame { stream, name, picture, captured_at, age: self.shared.age(stream, captured_at) })
    }

    /// Waits up to `limit` for the next event. Returns `None` if there was none, or after [`CallEvent::Ended`] and
    /// [`CallEvent::Failed`].
    pub fn next_event(&self, limit: Duration) -> Option<CallEvent> {
        self.shared.events.pop(limit)
    }

    /// Waits up to `limit` for a frame, without taking it. Returns whether a frame waits or no more will arrive.
    pub fn wait_for_frame(&self, limit: Duration) -> bool {
        self.shared.frames.wait(limit)
    }

    /// Waits up to `limit` for an event, without taking it. Returns whether an event waits or no more will follow.
    pub fn wait_for_event(&self, limit: Duration) -> bool {
        self.shared.events.wait(limit)
    }

    /// Waits up to `limit` until the other end has joined, or the call ends; returns whether it has joined. Takes no
    /// event.
    pub fn wait_joined(&self, limit: Duration) -> bool {
        self.shared.progress.wait(limit, |stage| stage.has_joined).has_joined
    }

    /// Waits up to `limit` until the call ends, and returns its result; `None` while it runs. Takes no event.
    pub fn wait_ended(&self, limit: Duration) -> Option<Result<Ended, Arc<LiveError>>> {
        self.shared.progress.wait(limit, |_| false).outcome
    }

    /// All events until the end of the call; waits for each.
    pub fn events(&self) -> impl Iterator<Item = CallEvent> {
        std::iter::from_fn(|| self.next_event(Duration::MAX))
    }

    /// Sends a message.
    ///
    /// # Errors
    /// The message is too long, or too many messages wait.
    pub fn send_message(&self, message: Message) -> Result<(), MessageError> {
        self.shared.handle.send_message(message)
    }

    /// Changes the cap of the bit rate, which streams share by their priorities; `None` removes it.
    pub fn set_max_bitrate(&self, cap: Option<Bitrate>) {
        let caps = cap.map(|cap| split(cap, &self.priorities()));
        for stream in 0..self.shares.len() {
            self.handle().set_max_bitrate(stream, caps.as_ref().map(|caps| caps[stream]));
        }
    }

    /// Changes the latency. The new controller finds the capacity again within a second or two.
    ///
    /// # Errors
    /// The default controller has no model in this build.
    pub fn set_latency(&self, latency: Latency) -> Result<(), LiveError> {
        let mut send = self.shared.send();
        *send = send.clone().latency(latency);
        for (stream, send) in send.shared(&self.priorities()).iter().enumerate() {
            self.handle().set_controller(stream, send.make_controller()?);
        }
        Ok(())
    }

    fn priorities(&self) -> Vec<f64> {
        self.shares.iter().map(|share| share.priority).collect()
    }

    /// Sets whether the pictures that the application sends in the first stream show a screen. Text of a screen stays
    /// sharp: on a slow path it has fewer frames, where a camera has coarser ones. Sources of the call know it themselves.
    pub fn set_screen(&self, is_screen: bool) {
        self.handle().set_screen(0, is_screen);
    }

    /// Announces a new frame rate of the pictures that the application sends in the first stream.
    pub fn set_frame_rate(&self, frame_rate: FrameRate) {
        self.handle().set_frame_rate(0, frame_rate);
    }

    /// Mutes the sound or turns the camera off, and informs the other end; a camera that is off pauses the video.
    pub fn set_presence(&self, presence: Presence) {
        self.shared.handle.set_presence(presence);
    }

    /// Ends the call, and waits until the other end knows.
    ///
    /// # Errors
    /// The call failed before.
    pub fn leave(mut self) -> Result<Ended, Arc<LiveError>> {
        self.stop();
        self.wait_ended(Duration::ZERO).unwrap_or(Ok(Ended::Stopped))
    }

    /// Starts to end the call, without waiting: [`CallEvent::Ended`] follows.
    pub fn end(&self) {
        self.shared.leaves.store(true, Ordering::Relaxed);
        self.shared.handle.leave();
    }

    fn stop(&mut self) {
        self.end();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.stop();
    }
}
