//! A call on threads of its own.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use lockstep_call::{ReceivingEnd, SerialMenu};
use lockstep_control::{Controller, ControllerSetup, Latency};
use lockstep_live::{
    CallEvent, CallHandle, CallKind, CallOptions, Ended, Identity, Listener, LiveError, Loudspeaker, Message,
    MessageError, OpenSink, OtherEnd, PictureSource, Presence, ReceivedFrame, Receiving, Sending, Shown, Ticket,
    TicketRefusal, Witness,
};
use lockstep_media::{FrameRate, Sink, SinkError, Source, SourceError, VideoFormat};
use lockstep_socket::{Clock, SystemError};
use lockstep_sound::{Nowhere, SoundSink, SoundSource};
use lockstep_units::{Bitrate, Timestamp};
use lockstep_vp8::{Picture, Preset};

use crate::options::{ReceiveOptions, SendOptions};
use crate::queue::Queue;

/// Events that wait for the application; the oldest are dropped beyond.
const MOST_EVENTS: usize = 1_024;
/// Frames that wait for the application; the oldest are dropped beyond, so that none is stale.
const MOST_FRAMES: usize = 3;
/// Pause between two attempts to resume a call.
const RESUME_INTERVAL: Duration = Duration::from_millis(250);

type OpenSource = Box<dyn FnMut() -> Result<Box<dyn Source>, SourceError> + Send>;
type OpenAnySink = Box<dyn FnMut(VideoFormat) -> Result<Box<dyn Sink>, SinkError> + Send>;
type OpenMicrophone = Box<dyn FnMut() -> Result<Box<dyn SoundSource>, String> + Send>;
type OpenLoudspeaker = Box<dyn FnMut() -> Result<Box<dyn SoundSink>, String> + Send>;

/// The origin of a call's pictures.
enum Pictures {
    None,
    Pushed(VideoFormat),
    Source(OpenSource),
}

/// The destination of the other end's pictures.
enum Shows {
    Nothing,
    Frames,
    Sink(Arc<Mutex<OpenAnySink>>),
}

/// Builds a [`Call`]. Without a source this end sends no pictures; without a sink it receives none.
#[must_use]
pub struct CallBuilder {
    pictures: Pictures,
    shows: Shows,
    microphone: Option<OpenMicrophone>,
    loudspeaker: Option<OpenLoudspeaker>,
    /// Whether sound is played even without a loudspeaker, for the recording.
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
            pictures: Pictures::None,
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

    /// Sends the pictures of a source, which a thread of the call reads. `open` runs at each connection.
    pub fn source(mut self, open: impl FnMut() -> Result<Box<dyn Source>, SourceError> + Send + 'static) -> Self {
        self.pictures = Pictures::Source(Box::new(open));
        self
    }

    /// Sends what `specification` names: `camera`, `/dev/video0`, `generated`, a y4m file, or anything that ffmpeg reads.
    pub fn open_source(self, specification: &str) -> Self {
        let specification = specification.to_owned();
        self.source(move || lockstep_media::open_source(&specification, &lockstep_media::SourceOptions::default()))
    }

    /// Sends the pictures that the application gives to [`Call::send_frame`], of this format.
    pub fn send_frames(mut self, format: VideoFormat) -> Self {
        self.pictures = Pictures::Pushed(format);
        self
    }

    /// Shows pictures on a sink, on a thread of the call. `open` runs at the first picture of each connection.
    pub fn sink(mut self, open: impl FnMut(VideoFormat) -> Result<Box<dyn Sink>, SinkError> + Send + 'static) -> Self {
        self.shows = Shows::Sink(Arc::new(Mutex::new(Box::new(open))));
        self.records_sound = false;
        self
    }

    /// Shows pictures where `specification` says: `window`, `none`, or a file that ends in .webm or .mkv (with the other end's
    /// sound), .ivf or .y4m. Connections after the first have files of their own: call.webm, call-2.webm, call-3.webm. These
    /// take no place of other files.
    pub fn open_sink(self, specification: &str) -> Self {
        let records_sound = lockstep_media::records_sound(specification);
        let (specification, mut connection) = (specification.to_owned(), 0);
        let builder = self.sink(move |format| {
            connection += 1;
            let name = sink_of_connection(&specification, &mut connection);
            lockstep_media::open_sink(&name, format)
        });
        Self { records_sound, ..builder }
    }

