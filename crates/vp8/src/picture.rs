//! An uncompressed picture in planar YUV 4:2:0 with eight bits per sample.

use std::fmt;
use std::sync::Arc;

use crate::state_hasher::StateHasher;

/// Largest width or height in luma samples: VP8 has 14-bit size fields (RFC 6386, section 9.1).
pub const MAX_DIMENSION: u16 = 16_383;

/// Why a [`Picture`] cannot be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PictureError {
    /// A side is zero or longer than [`MAX_DIMENSION`].
    #[error("picture size {width}x{height} is outside 1x1 to 16383x16383")]
    Size {
        /// Requested width in luma samples.
        width: usize,
        /// Requested height in luma samples.
        height: usize,
    },
    /// The number of samples does not match the size.
    #[error("picture of {width}x{height} needs {expected} bytes of I420, found {actual}")]
    Length {
        /// Width in luma samples.
        width: u16,
        /// Height in luma samples.
        height: u16,
        /// Bytes that a picture of this size has.
        expected: usize,
        /// Bytes of the input.
        actual: usize,
    },
}

/// One plane of a picture: a rectangle in a shared, immutable buffer. A clone shares the samples.
#[derive(Clone)]
pub struct Plane {
    buffer: Arc<[u8]>,
    origin: usize,
    stride: usize,
    width: usize,
    height: usize,
}

impl Plane {
    /// Creates a view of `width` x `height` samples that starts at index `origin` of `buffer`, with rows `stride`
    /// apart.
    ///
    /// # Panics
    /// If the rectangle is not inside the buffer. That is a bug of this crate, never a fault of the input.
    pub(crate) fn view(buffer: Arc<[u8]>, origin: usize, stride: usize, width: usize, height: usize) -> Self {
        assert!(width <= stride && (height == 0 || origin + (height - 1) * stride + width <= buffer.len()));
        Self { buffer, origin, stride, width, height }
    }

    /// Samples per row.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Number of rows.
    #[must_use]
    pub fn height(&self) -> usize {
        self.height
    }

    /// Samples of row `y`.
    ///
    /// # Panics
    /// If `y` is not below `height()`.
    #[must_use]
    pub fn row(&self, y: usize) -> &[u8] {
        assert!(y < self.height, "row {y} of {}", self.height);
        let start = self.origin + y * self.stride;
        &self.buffer[start..start + self.width]
    }

    /// All rows from top to bottom.
    pub fn rows(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.height).map(|y| self.row(y))
    }

    /// The samples from the plane's first sample on, and the distance between rows.
    ///
    /// Each row has `width()` samples. Samples between rows do not belong to the plane.
    #[must_use]
    pub fn samples(&self) -> (&[u8], usize) {
        (&self.buffer[self.origin..], self.stride)
    }
}

impl PartialEq for Plane {
    fn eq(&self, other: &Self) -> bool {
        self.width == other.width && self.height == other.height && self.rows().eq(other.rows())
    }
}

impl Eq for Plane {}

impl fmt::Debug for Plane {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Plane({}x{})", self.width, self.height)
    }
}

/// A picture in planar YUV 4:2:0 (I420): luma at full size, both chroma planes at half size, rounded up.
///
/// A clone shares the samples. A decoded picture is a view of the reference frame in the decoder's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    planes: [Plane; 3],
}

impl Picture {
    /// Creates a picture from tightly packed I420 samples: all rows of Y, then U, then V.
    ///
    /// # Errors
    /// If a side is zero or exceeds [`MAX_DIMENSION`], or the length differs from [`Picture::i420_length`].
    pub fn from_i420(width: usize, height: usize, samples: Vec<u8>) -> Result<Self, PictureError> {
        Self::from_shared_i420(width, height, samples.into())
    }

