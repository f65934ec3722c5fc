//! The picture to code, its planes grown to whole macroblocks.

use crate::picture::{Picture, Plane};

/// One plane of whole macroblocks, rows `stride` apart, the picture's last samples repeated into the margin.
#[derive(Debug, Clone)]
pub(crate) struct SourcePlane {
    pub(crate) samples: Vec<u8>,
    pub(crate) stride: usize,
}

impl SourcePlane {
    fn new(plane: &Plane, width: usize, height: usize) -> Self {
        let mut samples = Vec::with_capacity(width * height);
        for row in plane.rows() {
            samples.extend_from_slice(row);
            samples.resize(samples.len() + width - row.len(), row[row.len() - 1]);
        }
        while samples.len() < width * height {
            samples.extend_from_within(samples.len() - width..);
        }
        Self { samples, stride: width }
    }

    /// The samples from (`x`, `y`) on.
    #[inline]
    pub(crate) fn at(&self, x: usize, y: usize) -> &[u8] {
        &self.samples[y * self.stride + x..]
    }
}

/// The three planes of the picture to code.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// Luma, U and V.
    pub(crate) planes: [SourcePlane; 3],
    /// Size of the picture itself, luma samples.
    pub(crate) width: usize,
    pub(crate) height: usize,
}

impl Source {
    /// Copies the picture.
    pub(crate) fn new(picture: &Picture) -> Self {
        let (columns, rows) = (picture.width().div_ceil(16), picture.height().div_ceil(16));
        let [y, u, v] = picture.planes();
        Self {
            planes: [
                SourcePlane::new(y, 16 * columns, 16 * rows),
                SourcePlane::new(u, 8 * columns, 8 * rows),
                SourcePlane::new(v, 8 * columns, 8 * rows),
            ],
            width: picture.width(),
            height: picture.height(),
        }
    }
}
