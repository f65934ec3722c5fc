//! Shows pictures in a window, with egui on X11 or Wayland. Libraries of the window systems and OpenGL are loaded at
//! run time. Builds, and machines without a display, do not need them.
//!
//! A window system permits one event loop per process. So one thread serves all windows of the process, one after the
//! other. It answers the window system during stalls, too, which users want to see.

mod view;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use eframe::egui::{Context, Vec2, ViewportBuilder, ViewportCommand};
use eframe::{CreationContext, NativeOptions};
use lockstep_units::Timestamp;
use lockstep_vp8::Picture;

use self::view::{Newest, View};
use super::{Sink, SinkError};
use crate::format::VideoFormat;

/// Interval at which a window reads its [`Overlay`] while no pictures arrive.
const READ_INTERVAL: Duration = Duration::from_millis(100);
/// Minimum size of the window. Small pictures are enlarged, and text has room.
const MIN_SIZE: (usize, usize) = (640, 360);

/// Additional content of a window, and the receiver of its buttons and keys.
pub trait Overlay: Send {
    /// The content now.
    fn content(&mut self) -> WindowContent {
        WindowContent::default()
    }

    /// The user pressed a button or a key: a lower-case letter, or [`ESCAPE`].
    fn pressed(&mut self, _key: char) {}

    /// The user closed the window.
    fn closed(&mut self) {}
}

/// Content of a window besides the remote pictures.
#[derive(Debug, Clone, Default)]
pub struct WindowContent {
    /// The newest local picture, which is shown small.
    pub own: Option<Picture>,
    /// Whether it is mirrored, as people expect of themselves.
    pub is_mirrored: bool,
    /// A few words in the corner.
    pub words: String,
    /// A line of statistics at the bottom; empty for none.
    pub details: String,
    /// Text over the pictures.
    pub notice: Notice,
    /// Buttons that appear with the mouse. The window adds its own: full screen, and the list of keys.
    pub buttons: Vec<Button>,
}

/// A button of a window. A key does the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Button {
    /// The key: a lower-case letter.
    pub key: char,
    /// The name, as screen readers say it.
    pub name: String,
    /// Whether the button is highlighted, because something is switched off.
    pub is_highlighted: bool,
}

/// Text or a picture about the pictures of a window.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Notice {
    /// The text; empty for none.
    pub words: String,
    /// Whether the text replaces the pictures.
    pub replaces_pictures: bool,
    /// A picture in place of the pictures, such as a QR code.
    pub picture: Option<Picture>,
}

/// The Escape key.
pub const ESCAPE: char = '\u{1b}';

/// Overlay without content.
struct Plain;

impl Overlay for Plain {}

/// The pictures of one sink.
#[derive(Default)]
struct Tile {
    number: u64,
    name: String,
    is_large: bool,
    /// The newest picture that is not drawn yet.
    picture: Option<Picture>,
    /// Width and height on the display in pixels; `None` before the first picture.
    shown_size: Option<(usize, usize)>,
}

/// What sinks and the window's thread share.
#[derive(Default)]
struct Shared {
    tiles: Mutex<Vec<Tile>>,
    is_closed: AtomicBool,
    context: OnceLock<Context>,
}

impl Shared {
    fn tiles(&self) -> MutexGuard<'_, Vec<Tile>> {
        self.tiles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn repaint(&self) {
        if let Some(context) = self.context.get() {
            context.request_repaint();
        }
    }
}

/// Shows pictures in a window. Sinks that are open at the same time share one window. A slow window skips pictures and
/// does not delay its caller.
///
/// A tile without pictures takes room only if it has a name.
pub struct WindowSink(WindowTile);

/// The place of a sink's pictures in a window, for any thread.
#[derive(Clone)]
pub struct WindowTile {
    window: Arc<Shared>,
    number: u64,
}

impl WindowTile {
    fn change<T>(&self, change: impl FnOnce(&mut Tile) -> T) -> Option<T> {
        let changed = self.window.tiles().iter_mut().find(|tile| tile.number == self.number).map(change);
        self.window.repaint();
        changed
    }

    /// Sets the text in the corner of the pictures, such as a name.
    pub fn set_name(&self, name: &str) {
        self.change(|tile| name.clone_into(&mut tile.name));
    }

