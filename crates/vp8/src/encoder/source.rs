//! The source picture with planes padded to whole macroblocks.

use std::sync::Arc;

use crate::picture::{Picture, Plane};

/// One plane of whole macroblocks. The padding repeats the picture's last samples.
#[derive(Debug, Clone)]
pub(crate) struct SourcePlane {
    plane: Plane,
    /// Distance between rows, in samples.
    pub(crate) stride: usize,
}

impl SourcePlane {
    /// Creates a plane of `width` x `height`. It copies samples only if padding is needed.
    fn new(plane: &Plane, width: usize, height: usize) -> Self {
        if (plane.width(), plane.height()) == (width, height) {
            return Self { plane: plane.clone(), stride: plane.samples().1 };
        }
        let mut samples: Arc<[u8]> = std::iter::repeat_n(0, width * height).collect();
        let rows = Arc::get_mut(&mut samples).expect("a new buffer has one owner");
        for (y, row) in rows.chunks_exact_mut(width).enumerate() {
            let original = plane.row(y.min(plane.height() - 1));
            row[..original.len()].copy_from_slice(original);
            row[original.len()..].fill(original[original.len() - 1]);
        }
        Self { plane: Plane::view(samples, 0, width, width, height), stride: width }
    }

    /// The samples from the first one on.
    #[inline]
    pub(crate) fn samples(&self) -> &[u8] {
        self.plane.samples().0
    }

    /// The samples from (`x`, `y`) on.
    #[inline]
    pub(crate) fn at(&self, x: usize, y: usize) -> &[u8] {
        &self.samples()[y * self.stride + x..]
    }
}

/// The three planes of the source picture.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// Luma, U and V.
    pub(crate) planes: [SourcePlane; 3],
    /// Size of the picture without padding, in luma samples.
    pub(crate) width: usize,
    pub(crate) height: usize,
}

impl Source {
    /// Creates the planes of a picture.
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
