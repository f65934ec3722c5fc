//! What an encoder is told.

pub use crate::quantization::MAXIMUM_QUANTIZER;

/// How an encoder should treat one picture.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameters {
    /// The quantizer index, 0 (finest) to 127 (coarsest); larger values are taken as 127.
    pub quantizer: u8,
    /// How much work to spend.
    pub preset: Preset,
    /// Which kind of frame to make.
    pub frame_kind: FrameKind,
    /// Whether the frame becomes the golden reference.
    pub golden: GoldenPolicy,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            quantizer: 64,
            preset: Preset::default(),
            frame_kind: FrameKind::default(),
            golden: GoldenPolicy::default(),
        }
    }
}

/// How much work the encoder spends on a picture. Every preset makes frames that any VP8 decoder understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Preset {
    /// For calls: modes are pruned by their transformed error, loop-filter levels are tried out on a few rows.
    #[default]
    RealTime,
    /// For comparison: more candidates are coded in full before one is chosen, split motion down to 4x4 is tried wherever
    /// there is something to code, levels of coefficients are chosen by a trellis, errors are weighed by how busy a
    /// macroblock is, and loop-filter levels are tried out on a third of the frame. Two to four times as slow as
    /// [`Preset::RealTime`].
    Quality,
}

/// Which kind of frame to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum FrameKind {
    /// A key frame where the state has no reference of the picture's size or the scene has changed; else an inter
    /// frame.
    #[default]
    Auto,
    /// An inter frame wherever the state has a reference of the picture's size. After a cut golden and altref still show the
    /// scenes before, which may return: of two views in turn it takes 87 % less, where something flashes 20 to 73 % less, of
    /// one cut a second 1 % less, of one every three pictures 5 % more (BD-rate of the real-time preset). Who cannot go back
    /// to an older state finds a key frame there the better place to begin anew.
    Inter,
    /// A key frame: it depends on nothing before it.
    Key,
}

/// Whether an inter frame becomes the golden reference; the old golden one then becomes altref. (A key frame always
/// becomes all three.)
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum GoldenPolicy {
    /// The golden reference is renewed once hardly any macroblock is found better in it than in the last frame.
    #[default]
    Auto,
    /// This frame becomes the golden reference.
    Refresh,
    /// Golden and altref stay as they are.
    Keep,
}