    /// Creates a picture from shared I420 samples without a copy.
    ///
    /// # Errors
    /// Same as [`Picture::from_i420`].
    pub fn from_shared_i420(width: usize, height: usize, buffer: Arc<[u8]>) -> Result<Self, PictureError> {
        let limit = usize::from(MAX_DIMENSION);
        if width == 0 || height == 0 || width > limit || height > limit {
            return Err(PictureError::Size { width, height });
        }
        let expected = Self::i420_length(width, height);
        if buffer.len() != expected {
            let (width, height) = (width as u16, height as u16);
            return Err(PictureError::Length { width, height, expected, actual: buffer.len() });
        }
        let (chroma_width, chroma_height) = (width.div_ceil(2), height.div_ceil(2));
        let (luma, chroma) = (width * height, chroma_width * chroma_height);
        Ok(Self::from_planes([
            Plane::view(buffer.clone(), 0, width, width, height),
            Plane::view(buffer.clone(), luma, chroma_width, chroma_width, chroma_height),
            Plane::view(buffer, luma + chroma, chroma_width, chroma_width, chroma_height),
        ]))
    }

    /// Creates a picture from three planes of consistent sizes.
    pub(crate) fn from_planes(planes: [Plane; 3]) -> Self {
        let [y, u, v] = &planes;
        debug_assert!(u.width == y.width.div_ceil(2) && u.height == y.height.div_ceil(2));
        debug_assert!(u.width == v.width && u.height == v.height);
        Self { planes }
    }

    /// Bytes of a tightly packed I420 picture of this size.
    #[must_use]
    pub const fn i420_length(width: usize, height: usize) -> usize {
        width * height + 2 * (width.div_ceil(2) * height.div_ceil(2))
    }

    /// Width in luma samples.
    #[must_use]
    pub fn width(&self) -> usize {
        self.planes[0].width
    }

    /// Height in luma samples.
    #[must_use]
    pub fn height(&self) -> usize {
        self.planes[0].height
    }

    /// The planes Y, U and V.
    #[must_use]
    pub fn planes(&self) -> &[Plane; 3] {
        &self.planes
    }

    /// The luma plane.
    #[must_use]
    pub fn luma(&self) -> &Plane {
        &self.planes[0]
    }

    /// Copies the samples as tightly packed I420.
    #[must_use]
    pub fn to_i420(&self) -> Vec<u8> {
        let mut samples = Vec::with_capacity(Self::i420_length(self.width(), self.height()));
        for row in self.planes.iter().flat_map(Plane::rows) {
            samples.extend_from_slice(row);
        }
        samples
    }

    /// Hash of the size and the samples, equal on every platform.
    #[must_use]
    pub fn hash(&self) -> u64 {
        let mut hasher = StateHasher::new();
        [self.width(), self.height()].into_iter().for_each(|side| hasher.write(&(side as u64).to_le_bytes()));
        self.planes.iter().flat_map(Plane::rows).for_each(|row| hasher.write(row));
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_sizes_round_chroma_up_and_round_trip() {
        let samples: Vec<u8> = (0..Picture::i420_length(5, 3)).map(|i| i as u8).collect();
        let picture = Picture::from_i420(5, 3, samples.clone()).unwrap();
        assert_eq!((picture.planes()[1].width(), picture.planes()[1].height()), (3, 2));
        assert_eq!(picture.to_i420(), samples);
    }

    #[test]
    fn pictures_with_equal_samples_have_equal_hashes() {
        let picture = |width, height, last| {
            let mut samples = vec![7; Picture::i420_length(4, 2)];
            samples[11] = last;
            Picture::from_i420(width, height, samples).expect("the size fits").hash()
        };
        assert_eq!(picture(4, 2, 7), picture(4, 2, 7));
        assert_ne!(picture(4, 2, 7), picture(2, 4, 7));
        assert_ne!(picture(4, 2, 7), picture(4, 2, 8));
    }

    #[test]
    fn wrong_lengths_and_sizes_are_refused() {
        assert!(matches!(Picture::from_i420(0, 3, vec![]), Err(PictureError::Size { .. })));
        assert!(matches!(Picture::from_i420(16_384, 1, vec![]), Err(PictureError::Size { .. })));
        assert!(matches!(Picture::from_i420(4, 4, vec![0; 23]), Err(PictureError::Length { expected: 24, .. })));
    }
}
