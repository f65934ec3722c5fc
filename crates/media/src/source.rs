//! Sources: producers of pictures.

pub(crate) mod camera;
mod camera_list;
pub(crate) mod ffmpeg;
#[cfg(all(feature = "camera", any(target_os = "linux", windows, target_os = "macos")))]
mod ffmpeg_camera;
pub(crate) mod screen;
mod standard_input;

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

pub use camera_list::{Camera, CameraFormat, cameras};
use lockstep_units::open_input;
use lockstep_vp8::{Picture, PictureError};
pub use screen::{Monitor, monitors};

use crate::clip::{ClipError, GeneratedClip, ScreenContent};
use crate::format::{FormatError, FrameRate, VideoFormat, parse_size};
use crate::y4m::{Y4mError, Y4mReader};

/// Marks the pictures of a source as those of a screen, at the end of its specification.
pub const SCREEN_MARK: &str = ",content=screen";

/// Name of standard input in errors.
const STANDARD_INPUT: &str = "standard input";

/// Producer of pictures, or of values that stand for them.
pub trait Source<P = Picture>: Send {
    /// Size and frame rate, which are constant.
    fn format(&self) -> VideoFormat;

    /// The next picture, or None after the last. A camera blocks until it has one.
    ///
    /// # Errors
    /// If no next picture is available for another reason than the end.
    fn next(&mut self) -> Result<Option<P>, SourceError>;

    /// Prepares later pictures, so that none is late. Real-time callers need it, others do not.
    fn prepare(&mut self) {}

    /// Pauses the source until the next call of [`Self::next`]. A camera closes until then.
    fn rest(&mut self) {}

    /// Whether the pictures are those of a screen, where text must stay sharp.
    fn is_screen(&self) -> bool {
        false
    }

    /// Whether the source paces itself, as a camera does. Other sources return pictures at once.
    fn is_live(&self) -> bool {
        false
    }
}

