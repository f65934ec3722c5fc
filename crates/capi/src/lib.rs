//! The C interface of Lockstep, see include/lockstep.h.
//!
//! Each function checks its pointers for null and copies its inputs. Memory that a function returns is freed by a
//! function of the same module. Unsafe code is limited to these copies.
#![deny(unsafe_op_in_unsafe_fn)]
#![allow(clippy::missing_safety_doc)] // the header's first comment applies to all functions

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_void};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use lockstep_facade as lockstep;
use lockstep_facade::{
    Bitrate, CallBuilder, FrameRate, Identity, Message, Picture as VideoPicture, Presence, ReceivedFrame, Stream,
    VideoFormat,
};

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

fn fail(reason: &dyn std::fmt::Display) {
    let text = reason.to_string().replace('\0', " ");
    LAST_ERROR.with(|last| *last.borrow_mut() = CString::new(text).unwrap_or_default());
}

/// Returns the reason of the last failure on this thread; empty before the first. The text is valid until the next call
/// of a Lockstep function on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn lockstep_last_error() -> *const c_char {
    LAST_ERROR.with(|last| last.borrow().as_ptr())
}

/// Returns the version of the library, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn lockstep_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// The delay that a call tolerates for a better picture.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub enum Latency {
    /// As little delay as possible: remote operation and games.
    Low,
    /// Delay of a conversation.
    Balanced,
    /// More delay for a better picture: watching.
    Quality,
}

/// Planes of an I420 picture: luma, and two of half the size in each direction, rounded up.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Picture {
    /// Samples in a row of luma, 1 to 16383.
    pub width: u32,
    /// Rows of luma, 1 to 16383.
    pub height: u32,
    /// First samples of the planes Y, U and V.
    pub planes: [*const u8; 3],
    /// Bytes between the starts of two rows, in each plane.
    pub strides: [usize; 3],
}

/// Size of the longest name of a video stream in bytes, including the final zero.
pub const LOCKSTEP_STREAM_NAME_SIZE: usize = 33;

/// A picture of the other end, valid until lockstep_frame_free().
#[repr(C)]
#[derive(Debug)]
pub struct Frame {
    /// The picture; its planes belong to the frame.
    pub picture: Picture,
    /// Capture time in microseconds, on the other end's clock.
    pub captured_us: u64,
    /// Age in microseconds, from capture until it was returned; -1 before the clocks are aligned.
    pub age_us: i64,
    /// Number of its video stream; 0 is the first.
    pub stream: u32,
    /// Name of its video stream, with a final zero; empty for the only stream of a call.
    pub stream_name: [c_char; LOCKSTEP_STREAM_NAME_SIZE],
    /// Owned by the library.
    pub owner: *mut c_void,
}

/// The kind of an event.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// The other end has joined.
    Joined,
    /// Packets take another path.
    PathChanged,
    /// Nothing arrives from the other end.
    Interrupted,
    /// Packets arrive again.
    Resumed,
    /// The other end muted its sound (bit 0 of value) or turned its camera off (bit 1), or on again.
    /// It records the call, or no longer does (bit 2).
    PeerChanged,
    /// Quality of a stream, once per second: text describes it, value is the target bit rate in bit/s, or 0.
    Quality,
    /// The newest picture is too old; value is its age in microseconds. A remote-controlled machine should stop.
    Stale,
    /// A picture younger than the limit is shown again.
    Fresh,
    /// A message arrived: data holds it, value is its delay in microseconds.
    Message,
    /// The call is over.
    Ended,
    /// The call failed; text is the reason.
    Failed,
    /// A condition degrades the call; text describes it.
    Warning,
    /// An event that this header does not know.
    Other,
    /// The other end sends a named video stream; text is the name.
    StreamAnnounced,
}

