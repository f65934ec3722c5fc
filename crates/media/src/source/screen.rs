//! Reads the screen of an X11 display, with the pointer, through the pure-Rust `x11rb` crate.

use super::{Source, SourceError, SourceOptions};

#[cfg(not(all(feature = "screen", unix)))]
pub(super) fn open(_: &str, _: &SourceOptions) -> Result<Box<dyn Source>, SourceError> {
    let reason = if cfg!(unix) {
        "this program was built without lockstep-media's feature `screen`"
    } else {
        "screens are read through X11, which this system does not have"
    };
    Err(SourceError::Screen { reason: reason.to_owned() })
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
    use std::fmt::Display;
    use std::thread::sleep;
    use std::time::{Duration, Instant};

    use lockstep_vp8::Picture;
    use x11rb::connection::Connection;
    use x11rb::protocol::randr::ConnectionExt as _;
    use x11rb::protocol::xfixes::{ConnectionExt as _, GetCursorImageReply};
    use x11rb::protocol::xproto::{ConnectionExt as _, ImageFormat, ImageOrder, Window};
    use x11rb::rust_connection::RustConnection;

    use super::{Source, SourceError, SourceOptions};
    use crate::colour;
    use crate::format::{FrameRate, VideoFormat};

    /// Default pictures per second: text changes seldom, and a screen has many samples.
    const RATE: u32 = 15;

    /// The pictures of a screen, or of one of its monitors. The source is live: it waits until the next picture is due.
    pub struct ScreenSource {
        connection: RustConnection,
        root: Window,
        /// Position of the monitor on the screen.
        position: (i16, i16),
        format: VideoFormat,
        has_pointer: bool,
        due: Option<Instant>,
    }

    fn failed(error: impl Display) -> SourceError {
        SourceError::Screen { reason: error.to_string() }
    }

    impl ScreenSource {
        /// Opens the display that `DISPLAY` names. `monitor` is a number from 1, or empty for the whole screen. The
        /// frame rate is that of `options`, else 15.
        ///
        /// # Errors
        /// If there is no X11 display or no such monitor, or if its pixels do not have 32 bits.
        pub fn open(monitor: &str, options: &SourceOptions) -> Result<Self, SourceError> {
            if var("XDG_SESSION_TYPE").is_ok_and(|session| session == "wayland") || var_os("DISPLAY").is_none() {
                let reason = match var_os("DISPLAY") {
                    Some(_) => "Wayland shows the screen only through PipeWire, which Lockstep does not read yet",
                    None => "DISPLAY is not set",
                };
                return Err(failed(reason));
            }
            let (connection, number) = x11rb::connect(None).map_err(failed)?;
            let setup = connection.setup();
            let screen = setup.roots.get(number).ok_or_else(|| failed("the display has no screen"))?;
            let bits = setup.pixmap_formats.iter().find(|format| format.depth == screen.root_depth);
            if setup.image_byte_order != ImageOrder::LSB_FIRST || bits.is_none_or(|format| format.bits_per_pixel != 32)
            {
                return Err(failed(format!("its pixels of depth {} are not supported", screen.root_depth)));
            }
            let whole = (0, 0, screen.width_in_pixels, screen.height_in_pixels);
            let root = screen.root;
            let area = if monitor.is_empty() { whole } else { Self::monitor(&connection, root, monitor)? };
            let has_pointer = connection.xfixes_query_version(5, 0).is_ok_and(|version| version.reply().is_ok());
            let frame_rate =
                options.frame_rate.or(FrameRate::new(RATE, 1)).unwrap_or(VideoFormat::default().frame_rate);
            let format = VideoFormat { width: area.2.into(), height: area.3.into(), frame_rate };
            Ok(Self { connection, root, position: (area.0, area.1), format, has_pointer, due: None })
        }

        /// Position and size of a monitor.
        fn monitor(
            connection: &RustConnection,
            root: Window,
            monitor: &str,
        ) -> Result<(i16, i16, u16, u16), SourceError> {
            let monitors = connection.randr_get_monitors(root, true).map_err(failed)?.reply().map_err(failed)?.monitors;
            let found = monitor.parse::<usize>().ok().and_then(|number| monitors.get(number.checked_sub(1)?));
            let found =
                found.ok_or_else(|| failed(format!("monitor {monitor:?}: expected 1 to {}", monitors.len())))?;
            Ok((found.x, found.y, found.width, found.height))
        }

        /// The screen now, as packed RGB. Parts that are gone after a change of its size are black.
        fn capture(&self) -> Result<Vec<u8>, SourceError> {
            let (width, height) = (self.format.width, self.format.height);
            let screen = self.connection.get_geometry(self.root).map_err(failed)?.reply().map_err(failed)?;
            let left = |side: u16, position: i16| usize::from(side).saturating_sub(position.unsigned_abs().into());
            let across = left(screen.width, self.position.0).min(width);
            let down = left(screen.height, self.position.1).min(height);
            let mut rgb = vec![0; 3 * width * height];
            if across == 0 || down == 0 {
                return Ok(rgb);
            }
            let (x, y) = self.position;
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
                i32::from(pointer.x) - i32::from(pointer.xhot) - i32::from(self.position.0),
                i32::from(pointer.y) - i32::from(pointer.yhot) - i32::from(self.position.1),
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
}
