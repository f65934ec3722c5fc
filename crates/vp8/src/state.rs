//! The state: everything that decoding the next frame depends on, as a value.

mod bytes;
mod succession;

use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::frame::Frame;
use crate::header::{FrameSize, LoopFilterDeltas, Segmentation};
use crate::picture::Picture;
use crate::probabilities::Probabilities;
use crate::state_hasher::StateHasher;

/// The state between two frames: reference frames, probabilities, segmentation and loop filter deltas.
///
/// A state is immutable. Cloning one costs O(1). It holds at most one reference frame that the state before it does not
/// hold. [`State::default`] is the state before any frame; only key frames decode from it.
#[derive(Clone, Default)]
pub struct State(Arc<Contents>);

/// Contents of a state.
#[derive(Clone, Default)]
pub(crate) struct Contents {
    pub(crate) size: FrameSize,
    pub(crate) version: u8,
    pub(crate) references: Option<References>,
    pub(crate) probabilities: Probabilities,
    pub(crate) segmentation: Segmentation,
    /// Segment of each macroblock, row by row; empty if all are 0.
    pub(crate) segment_map: Arc<[u8]>,
    pub(crate) loop_filter_deltas: LoopFilterDeltas,
    pub(crate) golden_sign_bias: bool,
    pub(crate) altref_sign_bias: bool,
    /// Whether the frame that led here is to be shown. It is not part of the state id.
    pub(crate) shown: bool,
    /// Quantizer index of the frame that led here: how coarse the last reference is. It is not part of the state id.
    pub(crate) quantizer: u8,
    pub(crate) id: OnceLock<u64>,
}

/// The three reference frames. Several may be the same frame.
#[derive(Debug, Clone)]
pub(crate) struct References {
    pub(crate) last: Frame,
    pub(crate) golden: Frame,
    pub(crate) altref: Frame,
}

impl State {
    pub(crate) fn new(contents: Contents) -> Self {
        Self(Arc::new(contents))
    }

    pub(crate) fn contents(&self) -> &Contents {
        &self.0
    }

    /// State id: a hash of everything that decoding depends on. It is equal on every platform and for every way to
    /// reach the state.
    ///
    /// It is computed at most once, as is the hash of each reference frame.
    #[must_use]
    pub fn id(&self) -> u64 {
        *self.0.id.get_or_init(|| {
            let mut hasher = StateHasher::new();
            for reference in self.0.references.iter().flat_map(References::all) {
                hasher.write(&reference.hash().to_le_bytes());
            }
            hasher.write(&self.0.parameters());
            hasher.write(&self.0.probabilities.to_bytes());
            hasher.write(&self.0.segment_map);
            hasher.finish()
        })
    }

    /// Width and height of the pictures in luma samples; `None` before the first key frame.
    #[must_use]
    pub fn size(&self) -> Option<(usize, usize)> {
        self.0.references.as_ref().map(|_| (usize::from(self.0.size.width), usize::from(self.0.size.height)))
    }

    /// Memory of the state by itself, in bytes: its reference frames, each one once, and its tables.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let mut samples = 0;
        each_distinct_frame([self], |_, frame| samples += frame.layout().length());
        samples + self.0.segment_map.len() + Probabilities::LENGTH
    }

    /// Pixels of the reference frames that the states hold together. Frames that states share count once.
    pub fn reference_pixels<'a>(states: impl IntoIterator<Item = &'a Self>) -> usize {
        let mut pixels = 0;
        each_distinct_frame(states, |state, _| pixels += state.size().map_or(0, |(width, height)| width * height));
        pixels
    }

    /// Codes of the horizontal and vertical upscaling for display: 0 none, 1 by 5/4, 2 by 5/3, 3 by 2 (RFC 6386,
    /// section 9.1). Decoding ignores them.
    #[must_use]
    pub fn scaling(&self) -> (u8, u8) {
        (self.0.size.horizontal_scale, self.0.size.vertical_scale)
    }

    /// Whether the frame that led here is to be shown (`show_frame`, RFC 6386, section 9.1).
    #[must_use]
    pub fn is_shown(&self) -> bool {
        self.0.shown
    }

    /// Picture of the last reference frame; `None` before the first key frame.
    #[must_use]
    pub fn last_picture(&self) -> Option<Picture> {
        let references = self.0.references.as_ref()?;
        let (width, height) = self.size()?;
        Some(references.last.picture(width, height))
    }
}

/// Visits the reference frames of the states, each one once. Frames are the same if they share one buffer.
fn each_distinct_frame<'a>(states: impl IntoIterator<Item = &'a State>, mut visit: impl FnMut(&State, &Frame)) {
    let mut frames: Vec<&Frame> = Vec::new();
    for state in states {
        for frame in state.0.references.iter().flat_map(References::all) {
            // States share most frames with the state before them.
            if !frames.iter().rev().any(|known| known.is(frame)) {
                frames.push(frame);
                visit(state, frame);
            }
        }
    }
}

impl References {
    pub(crate) fn all(&self) -> [&Frame; 3] {
        [&self.last, &self.golden, &self.altref]
    }
}

impl Contents {
    /// The small fields of the state in a fixed order.
    fn parameters(&self) -> Vec<u8> {
        let segmentation = &self.segmentation;
        let mut bytes = Vec::with_capacity(64);
        bytes.extend(self.size.width.to_le_bytes());
        bytes.extend(self.size.height.to_le_bytes());
        bytes.extend([self.size.horizontal_scale, self.size.vertical_scale, self.version]);
        bytes.extend([segmentation.enabled, segmentation.absolute].map(u8::from));
        bytes.extend(segmentation.quantizers.map(|value| value as u8));
        bytes.extend(segmentation.filter_levels.map(|value| value as u8));
        bytes.push(u8::from(self.loop_filter_deltas.enabled));
        bytes.extend(self.loop_filter_deltas.references.map(|value| value as u8));
        bytes.extend(self.loop_filter_deltas.modes.map(|value| value as u8));
        bytes.extend([self.golden_sign_bias, self.altref_sign_bias].map(u8::from));
        bytes
    }
}

impl PartialEq for State {
    /// Whether decoding from both gives the same results, judged by [`State::id`].
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.id() == other.id()
    }
}

impl Eq for State {}

impl fmt::Debug for State {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "State({:016x})", self.id())
    }
}
