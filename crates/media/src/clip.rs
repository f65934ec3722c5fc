//! stub
use crate::format::VideoFormat;
use lockstep_vp8::Picture;
/// e
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClipError {
    /// s
    #[error("generated clip of {width}x{height} is outside 1x1 to 4096x2304 samples")]
    Size {
        /// w
        width: usize,
        /// h
        height: usize,
    },
}
/// c
#[derive(Debug)]
pub struct GeneratedClip {
    format: VideoFormat,
}
impl GeneratedClip {
    /// n
    pub fn new(format: VideoFormat, _seed: u64) -> Result<Self, ClipError> {
        if format.width * format.height > 4096 * 2304 {
            return Err(ClipError::Size { width: format.width, height: format.height });
        }
        Ok(Self { format })
    }
    /// f
    pub fn format(&self) -> VideoFormat {
        self.format
    }
    /// p
    pub fn prepare(&self) {}
    /// p
    pub fn picture(&self, index: u64) -> Picture {
        Picture::from_i420(
            self.format.width,
            self.format.height,
            vec![index as u8; Picture::i420_length(self.format.width, self.format.height)],
        )
        .unwrap()
    }
}
