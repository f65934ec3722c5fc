//! Pictures at their time: a source that is a file or a generator is paced to its frame rate on a thread of its own; a
//! camera paces itself.

use std::sync::mpsc::{Receiver, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use lockstep_media::Source;
use lockstep_vp8::Picture;

use crate::LiveError;
use crate::Thread;

/// What the capture thread tells the call.
#[derive(Debug)]
pub(crate) enum Captured {
    /// A picture, just taken.
    Picture(Picture),
    /// The source has no more pictures.
    Ended,
}

/// Reads `source` from the moment on at which `is_wanted` says so, and whenever it last said so, until it ends, fails, or nobody
/// listens any more; a camera is closed meanwhile. The thread may block in the source for as long as it likes: sending, pacing and
/// acknowledgements run elsewhere.
pub(crate) fn spawn<Event: Send + 'static>(
    mut source: Box<dyn Source>,
    frame_interval: Duration,
    is_wanted: Receiver<bool>,
    events: SyncSender<Event>,
    wrap: impl Fn(Captured) -> Event + Send + 'static,
) -> Result<Thread, LiveError> {
    Thread::spawn("source", move || {
        let (mut wanted, mut has_begun) = (false, false);
        let mut next = Instant::now();
        loop {
            wanted = is_wanted.try_iter().last().unwrap_or(wanted);
            if !wanted {
                if has_begun {
                    source.rest();
                }
                let Ok(now_wanted) = is_wanted.recv() else { return Ok(()) };
                (wanted, next) = (now_wanted, Instant::now());
                continue;
            }
            has_begun = true;
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
