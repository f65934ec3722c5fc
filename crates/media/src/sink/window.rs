//! Shows pictures in a window, with the `minifb` crate on X11. It loads the X libraries at run time, so builds and
//! machines without a display do not need them.
//!
//! The window has its own thread, since window handles may not move between threads. It must answer the window system
//! during stalls, too, which users want to see.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lockstep_units::Timestamp;
use lockstep_vp8::Picture;
use minifb::{InputCallback, Key, Window, WindowOptions};

use super::canvas::{Image, Scene};
use super::{Sink, SinkError};
use crate::colour;
use crate::format::VideoFormat;

/// Maximum number of pictures that wait for the window. Older ones are dropped in favour of newer ones.
const QUEUE: usize = 2;
/// Interval of answers to the window system while no pictures arrive.
const ANSWER_INTERVAL: Duration = Duration::from_millis(20);
/// Minimum size of the window. Small pictures are enlarged, and text has room.
const MIN_SIZE: (usize, usize) = (640, 360);

/// Additional content of a window, and the receiver of its keys.
pub trait Overlay: Send {
    /// The newest local picture, which is shown small.
    fn own(&mut self) -> Option<Picture> {
        None
    }

    /// Text at the bottom.
    fn caption(&mut self) -> String {
        String::new()
    }

    /// Text over the pictures, or instead of them if `replaces_pictures`. Empty for none.
    fn notice(&mut self) -> Notice {
        Notice::default()
    }

    /// The user pressed a key: a lower-case letter, or [`ESCAPE`].
    fn pressed(&mut self, _key: char) {}

    /// The user closed the window.
    fn closed(&mut self) {}
}

/// Text or a picture about the pictures of a window.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Notice {
    /// The text.
    pub words: String,
    /// Whether the text replaces the pictures.
    pub replaces_pictures: bool,
    /// A picture in place of the pictures, such as a QR code.
    pub picture: Option<Picture>,
}

/// The Escape key.
pub const ESCAPE: char = '\u{1b}';

/// Keys that overlays receive.
const KEYS: [(Key, char); 4] = [(Key::M, 'm'), (Key::V, 'v'), (Key::Q, 'q'), (Key::Escape, ESCAPE)];

/// Receives each key press as an event. Polling would miss a key that is released between two polls.
struct Pressed {
    keys: mpsc::Sender<char>,
    down: Vec<Key>,
}

impl InputCallback for Pressed {
    fn add_char(&mut self, _: u32) {}

    fn set_key_state(&mut self, key: Key, is_down: bool) {
        let was_down = self.down.contains(&key);
        self.down.retain(|&other| other != key);
        if !is_down {
            return;
        }
        self.down.push(key);
        // A held key repeats but counts once.
        if let Some((_, letter)) = KEYS.iter().find(|(known, _)| *known == key && !was_down) {
            let _ = self.keys.send(*letter); // the window is being closed
        }
    }
}

/// Overlay without content.
struct Plain;

impl Overlay for Plain {}

/// Shows pictures in a window. A slow window drops pictures instead of delaying its caller.
#[derive(Debug)]
pub struct WindowSink {
    pictures: Option<SyncSender<Picture>>,
    thread: Option<JoinHandle<()>>,
}

impl WindowSink {
    /// Opens a window for pictures of `format`. Others are scaled.
    ///
    /// # Errors
    /// If no display is available.
    pub fn open(title: &str, format: VideoFormat) -> Result<Self, SinkError> {
        Self::open_with(title, format, Box::new(Plain))
    }

