//! What an encoder gives.

use crate::picture::Picture;
use crate::state::State;

/// A frame and where it leads.
#[derive(Debug, Clone)]
pub struct Encoded {
    /// The VP8 frame.
    pub frame: Vec<u8>,
    /// The state that decoding `frame` from the encoder's state leads to. What only it needs (the loop filter, an eighth of
    /// the time of coding) is done when its name, its picture or what follows it is first asked for, on the thread that
    /// asks: a candidate that is not sent costs as much less.
    pub state: State,
    /// The quantizer index used.
    pub quantizer: u8,
    /// Whether it is a key frame.
    pub key_frame: bool,
    /// What the encoder did.
    pub statistics: EncodeStatistics,
}

impl Encoded {
    /// The picture that a receiver will see: a view of the new last reference, O(1) but for what is done when a state is
    /// first asked.
    #[must_use]
    pub fn picture(&self) -> Picture {
        self.state.last_picture().expect("an encoded frame leaves a reference")
    }
}

/// What the encoder did with one picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EncodeStatistics {
    /// Macroblocks predicted from this frame.
    pub intra_macroblocks: u32,
    /// Macroblocks predicted from a reference.
    pub inter_macroblocks: u32,
    /// Macroblocks, of either kind, without coefficients.
    pub skipped_macroblocks: u32,
    /// The loop filter's level, 0 to 63.
    pub loop_filter_level: u8,
    /// Bytes of the first partition: header, modes and motion vectors.
    pub mode_bytes: usize,
    /// Bytes of the coefficients.
    pub coefficient_bytes: usize,
}