    /// Keeps pictures for [`Call::next_frame`]; the newest few.
    pub fn receive_frames(mut self) -> Self {
        self.shows = Shows::Frames;
        self
    }

    /// Sends sound; `open` runs at each connection.
    pub fn microphone(mut self, open: impl FnMut() -> Result<Box<dyn SoundSource>, String> + Send + 'static) -> Self {
        self.microphone = Some(Box::new(open));
        self
    }

    /// Plays the other end's sound; `open` runs at each connection.
    pub fn loudspeaker(mut self, open: impl FnMut() -> Result<Box<dyn SoundSink>, String> + Send + 'static) -> Self {
        self.loudspeaker = Some(Box::new(open));
        self
    }

    /// The delay that the call tolerates for a better picture.
    pub fn latency(mut self, latency: Latency) -> Self {
        self.send = self.send.latency(latency);
        self
    }

    /// A cap of the bit rate; see [`SendOptions::max_bitrate`].
    pub fn max_bitrate(mut self, cap: Bitrate) -> Self {
        self.send = self.send.max_bitrate(cap);
        self
    }

    /// The effort of the encoder.
    pub fn preset(mut self, preset: Preset) -> Self {
        self.send = self.send.preset(preset);
        self
    }

    /// A controller of the application's own; see [`SendOptions::controller`].
    pub fn controller(
        mut self,
        make: impl Fn(&ControllerSetup) -> Box<dyn Controller> + Send + Sync + 'static,
    ) -> Self {
        self.send = self.send.controller(make);
        self
    }

    /// The most pixels that a received picture may have; see [`ReceiveOptions::max_pixels`].
    pub fn max_pixels(mut self, pixels: usize) -> Self {
        self.receive = self.receive.max_pixels(pixels);
        self
    }

    /// Time that the other end may take to join; none waits forever. The default is 10 s for an end that joins.
    pub fn wait_limit(mut self, limit: Option<Duration>) -> Self {
        self.wait_limit = limit;
        self
    }

    /// Silence that ends the call; none waits forever. The default is 30 s.
    pub fn idle_limit(mut self, limit: Option<Duration>) -> Self {
        self.idle_limit = limit;
        self
    }

    /// The age at which the other end's newest picture is stale ([`CallEvent::Stale`]).
    pub fn stale_after(mut self, age: Duration) -> Self {
        self.stale_after = Some(age);
        self
    }

    /// Resumes the call by itself whenever it breaks or the other end leaves, until [`Call::leave`]: for an unattended robot.
    /// A listener needs a standing identity for it ([`Identity::standing`]).
    pub fn reconnect(mut self) -> Self {
        self.reconnects = true;
        self
    }

    /// Starts the call with the giver of `ticket`.
    ///
    /// # Errors
    /// If no thread can be started. Later failures are [`CallEvent::Failed`].
    pub fn join(self, ticket: Ticket) -> Result<Call, LiveError> {
        self.start(Other::Giver(ticket))
    }

    /// Listens at `address`, such as `0.0.0.0:0`, for one call; gives the ticket to hand out.
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub fn listen(self, address: SocketAddr) -> Result<(Call, Ticket), LiveError> {
        self.listen_as(Identity::new()?, address)
    }

    /// The same with the ticket of `identity`. With a standing identity and [`CallBuilder::reconnect`] the ticket admits one
    /// call after another.
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub fn listen_as(mut self, identity: Identity, address: SocketAddr) -> Result<(Call, Ticket), LiveError> {
        let listener = Listener::bind(address, identity)?;
        let ticket = listener.ticket(&[])?;
        self.wait_limit = None;
        Ok((self.start(Other::Joiner(listener))?, ticket))
    }