    /// Shows the pictures large, and those of other tiles small, if there are three or more. Among several large tiles
    /// the first one is shown large.
    pub fn set_large(&self, is_large: bool) {
        self.change(|tile| tile.is_large = is_large);
    }

    /// Width and height of the pictures on the display, in pixels; `None` before the first picture.
    #[must_use]
    pub fn shown_size(&self) -> Option<(usize, usize)> {
        let tiles = self.window.tiles();
        tiles.iter().find(|tile| tile.number == self.number)?.shown_size
    }
}

impl WindowSink {
    /// Opens a window for pictures of `format`, or a tile in the open one. Others are scaled.
    ///
    /// # Errors
    /// If no display is available.
    pub fn open(title: &str, format: VideoFormat) -> Result<Self, SinkError> {
        let mut newest = newest();
        if let Some(window) = newest.upgrade().filter(|window| !window.is_closed.load(Ordering::Acquire)) {
            let mut tiles = window.tiles();
            if let Some(number) = tiles.last().map(|tile| tile.number + 1) {
                tiles.push(Tile { number, ..Tile::default() });
                drop(tiles);
                return Ok(Self(WindowTile { window, number }));
            }
        }
        Self::open_in(&mut newest, title, format, Box::new(Plain))
    }

    /// Opens a window with additional content, see [`Overlay`].
    ///
    /// # Errors
    /// If no display is available.
    pub fn open_with(title: &str, format: VideoFormat, overlay: Box<dyn Overlay>) -> Result<Self, SinkError> {
        Self::open_in(&mut newest(), title, format, overlay)
    }

    fn open_in(
        newest: &mut Weak<Shared>,
        title: &str,
        format: VideoFormat,
        overlay: Box<dyn Overlay>,
    ) -> Result<Self, SinkError> {
        let window = Arc::new(Shared::default());
        window.tiles().push(Tile::default());
        let (opened, outcome) = mpsc::sync_channel(1);
        let request = Request { title: title.to_owned(), size: size(format), window: window.clone(), overlay, opened };
        let failed = |_| SinkError::Display { reason: "the window system failed".to_owned() };
        requests().send(request).map_err(|_| failed(mpsc::RecvError))?;
        match outcome.recv().map_err(failed)? {
            Ok(()) => {
                *newest = Arc::downgrade(&window);
                Ok(Self(WindowTile { window, number: 0 }))
            }
            Err(reason) => Err(SinkError::Display { reason }),
        }
    }

    /// The place of the pictures.
    #[must_use]
    pub fn tile(&self) -> WindowTile {
        self.0.clone()
    }
}

/// The newest window of the process.
fn newest() -> MutexGuard<'static, Weak<Shared>> {
    static NEWEST: Mutex<Weak<Shared>> = Mutex::new(Weak::new());
    NEWEST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Size of the window for pictures of `format`: their size, or the smallest size of the same ratio that is large
/// enough.
fn size(format: VideoFormat) -> (usize, usize) {
    let (width, height) = (format.width.max(1), format.height.max(1));
    let times = MIN_SIZE.0.div_ceil(width).min(MIN_SIZE.1.div_ceil(height)).max(1);
    (width * times, height * times)
}

/// A request to the thread of the windows.
struct Request {
    title: String,
    size: (usize, usize),
    window: Arc<Shared>,
    overlay: Box<dyn Overlay>,
    opened: SyncSender<Result<(), String>>,
}

/// Requests to the thread of the windows, which starts with the first one.
fn requests() -> &'static Sender<Request> {
    static REQUESTS: OnceLock<Sender<Request>> = OnceLock::new();
    REQUESTS.get_or_init(|| {
        let (requests, incoming) = mpsc::channel();
        // Without the thread, each request fails.
        let _ = thread::Builder::new().name("window".to_owned()).spawn(move || serve(&incoming));
        requests
    })
}

fn serve(requests: &Receiver<Request>) {
    // The event loop cannot be created again. So its first error is that of every window.
    let mut failure: Option<String> = None;
    for request in requests {
        let opened = request.opened.clone();
        if let Some(reason) = &failure {
            let _ = opened.send(Err(reason.clone()));
            continue;
        }
        let window = request.window.clone();
        let result = run(request);
        window.is_closed.store(true, Ordering::Release);
        if let Err(error) = result {
            let reason = error.to_string();
            if matches!(error, eframe::Error::WinitEventLoop(_)) {
                failure = Some(reason.clone());
            }
            // Nobody receives it if the window was open before.
            let _ = opened.try_send(Err(reason));
        }
    }
}

