//! Decodes frames and stores the pictures, in a separate thread.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use lockstep_vp8::{State, decode};

use crate::{Failure, now};

/// Screen that shows frames in order.
pub struct Screen {
    frames: Sender<Arc<[u8]>>,
    /// Whether the screen waits for a key frame.
    waits: bool,
    failed: Arc<AtomicBool>,
}

impl Screen {
    /// A screen that writes pictures to `kept`, and their sizes and display times to `times`.
    pub fn new(kept: File, times: File) -> Self {
        let (frames, arrived) = channel::<Arc<[u8]>>();
        let failed = Arc::new(AtomicBool::new(false));
        let failure = failed.clone();
        thread::spawn(move || {
            let mut shown = Shown { kept, times, state: State::default() };
            for frame in arrived {
                if let Err(error) = shown.show(&frame) {
                    eprintln!("cannot show a frame: {error}");
                    failure.store(true, Ordering::Relaxed);
                }
            }
        });
        Self { frames, waits: true, failed }
    }

    /// Shows a frame if it can be decoded, and returns whether it can. If not, a key frame is needed. `follows` is true
    /// if no frame before it is missing.
    pub fn show(&mut self, frame: Arc<[u8]>, follows: bool) -> bool {
        // The lowest bit of a frame is set for interframes (RFC 6386, section 9.1).
        let is_key = frame.first().is_some_and(|byte| byte & 1 == 0);
        self.waits |= !follows | self.failed.swap(false, Ordering::Relaxed);
        self.waits &= !is_key;
        if !self.waits {
            // Errors are ignored: the thread ends together with the process.
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
