//! Sinks: consumers of pictures.

mod ivf;
mod recoding;
mod recording;
mod webm;
#[cfg(feature = "window")]
pub(crate) mod window;

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Write, stderr};
use std::path::{Path, PathBuf};

use lockstep_units::{Timestamp, is_fifo, open_output, printable};
use lockstep_vp8::Picture;

use crate::format::VideoFormat;
use crate::ivf::IvfError;
use crate::scale::scaled;
use crate::y4m::{Y4mError, Y4mWriter};
pub use ivf::IvfSink;
use recording::Recording;
pub use webm::WebmSink;

/// Consumer of pictures.
pub trait Sink: Send {
    /// Shows or records a picture, captured at `captured_at` on the sender's clock.
    ///
    /// # Errors
    /// If the sink cannot accept more pictures.
    fn show(&mut self, picture: &Picture, captured_at: Timestamp) -> Result<(), SinkError>;

    /// Whether only the newest picture matters, as in a window. Callers then skip older pictures that wait. A recording
    /// needs every picture.
    fn is_live(&self) -> bool {
        false
    }

    /// Announces sound before the first picture: Opus, one channel, delayed by `delay` samples at 48 kHz. Returns
    /// whether the sink records it.
    fn begin_sound(&mut self, _delay: u16) -> bool {
        false
    }

    /// Records an Opus packet of 20 ms. `captured_at` is its capture time on the clock of the pictures. Packets are in
    /// order; those before the first picture are dropped.
    ///
    /// # Errors
    /// If the sink cannot accept more sound.
    fn write_sound(&mut self, _packet: &[u8], _captured_at: Timestamp) -> Result<(), SinkError> {
        Ok(())
    }

    /// Completes the output. Showing more pictures is an error.
    ///
    /// # Errors
    /// If the output cannot be completed.
    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

/// Error of a sink.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SinkError {
    /// The name denotes no sink.
    #[error(
        "sink \"{0}\" is none of: none, window, FILE.webm, FILE.mkv, FILE.ivf, FILE.y4m, or - for y4m on standard output"
    )]
    Specification(String),
    /// The index of this format is at the end, so an interrupted recording would not play.
    #[error("cannot record {0}: an interrupted call leaves no {1} file that plays; name a .webm or .mkv file")]
    Unplayable(String, &'static str),
    /// A file cannot be created.
    #[error("cannot write {path}: {error}")]
    Create {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// Writing a file failed.
    #[error("cannot write {path}: {error}")]
    Write {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// Writing y4m failed.
    #[error("{path}: {error}")]
    Y4m {
        /// Path of the file.
        path: PathBuf,
        /// Error of the writer.
        error: Y4mError,
    },
    /// Writing IVF failed.
    #[error("{path}: {error}")]
    Ivf {
        /// Path of the file.
        path: PathBuf,
        /// Error of the writer.
        error: IvfError,
    },
    /// The sink is already finished.
    #[error("the sink is finished and accepts no more pictures")]
    Finished,
    /// This build does not support windows.
    #[error(
        "cannot open a window: this program was built without lockstep-media's feature `window`; choose another sink"
    )]
    NoWindows,
    /// No display is available for a window.
    #[error("no display: {reason}; set DISPLAY or use --sink none")]
    Display {
        /// Error of the window system.
        reason: String,
    },
    /// Standard output cannot hold several streams.
    #[error("standard output holds one video stream, and the other end sends \"{0}\" and other streams; name a file")]
    OneStream(String),
    /// The user closed the window.
    #[error("the window was closed")]
    WindowClosed,
}

/// File formats of sinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileFormat {
    Y4m,
    Ivf,
    Webm,
}

impl FileFormat {
    /// The format for a file name.
    fn of(path: &str) -> Result<Self, SinkError> {
        let extension = Path::new(path).extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        match extension.as_str() {
            "y4m" => Ok(Self::Y4m),
            "ivf" => Ok(Self::Ivf),
            "webm" | "mkv" => Ok(Self::Webm),
            "mp4" | "m4v" => Err(SinkError::Unplayable(path.to_owned(), "MP4")),
            "mov" => Err(SinkError::Unplayable(path.to_owned(), "QuickTime")),
            "avi" => Err(SinkError::Unplayable(path.to_owned(), "AVI")),
            _ => Err(SinkError::Specification(path.to_owned())),
        }
    }
}