/// Shows one window until its sinks are finished or the user closes it.
fn run(request: Request) -> Result<(), eframe::Error> {
    let Request { title, size, window, overlay, opened } = request;
    let (size, min_size) = (Vec2::new(size.0 as f32, size.1 as f32), Vec2::new(320.0, 180.0));
    let options = NativeOptions {
        viewport: ViewportBuilder::default()
            .with_title(&title)
            .with_app_id("lockstep")
            .with_inner_size(size)
            .with_min_inner_size(min_size),
        // The call's clock sets the pace; waiting for the display would add up to a frame of delay.
        vsync: false,
        #[cfg(any(target_os = "linux", target_os = "windows"))]
        event_loop_builder: Some(Box::new(|builder| {
            #[cfg(target_os = "windows")]
            use winit::platform::windows::EventLoopBuilderExtWindows;
            #[cfg(target_os = "linux")]
            use winit::platform::x11::EventLoopBuilderExtX11;
            builder.with_any_thread(true);
        })),
        ..NativeOptions::default()
    };
    let create = move |creation: &CreationContext<'_>| {
        let _ = window.context.set(creation.egui_ctx.clone());
        // The receiver waits.
        let _ = opened.send(Ok(()));
        let app: Box<dyn eframe::App> = Box::new(App { window, overlay, view: View::default() });
        Ok(app)
    };
    eframe::run_native(&title, options, Box::new(create))
}

struct App {
    window: Arc<Shared>,
    overlay: Box<dyn Overlay>,
    view: View,
}

impl eframe::App for App {
    fn update(&mut self, context: &Context, _: &mut eframe::Frame) {
        let pictures = {
            let mut tiles = self.window.tiles();
            if tiles.is_empty() {
                context.send_viewport_cmd(ViewportCommand::Close);
                return;
            }
            let take = |tile: &mut Tile| {
                let Tile { number, name, is_large, picture, .. } = tile;
                Newest { number: *number, name: name.clone(), is_large: *is_large, picture: picture.take() }
            };
            tiles.iter_mut().map(take).collect()
        };
        self.view.take(context, pictures);
        for key in self.view.show(context, &self.overlay.content()) {
            self.overlay.pressed(key);
        }
        for tile in self.window.tiles().iter_mut() {
            tile.shown_size = self.view.shown_size(tile.number);
        }
        context.request_repaint_after(READ_INTERVAL);
    }

    fn on_exit(&mut self, _: Option<&eframe::glow::Context>) {
        self.window.is_closed.store(true, Ordering::Release);
        if !self.window.tiles().is_empty() {
            self.overlay.closed();
        }
    }
}

impl Sink for WindowSink {
    fn show(&mut self, picture: &Picture, _: Timestamp) -> Result<(), SinkError> {
        if self.0.window.is_closed.load(Ordering::Acquire) {
            return Err(SinkError::WindowClosed);
        }
        self.0.change(|tile| tile.picture = Some(picture.clone())).ok_or(SinkError::Finished)
    }

    fn is_live(&self) -> bool {
        true
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        let WindowTile { window, number } = &self.0;
        window.tiles().retain(|tile| tile.number != *number);
        window.repaint();
        Ok(())
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
        if ["DISPLAY", "WAYLAND_DISPLAY", "WAYLAND_SOCKET"].iter().any(|name| std::env::var_os(name).is_some()) {
            eprintln!("skipped: there is a display");
            return;
        }
        for _ in 0..2 {
            let error = WindowSink::open("test", VideoFormat::default()).err().unwrap().to_string();
            assert!(
                error.starts_with("no display: ") && error.ends_with("; set DISPLAY or use --sink none"),
                "{error}"
            );
            assert!(error.contains("DISPLAY is set"), "the first error again: {error}");
        }
    }

    #[test]
    fn window_of_small_pictures_has_room_for_text() {
        let sized = |width, height| size(VideoFormat { width, height, ..VideoFormat::default() });
        assert_eq!((sized(1280, 720), sized(160, 90), sized(176, 144)), ((1280, 720), (640, 360), (528, 432)));
    }
}
