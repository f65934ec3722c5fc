//! The application's handle of a call that runs on other threads.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use lockstep_control::Controller;
use lockstep_media::FrameRate;
use lockstep_units::Bitrate;
use lockstep_vp8::Picture;

use lockstep_session::messages::{Delivery, MAX_UNSENT_BYTES, Message, MessageError};
use lockstep_session::presence::{Command, Presence};

/// Requests that may wait for a call that is not running; later ones are dropped.
const MAX_REQUESTS: usize = 1_024;

/// A request to a call.
pub(crate) enum Request {
    Command(Command),
    Presence(Presence),
    /// The first field of these variants is the stream.
    Stream(usize, StreamSetting),
    Controller(usize, Box<dyn Controller>),
}

/// A new setting of a stream.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum StreamSetting {
    MaxBitrate(Option<Bitrate>),
    FrameRate(FrameRate),
    /// Whether the pictures show a screen.
    Screen(bool),
    Paused(bool),
}

/// Settings that requests changed during a call, for the next call of the handle.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Changed {
    pub(crate) own: Presence,
    /// The newest setting of each kind and stream.
    pub(crate) streams: Vec<(usize, StreamSetting)>,
}

impl Changed {
    /// Replaces the earlier setting of the same kind.
    pub(crate) fn insert(&mut self, stream: usize, setting: StreamSetting) {
        let kind = mem::discriminant(&setting);
        self.streams.retain(|(other, earlier)| *other != stream || mem::discriminant(earlier) != kind);
        self.streams.push((stream, setting));
    }
}

/// A picture that the application pushed.
pub(crate) struct PushedFrame {
    pub(crate) captured_at: Instant,
    pub(crate) picture: Picture,
}

#[derive(Default)]
struct Inside {
    requests: VecDeque<Request>,
    messages: VecDeque<Message>,
    /// Bytes of the reliable messages.
    message_bytes: usize,
    /// The newest picture of each stream.
    frames: BTreeMap<usize, PushedFrame>,
    wake: Option<Box<dyn Fn() + Send>>,
    /// Settings of the call before.
    changed: Changed,
}

impl Inside {
    fn wake(&self) {
        if let Some(wake) = &self.wake {
            wake();
        }
    }
}

/// Controls a call from any thread; clones control the same call.
///
/// One handle serves consecutive calls, one at a time. Presence and the settings of streams stay from call to call, except
/// controllers. Requests between two calls apply to the next one.
#[derive(Clone, Default)]
pub struct CallHandle(Arc<Mutex<Inside>>);

impl fmt::Debug for CallHandle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("CallHandle").field("requests", &self.inside().requests.len()).finish_non_exhaustive()
    }
}

impl CallHandle {
    /// A handle for the next call that receives it as [`CallOptions::handle`](crate::CallOptions::handle).
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn request(&self, request: Request) {
        let mut inside = self.inside();
        if inside.requests.len() < MAX_REQUESTS {
            inside.requests.push_back(request);
        }
        inside.wake();
    }

    /// Applies a command that a person gave with a key or a button.
    pub fn command(&self, command: Command) {
        self.request(Request::Command(command));
    }

    /// Mutes the sound or turns the camera off, or on again.
    pub fn set_presence(&self, presence: Presence) {
        self.request(Request::Presence(presence));
    }

    /// Sets the cap of a stream's bit rate; `None` removes it. Controllers without a cap ignore it.
    pub fn set_max_bitrate(&self, stream: usize, cap: Option<Bitrate>) {
        self.request(Request::Stream(stream, StreamSetting::MaxBitrate(cap)));
    }

    /// Announces a new frame rate for a stream's pushed pictures. A new size needs no announcement.
    pub fn set_frame_rate(&self, stream: usize, frame_rate: FrameRate) {
        self.request(Request::Stream(stream, StreamSetting::FrameRate(frame_rate)));
    }

    /// Sets whether a stream's pushed pictures show a screen; see [`SendingEnd::set_screen`](lockstep_call::SendingEnd::set_screen).
    pub fn set_screen(&self, stream: usize, is_screen: bool) {
        self.request(Request::Stream(stream, StreamSetting::Screen(is_screen)));
    }

    /// Replaces the controller of a stream, for example to change its latency. The new one must require the same
    /// estimator at the receiver.
    pub fn set_controller(&self, stream: usize, controller: Box<dyn Controller>) {
        self.request(Request::Controller(stream, controller));
    }

    /// Pauses the pictures of a stream, or resumes them.
    pub fn set_paused(&self, stream: usize, is_paused: bool) {
        self.request(Request::Stream(stream, StreamSetting::Paused(is_paused)));
    }

