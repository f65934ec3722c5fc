//! Opens a camera. On Linux, the `linuxvideo` crate reads it through Video4Linux2. It is pure Rust and requires neither
//! libclang nor libv4l. The ffmpeg command reads cameras of Windows and macOS.

use std::path::Path;

use super::{Source, SourceError, SourceOptions};
#[cfg(feature = "camera")]
use crate::format::VideoFormat;

/// Size and frame rate to request.
#[cfg(feature = "camera")]
fn wanted(options: &SourceOptions) -> VideoFormat {
    let default = VideoFormat::default();
    let (width, height) = options.size.unwrap_or((default.width, default.height));
    VideoFormat { width, height, frame_rate: options.frame_rate.unwrap_or(default.frame_rate) }
}

#[cfg(all(feature = "camera", any(windows, target_os = "macos")))]
pub(super) fn open(device: &Path, options: &SourceOptions) -> Result<Box<dyn Source>, SourceError> {
    use super::ffmpeg_camera::{FfmpegCamera, OF_THIS_SYSTEM};

    Ok(Box::new(FfmpegCamera::open(OF_THIS_SYSTEM, device, wanted(options))?))
}

#[cfg(not(all(feature = "camera", any(target_os = "linux", windows, target_os = "macos"))))]
pub(super) fn open(device: &Path, _: &SourceOptions) -> Result<Box<dyn Source>, SourceError> {
    Err(unsupported(device))
}

/// This program reads no cameras.
#[cfg(not(all(feature = "camera", any(target_os = "linux", windows, target_os = "macos"))))]
pub(super) fn unsupported(device: &Path) -> SourceError {
    let reason = "this program was built without lockstep-media's feature `camera`, or for a system without it";
    SourceError::Camera { device: device.to_owned(), reason: reason.to_owned() }
}

#[cfg(all(feature = "camera", target_os = "linux"))]
pub(super) fn open(device: &Path, options: &SourceOptions) -> Result<Box<dyn Source>, SourceError> {
    linux::open(device, options)
}

#[cfg(all(feature = "camera", target_os = "linux"))]
pub use linux::CameraSource;
#[cfg(all(feature = "camera", target_os = "linux"))]
pub(super) use linux::is_supported;

#[cfg(all(feature = "camera", target_os = "linux"))]
mod linux {
    use std::io::{self, Cursor};
    use std::path::PathBuf;

    use linuxvideo::format::{PixFormat, PixelFormat};
    use linuxvideo::stream::ReadStream;
    use linuxvideo::{BufType, Device, Fract};
    use lockstep_vp8::Picture;
    use zune_core::colorspace::ColorSpace;
    use zune_core::options::DecoderOptions;
    use zune_jpeg::JpegDecoder;

    use super::super::ffmpeg_camera::{FfmpegCamera, H264_OF_LINUX};
    use super::{Path, Source, SourceError, SourceOptions, wanted};
    use crate::colour;
    use crate::format::{FrameRate, VideoFormat};

    /// Number of damaged pictures in a row after which a camera counts as broken. Many cameras deliver a few at their
    /// start.
    const DAMAGED_LIMIT: u32 = 60;
    /// The library has no constant for it.
    const NV12: PixelFormat = PixelFormat::from_fourcc(*b"NV12");
    const H264: PixelFormat = PixelFormat::from_fourcc(*b"H264");
    /// Formats that this module decodes, the first ones preferred for small pictures.
    const PREFERRED: [PixelFormat; 3] = [PixelFormat::YUYV, NV12, PixelFormat::MJPG];
    /// Above this number of samples, USB 2 cannot carry raw pictures at 30 per second, and cameras lower their rate.
    const RAW_SAMPLES: usize = 640 * 480;

    /// Whether calls can use the format `coding`.
    pub(in crate::source) fn is_supported(coding: PixelFormat) -> bool {
        PREFERRED.contains(&coding) || coding == H264
    }

    /// The best of the formats that a camera offers for pictures of `samples` pixels. H.264 is the last choice, because it
    /// requires ffmpeg and adds delay.
    fn choose(offered: &[PixelFormat], samples: usize) -> Option<PixelFormat> {
        let mut preferred = PREFERRED;
        if samples > RAW_SAMPLES {
            preferred.rotate_right(1);
        }
        preferred.into_iter().chain([H264]).find(|format| offered.contains(format))
    }

    /// Formats of the pictures of a camera.
    fn offered(camera: &Device) -> Vec<PixelFormat> {
        let formats = camera.formats(BufType::VIDEO_CAPTURE);
        formats.filter_map(|format| format.ok().map(|format| format.pixel_format())).collect()
    }