    fn start(self, other: Other) -> Result<Call, LiveError> {
        let shared = Arc::new(Shared {
            handle: CallHandle::new(),
            events: Queue::new(MOST_EVENTS),
            frames: Queue::new(MOST_FRAMES),
            progress: Progress::default(),
            leaves: AtomicBool::new(false),
            is_stale: AtomicBool::new(false),
            was_stale: AtomicBool::new(false),
            clocks: Mutex::default(),
            clock: Clock::start(),
        });
        let send = self.send.clone();
        let format = match &self.pictures {
            Pictures::Pushed(format) => Some(*format),
            _ => None,
        };
        let runner = Runner { builder: self, other, shared: Arc::clone(&shared) };
        let thread = thread::Builder::new().name("lockstep call".to_owned()).spawn(move || runner.run());
        let thread = thread.map_err(|error| SystemError::Thread { name: "call", reason: error.to_string() })?;
        Ok(Call { shared, send: Mutex::new(send), format, thread: Some(thread) })
    }
}

/// The sink of connection `number`. A connection after the first has the next file that is not there yet.
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

/// What relates the other end's clock to this one's.
#[derive(Debug, Clone, Copy, Default)]
struct Clocks {
    least_delay: Option<i64>,
    round_trip: Option<Duration>,
}

/// A picture that waits for the application.
struct WaitingFrame {
    picture: Picture,
    captured_at: Timestamp,
}

/// How far a call is.
#[derive(Debug, Clone, Default)]
struct Stage {
    has_joined: bool,
    outcome: Option<Result<Ended, Arc<LiveError>>>,
}

/// The stage of a call, for those who wait for a later one.
#[derive(Default)]
struct Progress(Mutex<Stage>, Condvar);

impl Progress {
    fn change(&self, change: impl FnOnce(&mut Stage)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
        self.1.notify_all();
    }

    /// The stage, once it is over or `is_reached`; after `limit` whatever it is.
    fn wait(&self, limit: Duration, is_reached: impl Fn(&Stage) -> bool) -> Stage {
        let stage = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = |stage: &mut Stage| stage.outcome.is_none() && !is_reached(stage);
        // The system adds the limit to its clock; decades suffice.
        let limit = limit.min(Duration::from_secs(1 << 30));
        self.1.wait_timeout_while(stage, limit, waits).unwrap_or_else(PoisonError::into_inner).0.clone()
    }
}

/// State that the call's thread and the application share.
struct Shared {
    handle: CallHandle,
    events: Queue<CallEvent>,
    frames: Queue<WaitingFrame>,
    progress: Progress,
    leaves: AtomicBool,
    /// Whether video is stale, and whether it was when the connection before broke.
    is_stale: AtomicBool,
    was_stale: AtomicBool,
    clocks: Mutex<Clocks>,
    clock: Clock,
}

impl Shared {
    fn clocks(&self) -> MutexGuard<'_, Clocks> {
        self.clocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The age of a picture at this moment.
    fn age(&self, captured_at: Timestamp) -> Option<Duration> {
        let Clocks { least_delay, round_trip } = *self.clocks();
        Some(lockstep_call::age(self.clock.now(), captured_at, least_delay?, round_trip?))
    }
}

/// Takes pictures for the application.
struct FrameSink(Arc<Shared>);

impl Sink for FrameSink {
    fn show(&mut self, picture: &Picture, captured_at: Timestamp) -> Result<(), SinkError> {
        self.0.frames.push(WaitingFrame { picture: picture.clone(), captured_at });
        Ok(())
    }

    fn is_live(&self) -> bool {
        true
    }
}

/// Hands events on.
struct Observer(Arc<Shared>);

impl Witness for Observer {
    fn event(&mut self, event: CallEvent) {
        match event {
            CallEvent::Stale { .. } => self.0.is_stale.store(true, Ordering::Relaxed),
            CallEvent::Fresh { .. } => self.0.is_stale.store(false, Ordering::Relaxed),
            CallEvent::Joined => self.0.progress.change(|stage| stage.has_joined = true),
            _ => {}
        }
        self.0.events.push(event);
    }

    fn receiving(&mut self, _now: Timestamp, end: &ReceivingEnd) {
        self.0.clocks().least_delay = end.least_delay();
    }

    fn shown(&mut self, shown: &Shown) {
        self.0.clocks().round_trip = shown.shortest_round_trip;
        // The new connection does not know that video was stale in the one before.
        if self.0.was_stale.swap(false, Ordering::Relaxed) && !self.0.is_stale.load(Ordering::Relaxed) {
            self.0.events.push(CallEvent::Fresh { stream: 0 });
        }
    }
}

