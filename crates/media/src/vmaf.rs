//! VMAF (Netflix), 0 to 100: quality of a video compared with its original. This crate does not link libvmaf; it runs
//! an ffmpeg with libvmaf.

use std::env;
use std::ffi::OsString;
use std::io::{self, BufWriter};
use std::process::{Child, ChildStdin, Command, Stdio};

use lockstep_vp8::Picture;

use crate::error_output::ErrorOutput;
use crate::ffmpeg_list::ffmpeg_list;
use crate::format::VideoFormat;
use crate::y4m::{Y4mError, Y4mWriter};

/// Environment variable with the path of an ffmpeg with libvmaf. The default is `ffmpeg`.
pub const VMAF_VARIABLE: &str = "LOCKSTEP_VMAF";

/// The filter graph: even pictures are originals, odd ones shown pictures. Picture numbers are the times, so that pairs
/// match.
const GRAPH: &str = "[0:v]split[a][b];[a]select='not(mod(n\\,2))',setpts=N[original];\
                     [b]select='mod(n\\,2)',setpts=N[shown];[shown][original]libvmaf";

/// Error of computing VMAF.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VmafError {
    /// The program cannot be started.
    #[error("no VMAF: cannot run {program}: {error}; LOCKSTEP_VMAF may name an ffmpeg with libvmaf")]
    Start {
        /// Path of the program.
        program: String,
        /// Error of the system.
        error: io::Error,
    },
    /// The program lacks libvmaf.
    #[error(
        "no VMAF: {program} has no libvmaf; LOCKSTEP_VMAF may name an ffmpeg that has it, such as the one in PyPI's \
         imageio-ffmpeg"
    )]
    NoLibvmaf {
        /// Path of the program.
        program: String,
    },
    /// A picture cannot be passed to the program.
    #[error("no VMAF: {0}")]
    Picture(#[from] Y4mError),
    /// The program failed, or received no picture.
    #[error("no VMAF: ffmpeg gave no score: {0}")]
    NoScore(String),
}

/// Compares videos picture by picture in a separate process.
#[derive(Debug)]
pub struct VmafMeter {
    child: Child,
    pictures: Option<Y4mWriter<BufWriter<ChildStdin>>>,
    errors: ErrorOutput,
}

fn program() -> OsString {
    env::var_os(VMAF_VARIABLE).unwrap_or_else(|| "ffmpeg".into())
}

impl VmafMeter {
    /// A meter for pictures of `format`.
    ///
    /// # Errors
    /// If there is no ffmpeg with libvmaf.
    pub fn start(format: VideoFormat) -> Result<Self, VmafError> {
        Self::start_with(program(), format)
    }

    fn start_with(program: OsString, format: VideoFormat) -> Result<Self, VmafError> {
        let name = program.to_string_lossy().into_owned();
        let failed = |error| VmafError::Start { program: name.clone(), error };
        let filters = ffmpeg_list(&program, "-filters").map_err(failed)?;
        if !filters.split_whitespace().any(|word| word == "libvmaf") {
            return Err(VmafError::NoLibvmaf { program: name });
        }
        let mut child = Command::new(&program)
            .args(["-hide_banner", "-nostats", "-loglevel", "info", "-f", "yuv4mpegpipe", "-i", "pipe:0"])
            .args(["-filter_complex", GRAPH, "-f", "null", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let (input, errors) = (child.stdin.take(), child.stderr.take());
        let errors = errors.ok_or_else(|| io::ErrorKind::BrokenPipe.into()).and_then(ErrorOutput::of);
        let errors = errors.map_err(|error| {
            let _ = child.kill();
            let _ = child.wait();
            failed(error)
        })?;
        let mut meter = Self { child, pictures: None, errors };
        if let Some(input) = input {
            meter.pictures = Some(Y4mWriter::new(BufWriter::with_capacity(1 << 20, input), format)?);
        }
        Ok(meter)
    }

    /// Adds a shown picture and its original.
    ///
    /// # Errors
    /// If a picture has another size than the format, or the process ended.
    pub fn compare(&mut self, original: &Picture, shown: &Picture) -> Result<(), VmafError> {
        if let Some(pictures) = &mut self.pictures {
            pictures.write_picture(original)?;
            pictures.write_picture(shown)?;
        }
        Ok(())
    }

    /// Mean VMAF of all pictures, 0 to 100.
    ///
    /// # Errors
    /// If the meter received no picture, or the process failed.
    pub fn finish(mut self) -> Result<f64, VmafError> {
        if let Some(pictures) = self.pictures.take() {
            drop(pictures.finish()?);
        }
        let status = self.child.wait().map_err(|error| VmafError::NoScore(error.to_string()))?;
        let text = self.errors.text();
        let score = text.rsplit_once("VMAF score:").and_then(|(_, rest)| rest.split_whitespace().next()?.parse().ok());
        let last = || text.lines().last().map_or_else(|| status.to_string(), str::to_owned);
        score.filter(|_| status.success()).ok_or_else(|| VmafError::NoScore(last()))
    }
}

impl Drop for VmafMeter {
    fn drop(&mut self) {
        drop(self.pictures.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clip::GeneratedClip;
    use crate::source::{GeneratedSource, Source};

    const FORMAT: (usize, usize) = (320, 180);

    fn pictures(count: usize) -> (VideoFormat, Vec<Picture>) {
        let format = VideoFormat { width: FORMAT.0, height: FORMAT.1, ..VideoFormat::default() };
        let mut source = GeneratedSource::new(GeneratedClip::new(format, 1).unwrap());
        (format, (0..count).map(|_| source.next().unwrap().unwrap()).collect())
    }

    #[test]
    fn error_names_a_program_without_libvmaf() {
        let (format, _) = pictures(1);
        let error = VmafMeter::start_with("no-such-ffmpeg".into(), format).unwrap_err().to_string();
        assert!(error.contains("no-such-ffmpeg") && error.contains(VMAF_VARIABLE), "{error}");
        let error = VmafMeter::start_with("true".into(), format).unwrap_err().to_string();
        assert!(error.contains("has no libvmaf"), "{error}");
    }

    #[test]
    #[cfg(unix)]
    fn endless_output_of_the_program_is_an_error() {
        let (format, _) = pictures(1);
        // `yes` repeats its arguments.
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("endless");
        std::fs::write(&program, "#!/bin/sh\nexec yes -- \"$@\"\n").unwrap();
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let error = VmafMeter::start_with(program.into(), format).unwrap_err().to_string();
        assert!(error.contains("endless") && error.contains("more than 1048576 bytes"), "{error}");
    }

    #[test]
    fn equal_videos_score_high_and_frozen_video_lower() {
        let (format, pictures) = pictures(20);
        let Ok(mut same) = VmafMeter::start(format) else {
            eprintln!("skipped: no ffmpeg with libvmaf; {VMAF_VARIABLE} may name one");
            return;
        };
        let mut frozen = VmafMeter::start(format).unwrap();
        for picture in &pictures {
            same.compare(picture, picture).unwrap();
            frozen.compare(picture, &pictures[0]).unwrap();
        }
        let (same, frozen) = (same.finish().unwrap(), frozen.finish().unwrap());
        assert!(same > 95.0, "{same}");
        assert!(frozen < same - 10.0, "{frozen} frozen, {same} equal");
    }

    #[test]
    fn empty_video_has_no_score() {
        let (format, _) = pictures(1);
        let Ok(meter) = VmafMeter::start(format) else { return };
        assert!(matches!(meter.finish(), Err(VmafError::NoScore(_))));
    }
}
