//! Pictures of Lockstep from buffers of GStreamer, and back.

use gst_video::prelude::*;
use gst_video::{VideoFormat, VideoFrame, VideoFrameRef, VideoInfo};
use lockstep::{FrameRate, Picture};

/// The caps of pictures of any size and rate.
pub fn caps() -> gst::Caps {
    gst_video::VideoCapsBuilder::new().format(VideoFormat::I420).build()
}

/// The format of pictures with this info; 30 a second if the rate is variable.
pub fn format(info: &VideoInfo) -> lockstep::VideoFormat {
    let part = |part: i32| u32::try_from(part).unwrap_or(0);
    let rate = FrameRate::new(part(info.fps().numer()), part(info.fps().denom())).unwrap_or_default();
    lockstep::VideoFormat::new(info.width() as usize, info.height() as usize).at(rate)
}

/// The picture in `buffer`.
///
/// # Errors
/// If the buffer is too short for `info`, or its size is beyond the codec's.
pub fn from_buffer(buffer: &gst::BufferRef, info: &VideoInfo) -> Result<Picture, String> {
    let wrong = |error: &dyn std::fmt::Display| format!("cannot read the picture of a buffer: {error}");
    let frame = VideoFrameRef::from_buffer_ref_readable(buffer, info).map_err(|error| wrong(&error))?;
    let mut samples = Vec::with_capacity(info.size());
    for component in 0..info.n_components() {
        let plane = frame.comp_data(component).map_err(|error| wrong(&error))?;
        let stride = usize::try_from(frame.comp_stride(component)).map_err(|_| wrong(&"its stride is negative"))?;
        let (width, height) = (frame.comp_width(component) as usize, frame.comp_height(component) as usize);
        for row in 0..height {
            let start = row * stride;
            samples.extend(plane.get(start..start + width).ok_or_else(|| wrong(&"it is too short"))?);
        }
    }
    Picture::from_i420(info.width() as usize, info.height() as usize, samples).map_err(|error| wrong(&error))
}

/// The info of pictures like `picture`; the rate is variable, as calls drop pictures.
///
/// # Errors
/// If GStreamer admits no picture of the size.
pub fn info(picture: &Picture) -> Result<VideoInfo, String> {
    VideoInfo::builder(VideoFormat::I420, picture.width() as u32, picture.height() as u32)
        .fps(gst::Fraction::new(0, 1))
        .build()
        .map_err(|error| format!("cannot describe a picture of {}x{}: {error}", picture.width(), picture.height()))
}

/// The buffer of a picture.
///
/// # Errors
/// If memory is missing.
pub fn to_buffer(picture: &Picture, info: &VideoInfo) -> Result<gst::Buffer, String> {
    let wrong = "cannot allocate the buffer of a picture";
    let buffer = gst::Buffer::with_size(info.size()).map_err(|_| wrong)?;
    let mut frame = VideoFrame::from_buffer_writable(buffer, info).map_err(|_| wrong)?;
    for (component, plane) in (0..).zip(picture.planes()) {
        let stride = usize::try_from(frame.comp_stride(component)).map_err(|_| wrong)?;
        let samples = frame.comp_data_mut(component).map_err(|_| wrong)?;
        for (row, target) in plane.rows().zip(samples.chunks_mut(stride)) {
            target[..row.len()].copy_from_slice(row);
        }
    }
    Ok(frame.into_buffer())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_survive_buffers_of_any_size() {
        gst::init().expect("GStreamer starts");
        for (width, height) in [(1_usize, 1_usize), (17, 9), (318, 181), (320, 240)] {
            let length = width * height + 2 * width.div_ceil(2) * height.div_ceil(2);
            let samples: Vec<u8> = (0..length).map(|index| (index * 7 % 251) as u8).collect();
            let picture = Picture::from_i420(width, height, samples).expect("a size");
            let info = info(&picture).expect("a size");
            let buffer = to_buffer(&picture, &info).expect("memory");
            assert_eq!(from_buffer(&buffer, &info).expect("a picture"), picture, "{width}x{height}");
        }
    }

    #[test]
    fn short_buffers_are_refused() {
        gst::init().expect("GStreamer starts");
        let info = VideoInfo::builder(VideoFormat::I420, 320, 240).build().expect("a size");
        let buffer = gst::Buffer::with_size(info.size() - 1).expect("memory");
        assert!(from_buffer(&buffer, &info).is_err());
    }

    #[test]
    fn variable_rates_count_as_thirty_pictures_a_second() {
        gst::init().expect("GStreamer starts");
        let info = VideoInfo::builder(VideoFormat::I420, 64, 48).fps(gst::Fraction::new(0, 1)).build();
        assert_eq!(format(&info.expect("a size")), lockstep::VideoFormat::new(64, 48));
    }
}
