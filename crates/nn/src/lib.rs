//! Bounded, deterministic inference of ONNX models.
//!
//! [`Model::from_bytes`] reads a file and [`Model::run`] runs it. A file may come from anywhere, so it is checked
//! before it runs:
//!
//! ```text
//! bytes ──► wire: size without weights ──► graph, shapes: operators, shapes, work ──► run
//! ```
//!
//! Lockstep does not use a runtime such as tract or rten, for four reasons:
//!
//! - They use the fastest instructions of a processor. Rounding differs between processors, so calls would differ as
//!   well.
//! - They trust the file.
//! - tract 0.23 adds a hundred crates. Their build takes four and a half minutes of a core per profile.
//! - The models of controllers only need about thirty operators.
#![forbid(unsafe_code)]

#[cfg(feature = "learned")]
#[doc(hidden)]
pub mod build;
#[cfg(feature = "learned")]
mod conv;
mod error;
#[cfg(feature = "learned")]
mod file;
#[cfg(feature = "learned")]
mod graph;
#[cfg(feature = "learned")]
#[doc(hidden)]
pub mod onnx;
#[cfg(feature = "learned")]
mod product;
#[cfg(feature = "learned")]
mod recurrent;
#[cfg(feature = "learned")]
mod run;
#[cfg(feature = "learned")]
mod shapes;
#[cfg(feature = "learned")]
mod tensor;
#[cfg(all(test, feature = "learned"))]
mod tests;
#[cfg(not(feature = "learned"))]
mod unbuilt;
#[cfg(feature = "learned")]
mod view;
#[cfg(feature = "learned")]
mod wire;

pub use error::{MAX_FILE_BYTES, ModelError, Port};
#[cfg(feature = "learned")]
pub use file::Model;
#[cfg(not(feature = "learned"))]
pub use unbuilt::Model;