/// An event, valid until lockstep_event_free().
#[repr(C)]
#[derive(Debug)]
pub struct Event {
    /// Kind of the event, which defines the meaning of the other fields.
    pub kind: EventKind,
    /// A number; see the kind.
    pub value: u64,
    /// Number of the video stream for LOCKSTEP_EVENT_KIND_STALE, FRESH, QUALITY and STREAM_ANNOUNCED; otherwise 0.
    pub stream: u32,
    /// A description, never null.
    pub text: *mut c_char,
    /// Bytes of a message; null for other kinds.
    pub data: *mut u8,
    /// Number of these bytes.
    pub size: usize,
    /// Channel of a latest message; -1 for a reliable one.
    pub channel: i32,
}

/// Callback for events, on a thread of the library, with the application's pointer. The event is freed afterwards.
pub type OnEvent = Option<extern "C" fn(event: *const Event, user: *mut c_void)>;
/// Callback for pictures, on a thread of the library, with the application's pointer. The frame is freed afterwards.
pub type OnFrame = Option<extern "C" fn(frame: *const Frame, user: *mut c_void)>;

/// A pointer of the application that is passed to its callbacks.
#[derive(Clone, Copy)]
struct User(*mut c_void);

// SAFETY: the library only passes the pointer on; the application accepts that callbacks run on another thread.
unsafe impl Send for User {}

impl User {
    /// The pointer. A method makes closures capture the whole struct.
    fn get(self) -> *mut c_void {
        self.0
    }
}

/// Options of a call. By default it neither sends nor receives pictures.
pub struct Options {
    sends: Option<VideoFormat>,
    /// Name, format and priority of each of several video streams.
    streams: Vec<(String, VideoFormat, f64)>,
    receives: bool,
    latency: Option<lockstep::Latency>,
    max_bitrate: Option<Bitrate>,
    stale_after: Option<Duration>,
    wait_limit: Option<Duration>,
    reconnects: bool,
    identity: Option<PathBuf>,
    on_event: Option<(extern "C" fn(*const Event, *mut c_void), User)>,
    on_frame: Option<(extern "C" fn(*const Frame, *mut c_void), User)>,
}

/// A call.
pub struct Call {
    call: Arc<lockstep::Call>,
    threads: Vec<thread::JoinHandle<()>>,
}

/// New options; free them with lockstep_options_free().
#[unsafe(no_mangle)]
pub extern "C" fn lockstep_options_new() -> *mut Options {
    Box::into_raw(Box::new(Options {
        sends: None,
        streams: Vec::new(),
        receives: false,
        latency: None,
        max_bitrate: None,
        stale_after: None,
        wait_limit: None,
        reconnects: false,
        identity: None,
        on_event: None,
        on_frame: None,
    }))
}

/// Frees options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockstep_options_free(options: *mut Options) {
    if !options.is_null() {
        // SAFETY: created by lockstep_options_new, and freed once.
        drop(unsafe { Box::from_raw(options) });
    }
}

/// Applies a change to options that may be null.
unsafe fn change(options: *mut Options, change: impl FnOnce(&mut Options)) {
    // SAFETY: null, or created by lockstep_options_new and not freed.
    if let Some(options) = unsafe { options.as_mut() } {
        change(options);
    }
}

/// Makes the application send pictures of this format with lockstep_send_frame(). The frame rate is
/// rate_numerator/rate_denominator per second.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockstep_options_send_frames(
    options: *mut Options,
    width: u32,
    height: u32,
    rate_numerator: u32,
    rate_denominator: u32,
) -> bool {
    let Some(format) = format_of(width, height, rate_numerator, rate_denominator) else { return false };
    // SAFETY: as the caller guarantees.
    unsafe { change(options, |options| options.sends = Some(format)) };
    true
}

/// The format of pictures; records a failure if the frame rate is invalid.
fn format_of(width: u32, height: u32, rate_numerator: u32, rate_denominator: u32) -> Option<VideoFormat> {
    let frame_rate = FrameRate::new(rate_numerator, rate_denominator);
    if frame_rate.is_none() {
        fail(&format!("frame rate {rate_numerator}/{rate_denominator}: expected more than 0 and at most 1000"));
    }
    Some(VideoFormat::new(width as usize, height as usize).at(frame_rate?))
}

