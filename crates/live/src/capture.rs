//! Captures pictures at their time: a thread paces a file or a generator to its frame rate; a camera paces itself.

use std::sync::mpsc::{Receiver, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use lockstep_media::Source;
use lockstep_vp8::Picture;

use crate::LiveError;
use crate::Thread;

/// Result of the capture thread.
#[derive(Debug)]
pub(crate) enum Captured {
    /// A picture, captured just now.
    Picture(Picture),
    /// The source has no more pictures.
    Ended,
}

/// Reads `source` on its own thread while the newest value of `is_wanted` is `true`.
///
/// The thread stops when the source ends or fails, or when nobody receives its events. A camera is closed while
/// pictures are not wanted. The thread may block in the source: sending, pacing and acknowledgements run elsewhere.
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
                // A slow source falls behind for good; a burst must not make up for the delay.
                next = (next + frame_interval).max(Instant::now());
            }
            if events.send(wrap(captured)).is_err() || !more {
                return Ok(());
            }
        }
    })
}