/// The call's thread.
struct Runner {
    builder: CallBuilder,
    other: Other,
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
            thread::sleep(RESUME_INTERVAL);
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

    fn leaves(&self) -> bool {
        self.shared.leaves.load(Ordering::Relaxed)
    }

    /// One connection, until it ends.
    fn connect(&mut self) -> Result<Ended, LiveError> {
        let options = self.options()?;
        let finished = lockstep_live::run(self.shared.clock, options, &mut Observer(Arc::clone(&self.shared)));
        if finished.joined && self.builder.reconnects && can_resume(&finished.result) {
            self.shared.events.push(CallEvent::Interrupted);
            let is_stale = self.shared.is_stale.swap(false, Ordering::Relaxed);
            self.shared.was_stale.fetch_or(is_stale, Ordering::Relaxed);
        }
        finished.result
    }

    fn options(&mut self) -> Result<CallOptions, LiveError> {
        let sending = self.sending()?;
        let receiving = self.receiving()?;
        let kind = match (&self.other, sending.is_some(), receiving.is_some()) {
            (_, true, true) => CallKind::TwoWay,
            (Other::Giver(_), true, _) | (Other::Joiner(_), _, true) => CallKind::OneWay,
            _ => CallKind::FromListener,
        };
        let peer = match &mut self.other {
            Other::Giver(ticket) => OtherEnd::Of(ticket.clone()),
            Other::Joiner(listener) => OtherEnd::At(listener.try_clone()?),
        };
        let shared = Arc::clone(&self.shared);
        Ok(CallOptions {
            peer,
            kind,
            sending,
            receiving,
            length: None,
            wait_limit: self.builder.wait_limit,
            idle_limit: self.builder.idle_limit,
            stale_after: self.builder.stale_after,
            stop: Box::new(move || shared.leaves.load(Ordering::Relaxed)),
            handle: self.shared.handle.clone(),
            qlog: None,
        })
    }

    fn sending(&mut self) -> Result<Option<Sending>, LiveError> {
        let (source, format) = match &mut self.builder.pictures {
            Pictures::None => return Ok(None),
            Pictures::Pushed(format) => (PictureSource::Pushed, *format),
            Pictures::Source(open) => {
                let source = open().map_err(|error| LiveError::Source(error.to_string()))?;
                let format = source.format();
                (source.into(), format)
            }
        };
        let microphone = self.builder.microphone.as_mut().map(|open| open()).transpose().map_err(LiveError::Sound)?;
        let end = self.builder.send.clone().with_format(format).end()?;
        let runner = Box::new(SerialMenu);
        Ok(Some(Sending { end, source, runner, microphone, measures_quality: false }))
    }

    fn receiving(&mut self) -> Result<Option<Receiving>, LiveError> {
        let open_sink: OpenSink = match &self.builder.shows {
            Shows::Nothing => return Ok(None),
            Shows::Frames => {
                let shared = Arc::clone(&self.shared);
                Box::new(move |_| Ok(Box::new(FrameSink(shared))))
            }
            Shows::Sink(open) => {
                let open = Arc::clone(open);
                Box::new(move |format| (open.lock().unwrap_or_else(PoisonError::into_inner))(format))
            }
        };
        let loudspeaker = self.builder.loudspeaker.as_mut().map(|open| open()).transpose().map_err(LiveError::Sound)?;
        let nowhere = || self.builder.records_sound.then(|| Box::new(Nowhere) as Box<dyn SoundSink>);
        let loudspeaker = loudspeaker.or_else(nowhere).map(|sink| Loudspeaker { sink, lip_sync: true });
        Ok(Some(Receiving { end: self.builder.receive.end(), open_sink, loudspeaker }))
    }
}

