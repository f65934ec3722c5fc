//! Captures pictures at their time: a thread paces a file or a generator to its frame rate; a camera paces itself.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use lockstep_media::Source;
use lockstep_vp8::Picture;

use crate::LiveError;
use crate::Thread;

/// Interval between two attempts to open a lost device.
pub(crate) const ATTEMPT_INTERVAL: Duration = Duration::from_secs(1);

/// Result of the capture thread.
#[derive(Debug)]
pub(crate) enum Captured {
    /// A picture, captured just now, and whether it shows a screen.
    Picture(Picture, bool),
    /// The source has no more pictures.
    Ended,
    /// A camera failed, for this reason. Its pictures continue once it is there again.
    Lost(String),
}

/// Reads `source` on its own thread while the newest value of `is_wanted` is `true`.
///
/// The thread stops when the source ends or fails, or when nobody receives its events. A camera that fails after its first
/// picture is opened again, every second until it is there. A camera is closed while pictures are not wanted. The thread may
/// block in the source: sending, pacing and acknowledgements run elsewhere.
pub(crate) fn spawn<Event: Send + 'static>(
    mut source: Box<dyn Source>,
    frame_interval: Duration,
    is_wanted: Receiver<bool>,
    events: SyncSender<Event>,
    wrap: impl Fn(Captured) -> Event + Send + 'static,
) -> Result<Thread, LiveError> {
    Thread::spawn("source", move || {
        let (mut wanted, mut has_begun, mut has_pictures, mut is_lost) = (false, false, false, false);
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
                Ok(Some(picture)) => Captured::Picture(picture, source.is_screen()),
                Ok(None) => Captured::Ended,
                Err(error) if has_pictures && source.is_live() => Captured::Lost(error.to_string()),
                Err(error) => return Err(LiveError::Source(error.to_string())),
            };
            if matches!(captured, Captured::Lost(_)) {
                source.rest();
                if !std::mem::replace(&mut is_lost, true) && events.send(wrap(captured)).is_err() {
                    return Ok(());
                }
                match is_wanted.recv_timeout(ATTEMPT_INTERVAL) {
                    Ok(now_wanted) => wanted = now_wanted,
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return Ok(()),
                }
                continue;
            }
            (has_pictures, is_lost) = (true, false);
            let more = matches!(captured, Captured::Picture(..));
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use lockstep_media::{SourceError, SourceOptions, VideoFormat, open_source};

    use super::*;

    /// A camera that fails at the numbers of `fails`.
    struct Camera {
        pictures: Box<dyn Source>,
        fails: std::ops::Range<u32>,
        next: u32,
    }

    impl Source for Camera {
        fn format(&self) -> VideoFormat {
            self.pictures.format()
        }

        fn next(&mut self) -> Result<Option<Picture>, SourceError> {
            self.next += 1;
            if self.fails.contains(&(self.next - 1)) {
                return Err(SourceError::Camera { device: "/dev/video0".into(), reason: "unplugged".to_owned() });
            }
            self.pictures.next()
        }

        fn is_live(&self) -> bool {
            true
        }
    }

    /// The events of a camera until its last picture, while each further wish tries it at once.
    fn events(fails: std::ops::Range<u32>) -> (Vec<Captured>, Result<(), LiveError>) {
        let pictures = open_source("generated:16x16", &SourceOptions::default()).unwrap();
        let (wish, is_wanted) = mpsc::channel();
        // Each event waits for its reader, so the thread makes no more than the test reads.
        let (events, captured) = mpsc::sync_channel(0);
        let camera = Box::new(Camera { pictures, fails, next: 0 });
        wish.send(true).unwrap();
        let mut thread = spawn(camera, Duration::ZERO, is_wanted, events, |captured| captured).unwrap();
        let mut got = Vec::new();
        while got.len() < 4
            && let Ok(event) = captured.recv()
        {
            if matches!(event, Captured::Lost(_)) {
                // A wish ends the wait between two attempts.
                let _ = wish.send(true);
            }
            got.push(event);
        }
        drop((wish, captured));
        (got, thread.finish(Duration::from_secs(10)))
    }

    #[test]
    fn unplugged_camera_is_reported_once_and_its_pictures_return() {
        let (events, result) = events(2..4);
        let kinds: Vec<bool> = events.iter().map(|event| matches!(event, Captured::Picture(..))).collect();
        assert_eq!(kinds, [true, true, false, true]);
        assert!(matches!(&events[2], Captured::Lost(reason) if reason.contains("unplugged")));
        assert!(result.is_ok());
    }

    #[test]
    fn camera_that_never_gave_a_picture_fails() {
        let (events, result) = events(0..1);
        assert!(events.is_empty() && matches!(result, Err(LiveError::Source(_))));
    }
}