/// Path of the file of the sink `specification`, `-` for standard output. None if it writes no file.
///
/// # Errors
/// If the name denotes no sink.
pub fn sink_path(specification: &str) -> Result<Option<&Path>, SinkError> {
    match specification {
        "none" | "window" => Ok(None),
        "-" => Ok(Some(Path::new(specification))),
        path => FileFormat::of(path).map(|_| Some(Path::new(path))),
    }
}

/// Whether the sink `specification` records sound, too.
#[must_use]
pub fn records_sound(specification: &str) -> bool {
    FileFormat::of(specification).is_ok_and(|format| format == FileFormat::Webm)
}

/// The sink for one of several streams. `specification` is the sink of the call. The name of the stream precedes the
/// extension: `x.y4m` becomes `x.front.y4m`. A stream without a name uses the sink of the call.
///
/// # Errors
/// If the sink is standard output, which holds one stream.
pub fn sink_of_stream(specification: &str, stream: &str) -> Result<String, SinkError> {
    match specification {
        _ if stream.is_empty() => Ok(specification.to_owned()),
        "-" => Err(SinkError::OneStream(stream.to_owned())),
        path => Ok(match path.rsplit_once('.') {
            Some((stem, extension)) => format!("{stem}.{stream}.{extension}"),
            None => path.to_owned(),
        }),
    }
}

/// Opens the sink `specification`:
/// - `none`;
/// - `window`;
/// - a `.webm` or `.mkv` file: VP8 with sound, see [`WebmSink`];
/// - an `.ivf` file: VP8 with timestamps, see [`IvfSink`];
/// - a `.y4m` file, see [`Y4mSink`];
/// - `-` for y4m on standard output.
///
/// A file grows with each picture, and plays up to there after any interruption. A full disk ends it with the last
/// complete picture. Finishing a `.webm` file writes its index and duration, finishing an `.ivf` file its frame count.
/// Players do not require them.
///
/// # Errors
/// If the sink cannot be opened.
pub fn open_sink(specification: &str, format: VideoFormat) -> Result<Box<dyn Sink>, SinkError> {
    Ok(match specification {
        "none" => Box::new(DiscardSink),
        #[cfg(feature = "window")]
        "window" => Box::new(window::WindowSink::open("Lockstep", format)?),
        #[cfg(not(feature = "window"))]
        "window" => return Err(SinkError::NoWindows),
        "-" => Box::new(Y4mSink::standard_output(format)?),
        name => {
            let path = Path::new(name);
            match FileFormat::of(name)? {
                FileFormat::Y4m => Box::new(Y4mSink::create(path, format)?),
                FileFormat::Ivf => Box::new(IvfSink::create(path, format)?),
                FileFormat::Webm => Box::new(WebmSink::create(path, format)?),
            }
        }
    })
}

fn create(path: &Path) -> Result<Recording, SinkError> {
    let file = if is_fifo(path) { open_output(path) } else { File::create(path) };
    let file = file.map_err(|error| SinkError::Create { path: path.to_owned(), error })?;
    Ok(Recording::new(file))
}

/// Standard output without the line buffer of Rust.
fn standard_output() -> io::Result<File> {
    #[cfg(unix)]
    let output = std::os::fd::AsFd::as_fd(&io::stdout()).try_clone_to_owned()?;
    #[cfg(windows)]
    let output = std::os::windows::io::AsHandle::as_handle(&io::stdout()).try_clone_to_owned()?;
    #[cfg(any(unix, windows))]
    return Ok(File::from(output));
    #[cfg(not(any(unix, windows)))]
    Err(io::ErrorKind::Unsupported.into())
}

/// Sink that discards pictures.
#[derive(Debug, Clone, Copy, Default)]
pub struct DiscardSink;

impl Sink for DiscardSink {
    fn show(&mut self, _: &Picture, _: Timestamp) -> Result<(), SinkError> {
        Ok(())
    }
}

