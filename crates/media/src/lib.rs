//! Sources, sinks and quality of pictures: video files (y4m, IVF, WebM), generated clips, cameras and windows. It also
//! has SSIM, PSNR and VMAF, and frame numbers in pictures ([`barcode`]).
//!
//! A [`Source`] produces pictures, a [`Sink`] consumes them. [`open_source`] and [`open_sink`] create them from a
//! command-line argument. Neither reads a clock; the caller paces them, see [`Source::is_live`].
//!
//! # Features
//! Feature `window` supports `open_sink("window")`, feature `camera` supports `open_source("camera")`, and feature `screen`
//! supports `open_source("screen")`. They are off by default.
#![deny(unsafe_code)]

pub mod barcode;
mod bjontegaard;
mod clip;
mod colour;
mod device_name;
mod error_output;
mod ffmpeg_list;
mod format;
mod ivf;
mod quality;
mod scale;
mod sink;
mod source;
mod vmaf;
mod webm;
mod y4m;

pub use bjontegaard::{RateCurveError, RatePoint, bjontegaard_delta_rate};
pub use clip::{ClipError, GeneratedClip, ScreenContent, ScreenContentError};
pub use colour::{picture_from_rgb, picture_to_rgb};
pub use device_name::chosen;
pub use error_output::ffmpeg_reason;
pub use ffmpeg_list::ffmpeg_list;
pub use format::{FormatError, FrameRate, VideoFormat, parse_size};
pub use ivf::{IvfError, IvfFrame, IvfHeader, IvfReader, IvfWriter};
pub use quality::{MAX_PSNR_DB, MAX_SSIM_DB, PictureQuality, QualityError, psnr, ssim, ssim_db, text_ssim};
#[cfg(feature = "window")]
pub use sink::window::{Button, ESCAPE, Notice, Overlay, WindowContent, WindowSink, WindowTile};
pub use sink::{
    DiscardSink, IvfSink, Sink, SinkError, WebmSink, Y4mSink, open_sink, records_sound, sink_of_stream, sink_path,
};
#[cfg(all(feature = "camera", target_os = "linux"))]
pub use source::camera::CameraSource;
pub use source::ffmpeg::FfmpegSource;
#[cfg(all(feature = "screen", unix))]
pub use source::screen::ScreenSource;
pub use source::{
    Camera, CameraFormat, GeneratedSource, Monitor, SCREEN_MARK, Source, SourceError, SourceOptions, Y4mSource,
    cameras, monitors, open_source, source_format,
};
pub use vmaf::{VMAF_VARIABLE, VmafError, VmafMeter};
pub use y4m::{Y4mError, Y4mReader, Y4mWriter};