    /// Opens a window with additional content, see [`Overlay`].
    ///
    /// # Errors
    /// If no display is available.
    pub fn open_with(title: &str, format: VideoFormat, overlay: Box<dyn Overlay>) -> Result<Self, SinkError> {
        let (pictures, incoming) = mpsc::sync_channel(QUEUE);
        let (opened, outcome) = mpsc::sync_channel(1);
        let title = title.to_owned();
        let (width, height) = size(format);
        let thread = thread::spawn(move || {
            let options = WindowOptions { resize: true, ..WindowOptions::default() };
            match Window::new(&title, width, height, options) {
                Ok(mut window) => {
                    window.set_target_fps(0); // the caller keeps time
                    let _ = opened.send(None);
                    run(&mut window, &incoming, overlay);
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

/// Size of the window for pictures of `format`: their size, or the smallest size of the same ratio that is large
/// enough.
fn size(format: VideoFormat) -> (usize, usize) {
    let (width, height) = (format.width.max(1), format.height.max(1));
    let times = MIN_SIZE.0.div_ceil(width).min(MIN_SIZE.1.div_ceil(height)).max(1);
    (width * times, height * times)
}

fn to_image(picture: &Picture, image: &mut Image) {
    (image.width, image.height) = (picture.width(), picture.height());
    colour::to_rgb(picture, &mut image.pixels);
}

/// The drawn state besides the remote picture: window size, local picture, caption and notice.
type Drawn = ((usize, usize), Option<Picture>, String, Notice);

/// Shows pictures until the window or the sink is closed.
fn run(window: &mut Window, pictures: &Receiver<Picture>, mut overlay: Box<dyn Overlay>) {
    let (keys, pressed) = mpsc::channel();
    window.set_input_callback(Box::new(Pressed { keys, down: Vec::new() }));
    let (mut far, mut own, mut replacement) = (Image::default(), Image::default(), Image::default());
    let mut canvas = Image::default();
    // The content on the screen besides the remote picture.
    let mut drawn: Option<Drawn> = None;
    while window.is_open() {
        let newer = match pictures.recv_timeout(ANSWER_INTERVAL) {
            Ok(picture) => Some(pictures.try_iter().last().unwrap_or(picture)),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let size = window.get_size();
        let state = Some((size, overlay.own(), overlay.caption(), overlay.notice()));
        let updated = if newer.is_some() || state != drawn {
            if let Some(picture) = &newer {
                to_image(picture, &mut far);
            }
            drawn = state;
            let Some((_, picture, caption, notice)) = &drawn else { return };
            if let Some(picture) = picture {
                to_image(picture, &mut own);
            }
            if let Some(picture) = &notice.picture {
                to_image(picture, &mut replacement);
            }
            let far = match notice.picture {
                Some(_) => Some(&replacement),
                None => Some(&far).filter(|far| far.width > 0 && !notice.replaces_pictures),
            };
            let own = picture.as_ref().map(|_| &own);
            canvas.draw(size.0, size.1, &Scene { remote: far, local: own, notice: &notice.words, caption });
            window.update_with_buffer(&canvas.pixels, size.0, size.1)
        } else {
            window.update();
            Ok(())
        };
        if updated.is_err() {
            break;
        }
        pressed.try_iter().for_each(|key| overlay.pressed(key));
    }
    overlay.closed();
}

impl Sink for WindowSink {
    fn show(&mut self, picture: &Picture, _: Timestamp) -> Result<(), SinkError> {
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
    fn error_without_a_display_names_the_remedy() {
        if std::env::var_os("DISPLAY").is_some() {
            eprintln!("skipped: there is a display");
            return;
        }
        let error = WindowSink::open("test", VideoFormat::default()).unwrap_err().to_string();
        assert!(error.starts_with("no display: ") && error.ends_with("; set DISPLAY or use --sink none"), "{error}");
    }

    #[test]
    fn each_key_press_is_reported_once_short_or_held() {
        let (keys, pressed) = mpsc::channel();
        let mut receiver = Pressed { keys, down: Vec::new() };
        for (key, is_down) in
            [(Key::M, true), (Key::M, false), (Key::M, true), (Key::M, true), (Key::A, true), (Key::V, true)]
        {
            receiver.set_key_state(key, is_down);
        }
        assert_eq!(pressed.try_iter().collect::<String>(), "mmv");
    }

    #[test]
    fn window_of_small_pictures_has_room_for_text() {
        let sized = |width, height| size(VideoFormat { width, height, ..VideoFormat::default() });
        assert_eq!((sized(1280, 720), sized(160, 90), sized(176, 144)), ((1280, 720), (640, 360), (528, 432)));
    }
}
