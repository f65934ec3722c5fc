//! Reference frames: three planes with a border, in one buffer that never changes once it is a reference.

use std::any::Any;
use std::fmt;
use std::hash::Hasher;
use std::sync::{Arc, Mutex, OnceLock};

use twox_hash::XxHash3_64;

use crate::picture::{Picture, Plane};

/// Samples around the luma plane that repeat its edge; the chroma planes have as many, so that all reads of a block that
/// begins at most `BORDER - 16 - 3` outside stay in the buffer.
pub(crate) const BORDER: usize = 32;

/// Where a plane lies in the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PlaneLayout {
    /// Index of the plane's first sample.
    pub(crate) origin: usize,
    /// Distance between rows.
    pub(crate) stride: usize,
    /// Macroblock-aligned width.
    pub(crate) width: usize,
    /// Macroblock-aligned height.
    pub(crate) height: usize,
}

impl PlaneLayout {
    fn after(start: usize, width: usize, height: usize) -> (Self, usize) {
        let stride = width + 2 * BORDER;
        let layout = Self { origin: start + BORDER * stride + BORDER, stride, width, height };
        (layout, start + stride * (height + 2 * BORDER))
    }
}

/// The layout of all planes of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameLayout {
    pub(crate) planes: [PlaneLayout; 3],
    pub(crate) columns: usize,
    pub(crate) rows: usize,
    length: usize,
}

impl FrameLayout {
    /// The layout for pictures of `width` x `height`.
    pub(crate) fn new(width: usize, height: usize) -> Self {
        let (columns, rows) = (width.div_ceil(16), height.div_ceil(16));
        let (luma, end) = PlaneLayout::after(0, 16 * columns, 16 * rows);
        let (u, end) = PlaneLayout::after(end, 8 * columns, 8 * rows);
        let (v, length) = PlaneLayout::after(end, 8 * columns, 8 * rows);
        Self { planes: [luma, u, v], columns, rows, length }
    }
}

/// Memory that nothing refers to any more, for the frames that follow: a system would take large blocks back and hand
/// them out page by page. What is in it is never read.
#[derive(Default)]
pub(crate) struct Spares {
    /// Of frames. A frame writes all of its samples and borders.
    buffers: Mutex<Vec<Arc<[u8]>>>,
    /// Vectors of different types, all empty.
    vectors: Mutex<Vec<Box<dyn Any + Send>>>,
}

impl Spares {
    /// One is left over each time a frame replaces another; the rest is for streams that replace several at once.
    const MOST: usize = 2;
    /// Two of each type that a frame's coding needs.
    const MOST_VECTORS: usize = 8;

    /// An empty vector with room for `capacity` elements.
    pub(crate) fn vector<T: Send + 'static>(&self, capacity: usize) -> Vec<T> {
        let spare = self.vectors.lock().ok().and_then(|mut vectors| {
            let index = vectors.iter().position(|vector| vector.is::<Vec<T>>())?;
            vectors.swap_remove(index).downcast::<Vec<T>>().ok()
        });
        let mut vector = spare.map_or_else(Vec::new, |vector| *vector);
        vector.reserve(capacity);
        vector
    }

    /// Keeps what a vector took for a later one.
    pub(crate) fn keep_vector<T: Send + 'static>(&self, mut vector: Vec<T>) {
        vector.clear();
        if vector.capacity() > 0
            && let Ok(mut vectors) = self.vectors.lock()
            && vectors.len() < Self::MOST_VECTORS
        {
            vectors.push(Box::new(vector));
        }
    }

    fn put(&self, buffer: Arc<[u8]>) {
        if let Ok(mut buffers) = self.buffers.lock()
            && buffers.len() < Self::MOST
        {
            buffers.push(buffer);
        }
    }

    fn take(&self, length: usize) -> Option<Arc<[u8]>> {
        self.buffers.lock().ok()?.pop().filter(|buffer| buffer.len() == length)
    }
}

/// A frame in the making.
#[derive(Clone)]
pub(crate) struct FrameBuffer {
    samples: Arc<[u8]>,
    layout: FrameLayout,
    spares: Arc<Spares>,
}

impl FrameBuffer {
    /// A frame whose samples are all zero.
    pub(crate) fn new(layout: FrameLayout) -> Self {
        Self { samples: std::iter::repeat_n(0, layout.length).collect(), layout, spares: Arc::default() }
    }

    /// A frame that follows `before`. All of its samples are to be written: what they are now is unspecified, since the
    /// buffer may be that of an earlier frame.
    pub(crate) fn following(before: Option<&Frame>, layout: FrameLayout) -> Self {
        let Some(before) = before else { return Self::new(layout) };
        let spares = before.0.spares.clone();
        let spare = spares.take(layout.length);
        let samples = spare.unwrap_or_else(|| std::iter::repeat_n(0, layout.length).collect());
        Self { samples, layout, spares }
    }

