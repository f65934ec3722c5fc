//! Reference frames: three planes with a border, in one buffer that never changes once it is a reference.

use std::fmt;
use std::hash::Hasher;
use std::panic::UnwindSafe;
use std::sync::{Arc, LazyLock, OnceLock};

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

    /// Samples of all planes, borders included.
    pub(crate) fn length(&self) -> usize {
        self.length
    }
}

/// A frame in the making.
pub(crate) struct FrameBuffer {
    samples: Arc<[u8]>,
    layout: FrameLayout,
}

impl FrameBuffer {
    /// A frame whose samples are all zero.
    pub(crate) fn new(layout: FrameLayout) -> Self {
        Self { samples: std::iter::repeat_n(0, layout.length).collect(), layout }
    }

    /// A frame in memory that nothing else holds, as long as the layout. All of its samples are to be written: what they
    /// are now is unspecified.
    pub(crate) fn on(samples: Arc<[u8]>, layout: FrameLayout) -> Self {
        debug_assert_eq!(samples.len(), layout.length);
        Self { samples, layout }
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

    /// Repeats the edges into the borders and ends the making: gives the samples, which never change any more.
    pub(crate) fn into_finished_samples(mut self) -> Arc<[u8]> {
        let layout = self.layout;
        let samples = self.samples_mut();
        for plane in layout.planes {
            extend(samples, plane);
        }
        self.samples
    }

    /// The samples as they are.
    pub(crate) fn into_samples(self) -> Arc<[u8]> {
        self.samples
    }

    /// Ends the making.
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

/// What gives a frame's samples when they are first asked for.
type Making = Box<dyn FnOnce() -> Arc<[u8]> + Send + UnwindSafe>;

struct Contents {
    samples: LazyLock<Arc<[u8]>, Making>,
    layout: FrameLayout,
    hash: OnceLock<u64>,
}

/// A reference frame. Cloning it copies nothing. Its samples never change; when they were made does not show.
#[derive(Clone)]
pub(crate) struct Frame(Arc<Contents>);

impl Frame {
    /// A frame of samples that are there, borders included.
    pub(crate) fn new(layout: FrameLayout, samples: Arc<[u8]>) -> Self {
        let frame = Self::made_by(layout, move || samples);
        frame.samples();
        frame
    }

    /// A frame whose samples, borders included, `making` gives once somebody asks for them. What it gives must depend on
    /// nothing but what it holds.
    pub(crate) fn made_by(
        layout: FrameLayout,
        making: impl FnOnce() -> Arc<[u8]> + Send + UnwindSafe + 'static,
    ) -> Self {
        Self(Arc::new(Contents { samples: LazyLock::new(Box::new(making)), layout, hash: OnceLock::new() }))
    }

    pub(crate) fn layout(&self) -> FrameLayout {
        self.0.layout
    }

    /// All samples, borders included.
    pub(crate) fn samples(&self) -> &[u8] {
        &self.0.samples
    }

    /// The same, for whoever keeps them.
    pub(crate) fn shared_samples(&self) -> Arc<[u8]> {
        self.0.samples.clone()
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

    /// The hash of the samples that decoding depends on: the macroblock-aligned planes, with the borders beside their rows,
    /// which repeat the rows' ends. In one piece a plane is hashed faster than row by row, though that is more. Computed
    /// once.
    pub(crate) fn hash(&self) -> u64 {
        *self.0.hash.get_or_init(|| {
            let mut hasher = XxHash3_64::with_seed(0);
            for plane in self.0.layout.planes {
                hasher.write(&self.0.samples[plane.origin - BORDER..][..plane.stride * plane.height]);
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