/// Adds a video stream, whose pictures the application sends with lockstep_send_stream_frame(). The first stream is the
/// most important. Streams share one budget in proportion to their priorities, which must be above 0. A name has up to
/// 32 letters, digits, '-' and '_'.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockstep_options_add_stream(
    options: *mut Options,
    name: *const c_char,
    width: u32,
    height: u32,
    rate_numerator: u32,
    rate_denominator: u32,
    priority: f64,
) -> bool {
    // SAFETY: as the caller guarantees.
    let Some(name) = (unsafe { text(name, "name") }) else { return false };
    let Some(format) = format_of(width, height, rate_numerator, rate_denominator) else { return false };
    // SAFETY: as the caller guarantees.
    unsafe { change(options, |options| options.streams.push((name.to_owned(), format, priority))) };
    true
}

/// Makes the application receive pictures, by lockstep_next_frame() or a callback.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockstep_options_receive_frames(options: *mut Options) {
    // SAFETY: as the caller guarantees.
    unsafe { change(options, |options| options.receives = true) };
}

/// Sets the delay that the call tolerates for a better picture. The default is LOCKSTEP_LATENCY_BALANCED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockstep_options_set_latency(options: *mut Options, latency: Latency) {
    // SAFETY: as the caller guarantees.
    unsafe { change(options, |options| options.latency = Some(latency.into())) };
}

/// Sets a cap of the bit rate in bit/s; 0 derives it from the pictures.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockstep_options_set_max_bitrate(options: *mut Options, bits_per_second: u64) {
    let cap = (bits_per_second > 0).then(|| Bitrate::from_bps(bits_per_second));
    // SAFETY: as the caller guarantees.
    unsafe { change(options, |options| options.max_bitrate = cap) };
}

/// Sets the age of the newest picture, in milliseconds, at which LOCKSTEP_EVENT_KIND_STALE is reported; 0 disables
/// this.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockstep_options_set_stale_after(options: *mut Options, milliseconds: u32) {
    let age = (milliseconds > 0).then(|| Duration::from_millis(milliseconds.into()));
    // SAFETY: as the caller guarantees.
    unsafe { change(options, |options| options.stale_after = age) };
}

/// Sets the longest wait for the answer to a join, in milliseconds. The default is 10,000.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockstep_options_set_wait_limit(options: *mut Options, milliseconds: u32) {
    // SAFETY: as the caller guarantees.
    unsafe { change(options, |options| options.wait_limit = Some(Duration::from_millis(milliseconds.into()))) };
}

/// Sets whether the call resumes after every failure or departure of the other end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockstep_options_set_reconnect(options: *mut Options, reconnects: bool) {
    // SAFETY: as the caller guarantees.
    unsafe { change(options, |options| options.reconnects = reconnects) };
}

/// Keeps the key of a listener in this file, so that its ticket stays the same and admits consecutive calls.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockstep_options_set_standing_identity(options: *mut Options, path: *const c_char) -> bool {
    // SAFETY: as the caller guarantees.
    let Some(path) = (unsafe { text(path, "path") }) else { return false };
    // SAFETY: as the caller guarantees.
    unsafe { change(options, |options| options.identity = Some(PathBuf::from(path))) };
    true
}

/// Sets a callback for events; lockstep_next_event() then returns none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockstep_options_on_event(options: *mut Options, callback: OnEvent, user: *mut c_void) {
    // SAFETY: as the caller guarantees.
    unsafe { change(options, |options| options.on_event = callback.map(|callback| (callback, User(user)))) };
}

/// Sets a callback for pictures, and makes the application receive them; lockstep_next_frame() then returns none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockstep_options_on_frame(options: *mut Options, callback: OnFrame, user: *mut c_void) {
    // SAFETY: as the caller guarantees.
    unsafe {
        change(options, |options| {
            options.receives = true;
            options.on_frame = callback.map(|callback| (callback, User(user)));
        });
    };
}

/// The text at `pointer`; records a failure if it is null or not UTF-8.
unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Option<&'a str> {
    if pointer.is_null() {
        fail(&format!("{name} is null"));
        return None;
    }
    // SAFETY: a string with a final zero, as the caller guarantees.
    let text = unsafe { CStr::from_ptr(pointer) }.to_str();
    if text.is_err() {
        fail(&format!("{name} is not UTF-8"));
    }
    text.ok()
}