    /// Opens and starts a device, with ffmpeg if it has only H.264.
    pub(in crate::source) fn open(device: &Path, options: &SourceOptions) -> Result<Box<dyn Source>, SourceError> {
        let failed = |error: io::Error| SourceError::Camera { device: device.to_owned(), reason: error.to_string() };
        let VideoFormat { width, height, .. } = wanted(options);
        if choose(&offered(&Device::open(device).map_err(failed)?), width * height) == Some(H264) {
            return Ok(Box::new(FfmpegCamera::open(H264_OF_LINUX, device, wanted(options))?));
        }
        Ok(Box::new(CameraSource::open(device, options)?))
    }

    /// The pictures of a camera. The source is live: it blocks until each picture arrives.
    pub struct CameraSource {
        device: PathBuf,
        /// None while the source is paused.
        stream: Option<ReadStream>,
        format: VideoFormat,
        coding: Coding,
    }

    /// A running camera and its format.
    struct Running {
        stream: ReadStream,
        format: VideoFormat,
        coding: Coding,
    }

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Coding {
        /// Packed 4:2:2 with rows `stride` bytes apart.
        Yuyv { stride: usize },
        /// Planar 4:2:0 with both chroma samples in turn, rows `stride` bytes apart.
        Nv12 { stride: usize },
        /// One JPEG image per picture.
        MotionJpeg,
    }

    impl CameraSource {
        /// Opens and starts a device such as `/dev/video0`. It requests the size and rate of `options`, else 1280x720
        /// at 30. The driver may choose others, see [`Source::format`]. Motion JPEG is preferred above 640x480, where
        /// raw pictures are slow on most cameras, else YUYV, then NV12.
        ///
        /// # Errors
        /// If the camera does not exist, or supports none of YUYV, NV12 and Motion JPEG.
        pub fn open(device: &Path, options: &SourceOptions) -> Result<Self, SourceError> {
            let Running { stream, format, coding } = start(device, options)?;
            Ok(Self { device: device.to_owned(), stream: Some(stream), format, coding })
        }
    }

    /// Opens the device and starts it.
    fn start(device: &Path, options: &SourceOptions) -> Result<Running, SourceError> {
        let fault = |reason: String| SourceError::Camera { device: device.to_owned(), reason };
        let failed = |error: io::Error| fault(error.to_string());
        let VideoFormat { width, height, frame_rate: rate } = wanted(options);

        let camera = Device::open(device).map_err(failed)?;
        let offered = offered(&camera);
        let chosen = choose(&offered, width * height)
            .filter(|&format| format != H264)
            .ok_or_else(|| fault(format!("it offers {offered:?}, but none of YUYV, NV12 and MJPG")))?;
        let capture = camera.video_capture(PixFormat::new(width as u32, height as u32, chosen)).map_err(failed)?;
        let given = capture.format();
        let coding = match given.pixel_format() {
            PixelFormat::YUYV => Coding::Yuyv { stride: given.bytes_per_line() as usize },
            NV12 => Coding::Nv12 { stride: given.bytes_per_line() as usize },
            PixelFormat::MJPG => Coding::MotionJpeg,
            other => return Err(fault(format!("it was asked for {chosen} and gives {other}"))),
        };
        let (width, height) = (given.width() as usize, given.height() as usize);
        // A driver that cannot set a rate keeps its own, which is unknown.
        let interval = capture.set_frame_interval(Fract::new(rate.denominator(), rate.numerator())).ok();
        let frame_rate =
            interval.and_then(|interval| FrameRate::new(interval.denominator(), interval.numerator())).unwrap_or(rate);
        let stream = capture.into_stream().map_err(failed)?;
        Ok(Running { stream, format: VideoFormat { width, height, frame_rate }, coding })
    }

    impl Source for CameraSource {
        fn format(&self) -> VideoFormat {
            self.format
        }

        fn next(&mut self) -> Result<Option<Picture>, SourceError> {
            let VideoFormat { width, height, .. } = self.format;
            let fault = |reason: String| SourceError::Camera { device: self.device.clone(), reason };
            if self.stream.is_none() {
                let options =
                    SourceOptions { size: Some((width, height)), frame_rate: Some(self.format.frame_rate), seed: 0 };
                let Running { stream, format, coding } = start(&self.device, &options)?;
                if (format.width, format.height) != (width, height) {
                    return Err(fault(format!("it gives {format} now, and gave {} before", self.format)));
                }
                (self.stream, self.coding) = (Some(stream), coding);
            }
            let Some(stream) = &mut self.stream else { return Ok(None) };
            let coding = self.coding;
            let mut reason = String::new();
            for _ in 0..DAMAGED_LIMIT {
                let taken = stream.dequeue(|buffer| {
                    if buffer.is_error() {
                        return Ok(Err("the driver marks its pictures as damaged".to_owned()));
                    }
                    Ok(picture(width, height, coding, &buffer))
                });
                match taken.map_err(|error| fault(error.to_string()))? {
                    Ok(picture) => return Ok(Some(picture)),
                    Err(damage) => reason = damage,
                }
            }
            Err(fault(format!("{DAMAGED_LIMIT} damaged pictures in a row: {reason}")))
        }

