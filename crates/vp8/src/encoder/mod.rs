//! The encoder: a state and a picture in, a frame and the state that it leads to out.
//!
//! One [`Analysis`] of a picture against a state holds all that does not depend on the quantizer: the aligned source,
//! the motion found in each reference, the choice of frame kind and refreshed references, and the tables of bit costs.
//! Any number of candidates can be encoded from it. Each of those decides modes by rate and distortion, codes the
//! residuals and keeps the reconstruction; then chooses the loop filter, then, from what it counted, the probabilities;
//! and only then writes the frame.

mod analysis;
mod bit_cost;
mod bool_encoder;
pub(crate) mod distortion;
mod fit;
pub(crate) mod forward_quantizer;
pub(crate) mod forward_transform;
mod frame_encoder;
mod header_writer;
mod inter_prediction;
mod intra_decision;
mod intra_estimate;
mod loop_filter_level;
mod mode_costs;
mod mode_decision;
mod motion;
mod rate_distortion;
mod residual;
mod size_model;
mod source;
mod split_decision;
mod tokens;
mod trial;
mod vector_coding;

pub use analysis::Analysis;
pub use fit::Fitting;

use crate::picture::Picture;
use crate::state::State;

/// The largest quantizer index (RFC 6386, section 9.6).
pub const MAXIMUM_QUANTIZER: u8 = 127;

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
    /// For calls: modes are pruned by their transformed error, the loop filter follows from the quantizer.
    #[default]
    RealTime,
    /// For comparison: more candidates are coded in full before one is chosen, split motion down to 4x4 is tried
    /// everywhere, and loop-filter levels are tried out. Several times slower than [`Preset::RealTime`].
    Quality,
}

/// Which kind of frame to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum FrameKind {
    /// A key frame where the state has no reference of the picture's size or the scene has changed; else an inter
    /// frame.
    #[default]
    Auto,
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

/// A frame and where it leads.
#[derive(Debug, Clone)]
pub struct Encoded {
    /// The VP8 frame.
    pub frame: Vec<u8>,
    /// The state that decoding `frame` from the encoder's state leads to.
    pub state: State,
    /// The quantizer index used.
    pub quantizer: u8,
    /// Whether it is a key frame.
    pub key_frame: bool,
    /// What the encoder did.
    pub statistics: EncodeStatistics,
}

impl Encoded {
    /// The picture that a receiver will see. O(1): a view of the new last reference.
    #[must_use]
    pub fn picture(&self) -> Picture {
        self.state.last_picture().expect("an encoded frame leaves a reference")
    }
}

/// What the encoder did with one picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EncodeStatistics {
    /// Sum of squared differences between picture and reconstruction: Y, U, V.
    pub squared_error: [u64; 3],
    /// Samples in each plane.
    pub samples: [u64; 3],
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

impl EncodeStatistics {
    /// Peak signal-to-noise ratio of the reconstructed luma, dB; infinite where it is exact.
    #[must_use]
    pub fn luma_psnr(&self) -> f64 {
        10.0 * (255.0 * 255.0 * self.samples[0] as f64 / self.squared_error[0] as f64).log10()
    }
}

/// Encodes `picture` as a receiver in `state` will decode it. Pure: equal arguments give equal frames.
///
/// The frame is a key frame where `state` is empty or of another size, or the scene has changed.
#[must_use]
pub fn encode(state: &State, picture: &Picture, parameters: &Parameters) -> Encoded {
    Analysis::new(state, picture, parameters).encode(parameters.quantizer)
}

/// Encodes `picture` into at most `budget` bytes, as well as that allows ([`Analysis::encode_to_fit`]); the quantizer in
/// `parameters` plays no part. Pure: equal arguments give equal frames.
#[must_use]
pub fn encode_to_fit(state: &State, picture: &Picture, budget: usize, parameters: &Parameters) -> Encoded {
    Analysis::new(state, picture, parameters).encode_to_fit(budget)
}

/// Encodes `picture` once for each quantizer, with default parameters otherwise and one shared [`Analysis`]; the
/// candidates equal those that [`encode`] gives one by one.
#[must_use]
pub fn menu(state: &State, picture: &Picture, quantizers: &[u8]) -> Vec<Encoded> {
    let analysis = Analysis::new(state, picture, &Parameters::default());
    quantizers.iter().map(|&quantizer| analysis.encode(quantizer)).collect()
}