impl Options {
    fn builder(&self) -> CallBuilder {
        let mut builder = lockstep::Call::builder();
        if let Some(format) = self.sends {
            builder = builder.send_frames(format);
        }
        for (name, format, priority) in &self.streams {
            builder = builder.stream(Stream::frames(name, *format).priority(*priority));
        }
        if self.receives {
            builder = builder.receive_frames();
        }
        if let Some(latency) = self.latency {
            builder = builder.latency(latency);
        }
        if let Some(cap) = self.max_bitrate {
            builder = builder.max_bitrate(cap);
        }
        if let Some(age) = self.stale_after {
            builder = builder.stale_after(age);
        }
        if let Some(limit) = self.wait_limit {
            builder = builder.wait_limit(Some(limit));
        }
        if self.reconnects { builder.reconnect() } else { builder }
    }

    fn start(&self, call: lockstep::Call) -> *mut Call {
        let call = Arc::new(call);
        let mut threads = Vec::new();
        if let Some((callback, user)) = self.on_event {
            let call = Arc::clone(&call);
            threads.push(thread::spawn(move || {
                for event in call.events() {
                    let event = Event::of(event);
                    callback(&raw const event, user.get());
                    event.free();
                }
            }));
        }
        if let Some((callback, user)) = self.on_frame {
            let call = Arc::clone(&call);
            threads.push(thread::spawn(move || {
                while let Some(frame) = call.next_frame(Duration::MAX) {
                    let mut frame = Frame::of(frame);
                    callback(&raw const frame, user.get());
                    frame.free();
                }
            }));
        }
        Box::into_raw(Box::new(Call { call, threads }))
    }
}

/// Joins the owner of a ticket. Later failures are events. End the call with lockstep_leave().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockstep_join(options: *const Options, ticket: *const c_char) -> *mut Call {
    // SAFETY: as the caller guarantees.
    let (Some(options), Some(ticket)) = (unsafe { (options.as_ref(), text(ticket, "ticket")) }) else {
        return std::ptr::null_mut();
    };
    let joined = match ticket.trim().parse() {
        Ok(ticket) => options.builder().join(ticket).map_err(|error| error.to_string()),
        Err(error) => Err(format!("ticket: {error}")),
    };
    match joined {
        Ok(call) => options.start(call),
        Err(reason) => {
            fail(&reason);
            std::ptr::null_mut()
        }
    }
}

/// Listens at an address such as "0.0.0.0:0". Writes the ticket and a final zero to `ticket`, which has `size` bytes;
/// 1024 suffice.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockstep_listen(
    options: *const Options,
    address: *const c_char,
    ticket: *mut c_char,
    size: usize,
) -> *mut Call {
    // SAFETY: as the caller guarantees.
    let (Some(options), Some(address)) = (unsafe { (options.as_ref(), text(address, "address")) }) else {
        return std::ptr::null_mut();
    };
    let listen = || -> Result<(lockstep::Call, String), String> {
        let address = address.parse().map_err(|error| format!("address {address}: {error}"))?;
        let identity = match &options.identity {
            Some(path) => Identity::standing(path),
            None => Identity::new(),
        };
        let identity = identity.map_err(|error| error.to_string())?;
        let (call, given) =
            options.builder().listen_as(identity, address).map_err(|error: lockstep::Error| error.to_string())?;
        let given = given.to_string();
        if ticket.is_null() || given.len() >= size {
            return Err(format!("the ticket has {} bytes and a zero, more than the {size} given", given.len()));
        }
        Ok((call, given))
    };
    match listen() {
        Ok((call, given)) => {
            // SAFETY: `ticket` has room for `size` bytes, which is more than the text and the zero.
            unsafe {
                std::ptr::copy_nonoverlapping(given.as_ptr(), ticket.cast(), given.len());
                *ticket.add(given.len()) = 0;
            }
            options.start(call)
        }
        Err(reason) => {
            fail(&reason);
            std::ptr::null_mut()
        }
    }
}

