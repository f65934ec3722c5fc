//! Reads the screen of an X11 display, with the pointer, through the pure-Rust `x11rb` crate, and lists its monitors.

use super::{Source, SourceError, SourceOptions};

/// A monitor of the screen. The source `screen:1` is the first one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Monitor {
    /// Name of the display's driver, such as `HDMI-1`.
    pub name: String,
    /// Position of its left upper corner on the screen, pixels to the right and down.
    pub position: (i32, i32),
    /// Width and height, pixels.
    pub size: (u32, u32),
    /// Whether the desktop has its bars there.
    pub is_primary: bool,
}

/// Lists the monitors, in the order of their numbers.
///
/// # Errors
/// If there is no X11 display, or this program reads no screens.
pub fn monitors() -> Result<Vec<Monitor>, SourceError> {
    found()
}

#[cfg(not(all(feature = "screen", unix)))]
fn found() -> Result<Vec<Monitor>, SourceError> {
    Err(unsupported())
}

#[cfg(all(feature = "screen", unix))]
fn found() -> Result<Vec<Monitor>, SourceError> {
    x11::Display::of_environment()?.monitors()
}

#[cfg(not(all(feature = "screen", unix)))]
pub(super) fn open(_: &str, _: &SourceOptions) -> Result<Box<dyn Source>, SourceError> {
    Err(unsupported())
}

#[cfg(not(all(feature = "screen", unix)))]
fn unsupported() -> SourceError {
    let reason = if cfg!(unix) {
        "this program was built without lockstep-media's feature `screen`"
    } else {
        "screens are read through X11, which this system does not have"
    };
    SourceError::Screen { reason: reason.to_owned() }
}

#[cfg(all(feature = "screen", unix))]
pub(super) fn open(monitor: &str, options: &SourceOptions) -> Result<Box<dyn Source>, SourceError> {
    Ok(Box::new(ScreenSource::open(monitor, options)?))
}

#[cfg(all(feature = "screen", unix))]
pub use x11::ScreenSource;

#[cfg(all(feature = "screen", unix))]
mod x11 {
    use std::env::{var, var_os};
    use std::thread::sleep;
    use std::time::{Duration, Instant};

    use lockstep_vp8::Picture;
    use x11rb::connection::Connection;
    use x11rb::protocol::randr::{ConnectionExt as _, MonitorInfo};
    use x11rb::protocol::xfixes::{ConnectionExt as _, GetCursorImageReply};
    use x11rb::protocol::xproto::{ConnectionExt as _, ImageFormat, ImageOrder, Screen, Window};
    use x11rb::rust_connection::RustConnection;

    use super::{Monitor, Source, SourceError, SourceOptions};
    use crate::colour;
    use crate::format::{FrameRate, VideoFormat};

    /// Default pictures per second: text changes seldom, and a screen has many samples.
    const RATE: u32 = 15;

    /// The pictures of a screen, or of one of its monitors. The source is live: it waits until the next picture is due.
    pub struct ScreenSource {
        connection: RustConnection,
        root: Window,
        /// Position of the monitor on the screen.
        position: (i32, i32),
        format: VideoFormat,
        has_pointer: bool,
        due: Option<Instant>,
    }

    fn failed(error: impl std::fmt::Display) -> SourceError {
        SourceError::Screen { reason: error.to_string() }
    }

    /// A connection to a display.
    pub(super) struct Display {
        connection: RustConnection,
        /// Number of its screen.
        screen: usize,
    }

    impl Display {
        /// Connects to the display that `DISPLAY` names.
        pub(super) fn of_environment() -> Result<Self, SourceError> {
            if var("XDG_SESSION_TYPE").is_ok_and(|session| session == "wayland") || var_os("DISPLAY").is_none() {
                let reason = match var_os("DISPLAY") {
                    Some(_) => "Wayland shows the screen only through PipeWire, which Lockstep does not read yet",
                    None => "DISPLAY is not set",
                };
                return Err(failed(reason));
            }
            Self::connect(None)
        }

        /// Connects to the display `name`, or the one of the environment.
        fn connect(name: Option<&str>) -> Result<Self, SourceError> {
            let (connection, screen) = x11rb::connect(name).map_err(failed)?;
            Ok(Self { connection, screen })
        }

        fn screen(&self) -> Result<&Screen, SourceError> {
            self.connection.setup().roots.get(self.screen).ok_or_else(|| failed("the display has no screen"))
        }

