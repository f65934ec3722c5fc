//! Reads pictures from standard input: y4m, or any format that ffmpeg reads from a pipe.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use super::ffmpeg::FfmpegSource;
use super::{STANDARD_INPUT as NAME, Source, SourceError, SourceOptions, Y4mSource};
use crate::y4m::{MAX_LINE, Y4mError, Y4mReader};

/// Opens standard input.
///
/// # Errors
/// If the input has no pictures, or ffmpeg is required and cannot read it.
pub(super) fn open(options: &SourceOptions) -> Result<Box<dyn Source>, SourceError> {
    let input = duplicate().map_err(|error| SourceError::Open { path: PathBuf::from(NAME), error })?;
    open_pipe(BufReader::new(input), options)
}

/// Standard input without the buffer of Rust.
fn duplicate() -> io::Result<File> {
    #[cfg(unix)]
    let input = std::os::fd::AsFd::as_fd(&io::stdin()).try_clone_to_owned()?;
    #[cfg(windows)]
    let input = std::os::windows::io::AsHandle::as_handle(&io::stdin()).try_clone_to_owned()?;
    #[cfg(any(unix, windows))]
    return Ok(File::from(input));
    #[cfg(not(any(unix, windows)))]
    Err(io::ErrorKind::Unsupported.into())
}

fn open_pipe(
    mut input: impl BufRead + Send + 'static,
    options: &SourceOptions,
) -> Result<Box<dyn Source>, SourceError> {
    let name = Path::new(NAME);
    // The first line identifies the format. It is read again with the rest.
    let mut start = Vec::new();
    let read = input.by_ref().take(MAX_LINE as u64).read_until(b'\n', &mut start);
    read.map_err(|error| SourceError::Open { path: name.to_owned(), error })?;
    if start.is_empty() {
        return Err(SourceError::NoPictures { path: name.to_owned() });
    }
    let header = Y4mReader::new(start.as_slice()).map(drop);
    let whole = Cursor::new(start).chain(input);
    let convert = |whole| FfmpegSource::open_pipe(whole, options);
    match header {
        Ok(()) if options.size.is_none() && options.frame_rate.is_none() => {
            Ok(Box::new(Y4mSource::from_reader(name, whole)?.with_pictures()?))
        }
        Ok(()) | Err(Y4mError::Magic) => Ok(Box::new(convert(Box::new(whole))?)),
        // ffmpeg converts the input if it is installed. Otherwise the error names the command.
        Err(error @ Y4mError::Colour { .. }) => match convert(Box::new(whole)) {
            Err(SourceError::FfmpegMissing { .. }) => Err(SourceError::Y4m { path: name.to_owned(), error }),
            converted => Ok(Box::new(converted?)),
        },
        Err(error) => Err(SourceError::Y4m { path: name.to_owned(), error }),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    const HEADER: &[u8] = b"YUV4MPEG2 W4 H2 F10:1\n";

    fn piped(bytes: impl Into<Vec<u8>>) -> Result<Box<dyn Source>, String> {
        let options = SourceOptions::default();
        open_pipe(Cursor::new(bytes.into()), &options).map_err(|error| error.to_string())
    }

    #[test]
    fn piped_y4m_is_read() {
        let frame = [b"FRAME\n".as_slice(), &[7; 12]].concat();
        let mut source = piped([HEADER, &frame, &frame].concat()).unwrap();
        assert_eq!(source.format().to_string(), "4x2@10");
        assert_eq!(std::iter::from_fn(|| source.next().unwrap()).count(), 2);
    }

    #[test]
    fn truncated_y4m_pipe_is_an_error_after_its_pictures() {
        let frame = [b"FRAME\n".as_slice(), &[7; 12]].concat();
        let mut source = piped([HEADER, &frame, &frame[..9]].concat()).unwrap();
        assert!(source.next().unwrap().is_some());
        let error = source.next().unwrap_err().to_string();
        assert!(error.starts_with("standard input: y4m"), "{error}");
    }

    #[test]
    fn pipe_without_pictures_is_refused() {
        for bytes in [b"".as_slice(), HEADER] {
            assert_eq!(piped(bytes).err().as_deref(), Some("standard input: no pictures"));
        }
        let error = piped(b"YUV4MPEG2 W0 H2\n".as_slice()).err().unwrap();
        assert!(error.starts_with("standard input: y4m header field"), "{error}");
    }

    #[test]
    fn ffmpeg_reads_other_formats_from_a_pipe() {
        if Command::new("ffmpeg").arg("-version").output().is_err() {
            eprintln!("skipped: ffmpeg is not installed");
            return;
        }
        let made = Command::new("ffmpeg")
            .args(["-loglevel", "error", "-f", "lavfi", "-i", "testsrc=size=64x48:rate=10:duration=1", "-c:v", "ffv1"])
            .args(["-f", "matroska", "-"])
            .output()
            .unwrap();
        let mut source = piped(made.stdout).unwrap();
        assert_eq!(source.format().to_string(), "64x48@10");
        assert_eq!(std::iter::from_fn(|| source.next().unwrap()).count(), 10);
        let error = piped(b"no video at all".as_slice()).err().unwrap();
        assert!(error.starts_with("ffmpeg cannot read standard input: "), "{error}");
    }
}