/// Ends a call, informs the other end, waits for callbacks to return, and frees the handle. Do not call it from a
/// callback.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockstep_leave(call: *mut Call) {
    if call.is_null() {
        return;
    }
    // SAFETY: created by lockstep_join or lockstep_listen, and freed once.
    let Call { call, threads } = *unsafe { Box::from_raw(call) };
    call.end();
    for thread in threads {
        let _ = thread.join();
    }
}

/// Appends a plane's rows to `samples`.
unsafe fn copy_plane(samples: &mut Vec<u8>, first: *const u8, stride: usize, width: usize, height: usize) {
    for row in 0..height {
        // SAFETY: the plane has `height` rows of `width` samples, `stride` apart, as the caller guarantees.
        samples.extend_from_slice(unsafe { std::slice::from_raw_parts(first.add(row * stride), width) });
    }
}

/// Sends a copy of a picture that was captured `age_us` microseconds ago. Only the newest picture waits for the
/// encoder.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockstep_send_frame(call: *const Call, picture: *const Picture, age_us: u64) -> bool {
    // SAFETY: as the caller guarantees.
    let (Some(call), Some((picture, captured_at))) = (unsafe { (call.as_ref(), copied(picture, age_us)) }) else {
        return refuse_null(call);
    };
    call.call.send_frame(picture, captured_at);
    true
}

/// Like lockstep_send_frame(), for the video stream with this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockstep_send_stream_frame(
    call: *const Call,
    stream: *const c_char,
    picture: *const Picture,
    age_us: u64,
) -> bool {
    // SAFETY: as the caller guarantees.
    let Some(name) = (unsafe { text(stream, "stream") }) else { return false };
    // SAFETY: as the caller guarantees.
    let (Some(call), Some((picture, captured_at))) = (unsafe { (call.as_ref(), copied(picture, age_us)) }) else {
        return refuse_null(call);
    };
    let Some(stream) = call.call.stream(name) else {
        fail(&format!("the call sends no stream named {name:?}"));
        return false;
    };
    stream.send_frame(picture, captured_at);
    true
}

/// Returns false, and records a failure if the call is null.
fn refuse_null(call: *const Call) -> bool {
    if call.is_null() {
        fail(&"call or picture is null");
    }
    false
}

/// A copy of a picture that was captured `age_us` microseconds ago, and that time; records a failure if it is invalid.
unsafe fn copied(picture: *const Picture, age_us: u64) -> Option<(VideoPicture, Instant)> {
    // SAFETY: as the caller guarantees.
    let Some(picture) = (unsafe { picture.as_ref() }) else {
        fail(&"call or picture is null");
        return None;
    };
    let (width, height) = (picture.width as usize, picture.height as usize);
    let (half_width, half_height) = (width.div_ceil(2), height.div_ceil(2));
    let sides = [(width, height), (half_width, half_height), (half_width, half_height)];
    let is_possible = (1..=16_383).contains(&width) && (1..=16_383).contains(&height);
    let has_planes = (0..3).all(|plane| !picture.planes[plane].is_null() && picture.strides[plane] >= sides[plane].0);
    if !is_possible || !has_planes {
        fail(&format!(
            "a picture of {width}x{height} needs sides of 1 to 16383, three planes, and rows within strides"
        ));
        return None;
    }
    let mut samples = Vec::with_capacity(width * height + 2 * half_width * half_height);
    for (plane, (width, height)) in sides.into_iter().enumerate() {
        // SAFETY: the planes match the picture's sizes, as the caller guarantees.
        unsafe { copy_plane(&mut samples, picture.planes[plane], picture.strides[plane], width, height) };
    }
    match VideoPicture::from_i420(width, height, samples) {
        Ok(picture) => {
            let now = Instant::now();
            Some((picture, now.checked_sub(Duration::from_micros(age_us)).unwrap_or(now)))
        }
        Err(error) => {
            fail(&error);
            None
        }
    }
}