    /// Ends the call.
    pub fn leave(&self) {
        self.command(Command::Leave);
    }

    /// Sends a message. Reliable messages wait for the other end to join; latest messages are dropped until then.
    ///
    /// # Errors
    /// [`MessageError::TooLong`] if the message is too long. [`MessageError::QueueFull`] while too many earlier
    /// messages wait.
    pub fn send_message(&self, message: Message) -> Result<(), MessageError> {
        message.check()?;
        let mut inside = self.inside();
        if message.delivery == Delivery::Reliable {
            let waiting = inside.message_bytes;
            if waiting + message.payload.len() > MAX_UNSENT_BYTES || inside.messages.len() >= MAX_REQUESTS {
                return Err(MessageError::QueueFull { waiting });
            }
            inside.message_bytes += message.payload.len();
        } else if inside.messages.len() >= MAX_REQUESTS {
            return Ok(());
        }
        inside.messages.push_back(message);
        inside.wake();
        Ok(())
    }

    /// Sends a picture of a stream, captured at `captured_at`. Returns whether it replaced a picture that still waited
    /// for the encoder.
    pub fn send_frame(&self, stream: usize, picture: Picture, captured_at: Instant) -> bool {
        let mut inside = self.inside();
        let replaced = inside.frames.insert(stream, PushedFrame { captured_at, picture }).is_some();
        inside.wake();
        replaced
    }

    /// Sets `wake`, which interrupts the wait of the running call. Returns the settings of the call before.
    pub(crate) fn attach(&self, wake: impl Fn() + Send + 'static) -> Changed {
        let mut inside = self.inside();
        inside.wake = Some(Box::new(wake));
        mem::take(&mut inside.changed)
    }

    /// Removes `wake` after the call, and keeps its settings for the next one.
    pub(crate) fn detach(&self, changed: Changed) {
        let mut inside = self.inside();
        inside.wake = None;
        inside.changed = changed;
    }

    /// Takes the newest pushed picture of a stream.
    pub(crate) fn take_frame(&self) -> Option<(usize, PushedFrame)> {
        self.inside().frames.pop_first()
    }

    /// The next request.
    pub(crate) fn take_request(&self) -> Option<Request> {
        self.inside().requests.pop_front()
    }

    /// The next message.
    pub(crate) fn take_message(&self) -> Option<Message> {
        let mut inside = self.inside();
        let message = inside.messages.pop_front()?;
        if message.delivery == Delivery::Reliable {
            inside.message_bytes -= message.payload.len();
        }
        Some(message)
    }

    /// Puts back a reliable message that cannot leave yet.
    pub(crate) fn put_back(&self, message: Message) {
        let mut inside = self.inside();
        inside.message_bytes += message.payload.len();
        inside.messages.push_front(message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reliable_messages_are_bounded_until_they_leave() {
        let handle = CallHandle::new();
        let message = Message::reliable(vec![0; MAX_UNSENT_BYTES / 4]);
        (0..4).for_each(|_| handle.send_message(message.clone()).expect("there is room"));
        let refused = handle.send_message(message.clone());
        assert_eq!(refused, Err(MessageError::QueueFull { waiting: MAX_UNSENT_BYTES }));
        assert!(handle.take_message().is_some());
        assert_eq!(handle.send_message(message), Ok(()));
    }

    #[test]
    fn newer_picture_replaces_one_of_its_stream_that_waits() {
        let handle = CallHandle::new();
        let picture = |luma| Picture::from_i420(16, 16, vec![luma; 16 * 16 * 3 / 2]).expect("a picture");
        let at = Instant::now();
        assert!(!handle.send_frame(0, picture(1), at) && !handle.send_frame(1, picture(3), at));
        assert!(handle.send_frame(0, picture(2), at));
        for (stream, luma) in [(0, 2), (1, 3)] {
            let newest = handle.take_frame().map(|(stream, frame)| (stream, frame.picture));
            assert_eq!(newest, Some((stream, picture(luma))));
        }
        assert!(handle.take_frame().is_none());
    }
    #[test]
    fn newest_setting_of_each_kind_is_kept() {
        let mut changed = Changed::default();
        for cap in [100, 200] {
            changed.insert(1, StreamSetting::MaxBitrate(Some(Bitrate::from_kbps(cap))));
            changed.insert(1, StreamSetting::Paused(true));
            changed.insert(0, StreamSetting::Paused(false));
        }
        let cap = StreamSetting::MaxBitrate(Some(Bitrate::from_kbps(200)));
        assert_eq!(changed.streams, [(1, cap), (1, StreamSetting::Paused(true)), (0, StreamSetting::Paused(false))]);
    }
}