    /// What is left over of the frames before, and will be of this one.
    pub(crate) fn spares(&self) -> Arc<Spares> {
        self.spares.clone()
    }

    /// Where the planes lie.
    pub(crate) fn layout(&self) -> FrameLayout {
        self.layout
    }

    /// All samples, borders included.
    pub(crate) fn samples(&self) -> &[u8] {
        &self.samples
    }

    /// All samples, borders included, to be written.
    pub(crate) fn samples_mut(&mut self) -> &mut [u8] {
        Arc::get_mut(&mut self.samples).expect("a frame in the making has one owner")
    }

    /// Repeats the edges into the borders and ends the making.
    pub(crate) fn finish(mut self) -> Frame {
        let layout = self.layout;
        let samples = self.samples_mut();
        for plane in layout.planes {
            extend(samples, plane);
        }
        Frame(Arc::new(Finished { samples: self.samples, layout, hash: OnceLock::new(), spares: self.spares }))
    }
}

fn extend(samples: &mut [u8], plane: PlaneLayout) {
    let PlaneLayout { origin, stride, width, height } = plane;
    for y in 0..height {
        let row = origin + y * stride;
        let (first, last) = (samples[row], samples[row + width - 1]);
        samples[row - BORDER..row].fill(first);
        samples[row + width..row + width + BORDER].fill(last);
    }
    let (top, bottom) = (origin - BORDER, origin - BORDER + (height - 1) * stride);
    for y in 1..=BORDER {
        samples.copy_within(top..top + stride, top - y * stride);
        samples.copy_within(bottom..bottom + stride, bottom + y * stride);
    }
}

struct Finished {
    samples: Arc<[u8]>,
    layout: FrameLayout,
    hash: OnceLock<u64>,
    spares: Arc<Spares>,
}

impl Drop for Finished {
    /// Leaves the buffer to a later frame, unless a picture still shows it.
    fn drop(&mut self) {
        if Arc::get_mut(&mut self.samples).is_some() {
            self.spares.put(std::mem::take(&mut self.samples));
        }
    }
}

/// A reference frame. Cloning it copies nothing.
#[derive(Clone)]
pub(crate) struct Frame(Arc<Finished>);

impl Frame {
    pub(crate) fn layout(&self) -> FrameLayout {
        self.0.layout
    }

    /// All samples, borders included.
    pub(crate) fn samples(&self) -> &[u8] {
        &self.0.samples
    }

    /// What is left over of the frames before.
    pub(crate) fn spares(&self) -> &Spares {
        &self.0.spares
    }

    /// Whether both are the same buffer.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The visible part.
    pub(crate) fn picture(&self, width: usize, height: usize) -> Picture {
        let view = |plane: PlaneLayout, width, height| {
            Plane::view(self.0.samples.clone(), plane.origin, plane.stride, width, height)
        };
        let [y, u, v] = self.0.layout.planes;
        let (chroma_width, chroma_height) = (width.div_ceil(2), height.div_ceil(2));
        Picture::from_planes([
            view(y, width, height),
            view(u, chroma_width, chroma_height),
            view(v, chroma_width, chroma_height),
        ])
    }

    /// The hash of the samples that decoding depends on: the macroblock-aligned planes. Computed once.
    pub(crate) fn hash(&self) -> u64 {
        *self.0.hash.get_or_init(|| {
            let mut hasher = XxHash3_64::with_seed(0);
            for row in self.rows() {
                hasher.write(row);
            }
            hasher.finish()
        })
    }

    /// The rows of the macroblock-aligned planes, one plane after the other.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &[u8]> {
        self.0.layout.planes.into_iter().flat_map(|plane| {
            self.0.samples[plane.origin..].chunks(plane.stride).take(plane.height).map(move |row| &row[..plane.width])
        })
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Frame({}x{} macroblocks)", self.0.layout.columns, self.0.layout.rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_once_neither_a_frame_nor_a_picture_needs_it() {
        let layout = FrameLayout::new(40, 24);
        let first = FrameBuffer::new(layout).finish();
        let place = first.samples().as_ptr();
        let second = FrameBuffer::following(Some(&first), layout).finish();
        let picture = first.picture(40, 24);
        drop(first);
        let third = FrameBuffer::following(Some(&second), layout).finish();
        assert_ne!(third.samples().as_ptr(), place);
        drop(picture);

        drop(second);
        let small = FrameLayout::new(16, 16);
        let other_size = FrameBuffer::following(Some(&third), small).finish();
        assert_eq!(other_size.samples().len(), small.length);
        let place = third.samples().as_ptr();
        drop(third);
        assert_eq!(FrameBuffer::following(Some(&other_size), layout).finish().samples().as_ptr(), place);
    }
}
