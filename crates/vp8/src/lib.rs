//! A purely functional VP8 codec (RFC 6386): state in, frame and state out.
//!
//! - [`decode`] takes a [`State`] and a frame, and returns the next state and its [`Picture`]. It has no side effects.
//!   The decoder implements all of RFC 6386 and is bit-exact with libvpx, also for damaged frames.
//! - [`encode`] takes a state and a picture, and returns a frame and its target state. [`Analysis`] codes one picture
//!   at many quantizers; [`encode_to_fit`] fits a budget.
//! - A state is a value: cheap to keep, identified by [`State::id`], and saved with [`State::to_bytes`].
//! - [`Arena`] is memory for consecutive frames. It saves time and never changes a result.
//!
//! # Optimisation
//! Without optimisation the codec is too slow for real-time video ([`IS_OPTIMISED`]). These lines in the workspace's
//! `Cargo.toml` optimise dependencies in debug builds:
//! ```toml
//! [profile.dev.package."*"]
//! opt-level = 3
//! ```
#![deny(unsafe_code)]

mod arena;
mod block_copy;
mod bool_decoder;
mod decode_error;
mod decoder;
mod encoder;
mod frame;
mod header;
#[cfg(feature = "bench")]
#[doc(hidden)]
pub mod kernels;
mod loop_filter;
mod macroblock;
mod motion_vector;
mod neighbours;
mod picture;
mod predict;
mod probabilities;
mod quantization;
#[cfg(simd128)]
mod simd128;
mod state;
mod state_error;
mod state_hasher;
mod tables;
mod transform;

pub use arena::Arena;
pub use decode_error::DecodeError;
pub use decoder::{DEFAULT_PIXEL_LIMIT, decode, decode_in, decode_within, is_shown};
pub use encoder::{
    Analysis, Content, Decisions, Effort, EncodeStatistics, Encoded, Fitting, FrameKind, GoldenPolicy, MAX_QUANTIZER,
    Parameters, encode, encode_to_fit, menu,
};
pub use picture::{MAX_DIMENSION, Picture, PictureError, Plane};
pub use quantization::quantizer_step;
pub use state::State;
pub use state_error::StateError;
pub use state_hasher::StateHasher;

/// Whether this crate was compiled with optimisation (`opt-level` above 0).
pub const IS_OPTIMISED: bool = !cfg!(unoptimised);

/// Examples of the page, compiled as documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/how-to/codec.md")]
struct Codec;