/// Writes pictures to a y4m file, which holds one size. Pictures of another size are scaled, as ffmpeg does. A line on
/// standard error reports the first such picture.
#[derive(Debug)]
pub struct Y4mSink {
    path: PathBuf,
    format: VideoFormat,
    writer: Option<Y4mWriter<Recording>>,
    is_live: bool,
    /// Whether a picture was scaled.
    has_scaled: bool,
}

impl Y4mSink {
    /// Writes to standard output, which must have no other writer.
    ///
    /// # Errors
    /// If standard output is not available.
    pub fn standard_output(format: VideoFormat) -> Result<Self, SinkError> {
        let path = PathBuf::from("standard output");
        let file = standard_output().map_err(|error| SinkError::Create { path: path.clone(), error })?;
        let writer = Y4mWriter::new(Recording::standard(file), format)
            .map_err(|error| SinkError::Y4m { path: path.clone(), error })?;
        // The reader of a pipe is live, or slower than the call.
        Ok(Self { path, format, writer: Some(writer), is_live: true, has_scaled: false })
    }

    /// Creates the file, or truncates it.
    ///
    /// # Errors
    /// If that fails.
    pub fn create(path: &Path, format: VideoFormat) -> Result<Self, SinkError> {
        let writer =
            Y4mWriter::new(create(path)?, format).map_err(|error| SinkError::Y4m { path: path.to_owned(), error })?;
        Ok(Self { path: path.to_owned(), format, writer: Some(writer), is_live: false, has_scaled: false })
    }

    /// `picture` in the size of the file.
    fn fitted<'a>(&mut self, picture: &'a Picture) -> Result<Cow<'a, Picture>, Y4mError> {
        let VideoFormat { width, height, .. } = self.format;
        if (picture.width(), picture.height()) == (width, height) {
            return Ok(Cow::Borrowed(picture));
        }
        if !std::mem::replace(&mut self.has_scaled, true) {
            let (from, name) = (format!("{}x{}", picture.width(), picture.height()), self.path.display().to_string());
            let line = format!("{name}: y4m holds one picture size; pictures of {from} are scaled to {width}x{height}");
            let _ = writeln!(stderr(), "{}", printable(&line));
        }
        Ok(Cow::Owned(scaled(picture, width, height)?))
    }
}

impl Sink for Y4mSink {
    fn show(&mut self, picture: &Picture, _: Timestamp) -> Result<(), SinkError> {
        let fitted = self.fitted(picture);
        let writer = self.writer.as_mut().ok_or(SinkError::Finished)?;
        let written = fitted.and_then(|picture| writer.write_picture(&picture)).and_then(|()| writer.flush());
        written.map_err(|error| SinkError::Y4m { path: self.path.clone(), error })
    }

    fn is_live(&self) -> bool {
        self.is_live
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        let finished = self.writer.take().map(Y4mWriter::finish).transpose();
        finished.map(drop).map_err(|error| SinkError::Y4m { path: self.path.clone(), error })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{IvfReader, Y4mReader};
    use std::io::BufReader;

    fn format() -> VideoFormat {
        VideoFormat { width: 4, height: 2, ..VideoFormat::default() }
    }

    fn open(path: &Path) -> BufReader<File> {
        BufReader::new(File::open(path).unwrap())
    }

    #[test]
    fn file_is_complete_after_finish_or_drop() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let picture = Picture::from_i420(4, 2, (0..12).collect()).unwrap();
        for name in ["out.y4m", "out.ivf", "dropped.ivf"] {
            let mut sink = open_sink(path(name).to_str().unwrap(), format()).unwrap();
            sink.show(&picture, Timestamp::ZERO).unwrap();
            if name != "dropped.ivf" {
                sink.finish().unwrap();
                assert!(matches!(sink.show(&picture, Timestamp::ZERO), Err(SinkError::Finished)));
            }
        }
        assert_eq!(Y4mReader::new(open(&path("out.y4m"))).unwrap().read_picture().unwrap(), Some(picture));
        for name in ["out.ivf", "dropped.ivf"] {
            let mut reader = IvfReader::new(open(&path(name))).unwrap();
            assert_eq!(reader.header().frames, 1);
            assert!(reader.read_frame().unwrap().is_some() && reader.read_frame().unwrap().is_none());
        }
    }

