//! The decoder, and where its pictures go, on a thread of their own.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use lockstep_vp8::{State, decode};

use crate::{Failure, now};

/// The screen: frames go to it one after the other.
pub struct Screen {
    frames: Sender<Arc<[u8]>>,
    /// Until a key frame comes nothing can be decoded.
    waits: bool,
    failed: Arc<AtomicBool>,
}

impl Screen {
    /// A screen whose pictures go to `kept`, and when they were shown to `times`.
    pub fn new(kept: File, times: File) -> Self {
        let (frames, arrived) = channel::<Arc<[u8]>>();
        let failed = Arc::new(AtomicBool::new(false));
        let said = failed.clone();
        thread::spawn(move || {
            let mut shown = Shown { kept, times, state: State::default() };
            for frame in arrived {
                if let Err(error) = shown.show(&frame) {
                    eprintln!("a frame was not shown: {error}");
                    said.store(true, Ordering::Relaxed);
                }
            }
        });
        Self { frames, waits: true, failed }
    }

    /// Shows a frame if it can be decoded; tells whether, else a key frame is needed. `follows` says that none is missing
    /// before it.
    pub fn show(&mut self, frame: Arc<[u8]>, follows: bool) -> bool {
        // The lowest bit of a frame says that it depends on others (RFC 6386, section 9.1).
        let is_key = frame.first().is_some_and(|byte| byte & 1 == 0);
        self.waits |= !follows | self.failed.swap(false, Ordering::Relaxed);
        self.waits &= !is_key;
        if !self.waits {
            // Whoever shows them ends with this.
            let _ = self.frames.send(frame);
        }
        !self.waits
    }
}

struct Shown {
    kept: File,
    times: File,
    state: State,
}

impl Shown {
    fn show(&mut self, frame: &[u8]) -> Result<(), Failure> {
        let (state, picture) = decode(&self.state, frame)?;
        self.state = state;
        let at = now();
        self.kept.write_all(&picture.to_i420())?;
        writeln!(self.times, "{} {} {at}", picture.width(), picture.height())?;
        Ok(())
    }
}