        /// The monitors, in the order of their numbers.
        pub(super) fn monitors(&self) -> Result<Vec<Monitor>, SourceError> {
            let reply = self.connection.randr_get_monitors(self.screen()?.root, true).map_err(failed)?;
            let described = |monitor: MonitorInfo| {
                let name = self.connection.get_atom_name(monitor.name).map_err(failed)?.reply().map_err(failed)?.name;
                Ok(Monitor {
                    name: String::from_utf8_lossy(&name).into_owned(),
                    position: (monitor.x.into(), monitor.y.into()),
                    size: (monitor.width.into(), monitor.height.into()),
                    is_primary: monitor.primary,
                })
            };
            reply.reply().map_err(failed)?.monitors.into_iter().map(described).collect()
        }
    }

    impl ScreenSource {
        /// Opens the display that `DISPLAY` names. `monitor` is a number from 1, or empty for the whole screen. The
        /// frame rate is that of `options`, else 15.
        ///
        /// # Errors
        /// If there is no X11 display or no such monitor, or if its pixels do not have 32 bits.
        pub fn open(monitor: &str, options: &SourceOptions) -> Result<Self, SourceError> {
            Self::of(Display::of_environment()?, monitor, options)
        }

        fn of(display: Display, monitor: &str, options: &SourceOptions) -> Result<Self, SourceError> {
            let (setup, screen) = (display.connection.setup(), display.screen()?);
            let bits = setup.pixmap_formats.iter().find(|format| format.depth == screen.root_depth);
            if setup.image_byte_order != ImageOrder::LSB_FIRST || bits.is_none_or(|format| format.bits_per_pixel != 32)
            {
                return Err(failed(format!("its pixels of depth {} are not supported", screen.root_depth)));
            }
            let root = screen.root;
            let whole = ((0, 0), (screen.width_in_pixels.into(), screen.height_in_pixels.into()));
            let (position, (width, height)) = match monitor {
                "" => whole,
                number => {
                    let monitors = display.monitors()?;
                    let found = number.parse::<usize>().ok().and_then(|number| monitors.get(number.checked_sub(1)?));
                    let monitor =
                        found.ok_or_else(|| failed(format!("monitor {number:?}: expected 1 to {}", monitors.len())))?;
                    (monitor.position, monitor.size)
                }
            };
            let connection = display.connection;
            let has_pointer = connection.xfixes_query_version(5, 0).is_ok_and(|version| version.reply().is_ok());
            let frame_rate =
                options.frame_rate.or(FrameRate::new(RATE, 1)).unwrap_or(VideoFormat::default().frame_rate);
            let format = VideoFormat { width: width as usize, height: height as usize, frame_rate };
            Ok(Self { connection, root, position, format, has_pointer, due: None })
        }

        /// The screen now, as packed RGB. Parts that are gone after a change of its size are black.
        fn capture(&self) -> Result<Vec<u8>, SourceError> {
            let (width, height) = (self.format.width, self.format.height);
            let screen = self.connection.get_geometry(self.root).map_err(failed)?.reply().map_err(failed)?;
            let left = |side: u16, position: i32| usize::from(side).saturating_sub(position.unsigned_abs() as usize);
            let across = left(screen.width, self.position.0).min(width);
            let down = left(screen.height, self.position.1).min(height);
            let mut rgb = vec![0; 3 * width * height];
            if across == 0 || down == 0 {
                return Ok(rgb);
            }
            // X11 sends positions as 16-bit numbers.
            let (x, y) = (self.position.0 as i16, self.position.1 as i16);
            let (all, format) = (u32::MAX, ImageFormat::Z_PIXMAP);
            let image = self.connection.get_image(format, self.root, x, y, across as u16, down as u16, all);
            let image = image.map_err(failed)?.reply().map_err(failed)?.data;
            for (row, pixels) in rgb.chunks_exact_mut(3 * width).zip(image.chunks_exact(4 * across)) {
                for (out, pixel) in row.as_chunks_mut::<3>().0.iter_mut().zip(pixels.as_chunks::<4>().0) {
                    *out = [pixel[2], pixel[1], pixel[0]];
                }
            }
            Ok(rgb)
        }