impl Frame {
    fn of(ReceivedFrame { stream, name, picture, captured_at, age }: ReceivedFrame) -> Self {
        let mut stream_name = [0; LOCKSTEP_STREAM_NAME_SIZE];
        // A name is shorter, and ASCII.
        for (to, &from) in stream_name.iter_mut().zip(name.as_bytes().iter().take(LOCKSTEP_STREAM_NAME_SIZE - 1)) {
            *to = from as c_char;
        }
        let picture = Box::new(picture);
        let planes = picture.planes();
        let seen = Picture {
            width: picture.width() as u32,
            height: picture.height() as u32,
            planes: std::array::from_fn(|plane| planes[plane].samples().0.as_ptr()),
            strides: std::array::from_fn(|plane| planes[plane].samples().1),
        };
        Self {
            picture: seen,
            captured_us: captured_at.as_micros(),
            age_us: age.map_or(-1, |age| i64::try_from(age.as_micros()).unwrap_or(i64::MAX)),
            stream: stream as u32,
            stream_name,
            owner: Box::into_raw(picture).cast(),
        }
    }

    fn free(&mut self) {
        let owner = std::mem::replace(&mut self.owner, std::ptr::null_mut());
        if !owner.is_null() {
            // SAFETY: created by `of`, and freed once.
            drop(unsafe { Box::from_raw(owner.cast::<VideoPicture>()) });
        }
    }
}

/// Waits up to `milliseconds` for the next picture. Returns false if none arrived, or the call has ended. Free it with
/// lockstep_frame_free(). At most the newest three pictures wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockstep_next_frame(call: *const Call, milliseconds: u32, frame: *mut Frame) -> bool {
    // SAFETY: as the caller guarantees.
    let Some(call) = (unsafe { call.as_ref() }).filter(|_| !frame.is_null()) else { return false };
    let next = call.call.next_frame(Duration::from_millis(milliseconds.into()));
    match next {
        Some(next) => {
            // SAFETY: `frame` is not null, and has room for a frame, as the caller guarantees.
            unsafe { frame.write(Frame::of(next)) };
            true
        }
        None => false,
    }
}

/// Frees a frame that lockstep_next_frame() returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockstep_frame_free(frame: *mut Frame) {
    // SAFETY: null, or written by lockstep_next_frame.
    if let Some(frame) = unsafe { frame.as_mut() } {
        frame.free();
    }
}

impl Event {
    fn of(event: lockstep::Event) -> Self {
        use lockstep::Event as Of;
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let (mut data, mut channel) = (None, -1);
        let stream = match &event {
            Of::Quality(lockstep::Quality { stream, .. })
            | Of::StreamAnnounced { stream, .. }
            | Of::Stale { stream, .. }
            | Of::Fresh { stream } => *stream as u32,
            _ => 0,
        };
        let (kind, value, text) = match event {
            Of::Joined => (EventKind::Joined, 0, String::new()),
            Of::PathChanged(route) => (EventKind::PathChanged, 0, format!("{route:?}")),
            Of::Interrupted => (EventKind::Interrupted, 0, String::new()),
            Of::Resumed => (EventKind::Resumed, 0, String::new()),
            Of::PeerChanged(Presence { muted, camera_off, recording }) => {
                let bits = u64::from(muted) | u64::from(camera_off) << 1 | u64::from(recording) << 2;
                (EventKind::PeerChanged, bits, String::new())
            }
            Of::Quality(quality) => {
                let target = quality.sending.map_or(0, |sending| sending.target.as_bps());
                (EventKind::Quality, target, format!("{quality:?}"))
            }
            Of::Stale { age, .. } => (EventKind::Stale, micros(age), String::new()),
            Of::Fresh { .. } => (EventKind::Fresh, 0, String::new()),
            Of::Message(message) => {
                if let lockstep::Delivery::Latest { channel: of } = message.delivery {
                    channel = of.into();
                }
                data = Some(message.payload.into_boxed_slice());
                (EventKind::Message, micros(message.delay), String::new())
            }
            Of::Ended(ended) => (EventKind::Ended, 0, format!("{ended:?}")),
            Of::Failed(error) => (EventKind::Failed, 0, error.to_string()),
            Of::StreamAnnounced { name, .. } => (EventKind::StreamAnnounced, 0, name.to_string()),
            Of::Warning(warning) => (EventKind::Warning, 0, warning.to_string()),
            other => (EventKind::Other, 0, format!("{other:?}")),
        };
        let size = data.as_ref().map_or(0, |data| data.len());
        let data = data.map_or(std::ptr::null_mut(), |data| Box::into_raw(data).cast());
        let text = CString::new(text.replace('\0', " ")).unwrap_or_default().into_raw();
        Self { kind, value, stream, text, data, size, channel }
    }

