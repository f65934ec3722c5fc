//! The encoder: a state and a picture in, a frame and the state that it leads to out.
//!
//! One [`Analysis`] of a picture against a state holds all that does not depend on the quantizer: the aligned source,
//! the motion found in each reference, the choice of frame kind and refreshed references, and the tables of bit costs.
//! Any number of candidates can be encoded from it. Each of those decides modes by rate and distortion, codes the
//! residuals and keeps the reconstruction; then chooses the loop filter, then, from what it counted, the probabilities;
//! and only then writes the frame. Candidates beside a first one keep its references, vectors and filter (`decisions`).
//!
//! From the bottom up: kernels and costs of symbols; what is known of a picture before it is coded (`analysis`); what
//! coding costs at one quantizer, only read while a macroblock is decided (`costs`); a macroblock coded one way
//! (`trial`); the frame in the making, which alone is written (`canvas`); the decisions, which read both and give what
//! they chose; one frame (`frame_encoder`); a frame that fits a budget (`fit`). No file imports one above it
//! (`crates/units/tests/layers.rs`).

mod activity;
mod analysis;
mod bit_cost;
mod bool_encoder;
mod canvas;
mod contest;
mod costs;
mod decisions;
pub(crate) mod distortion;
mod encoded;
mod fit;
pub(crate) mod forward_quantizer;
pub(crate) mod forward_transform;
mod frame_encoder;
mod frame_quantizers;
mod global_motion;
mod header_writer;
mod inter_prediction;
mod intra_decision;
mod intra_estimate;
mod loop_filter_level;
pub(crate) mod macroblock_motion;
mod macroblocks;
mod mode_costs;
mod mode_counts;
mod mode_decision;
mod motion;
pub(crate) mod packed_token;
pub(crate) mod packed_tokens;
mod parameters;
mod picture_motion;
mod rate_distortion;
mod reconstruction_error;
mod residual;
mod size_model;
mod source;
mod split_decision;
mod steering;
pub(crate) mod subblock_modes;
mod tokens;
mod trellis;
mod trial;
mod vector_coding;
pub(crate) mod whole_modes;

pub use analysis::Analysis;
pub use decisions::Decisions;
pub use encoded::{EncodeStatistics, Encoded};
pub use fit::Fitting;
pub use parameters::{FrameKind, GoldenPolicy, MAXIMUM_QUANTIZER, Parameters, Preset};

use crate::picture::Picture;
use crate::state::State;

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

/// Encodes `picture` once for each quantizer, with default parameters otherwise: the first candidate equals what [`encode`]
/// gives, and what was decided for it serves the others ([`Analysis::menu`]).
#[must_use]
pub fn menu(state: &State, picture: &Picture, quantizers: &[u8]) -> Vec<Encoded> {
    Analysis::new(state, picture, &Parameters::default()).menu(quantizers)
}
