//! Reference frames: three planes with borders in one buffer.
//!
//! A [`FrameBuffer`] is written once and becomes a [`Frame`], which is immutable and cheap to clone.

use std::fmt;
use std::panic::UnwindSafe;
use std::sync::{Arc, LazyLock, OnceLock};

use crate::picture::{Picture, Plane};
use crate::state_hasher::StateHasher;

/// Width of the border that repeats the edge samples, in samples, for luma and chroma.
///
/// With it, reads of a block that begins at most `BORDER - 16 - 3` samples outside stay in the buffer.
pub(crate) const BORDER: usize = 32;

/// Position of a plane in the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PlaneLayout {
    /// Index of the plane's first sample.
    pub(crate) origin: usize,
    /// Distance between rows, in samples.
    pub(crate) stride: usize,
    /// Width in samples, a multiple of the macroblock width.
    pub(crate) width: usize,
    /// Height in samples, a multiple of the macroblock height.
    pub(crate) height: usize,
}

impl PlaneLayout {
    fn after(start: usize, width: usize, height: usize) -> (Self, usize) {
        let stride = width + 2 * BORDER;
        let layout = Self { origin: start + BORDER * stride + BORDER, stride, width, height };
        (layout, start + stride * (height + 2 * BORDER))
    }
}

/// Layout of all planes of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameLayout {
    pub(crate) planes: [PlaneLayout; 3],
    pub(crate) columns: usize,
    pub(crate) rows: usize,
    length: usize,
}

impl FrameLayout {
    /// Creates the layout for pictures of `width` x `height`.
    pub(crate) fn new(width: usize, height: usize) -> Self {
        let (columns, rows) = (width.div_ceil(16), height.div_ceil(16));
        let (luma, end) = PlaneLayout::after(0, 16 * columns, 16 * rows);
        let (u, end) = PlaneLayout::after(end, 8 * columns, 8 * rows);
        let (v, length) = PlaneLayout::after(end, 8 * columns, 8 * rows);
        Self { planes: [luma, u, v], columns, rows, length }
    }

    /// Number of samples of all planes with their borders.
    pub(crate) fn length(&self) -> usize {
        self.length
    }
}

/// A frame under construction.
pub(crate) struct FrameBuffer {
    samples: Arc<[u8]>,
    layout: FrameLayout,
}

impl FrameBuffer {
    /// Creates a frame whose samples are all zero.
    pub(crate) fn new(layout: FrameLayout) -> Self {
        Self { samples: std::iter::repeat_n(0, layout.length).collect(), layout }
    }

    /// Creates a frame in `samples`, which must have one owner and the length of the layout. The samples are
    /// unspecified until they are written.
    pub(crate) fn on(samples: Arc<[u8]>, layout: FrameLayout) -> Self {
        debug_assert_eq!(samples.len(), layout.length);
        Self { samples, layout }
    }

    /// Layout of the planes.
    pub(crate) fn layout(&self) -> FrameLayout {
        self.layout
    }

    /// All samples, with borders.
    pub(crate) fn samples(&self) -> &[u8] {
        &self.samples
    }

    /// All samples, with borders, for writing.
    pub(crate) fn samples_mut(&mut self) -> &mut [u8] {
        Arc::get_mut(&mut self.samples).expect("a frame under construction has one owner")
    }

    /// Lines of luma, U and V of each row of macroblocks, from its first sample on. Lines are one stride apart.
    pub(crate) fn rows_mut(&mut self) -> impl Iterator<Item = [&mut [u8]; 3]> {
        let FrameLayout { planes: [y, u, v], rows, .. } = self.layout;
        let samples = self.samples_mut();
        let (samples, v_samples) = samples.split_at_mut(v.origin);
        let (samples, u_samples) = samples.split_at_mut(u.origin);
        let luma = samples[y.origin..].chunks_mut(16 * y.stride);
        let chroma = u_samples.chunks_mut(8 * u.stride).zip(v_samples.chunks_mut(8 * v.stride));
        luma.zip(chroma).take(rows).map(|(luma, (u, v))| [luma, u, v])
    }

    /// Fills the borders from the edges and returns the samples, which are immutable from now on.
    pub(crate) fn into_finished_samples(mut self) -> Arc<[u8]> {
        let layout = self.layout;
        let samples = self.samples_mut();
        for plane in layout.planes {
            extend(samples, plane);
        }
        self.samples
    }

    /// Returns the samples without filling the borders.
    pub(crate) fn into_samples(self) -> Arc<[u8]> {
        self.samples
    }

    /// Fills the borders and makes the frame immutable.
    pub(crate) fn finish(self) -> Frame {
        Frame::new(self.layout, self.into_finished_samples())
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

/// Function that computes a frame's samples on first access.
type Computation = Box<dyn FnOnce() -> Arc<[u8]> + Send + UnwindSafe>;

struct Contents {
    samples: LazyLock<Arc<[u8]>, Computation>,
    layout: FrameLayout,
    hash: OnceLock<u64>,
}

/// A reference frame. A clone shares its samples. They never change, and lazy computation is not observable.
#[derive(Clone)]
pub(crate) struct Frame(Arc<Contents>);

impl Frame {
    /// Creates a frame from finished samples, with borders.
    pub(crate) fn new(layout: FrameLayout, samples: Arc<[u8]>) -> Self {
        let frame = Self::computed_by(layout, move || samples);
        frame.samples();
        frame
    }

    /// Creates a frame whose samples, with borders, `compute` computes on first access. The result must depend only on
    /// the captured values.
    pub(crate) fn computed_by(
        layout: FrameLayout,
        compute: impl FnOnce() -> Arc<[u8]> + Send + UnwindSafe + 'static,
    ) -> Self {
        Self(Arc::new(Contents { samples: LazyLock::new(Box::new(compute)), layout, hash: OnceLock::new() }))
    }

    pub(crate) fn layout(&self) -> FrameLayout {
        self.0.layout
    }

    /// All samples, with borders.
    pub(crate) fn samples(&self) -> &[u8] {
        &self.0.samples
    }

    /// All samples as a shared buffer.
    pub(crate) fn shared_samples(&self) -> Arc<[u8]> {
        self.0.samples.clone()
    }

    /// Whether both frames share one buffer.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The visible part of the frame.
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

    /// Hash of the samples that decoding depends on: the macroblock-aligned planes with their left and right borders.
    ///
    /// The borders repeat the ends of rows, so they add no information. Hashing a plane in one piece is faster than
    /// hashing it row by row. The hash is computed once.
    pub(crate) fn hash(&self) -> u64 {
        *self.0.hash.get_or_init(|| {
            let mut hasher = StateHasher::new();
            for plane in self.0.layout.planes {
                hasher.write(&self.0.samples[plane.origin - BORDER..][..plane.stride * plane.height]);
            }
            hasher.finish()
        })
    }

    /// Rows of the macroblock-aligned planes, plane by plane.
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
