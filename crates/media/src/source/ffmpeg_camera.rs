//! Cameras that the ffmpeg command reads: all of Windows and macOS, and on Linux those with only H.264.

use std::path::{Path, PathBuf};

use lockstep_vp8::Picture;

use super::ffmpeg::FfmpegSource;
use super::{Source, SourceError};
use crate::format::VideoFormat;

/// An input device of ffmpeg.
#[derive(Debug, Clone, Copy)]
pub(super) struct InputDevice {
    /// Options that choose it.
    options: &'static [&'static str],
    /// Text before the name of a camera.
    prefix: &'static str,
}

/// Video4Linux2, for H.264.
#[cfg(target_os = "linux")]
pub(super) const H264_OF_LINUX: InputDevice =
    InputDevice { options: &["-f", "v4l2", "-input_format", "h264"], prefix: "" };
/// DirectShow, whose cameras have names.
#[cfg(any(test, windows))]
pub(super) const DIRECT_SHOW: InputDevice = InputDevice { options: &["-f", "dshow"], prefix: "video=" };
/// AVFoundation, whose cameras have numbers.
#[cfg(any(test, target_os = "macos"))]
pub(super) const AV_FOUNDATION: InputDevice = InputDevice { options: &["-f", "avfoundation"], prefix: "" };
#[cfg(target_os = "macos")]
pub(super) use AV_FOUNDATION as OF_THIS_SYSTEM;
/// That of this system.
#[cfg(windows)]
pub(super) use DIRECT_SHOW as OF_THIS_SYSTEM;

impl InputDevice {
    /// Options of ffmpeg before the camera. Its decoder keeps no pictures back.
    fn arguments(self, wanted: VideoFormat) -> Vec<String> {
        let VideoFormat { width, height, frame_rate } = wanted;
        let (size, rate) = (format!("{width}x{height}"), frame_rate.to_string());
        let fast = ["-fflags", "nobuffer", "-flags", "low_delay"];
        let format = ["-video_size", &size, "-framerate", &rate];
        fast.iter().chain(self.options).chain(&format).map(|&word| word.to_owned()).collect()
    }

    fn input(self, camera: &Path) -> String {
        format!("{}{}", self.prefix, camera.display())
    }

    /// Device and name of each camera.
    ///
    /// # Errors
    /// ffmpeg cannot be started.
    #[cfg(any(windows, target_os = "macos"))]
    pub(super) fn cameras(self) -> Result<Vec<(String, String)>, SourceError> {
        use std::io::{ErrorKind, Read};
        use std::process::{Command, Stdio};

        /// Bytes of the list that are read.
        const MAX_LIST: u64 = 64 << 10;

        let failed = |error: std::io::Error| match error.kind() {
            ErrorKind::NotFound => SourceError::FfmpegMissing { input: "camera".to_owned() },
            _ => SourceError::FfmpegStart { input: "camera".to_owned(), error },
        };
        let mut command = Command::new("ffmpeg");
        command.args(["-nostdin", "-hide_banner"]).args(self.options).args(["-list_devices", "true", "-i", "dummy"]);
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().map_err(failed)?;
        let mut list = Vec::new();
        if let Some(words) = child.stderr.take() {
            words.take(MAX_LIST).read_to_end(&mut list).map_err(failed)?;
        }
        // ffmpeg always fails here, because there is no input.
        child.wait().map_err(failed)?;
        Ok(listed(&String::from_utf8_lossy(&list)))
    }
}

/// Device and name of each camera in the lists of DirectShow (`"Name" (video)`) and AVFoundation (`[0] Name`).
#[cfg(any(test, windows, target_os = "macos"))]
fn listed(words: &str) -> Vec<(String, String)> {
    let texts = words.lines().filter_map(|line| line.split_once("] ")).map(|(_, text)| text.trim());
    // Microphones follow in the same list.
    let texts =
        texts.take_while(|text| !text.contains("Show audio devices") && !text.contains("Foundation audio devices"));
    texts
        .filter_map(|text| {
            if let Some((name, kind)) = text.strip_prefix('"').and_then(|text| text.split_once('"')) {
                let is_camera = kind.is_empty() || kind.contains("video");
                return is_camera.then(|| (name.to_owned(), name.to_owned()));
            }
            let (number, name) = text.strip_prefix('[')?.split_once("] ")?;
            number.parse::<u32>().is_ok().then(|| (number.to_owned(), name.to_owned()))
        })
        .collect()
}