/// Error of a source.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// A file cannot be opened.
    #[error("cannot open {path}: {error}")]
    Open {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// A y4m file or stream is damaged.
    #[error("{path}: {error}")]
    Y4m {
        /// Path of the file.
        path: PathBuf,
        /// Error of the reader.
        error: Y4mError,
    },
    /// A y4m file ends after its header.
    #[error("{path}: no pictures")]
    NoPictures {
        /// Path of the file.
        path: PathBuf,
    },
    /// The requested size or rate is invalid.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The clip cannot be generated.
    #[error(transparent)]
    Clip(#[from] ClipError),
    /// The samples do not make a picture.
    #[error(transparent)]
    Picture(#[from] PictureError),
    /// The ffmpeg command is not installed.
    #[error("cannot run ffmpeg to read {input}: it is not installed (Debian, Ubuntu: apt install ffmpeg)")]
    FfmpegMissing {
        /// Input of ffmpeg.
        input: String,
    },
    /// The ffmpeg command cannot be started or waited for.
    #[error("cannot run ffmpeg to read {input}: {error}")]
    FfmpegStart {
        /// Input of ffmpeg.
        input: String,
        /// Error of the system.
        error: io::Error,
    },
    /// The ffmpeg command failed.
    #[error("ffmpeg cannot read {input}: {reason}")]
    Ffmpeg {
        /// Input of ffmpeg.
        input: String,
        /// Last lines of its error output.
        reason: String,
    },
    /// VP8 does not support the output of ffmpeg.
    #[error("{input} {problem}; convert it with: ffmpeg -i {input} -vf {filter} OUT.y4m")]
    Unsuited {
        /// Input of ffmpeg.
        input: String,
        /// The unsupported property.
        problem: String,
        /// Filter of ffmpeg that converts the input.
        filter: &'static str,
    },
    /// No camera, or a camera that fails.
    #[error("no camera at {device}: {reason}; plug one in or choose --source generated")]
    Camera {
        /// Path of the device.
        device: PathBuf,
        /// Cause of the failure.
        reason: String,
    },
    /// No screen can be read.
    #[error("cannot read the screen: {reason}; choose another --source")]
    Screen {
        /// Cause of the failure.
        reason: String,
    },
}

/// Options of a source besides its name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SourceOptions {
    /// Width and height. Files are scaled to it. A camera receives it as a request.
    pub size: Option<(usize, usize)>,
    /// Frame rate. Files are resampled to it. A camera receives it as a request.
    pub frame_rate: Option<FrameRate>,
    /// Seed of a generated clip.
    pub seed: u64,
}

/// Opens the source `specification`:
/// - `generated`, `generated:640x360`, `generated:@25` or `generated:640x360@25`: an endless clip, see
///   [`GeneratedClip`];
/// - `generated:editor`, `generated:terminal`, `generated:slides` or `generated:page`, with `:640x360@25` or not: a
///   screen, see [`ScreenContent`]. Missing values come from `options`, else 1280x720 at 30 pictures per second;
/// - a device such as `/dev/video0`, `camera` for that one (elsewhere than on Linux: the first), or `camera:NAME` for one of
///   [`cameras`];
/// - `screen` for the whole screen of an X11 display, or `screen:1` for the first of its [`monitors`];
/// - `-` for standard input: y4m, or any format that ffmpeg reads from a pipe;
/// - a `.y4m` file of 8-bit 4:2:0, unless `options` request another size or rate;
/// - any other input of ffmpeg.
///
/// `,content=screen` at the end marks the pictures as those of a screen, such as `capture.mkv,content=screen`.
///
/// # Errors
/// If the source cannot be opened.
pub fn open_source(specification: &str, options: &SourceOptions) -> Result<Box<dyn Source>, SourceError> {
    if let Some(marked) = specification.strip_suffix(SCREEN_MARK) {
        return Ok(Box::new(MarkedScreen(open_source(marked, options)?)));
    }
    if specification == "generated" || specification.starts_with("generated:") {
        let wanted = specification.strip_prefix("generated:").unwrap_or_default();
        let (content, wanted) = generated_content(wanted);
        let format = generated_format(wanted, options)?;
        let clip = match content {
            Some(content) => GeneratedClip::screen(content, format, options.seed)?,
            None => GeneratedClip::new(format, options.seed)?,
        };
        return Ok(Box::new(GeneratedSource::new(clip)));
    }
    if let Some(wanted) = specification.strip_prefix("camera:") {
        return camera::open(&camera_list::find(wanted)?, options);
    }
    if specification == "camera" || specification.starts_with("/dev/video") {
        let device = if specification == "camera" { camera_list::default_device()? } else { specification.into() };
        return camera::open(&device, options);
    }
    if specification == "screen" || specification.starts_with("screen:") {
        return screen::open(specification.trim_start_matches("screen").trim_start_matches(':'), options);
    }
    if specification == "-" {
        return standard_input::open(options);
    }
    let as_it_is = options.size.is_none() && options.frame_rate.is_none();
    if as_it_is && specification.to_ascii_lowercase().ends_with(".y4m") {
        match Y4mSource::open(Path::new(specification)) {
            Ok(source) => return Ok(Box::new(source)),
            // ffmpeg converts the file if it is installed. Otherwise the error names the command.
            Err(SourceError::Y4m { path, error: error @ Y4mError::Colour { .. } }) => {
                return match ffmpeg::FfmpegSource::open(specification, options) {
                    Err(SourceError::FfmpegMissing { .. }) => Err(SourceError::Y4m { path, error }),
                    converted => Ok(Box::new(converted?)),
                };
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Box::new(ffmpeg::FfmpegSource::open(specification, options)?))
}

/// Size and frame rate of the source that [`open_source`] would open. A generated clip is not painted.
///
/// # Errors
/// If the source cannot be opened.
pub fn source_format(specification: &str, options: &SourceOptions) -> Result<VideoFormat, SourceError> {
    let specification = specification.strip_suffix(SCREEN_MARK).unwrap_or(specification);
    match specification.strip_prefix("generated") {
        Some(wanted) if wanted.is_empty() || wanted.starts_with(':') => {
            let (_, wanted) = generated_content(wanted.trim_start_matches(':'));
            let format = generated_format(wanted, options)?;
            Ok(GeneratedClip::new(format, options.seed)?.format())
        }
        _ => Ok(open_source(specification, options)?.format()),
    }
}

/// A source whose pictures show a screen, as its specification says.
struct MarkedScreen(Box<dyn Source>);

impl Source for MarkedScreen {
    fn format(&self) -> VideoFormat {
        self.0.format()
    }

    fn next(&mut self) -> Result<Option<Picture>, SourceError> {
        self.0.next()
    }

    fn prepare(&mut self) {
        self.0.prepare();
    }

    fn rest(&mut self) {
        self.0.rest();
    }

    fn is_screen(&self) -> bool {
        true
    }

    fn is_live(&self) -> bool {
        self.0.is_live()
    }
}

/// Content of a generated screen in `editor:640x360@25`, and the rest.
fn generated_content(wanted: &str) -> (Option<ScreenContent>, &str) {
    let (content, rest) = wanted.split_once(':').unwrap_or((wanted, ""));
    content.parse().map_or((None, wanted), |content| (Some(content), rest))
}

/// Parses `640x360@25`. Either part may be missing.
fn generated_format(wanted: &str, options: &SourceOptions) -> Result<VideoFormat, SourceError> {
    let default = VideoFormat::default();
    let (size, rate) = wanted.split_once('@').map_or((wanted, None), |(size, rate)| (size, Some(rate)));
    let (width, height) =
        if size.is_empty() { options.size.unwrap_or((default.width, default.height)) } else { parse_size(size)? };
    let frame_rate = match rate {
        Some(rate) => rate.parse()?,
        None => options.frame_rate.unwrap_or(default.frame_rate),
    };
    Ok(VideoFormat { width, height, frame_rate })
}

/// The endless pictures of a generated clip, from the first one on.
#[derive(Debug)]
pub struct GeneratedSource {
    clip: GeneratedClip,
    index: u64,
}

impl GeneratedSource {
    /// Starts at the first picture of the clip. A scene is painted with its first picture, or in advance by
    /// [`Source::prepare`].
    #[must_use]
    pub fn new(clip: GeneratedClip) -> Self {
        Self { clip, index: 0 }
    }
}

impl Source for GeneratedSource {
    fn is_screen(&self) -> bool {
        self.clip.is_screen()
    }

    fn format(&self) -> VideoFormat {
        self.clip.format()
    }

    fn prepare(&mut self) {
        self.clip.prepare();
    }

    fn next(&mut self) -> Result<Option<Picture>, SourceError> {
        let picture = self.clip.picture(self.index);
        self.index += 1;
        Ok(Some(picture))
    }
}

/// The pictures of a y4m file or stream.
#[derive(Debug)]
pub struct Y4mSource<R = File> {
    path: PathBuf,
    reader: Y4mReader<BufReader<R>>,
}

impl Y4mSource {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// If the file cannot be opened, is not y4m of 8-bit 4:2:0, or has no picture.
    pub fn open(path: &Path) -> Result<Self, SourceError> {
        let file = open_input(path).map_err(|error| SourceError::Open { path: path.to_owned(), error })?;
        Self::from_reader(path, file)?.with_pictures()
    }
}

impl<R: Read> Y4mSource<R> {
    /// Reads the header from `reader`. Errors call it `name`.
    ///
    /// # Errors
    /// If the input is not y4m of 8-bit 4:2:0.
    pub fn from_reader(name: &Path, reader: R) -> Result<Self, SourceError> {
        let reader = Y4mReader::new(BufReader::new(reader))
            .map_err(|error| SourceError::Y4m { path: name.to_owned(), error })?;
        Ok(Self { path: name.to_owned(), reader })
    }

    /// Returns the source if at least one picture follows the header.
    fn with_pictures(mut self) -> Result<Self, SourceError> {
        match self.reader.is_at_end() {
            Ok(false) => Ok(self),
            Ok(true) => Err(SourceError::NoPictures { path: self.path }),
            Err(error) => Err(SourceError::Y4m { path: self.path, error }),
        }
    }
}

impl<R: Read + Send> Source for Y4mSource<R> {
    fn format(&self) -> VideoFormat {
        self.reader.format()
    }

    fn next(&mut self) -> Result<Option<Picture>, SourceError> {
        self.reader.read_picture().map_err(|error| SourceError::Y4m { path: self.path.clone(), error })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format_of(specification: &str) -> String {
        open_source(specification, &SourceOptions::default()).unwrap().format().to_string()
    }

    #[test]
    fn name_of_a_generated_clip_sets_size_and_rate() {
        assert_eq!(format_of("generated:64x36@25"), "64x36@25");
        assert_eq!(format_of("generated:64x36@25,content=screen"), "64x36@25");
        for (specification, is_screen) in
            [("generated", false), ("generated,content=screen", true), ("generated:page", true)]
        {
            assert_eq!(
                open_source(specification, &SourceOptions::default()).unwrap().is_screen(),
                is_screen,
                "{specification}"
            );
        }
        assert_eq!(format_of("generated:64x36"), "64x36@30");
        let options = SourceOptions { size: Some((32, 18)), frame_rate: FrameRate::new(15, 1), seed: 0 };
        assert_eq!(open_source("generated", &options).unwrap().format().to_string(), "32x18@15");
        assert_eq!(open_source("generated:@10", &options).unwrap().format().to_string(), "32x18@10");
    }

    #[test]
    fn invalid_size_is_refused() {
        for wrong in ["generated:64", "generated:64x36@0", "generated:0x0", "generated:16383x16383"] {
            assert!(open_source(wrong, &SourceOptions::default()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn error_of_a_missing_camera_names_an_alternative() {
        let Err(error) = open_source("/dev/video97", &SourceOptions::default()) else { panic!("a camera?") };
        let text = error.to_string();
        assert!(text.starts_with("no camera at /dev/video97: "), "{text}");
        assert!(text.ends_with("; plug one in or choose --source generated"), "{text}");
    }

    #[test]
    fn error_of_a_missing_file_names_it() {
        let Err(error) = open_source("/nowhere/at/all.y4m", &SourceOptions::default()) else { panic!() };
        assert!(error.to_string().contains("/nowhere/at/all.y4m"), "{error}");
    }

    #[test]
    fn file_without_pictures_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("none.y4m");
        for (bytes, is_one) in
            [(&b"YUV4MPEG2 W2 H2 F30:1\n"[..], false), (b"YUV4MPEG2 W2 H2 F30:1\nFRAME\n123456", true)]
        {
            std::fs::write(&path, bytes).unwrap();
            let opened = Y4mSource::open(&path).map(drop).map_err(|error| error.to_string());
            assert_eq!(opened, if is_one { Ok(()) } else { Err(format!("{}: no pictures", path.display())) });
        }
    }

    #[test]
    fn generated_source_is_endless_and_moves() {
        let mut source = open_source("generated:64x48", &SourceOptions::default()).unwrap();
        let first = source.next().unwrap().unwrap();
        assert_ne!(first, source.next().unwrap().unwrap());
        assert!(!source.is_live());
    }
}