        /// Draws the pointer, whose colours are premultiplied with their opacity.
        fn draw_pointer(&self, rgb: &mut [u8], pointer: &GetCursorImageReply) {
            let (left, top) = (
                i32::from(pointer.x) - i32::from(pointer.xhot) - self.position.0,
                i32::from(pointer.y) - i32::from(pointer.yhot) - self.position.1,
            );
            let across = usize::from(pointer.width).max(1);
            for (y, row) in pointer.cursor_image.chunks(across).enumerate() {
                for (x, &pixel) in row.iter().enumerate() {
                    let place = (usize::try_from(left + x as i32), usize::try_from(top + y as i32));
                    let (Ok(x), Ok(y)) = place else { continue };
                    if x >= self.format.width || y >= self.format.height {
                        continue;
                    }
                    let [opacity, colour @ ..] = pixel.to_be_bytes();
                    for (below, above) in rgb[3 * (y * self.format.width + x)..].iter_mut().zip(colour) {
                        let rest = u16::from(*below) * u16::from(255 - opacity) / 255;
                        *below = above.saturating_add(rest as u8);
                    }
                }
            }
        }
    }

    impl Source for ScreenSource {
        fn format(&self) -> VideoFormat {
            self.format
        }

        fn next(&mut self) -> Result<Option<Picture>, SourceError> {
            let interval = Duration::from_secs_f64(1.0 / self.format.frame_rate.as_f64());
            let now = Instant::now();
            // After a pause of the caller, the next picture is due at once.
            let due = self.due.filter(|&due| due + interval > now).unwrap_or(now);
            sleep(due.saturating_duration_since(now));
            self.due = Some(due + interval);
            let mut rgb = self.capture()?;
            if self.has_pointer
                && let Ok(pointer) = self.connection.xfixes_get_cursor_image().map_err(failed)?.reply()
            {
                self.draw_pointer(&mut rgb, &pointer);
            }
            Ok(Some(colour::picture_from_rgb(self.format.width, self.format.height, &rgb)?))
        }

        fn is_screen(&self) -> bool {
            true
        }

        fn is_live(&self) -> bool {
            true
        }
    }

    #[cfg(test)]
    mod tests {
        use std::io::{BufRead, BufReader};
        use std::process::{Child, Command, Stdio};

        use x11rb::wrapper::ConnectionExt as _;

        use super::*;

        /// A virtual display, which ends with this value.
        struct Virtual(Child);

        impl Virtual {
            /// The display and its name. None without Xvfb.
            fn start(size: &str) -> Option<(Self, String)> {
                let server = Command::new("Xvfb")
                    .args(["-displayfd", "1", "-nolisten", "tcp", "-screen", "0", size])
                    .stdout(Stdio::piped())
                    .stderr(Stdio::null())
                    .spawn();
                let Ok(mut server) = server else {
                    eprintln!("skipped: Xvfb is not installed");
                    return None;
                };
                let numbers = server.stdout.take();
                let server = Self(server);
                let mut number = String::new();
                BufReader::new(numbers?).read_line(&mut number).ok()?;
                (!number.trim().is_empty()).then(|| (server, format!(":{}", number.trim())))
            }
        }

        impl Drop for Virtual {
            fn drop(&mut self) {
                let _ = self.0.kill();
                let _ = self.0.wait();
            }
        }

        #[test]
        fn monitors_are_listed_with_names_and_areas() {
            let Some((_server, name)) = Virtual::start("800x600x24") else { return };
            let display = Display::connect(Some(&name)).unwrap();
            let listed = display.monitors().unwrap();
            assert_eq!(listed.len(), 1, "{listed:?}");
            assert_eq!((listed[0].position, listed[0].size), ((0, 0), (800, 600)));
            let (connection, root) = (&display.connection, display.screen().unwrap().root);
            let atom = connection.intern_atom(false, b"right half").unwrap().reply().unwrap().atom;
            let right = MonitorInfo { name: atom, x: 400, y: 20, width: 400, height: 580, ..MonitorInfo::default() };
            connection.randr_set_monitor(root, right).unwrap().check().unwrap();
            connection.sync().unwrap();
            let right =
                Monitor { name: "right half".to_owned(), position: (400, 20), size: (400, 580), is_primary: false };
            let number = display.monitors().unwrap().iter().position(|monitor| *monitor == right).unwrap() + 1;
            let source = ScreenSource::of(display, &number.to_string(), &SourceOptions::default()).unwrap();
            assert_eq!(source.format().to_string(), "400x580@15");
            let display = Display::connect(Some(&name)).unwrap();
            let error = ScreenSource::of(display, "9", &SourceOptions::default()).err().unwrap().to_string();
            assert!(error.contains("expected 1 to"), "{error}");
        }
    }
}
