//! Reads any input of the ffmpeg command, which decodes and scales. Its pictures come through a pipe as y4m.

use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;

use lockstep_units::{MAX_FRAME_RATE, is_fifo, open_input};
use lockstep_vp8::Picture;

use super::{STANDARD_INPUT, Source, SourceError, SourceOptions};
use crate::error_output::{ErrorOutput, ffmpeg_reason};
use crate::format::VideoFormat;
use crate::y4m::{Y4mError, Y4mReader};

/// ffmpeg's name for its standard input.
const PIPE: &str = "-";

/// The pictures of an ffmpeg process. Dropping the source ends the process.
#[derive(Debug)]
pub struct FfmpegSource {
    reader: Y4mReader<BufReader<ChildStdout>>,
    process: Process,
    ended: bool,
}

#[derive(Debug)]
struct Process {
    child: Child,
    input: String,
    /// None if the process had no pipe for it.
    errors: Option<ErrorOutput>,
}

impl FfmpegSource {
    /// Starts `ffmpeg` on `input`, any argument of its `-i`. It scales and resamples to the size and rate of `options`,
    /// if set.
    ///
    /// # Errors
    /// If ffmpeg is not installed or cannot read the input.
    pub fn open(input: &str, options: &SourceOptions) -> Result<Self, SourceError> {
        let path = Path::new(input);
        if is_fifo(path) {
            // ffmpeg would wait for a writer without a word.
            let pipe = open_input(path).map_err(|error| SourceError::Open { path: path.to_owned(), error })?;
            return Self::open_with("ffmpeg", &[], input, Some(Box::new(pipe)), options);
        }
        Self::open_with("ffmpeg", &[], input, None, options)
    }

    /// Starts `ffmpeg` on `input`, which it reads with the options `before`.
    ///
    /// # Errors
    /// See [`FfmpegSource::open`].
    #[cfg(feature = "camera")]
    pub(super) fn open_device(before: &[String], input: &str) -> Result<Self, SourceError> {
        Self::open_with("ffmpeg", before, input, None, &SourceOptions::default())
    }

    /// Starts `ffmpeg` on the bytes of `pipe`. Errors call it standard input.
    ///
    /// # Errors
    /// See [`FfmpegSource::open`].
    pub(super) fn open_pipe(pipe: Box<dyn Read + Send>, options: &SourceOptions) -> Result<Self, SourceError> {
        Self::open_with("ffmpeg", &[], STANDARD_INPUT, Some(pipe), options)
    }

    fn open_with(
        program: &str,
        before: &[String],
        input: &str,
        pipe: Option<Box<dyn Read + Send>>,
        options: &SourceOptions,
    ) -> Result<Self, SourceError> {
        let start = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => SourceError::FfmpegMissing { input: input.to_owned() },
            _ => SourceError::FfmpegStart { input: input.to_owned(), error },
        };
        let mut command = Command::new(program);
        let from = if pipe.is_some() { PIPE } else { input };
        command.args(["-nostdin", "-hide_banner", "-loglevel", "error"]).args(before).args(["-i", from]);
        // Filters instead of `-s` and `-r`: `-r` repeats pictures at the end.
        let mut filters = Vec::new();
        filters.extend(options.size.map(|(width, height)| format!("scale={width}:{height}")));
        filters.extend(options.frame_rate.map(|rate| format!("fps={rate}")));
        if !filters.is_empty() {
            command.args(["-vf", &filters.join(",")]);
        }
        command.args(["-an", "-sn", "-dn", "-f", "yuv4mpegpipe", "-pix_fmt", "yuv420p", "-"]);
        let input_end = if pipe.is_some() { Stdio::piped() } else { Stdio::null() };
        command.stdin(input_end).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(start)?;
        let (bytes, pictures) = (child.stdin.take(), child.stdout.take());
        let errors = child.stderr.take();
        let mut process = Process { child, input: input.to_owned(), errors: None };
        process.errors = errors.map(ErrorOutput::of).transpose().map_err(start)?;
        if let (Some(mut pipe), Some(mut bytes)) = (pipe, bytes) {
            // The thread ends when the pipe or ffmpeg ends.
            let feed = thread::Builder::new().name("pipe".to_owned());
            feed.spawn(move || drop(io::copy(&mut pipe, &mut bytes))).map_err(start)?;
        }
        let Some(pictures) = pictures else { return Err(process.failure(None)) };
        match Y4mReader::new(BufReader::new(pictures)) {
            Ok(reader) => Ok(Self { reader, process, ended: false }),
            Err(error) => Err(process.failure(Some(error))),
        }
    }
}

