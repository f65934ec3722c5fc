//! A window, through the `minifb` crate with X11 only: it loads the X libraries when a window is opened, so building
//! needs none of them and machines without a display run everything else.
//!
//! The window lives on a thread of its own. It must answer the window system also while no pictures come (a stall is
//! what one wants to see), and window handles may not move between threads.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lockstep_vp8::Picture;
use minifb::{ScaleMode, Window, WindowOptions};

use super::{Sink, SinkError};
use crate::colour;
use crate::format::VideoFormat;

/// Pictures that may wait for the window; more are left out, newer ones being on their way.
const QUEUE: usize = 2;
/// How often the window system is answered while no pictures come.
const ANSWER_INTERVAL: Duration = Duration::from_millis(20);

/// Shows pictures in a window. A window that cannot keep up leaves out pictures instead of delaying its caller.
#[derive(Debug)]
pub struct WindowSink {
    pictures: Option<SyncSender<Picture>>,
    thread: Option<JoinHandle<()>>,
}

impl WindowSink {
    /// Opens a window that fits pictures of `format`; others are scaled to it.
    ///
    /// # Errors
    /// If there is no display.
    pub fn open(title: &str, format: VideoFormat) -> Result<Self, SinkError> {
        let (pictures, incoming) = mpsc::sync_channel(QUEUE);
        let (opened, outcome) = mpsc::sync_channel(1);
        let title = title.to_owned();
        let thread = thread::spawn(move || {
            let options =
                WindowOptions { resize: true, scale_mode: ScaleMode::AspectRatioStretch, ..WindowOptions::default() };
            match Window::new(&title, format.width, format.height, options) {
                Ok(mut window) => {
                    window.set_target_fps(0); // the caller keeps time
                    let _ = opened.send(None);
                    run(&mut window, &incoming);
                }
                Err(error) => drop(opened.send(Some(error.to_string()))),
            }
        });
        match outcome.recv() {
            Ok(None) => Ok(Self { pictures: Some(pictures), thread: Some(thread) }),
            Ok(Some(reason)) => Err(SinkError::Display { reason }),
            Err(_) => Err(SinkError::Display { reason: "the window system failed".to_owned() }),
        }
    }
}

/// Shows what comes until the window or the sink is closed.
fn run(window: &mut Window, pictures: &Receiver<Picture>) {
    let mut pixels = Vec::new();
    while window.is_open() {
        match pictures.recv_timeout(ANSWER_INTERVAL) {
            Ok(picture) => {
                let picture = pictures.try_iter().last().unwrap_or(picture);
                colour::to_rgb(&picture, &mut pixels);
                if window.update_with_buffer(&pixels, picture.width(), picture.height()).is_err() {
                    return;
                }
            }
            Err(RecvTimeoutError::Timeout) => window.update(),
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

impl Sink for WindowSink {
    fn show(&mut self, picture: &Picture, _: &[u8]) -> Result<(), SinkError> {
        let pictures = self.pictures.as_ref().ok_or(SinkError::Finished)?;
        match pictures.try_send(picture.clone()) {
            Ok(()) | Err(TrySendError::Full(_)) => Ok(()),
            Err(TrySendError::Disconnected(_)) => Err(SinkError::WindowClosed),
        }
    }

    fn is_live(&self) -> bool {
        true
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.pictures = None;
        match self.thread.take().map(JoinHandle::join) {
            Some(Err(_)) => Err(SinkError::WindowClosed),
            _ => Ok(()),
        }
    }
}

impl Drop for WindowSink {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn without_a_display_the_error_says_what_to_do() {
        if std::env::var_os("DISPLAY").is_some() {
            eprintln!("skipped: there is a display");
            return;
        }
        let error = WindowSink::open("test", VideoFormat::default()).unwrap_err().to_string();
        assert!(error.starts_with("no display: ") && error.ends_with("; set DISPLAY or use --sink none"), "{error}");
    }
}