/// Whether a call that ended so can be resumed: the other end or the path ended it, and not this end's user or devices.
fn can_resume(result: &Result<Ended, LiveError>) -> bool {
    match result {
        Ok(ended) => matches!(ended, Ended::ByPeer),
        Err(error) => matches!(
            error,
            LiveError::Silent { .. }
                | LiveError::Unheard { .. }
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

/// A call on threads of its own. Dropping it ends the call.
///
/// All methods take `&self`: threads may share a call by reference or in an [`Arc`].
pub struct Call {
    shared: Arc<Shared>,
    send: Mutex<SendOptions>,
    format: Option<VideoFormat>,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Call {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Call").field("format", &self.format).finish_non_exhaustive()
    }
}

impl Call {
    /// Begins to build a call.
    pub fn builder() -> CallBuilder {
        CallBuilder::new()
    }

    /// Sends a picture that was captured at `captured_at`. Of pictures that wait for the encoder only the newest is kept: says
    /// whether this one replaced another. A picture of another size than announced changes the size of the video.
    pub fn send_frame(&self, picture: Picture, captured_at: Instant) -> bool {
        self.shared.handle.send_frame(picture, captured_at)
    }

    /// The next picture of the other end, with its age; waits for it up to `limit`. None if none came, or the call is over.
    /// Of pictures that the application is too slow for the oldest are dropped.
    pub fn next_frame(&self, limit: Duration) -> Option<ReceivedFrame> {
        let WaitingFrame { picture, captured_at } = self.shared.frames.pop(limit)?;
        Some(ReceivedFrame { stream: 0, picture, captured_at, age: self.shared.age(captured_at) })
    }

    /// The next event; waits for it up to `limit`. None if none came, or after [`CallEvent::Ended`] and [`CallEvent::Failed`].
    pub fn next_event(&self, limit: Duration) -> Option<CallEvent> {
        self.shared.events.pop(limit)
    }

    /// Waits up to `limit` until a frame can be taken or none will come; says whether one of both holds. Takes no frame.
    pub fn wait_for_frame(&self, limit: Duration) -> bool {
        self.shared.frames.wait(limit)
    }

    /// Waits up to `limit` until an event can be taken or none will come; says whether one of both holds. Takes no event.
    pub fn wait_for_event(&self, limit: Duration) -> bool {
        self.shared.events.wait(limit)
    }

    /// Waits up to `limit` until the other end has joined; says whether it has. Takes no event, and ends with the call.
    pub fn wait_joined(&self, limit: Duration) -> bool {
        self.shared.progress.wait(limit, |stage| stage.has_joined).has_joined
    }

    /// Waits up to `limit` until the call is over. Gives how it ended or why it failed; none while it runs. Takes no event.
    pub fn wait_ended(&self, limit: Duration) -> Option<Result<Ended, Arc<LiveError>>> {
        self.shared.progress.wait(limit, |_| false).outcome
    }

    /// All events until the call is over; waits for each.
    pub fn events(&self) -> impl Iterator<Item = CallEvent> {
        std::iter::from_fn(|| self.next_event(Duration::MAX))
    }

    /// Sends a message.
    ///
    /// # Errors
    /// If it is too long, or if too many wait.
    pub fn send_message(&self, message: Message) -> Result<(), MessageError> {
        self.shared.handle.send_message(message)
    }

    /// Changes the cap of the bit rate; none removes it.
    pub fn set_max_bitrate(&self, cap: Option<Bitrate>) {
        self.shared.handle.set_max_bitrate(cap);
    }

    /// Changes the latency. The controller starts anew for it, and finds the capacity again within a second or two.
    ///
    /// # Errors
    /// If the default controller has no model in this build.
    pub fn set_latency(&self, latency: Latency) -> Result<(), LiveError> {
        let mut send = self.send.lock().unwrap_or_else(PoisonError::into_inner);
        *send = send.clone().latency(latency);
        self.shared.handle.set_controller(send.make_controller()?);
        Ok(())
    }

    /// Announces another frame rate of the pictures that the application sends.
    pub fn set_frame_rate(&self, frame_rate: FrameRate) {
        self.shared.handle.set_frame_rate(frame_rate);
    }

    /// Mutes the sound or turns the camera off, and tells the other end; a camera that is off pauses the video.
    pub fn set_presence(&self, presence: Presence) {
        self.shared.handle.set_presence(presence);
    }

    /// Ends the call, tells the other end, and waits until it knows.
    ///
    /// # Errors
    /// If the call failed before.
    pub fn leave(mut self) -> Result<Ended, Arc<LiveError>> {
        self.stop();
        self.wait_ended(Duration::ZERO).unwrap_or(Ok(Ended::Stopped))
    }

    /// Begins to end the call, and does not wait: [`CallEvent::Ended`] follows.
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