impl Process {
    /// Waits for the process. An error if it failed.
    fn end(&mut self) -> Result<(), SourceError> {
        match self.child.wait() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(self.error_from_output(&format!("it ended with {status}"))),
            Err(error) => Err(SourceError::FfmpegStart { input: self.input.clone(), error }),
        }
    }

    /// The cause of bad output: the failure of the process, else `error`.
    fn failure(&mut self, error: Option<Y4mError>) -> SourceError {
        let at_end = matches!(error, None | Some(Y4mError::Truncated { .. } | Y4mError::Magic));
        if !at_end {
            let _ = self.child.kill(); // it may write for hours
        }
        match (self.end(), error) {
            (Err(failure), _) if at_end => failure,
            (_, Some(error)) => self.unsuited(error),
            (_, None) => self.error_from_output("it wrote nothing"),
        }
    }

    /// Rewords an error of the y4m reader for the input of ffmpeg: the user does not know about y4m.
    fn unsuited(&self, error: Y4mError) -> SourceError {
        let input = if self.input == STANDARD_INPUT { PIPE.to_owned() } else { self.input.clone() };
        match error {
            Y4mError::Interlaced => {
                SourceError::Unsuited { input, problem: "is interlaced".to_owned(), filter: "yadif" }
            }
            Y4mError::Rate { numerator, denominator } => {
                let rate = f64::from(numerator) / f64::from(denominator);
                let problem = format!("has {rate} pictures a second, more than {MAX_FRAME_RATE}");
                SourceError::Unsuited { input, problem, filter: "fps=30" }
            }
            error => SourceError::Y4m { path: PathBuf::from(&self.input), error },
        }
    }

    fn error_from_output(&mut self, otherwise: &str) -> SourceError {
        let text = self.errors.as_ref().map(ErrorOutput::text).unwrap_or_default();
        let reason = ffmpeg_reason(&text).unwrap_or_else(|| otherwise.to_owned());
        SourceError::Ffmpeg { input: self.input.clone(), reason }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Source for FfmpegSource {
    fn format(&self) -> VideoFormat {
        self.reader.format()
    }

    fn next(&mut self) -> Result<Option<Picture>, SourceError> {
        if self.ended {
            return Ok(None);
        }
        match self.reader.read_picture() {
            Ok(Some(picture)) => Ok(Some(picture)),
            Ok(None) => {
                self.ended = true;
                self.process.end().map(|()| None)
            }
            Err(error) => {
                self.ended = true;
                Err(self.process.failure(Some(error)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn installed() -> bool {
        let installed = Command::new("ffmpeg").arg("-version").stdout(Stdio::null()).status().is_ok();
        if !installed {
            eprintln!("skipped: ffmpeg is not installed");
        }
        installed
    }

    #[test]
    fn error_of_a_missing_ffmpeg_names_the_package() {
        let error =
            FfmpegSource::open_with("no-such-ffmpeg", &[], "clip.mp4", None, &SourceOptions::default()).unwrap_err();
        assert!(error.to_string().contains("apt install ffmpeg"), "{error}");
    }

    #[test]
    fn error_contains_the_message_of_ffmpeg() {
        if !installed() {
            return;
        }
        let error = FfmpegSource::open("/nowhere/clip.mp4", &SourceOptions::default()).unwrap_err();
        assert!(error.to_string().contains("No such file"), "{error}");
    }

    #[test]
    fn clip_is_scaled_and_resampled_and_ends() {
        if !installed() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("clip.mkv");
        let made = Command::new("ffmpeg")
            .args(["-loglevel", "error", "-f", "lavfi", "-i", "testsrc=size=64x48:rate=10:duration=1", "-c:v", "ffv1"])
            .arg(&path)
            .status()
            .unwrap();
        assert!(made.success());
        let options = SourceOptions { size: Some((32, 20)), frame_rate: "5".parse().ok(), seed: 0 };
        let mut source = FfmpegSource::open(path.to_str().unwrap(), &options).unwrap();
        assert_eq!(source.format().to_string(), "32x20@5");
        let mut pictures = 0;
        while let Some(picture) = source.next().unwrap() {
            assert_eq!((picture.width(), picture.height()), (32, 20));
            pictures += 1;
        }
        assert_eq!(pictures, 5);
        assert!(source.next().unwrap().is_none());
    }

    #[test]
    fn error_of_an_unsupported_video_names_the_conversion() {
        if !installed() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let refused = |name: &str, source: &str, options: &[&str]| {
            let path = directory.path().join(name);
            let input = path.to_str().unwrap().to_owned();
            let made = Command::new("ffmpeg")
                .args(["-loglevel", "error", "-f", "lavfi", "-i", source])
                .args(options)
                .arg(&path)
                .status()
                .unwrap();
            assert!(made.success());
            let error = FfmpegSource::open(&input, &SourceOptions::default()).unwrap_err().to_string();
            assert!(error.starts_with(&input) && !error.contains("y4m video"), "{error}");
            assert!(error.contains(&format!("ffmpeg -i {input} -vf")), "{error}");
            error
        };
        let clip = "testsrc=size=64x48:rate=10:duration=0.5";
        let interlaced = ["-vf", "setfield=tff", "-c:v", "mpeg4", "-flags", "+ildct+ilme"];
        let error = refused("interlaced.mp4", clip, &interlaced);
        assert!(error.contains("is interlaced") && error.contains("yadif"), "{error}");
        let error = refused("fast.mp4", "testsrc=size=64x48:rate=2000:duration=0.01", &["-c:v", "mpeg4"]);
        assert!(error.contains("2000 pictures a second, more than 1000") && error.contains("fps=30"), "{error}");
    }

    #[test]
    fn y4m_with_more_colour_or_depth_is_converted() {
        if !installed() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        for (name, luma, chroma) in [("444", 64 * 48, 64 * 48), ("mono", 64 * 48, 0), ("420p10", 2 * 64 * 48, 64 * 24)]
        {
            let path = directory.path().join(format!("{name}.y4m"));
            let frame = [b"FRAME\n".as_slice(), &vec![1; luma], &vec![1; 2 * chroma]].concat();
            let header = format!("YUV4MPEG2 W64 H48 F10:1 C{name}\n");
            std::fs::write(&path, [header.as_bytes(), &frame, &frame].concat()).unwrap();
            let mut source = super::super::open_source(path.to_str().unwrap(), &SourceOptions::default()).unwrap();
            assert_eq!(source.format().to_string(), "64x48@10", "{name}");
            assert_eq!(std::iter::from_fn(|| source.next().unwrap()).count(), 2, "{name}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn dropping_the_source_ends_the_process() {
        if !installed() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("clip.y4m");
        let made = Command::new("ffmpeg")
            .args(["-loglevel", "error", "-f", "lavfi", "-i", "testsrc=size=640x480:rate=30:duration=2"])
            .args(["-pix_fmt", "yuv420p"])
            .arg(&path)
            .status()
            .unwrap();
        assert!(made.success());
        let mut source = FfmpegSource::open(path.to_str().unwrap(), &SourceOptions::default()).unwrap();
        source.next().unwrap().unwrap();
        let process = format!("/proc/{}", source.process.child.id());
        assert!(std::path::Path::new(&process).exists());
        drop(source);
        assert!(!std::path::Path::new(&process).exists());
    }
}
