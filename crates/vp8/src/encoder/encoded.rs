//! The result of encoding.

use crate::picture::Picture;
use crate::state::State;

/// A frame and its target state.
#[derive(Debug, Clone)]
pub struct Encoded {
    /// Bytes of the VP8 frame.
    pub frame: Vec<u8>,
    /// Target state of `frame`.
    ///
    /// The loop filter takes about an eighth of the coding time. It runs on first access to the state's id, its picture
    /// or a following frame, on the accessing thread. So a candidate that is not sent does not cost this time.
    pub state: State,
    /// Quantizer index of the frame.
    pub quantizer: u8,
    /// Whether the frame is a key frame.
    pub key_frame: bool,
    /// Statistics of the encoder.
    pub statistics: EncodeStatistics,
}

impl Encoded {
    /// The picture that a receiver decodes: a view of the new last reference. It costs O(1) after the first access to
    /// `state`.
    #[must_use]
    pub fn picture(&self) -> Picture {
        self.state.last_picture().expect("an encoded frame has a reference")
    }
}

/// Statistics about one encoded picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EncodeStatistics {
    /// Number of intra macroblocks.
    pub intra_macroblocks: u32,
    /// Number of inter macroblocks.
    pub inter_macroblocks: u32,
    /// Number of macroblocks without coefficients, intra or inter.
    pub skipped_macroblocks: u32,
    /// Loop filter level, 0 to 63.
    pub loop_filter_level: u8,
    /// Size of the first partition in bytes: header, modes and motion vectors.
    pub mode_bytes: usize,
    /// Size of the coefficients in bytes.
    pub coefficient_bytes: usize,
}