        fn rest(&mut self) {
            self.stream = None;
        }

        fn is_live(&self) -> bool {
            true
        }
    }

    /// Makes a picture of a camera buffer. The error describes the damage.
    fn picture(width: usize, height: usize, coding: Coding, bytes: &[u8]) -> Result<Picture, String> {
        match coding {
            Coding::Yuyv { stride } => {
                let stride = stride.max(4 * width.div_ceil(2));
                if bytes.len() < (height - 1) * stride + 2 * width {
                    return Err(format!("{} bytes are too few for {width}x{height} in YUYV", bytes.len()));
                }
                colour::from_yuyv(width, height, stride, bytes).map_err(|error| error.to_string())
            }
            Coding::Nv12 { stride } => {
                let stride = stride.max(2 * width.div_ceil(2));
                if bytes.len() < (height + height.div_ceil(2) - 1) * stride + width {
                    return Err(format!("{} bytes are too few for {width}x{height} in NV12", bytes.len()));
                }
                colour::from_nv12(width, height, stride, bytes).map_err(|error| error.to_string())
            }
            Coding::MotionJpeg => {
                let options = DecoderOptions::default()
                    .set_max_width(width)
                    .set_max_height(height)
                    .jpeg_set_out_colorspace(ColorSpace::YCbCr);
                let mut decoder = JpegDecoder::new_with_options(Cursor::new(bytes), options);
                let samples = decoder.decode().map_err(|error| format!("{error:?}"))?;
                if decoder.dimensions() != Some((width, height)) {
                    return Err(format!("a JPEG image of {:?} for {width}x{height}", decoder.dimensions()));
                }
                colour::from_full_range_ycbcr(width, height, &samples).map_err(|error| error.to_string())
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use std::process::Command;

        #[test]
        fn motion_jpeg_is_decoded_to_its_picture() {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("red.jpg");
            let made = Command::new("ffmpeg")
                .args(["-loglevel", "error", "-f", "lavfi", "-i", "color=red:size=34x18:rate=1:duration=1"])
                .args(["-frames:v", "1"])
                .arg(&path)
                .status();
            if !made.is_ok_and(|status| status.success()) {
                eprintln!("skipped: ffmpeg is not installed");
                return;
            }
            let jpeg = std::fs::read(&path).unwrap();
            let red = picture(34, 18, Coding::MotionJpeg, &jpeg).unwrap();
            let [y, u, v] = red.planes().each_ref().map(|plane| i32::from(plane.row(3)[5]));
            assert!((y - 81).abs() < 4 && (u - 90).abs() < 4 && (v - 240).abs() < 4, "{y} {u} {v}");
            assert!(picture(16, 16, Coding::MotionJpeg, &jpeg).is_err());
            for cut in 0..jpeg.len().min(300) {
                let _ = picture(34, 18, Coding::MotionJpeg, &jpeg[..cut]);
            }
        }

        #[test]
        fn short_raw_buffer_is_refused_as_damaged() {
            let coding = Coding::Yuyv { stride: 0 };
            assert!(picture(4, 2, coding, &[0; 15]).is_err());
            assert!(picture(4, 2, coding, &[0; 16]).is_ok());
            let coding = Coding::Nv12 { stride: 0 };
            assert!(picture(4, 2, coding, &[0; 11]).is_err());
            assert!(picture(4, 2, coding, &[0; 12]).is_ok());
        }

        #[test]
        fn format_depends_on_the_size_and_h264_is_the_last_choice() {
            let (small, large) = (640 * 480, 1280 * 720);
            let all = [H264, PixelFormat::MJPG, NV12, PixelFormat::YUYV];
            assert_eq!(choose(&all, small), Some(PixelFormat::YUYV));
            assert_eq!(choose(&all, large), Some(PixelFormat::MJPG));
            assert_eq!(choose(&[H264, NV12], large), Some(NV12));
            let hevc = PixelFormat::from_fourcc(*b"HEVC");
            assert_eq!(choose(&[hevc, H264], small), Some(H264));
            assert_eq!(choose(&[hevc], small), None);
            assert!(is_supported(H264) && !is_supported(hevc));
        }

        #[test]
        fn file_instead_of_a_camera_is_refused() {
            assert!(open(Path::new("/dev/null"), &SourceOptions::default()).is_err());
            assert!(CameraSource::open(Path::new("/dev/null"), &SourceOptions::default()).is_err());
        }
    }
}