/// The pictures of a camera. The source is live.
pub(super) struct FfmpegCamera {
    through: InputDevice,
    device: PathBuf,
    format: VideoFormat,
    /// None while the source is paused.
    source: Option<FfmpegSource>,
}

impl FfmpegCamera {
    /// Opens a camera through an input device, with the size and frame rate of `wanted`.
    ///
    /// # Errors
    /// See [`FfmpegSource::open`].
    pub(super) fn open(through: InputDevice, device: &Path, wanted: VideoFormat) -> Result<Self, SourceError> {
        let source = Self::start(through, device, wanted)?;
        Ok(Self { through, device: device.to_owned(), format: source.format(), source: Some(source) })
    }

    fn start(through: InputDevice, device: &Path, wanted: VideoFormat) -> Result<FfmpegSource, SourceError> {
        FfmpegSource::open_device(&through.arguments(wanted), &through.input(device))
    }
}

impl Source for FfmpegCamera {
    fn format(&self) -> VideoFormat {
        self.format
    }

    fn next(&mut self) -> Result<Option<Picture>, SourceError> {
        if self.source.is_none() {
            let source = Self::start(self.through, &self.device, self.format)?;
            let (before, now) = (self.format, source.format());
            if (before.width, before.height) != (now.width, now.height) {
                let reason = format!("it gives {now} now, and gave {before} before");
                return Err(SourceError::Camera { device: self.device.clone(), reason });
            }
            self.source = Some(source);
        }
        let Some(source) = &mut self.source else { return Ok(None) };
        // A camera has no end.
        source
            .next()?
            .map(Some)
            .ok_or_else(|| SourceError::Camera { device: self.device.clone(), reason: "its pictures ended".to_owned() })
    }

    fn rest(&mut self) {
        self.source = None;
    }

    fn is_live(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn h264_of_a_camera_is_read_in_the_wanted_format() {
        let arguments = H264_OF_LINUX.arguments(VideoFormat { width: 640, height: 360, ..VideoFormat::default() });
        let expected = "-f v4l2 -input_format h264 -video_size 640x360 -framerate 30";
        assert!(arguments.join(" ").ends_with(expected), "{arguments:?}");
    }

    #[test]
    fn camera_of_windows_is_named_and_one_of_macos_numbered() {
        assert_eq!(DIRECT_SHOW.input(Path::new("Integrated Camera")), "video=Integrated Camera");
        assert_eq!(AV_FOUNDATION.input(Path::new("0")), "0");
        let arguments = AV_FOUNDATION.arguments(VideoFormat::default()).join(" ");
        assert!(arguments.ends_with("-f avfoundation -video_size 1280x720 -framerate 30"), "{arguments}");
    }

    #[test]
    fn cameras_are_found_among_the_devices_of_ffmpeg() {
        let new = "[dshow @ 000] \"Integrated Camera\" (video)\n\
            [dshow @ 000]   Alternative name \"@device_pnp_1\"\n\
            [dshow @ 000] \"Capture [1] card\" (video, audio)\n\
            [dshow @ 000] \"Microphone Array\" (audio)\n\
            dummy: Immediate exit requested\n";
        let names = |words: &str| listed(words).into_iter().map(|(_, name)| name).collect::<Vec<_>>();
        assert_eq!(names(new), ["Integrated Camera", "Capture [1] card"]);
        let old = "[dshow @ 03ACF580] DirectShow video devices (some may be both video and audio devices)\n\
            [dshow @ 03ACF580]  \"Integrated Camera\"\n\
            [dshow @ 03ACF580] DirectShow audio devices\n\
            [dshow @ 03ACF580]  \"Internal Microphone\"\n";
        assert_eq!(names(old), ["Integrated Camera"]);
        let mac = "[AVFoundation indev @ 0x7f] AVFoundation video devices:\n\
            [AVFoundation indev @ 0x7f] [0] FaceTime HD Camera\n\
            [AVFoundation indev @ 0x7f] [1] Capture screen 0\n\
            [AVFoundation indev @ 0x7f] AVFoundation audio devices:\n\
            [AVFoundation indev @ 0x7f] [0] MacBook Microphone\n";
        let [first, second] = [("0", "FaceTime HD Camera"), ("1", "Capture screen 0")];
        assert_eq!(listed(mac), [first, second].map(|(device, name)| (device.to_owned(), name.to_owned())));
        assert!(listed("").is_empty() && listed("Unknown input format: 'dshow'").is_empty());
    }
}
