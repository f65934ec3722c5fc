//! Pictures at their time: a source that is a file or a generator is paced to its frame rate on a thread of its own; a
//! camera paces itself.

use std::sync::mpsc::{Receiver, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use lockstep_media::Source;
use lockstep_vp8::Picture;

use crate::LiveError;
use crate::threads::Thread;

/// What the capture thread tells the call.
#[derive(Debug)]
pub(crate) enum Captured {
    /// A picture, just taken.
    Picture(Picture),
    /// The source has no more pictures.
    Ended,
}

/// Reads `source` from the moment on at which `begin` says so until it ends, fails, or nobody listens any more. The thread may block in the source for as long as it
/// likes: sending, pacing and acknowledgements run elsewhere.
pub(crate) fn spawn<Event: Send + 'static>(
    mut source: Box<dyn Source>,
    frame_interval: Duration,
    begin: Receiver<()>,
    events: SyncSender<Event>,
    wrap: impl Fn(Captured) -> Event + Send + 'static,
) -> Result<Thread, LiveError> {
    Thread::spawn("source", move || {
        if begin.recv().is_err() {
            return Ok(());
        }
        let mut next = Instant::now();
        loop {
            let captured = match source.next() {
                Ok(Some(picture)) => Captured::Picture(picture),
                Ok(None) => Captured::Ended,
                Err(error) => return Err(LiveError::Source(error.to_string())),
            };
            let more = matches!(captured, Captured::Picture(_));
            if !source.is_live() {
                thread::sleep(next.saturating_duration_since(Instant::now()));
                // A source that cannot keep up falls behind for good; it must not be made up for in a burst.
                next = (next + frame_interval).max(Instant::now());
            }
            if events.send(wrap(captured)).is_err() || !more {
                return Ok(());
            }
        }
    })
}
