//! The encoder: a source state and a picture in, a frame and its target state out.
//!
//! An [`Analysis`] of a picture against a state holds everything that does not depend on the quantizer: the aligned
//! source, motion in each reference, frame kind, updates of the references, and tables of bit costs. Candidates are
//! encoded from it. Each candidate decides modes by rate and distortion, codes the residuals, and keeps the
//! reconstruction. Then it chooses the loop filter level and the probabilities, and writes the frame. Further
//! candidates can reuse the references, vectors and filter level of a first one (`decisions`).
//!
//! The layers, bottom up:
//!
//! 1. Kernels and costs of symbols
//! 2. `analysis`: properties of a picture before coding
//! 3. `costs`: costs at one quantizer, read-only during the decision of a macroblock
//! 4. `trial`: a macroblock coded in one way
//! 5. `canvas`: a row of the frame under construction
//! 6. The decisions, which read costs and row
//! 7. `frame_encoder`: one frame
//! 8. `fit`: a frame that fits a budget
//!
//! No file imports one from a higher layer (`crates/units/tests/layers.rs`).

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
mod lanes;
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
mod tools;
mod trellis;
mod trial;
mod vector_coding;
pub(crate) mod whole_modes;

pub use analysis::Analysis;
pub use decisions::Decisions;
pub use encoded::{EncodeStatistics, Encoded};
pub use fit::Fitting;
pub use parameters::{Content, FrameKind, GoldenPolicy, MAX_QUANTIZER, Parameters};
pub use tools::Effort;

use crate::picture::Picture;
use crate::state::State;

/// Encodes `picture` for a receiver in `state`. This is a pure function: equal arguments give equal frames.
///
/// The frame is a key frame if `state` is empty or has another size, or at a scene cut.
#[must_use]
pub fn encode(state: &State, picture: &Picture, parameters: &Parameters) -> Encoded {
    Analysis::new(state, picture, parameters).encode(parameters.quantizer)
}

/// Encodes `picture` into at most `budget` bytes with the best quality found ([`Analysis::encode_to_fit`]). The
/// quantizer in `parameters` is ignored. This is a pure function: equal arguments give equal frames.
#[must_use]
pub fn encode_to_fit(state: &State, picture: &Picture, budget: usize, parameters: &Parameters) -> Encoded {
    Analysis::new(state, picture, parameters).encode_to_fit(budget)
}

/// Encodes `picture` once per quantizer, with default parameters otherwise. The first candidate equals the result of
/// [`encode`]; the others reuse its decisions ([`Analysis::menu`]).
#[must_use]
pub fn menu(state: &State, picture: &Picture, quantizers: &[u8]) -> Vec<Encoded> {
    Analysis::new(state, picture, &Parameters::default()).menu(quantizers)
}