    fn free(self) {
        // SAFETY: both were created by `of`, and are freed once.
        unsafe {
            drop(CString::from_raw(self.text));
            if !self.data.is_null() {
                drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(self.data, self.size)));
            }
        }
    }
}

/// Waits up to `milliseconds` for the next event. Returns false if there was none, or the last one was returned before.
/// Free it with lockstep_event_free().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockstep_next_event(call: *const Call, milliseconds: u32, event: *mut Event) -> bool {
    // SAFETY: as the caller guarantees.
    let Some(call) = (unsafe { call.as_ref() }).filter(|_| !event.is_null()) else { return false };
    match call.call.next_event(Duration::from_millis(milliseconds.into())) {
        Some(next) => {
            // SAFETY: `event` is not null, and has room for an event, as the caller guarantees.
            unsafe { event.write(Event::of(next)) };
            true
        }
        None => false,
    }
}

/// Frees an event that lockstep_next_event() returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockstep_event_free(event: *mut Event) {
    // SAFETY: null, or written by lockstep_next_event and not freed.
    if let Some(event) = unsafe { event.as_mut() }.filter(|event| !event.text.is_null()) {
        let emptied = Event { text: std::ptr::null_mut(), data: std::ptr::null_mut(), size: 0, ..*event };
        std::mem::replace(event, emptied).free();
    }
}

/// Sends a copy of a message: a reliable one if `channel` is -1, otherwise a latest one of channel 0 to 255.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockstep_send_message(call: *const Call, channel: i32, data: *const u8, size: usize) -> bool {
    // SAFETY: as the caller guarantees.
    let Some(call) = (unsafe { call.as_ref() }).filter(|_| !data.is_null() || size == 0) else {
        fail(&"call or data is null");
        return false;
    };
    // SAFETY: `data` has `size` bytes, as the caller guarantees.
    let payload = if size == 0 { Vec::new() } else { unsafe { std::slice::from_raw_parts(data, size) }.to_vec() };
    let message = match u8::try_from(channel) {
        Ok(channel) => Message::latest(channel, payload),
        Err(_) if channel == -1 => Message::reliable(payload),
        Err(_) => {
            fail(&format!("channel {channel} is not -1 and not from 0 to 255"));
            return false;
        }
    };
    let sent = call.call.send_message(message);
    if let Err(error) = &sent {
        fail(error);
    }
    sent.is_ok()
}

/// Mutes the sound or turns the camera off, or on again, and informs the other end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockstep_set_presence(call: *const Call, muted: bool, camera_off: bool) {
    // SAFETY: as the caller guarantees.
    if let Some(call) = unsafe { call.as_ref() } {
        call.call.set_presence(Presence { muted, camera_off, ..Presence::default() });
    }
}

/// Changes the cap of the bit rate, in bit/s; 0 removes it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockstep_set_max_bitrate(call: *const Call, bits_per_second: u64) {
    // SAFETY: as the caller guarantees.
    if let Some(call) = unsafe { call.as_ref() } {
        call.call.set_max_bitrate((bits_per_second > 0).then(|| Bitrate::from_bps(bits_per_second)));
    }
}

impl From<Latency> for lockstep::Latency {
    fn from(latency: Latency) -> Self {
        match latency {
            Latency::Low => Self::Low,
            Latency::Balanced => Self::Balanced,
            Latency::Quality => Self::Quality,
        }
    }
}
