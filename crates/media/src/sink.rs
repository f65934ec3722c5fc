//! Where pictures go.

pub(crate) mod window;

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use lockstep_vp8::Picture;

use crate::format::VideoFormat;
use crate::ivf::{IvfError, IvfWriter};
use crate::y4m::{Y4mError, Y4mWriter};

/// Takes pictures one after the other.
pub trait Sink: Send {
    /// Takes the next picture, and the coded `frame` that it was decoded from, for sinks that store coded video (empty
    /// where there is none).
    ///
    /// # Errors
    /// If the sink can take no more pictures.
    fn show(&mut self, picture: &Picture, frame: &[u8]) -> Result<(), SinkError>;

    /// Ends the output: files are complete after it. Showing more is an error.
    ///
    /// # Errors
    /// If the output cannot be completed.
    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

/// Why a sink takes no picture.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SinkError {
    /// The name is none of a sink.
    #[error("sink \"{0}\" is none of: none, window, FILE.y4m, FILE.ivf")]
    Specification(String),
    /// A file cannot be made.
    #[error("cannot write {path}: {error}")]
    Create {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// Writing y4m failed.
    #[error("{path}: {error}")]
    Y4m {
        /// The file.
        path: PathBuf,
        /// Why.
        error: Y4mError,
    },
    /// Writing IVF failed.
    #[error("{path}: {error}")]
    Ivf {
        /// The file.
        path: PathBuf,
        /// Why.
        error: IvfError,
    },
    /// A picture came without its coded frame.
    #[error("{path}: an ivf file takes coded frames, and this picture has none")]
    NoFrame {
        /// The file.
        path: PathBuf,
    },
    /// The sink was finished before.
    #[error("the sink is finished and takes no more pictures")]
    Finished,
    /// There is no display to open a window on.
    #[error("no display: {reason}; set DISPLAY or use --sink none")]
    Display {
        /// What the window system said.
        reason: String,
    },
    /// The person closed the window.
    #[error("the window was closed")]
    WindowClosed,
}

/// Opens the sink that `specification` names: `none`, `window`, a file that ends in `.y4m` (pictures) or in `.ivf`
/// (coded frames). Pictures must have the size that `format` says.
///
/// # Errors
/// If the sink cannot be opened.
pub fn open_sink(specification: &str, format: VideoFormat) -> Result<Box<dyn Sink>, SinkError> {
    let lower = specification.to_ascii_lowercase();
    Ok(match specification {
        "none" => Box::new(DiscardSink),
        "window" => Box::new(window::WindowSink::open("Lockstep", format)?),
        path if lower.ends_with(".y4m") => Box::new(Y4mSink::create(Path::new(path), format)?),
        path if lower.ends_with(".ivf") => Box::new(IvfSink::create(Path::new(path), format)?),
        other => return Err(SinkError::Specification(other.to_owned())),
    })
}

fn create(path: &Path) -> Result<BufWriter<File>, SinkError> {
    let file = File::create(path).map_err(|error| SinkError::Create { path: path.to_owned(), error })?;
    Ok(BufWriter::with_capacity(1 << 16, file))
}

/// Takes pictures and forgets them.
#[derive(Debug, Clone, Copy, Default)]
pub struct DiscardSink;

impl Sink for DiscardSink {
    fn show(&mut self, _: &Picture, _: &[u8]) -> Result<(), SinkError> {
        Ok(())
    }
}

/// Writes pictures to a y4m file.
#[derive(Debug)]
pub struct Y4mSink {
    path: PathBuf,
    writer: Option<Y4mWriter<BufWriter<File>>>,
}

impl Y4mSink {
    /// Makes the file, or empties it.
    ///
    /// # Errors
    /// If that fails.
    pub fn create(path: &Path, format: VideoFormat) -> Result<Self, SinkError> {
        let writer =
            Y4mWriter::new(create(path)?, format).map_err(|error| SinkError::Y4m { path: path.to_owned(), error })?;
        Ok(Self { path: path.to_owned(), writer: Some(writer) })
    }
}

impl Sink for Y4mSink {
    fn show(&mut self, picture: &Picture, _: &[u8]) -> Result<(), SinkError> {
        let writer = self.writer.as_mut().ok_or(SinkError::Finished)?;
        writer.write_picture(picture).map_err(|error| SinkError::Y4m { path: self.path.clone(), error })
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        let finished = self.writer.take().map(Y4mWriter::finish).transpose();
        finished.map(drop).map_err(|error| SinkError::Y4m { path: self.path.clone(), error })
    }
}

/// Writes coded frames to an IVF file, one a frame interval. Finished when it is dropped, if it was not before.
#[derive(Debug)]
pub struct IvfSink {
    path: PathBuf,
    writer: Option<IvfWriter<BufWriter<File>>>,
    frames: u64,
}

impl IvfSink {
    /// Makes the file, or empties it.
    ///
    /// # Errors
    /// If that fails.
    pub fn create(path: &Path, format: VideoFormat) -> Result<Self, SinkError> {
        let writer =
            IvfWriter::new(create(path)?, format).map_err(|error| SinkError::Ivf { path: path.to_owned(), error })?;
        Ok(Self { path: path.to_owned(), writer: Some(writer), frames: 0 })
    }
}

impl Sink for IvfSink {
    fn show(&mut self, _: &Picture, frame: &[u8]) -> Result<(), SinkError> {
        if frame.is_empty() {
            return Err(SinkError::NoFrame { path: self.path.clone() });
        }
        let writer = self.writer.as_mut().ok_or(SinkError::Finished)?;
        writer.write_frame(self.frames, frame).map_err(|error| SinkError::Ivf { path: self.path.clone(), error })?;
        self.frames += 1;
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        let finished = self.writer.take().map(IvfWriter::finish).transpose();
        finished.map(drop).map_err(|error| SinkError::Ivf { path: self.path.clone(), error })
    }
}

impl Drop for IvfSink {
    fn drop(&mut self) {
        let _ = self.finish();
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
    fn a_y4m_sink_keeps_pictures_and_an_ivf_sink_keeps_frames() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let picture = Picture::from_i420(4, 2, (0..12).collect()).unwrap();
        for name in ["out.y4m", "out.ivf", "dropped.ivf"] {
            let mut sink = open_sink(path(name).to_str().unwrap(), format()).unwrap();
            sink.show(&picture, b"frame").unwrap();
            if name != "dropped.ivf" {
                sink.finish().unwrap();
                assert!(matches!(sink.show(&picture, b"frame"), Err(SinkError::Finished)));
            }
        }
        assert_eq!(Y4mReader::new(open(&path("out.y4m"))).unwrap().read_picture().unwrap(), Some(picture));
        for name in ["out.ivf", "dropped.ivf"] {
            let mut reader = IvfReader::new(open(&path(name))).unwrap();
            assert_eq!(reader.header().frames, 1);
            assert_eq!(reader.read_frame().unwrap().unwrap().data, b"frame");
        }
    }

    #[test]
    fn an_ivf_sink_without_coded_frames_says_so() {
        let directory = tempfile::tempdir().unwrap();
        let mut sink = IvfSink::create(&directory.path().join("a.ivf"), format()).unwrap();
        let picture = Picture::from_i420(4, 2, vec![0; 12]).unwrap();
        assert!(matches!(sink.show(&picture, &[]), Err(SinkError::NoFrame { .. })));
    }

    #[test]
    fn unknown_sinks_and_places_that_cannot_be_written_are_errors() {
        assert!(matches!(open_sink("out.mp4", format()), Err(SinkError::Specification(_))));
        assert!(matches!(open_sink("/nowhere/out.y4m", format()), Err(SinkError::Create { .. })));
        assert!(open_sink("none", format()).is_ok());
    }
}