    #[test]
    fn y4m_keeps_its_size_when_pictures_change_theirs() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out.y4m");
        let mut sink = open_sink(path.to_str().unwrap(), format()).unwrap();
        let grey = |width: usize, height: usize| Picture::from_i420(width, height, vec![77; width * height * 3 / 2]);
        for (width, height) in [(4, 2), (8, 8), (4, 2), (2, 2)] {
            sink.show(&grey(width, height).unwrap(), Timestamp::ZERO).unwrap();
        }
        sink.finish().unwrap();
        let mut reader = Y4mReader::new(open(&path)).unwrap();
        for _ in 0..4 {
            assert_eq!(reader.read_picture().unwrap(), Some(grey(4, 2).unwrap()));
        }
        assert_eq!(reader.read_picture().unwrap(), None);
    }

    #[test]
    fn shown_pictures_are_in_the_file_before_finish() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let picture = Picture::from_i420(4, 2, (0..12).collect()).unwrap();
        let mut sinks = ["out.y4m", "out.ivf"].map(|name| open_sink(path(name).to_str().unwrap(), format()).unwrap());
        for sink in &mut sinks {
            sink.show(&picture, Timestamp::ZERO).unwrap();
        }
        // Simulates a kill: no code of the sinks runs after this point.
        assert_eq!(Y4mReader::new(open(&path("out.y4m"))).unwrap().read_picture().unwrap(), Some(picture));
        let mut reader = IvfReader::new(open(&path("out.ivf"))).unwrap();
        assert!(reader.read_frame().unwrap().is_some());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn full_disk_is_reported() {
        let directory = tempfile::tempdir().unwrap();
        let picture = Picture::from_i420(4, 2, (0..12).collect()).unwrap();
        for name in ["full.y4m", "full.ivf", "full.webm"] {
            let path = directory.path().join(name);
            std::os::unix::fs::symlink("/dev/full", &path).unwrap();
            let mut sink = open_sink(path.to_str().unwrap(), format()).unwrap();
            let said = sink.show(&picture, Timestamp::ZERO).unwrap_err().to_string();
            assert!(said.contains(name) && said.contains("No space left"), "{said}");
        }
    }

    #[test]
    fn unknown_sinks_and_unwritable_paths_are_errors() {
        for name in ["out", "out.wmv", "webm", "/tmp/.webm"] {
            let refused = sink_path(name).unwrap_err();
            assert!(matches!(&refused, SinkError::Specification(_)), "{refused}");
            assert!(refused.to_string().contains("FILE.webm"), "{refused}");
        }
        for name in ["out.mp4", "out.MOV", "out.avi"] {
            let refused = open_sink(name, format()).err().unwrap().to_string();
            assert!(refused.starts_with(&format!("cannot record {name}: ")) && refused.contains(".webm"), "{refused}");
        }
        for (name, path) in [("none", None), ("window", None), ("-", Some("-")), ("a.Y4M", Some("a.Y4M"))] {
            assert_eq!(sink_path(name).unwrap(), path.map(Path::new));
        }
        let recorded = ["a.webm", "a.MKV", "a.ivf", "window", "-"].map(records_sound);
        assert_eq!(recorded, [true, true, false, false, false]);
        assert!(matches!(open_sink("/nowhere/out.y4m", format()), Err(SinkError::Create { .. })));
        assert!(open_sink("none", format()).is_ok());
    }

    #[test]
    fn each_stream_has_its_own_file() {
        let of = |sink, stream| sink_of_stream(sink, stream).map_err(|error| error.to_string());
        assert_eq!(of("a/x.y4m", "front"), Ok("a/x.front.y4m".to_owned()));
        assert_eq!((of("x.y4m", ""), of("none", "rear")), (Ok("x.y4m".to_owned()), Ok("none".to_owned())));
        assert_eq!(of("-", ""), Ok("-".to_owned()));
        assert!(of("-", "front").is_err_and(|said| said.contains("name a file")));
    }

    #[test]
    #[cfg(not(feature = "window"))]
    fn window_without_the_feature_is_refused() {
        assert!(matches!(open_sink("window", format()), Err(SinkError::NoWindows)));
    }
}
