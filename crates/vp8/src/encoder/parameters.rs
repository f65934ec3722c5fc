//! Parameters of the encoder.

use super::tools::Effort;
pub use crate::quantization::MAX_QUANTIZER;

/// Parameters for encoding one picture.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameters {
    /// Quantizer index, 0 (finest) to 127 (coarsest). Larger values count as 127.
    pub quantizer: u8,
    /// Trade-off between speed and size.
    pub effort: Effort,
    /// Kind of frame.
    pub frame_kind: FrameKind,
    /// Whether the frame becomes the golden frame.
    pub golden: GoldenPolicy,
    /// Content of the pictures.
    pub content: Content,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            quantizer: 64,
            effort: Effort::default(),
            frame_kind: FrameKind::default(),
            golden: GoldenPolicy::default(),
            content: Content::default(),
        }
    }
}

/// Kind of frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum FrameKind {
    /// An interframe. At a scene cut, or without a reference of the picture's size, a key frame.
    #[default]
    Auto,
    /// An interframe whenever the state has a reference of the picture's size.
    ///
    /// After a cut, golden and altref keep earlier scenes, which may return. This saves many bits in scenes that
    /// alternate or flash. An encoder that cannot return to an older state better starts with a key frame.
    /// `lab: 2026-11-notes-vp8`.
    Inter,
    /// A key frame, which depends on no earlier state.
    Key,
}

/// Whether an interframe becomes the golden frame. The old golden frame then becomes altref. (A key frame replaces all
/// three references.)
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum GoldenPolicy {
    /// The golden frame is refreshed when hardly any macroblock has a better match in it than in the last frame.
    #[default]
    Auto,
    /// This frame becomes the golden frame.
    Refresh,
    /// Golden and altref stay unchanged.
    Keep,
}

/// Content of the pictures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Content {
    /// Camera pictures, films and games.
    #[default]
    Camera,
    /// A screen. Motion search expects that it scrolls by up to half of its height. `lab: 2026-11-screen`.
    Screen,
}
