//! Bounded, deterministic inference: ONNX files and how they are run.
//!
//! A file comes from anywhere, so it is looked at before it is run: its size, what of it is not weights (`wire`), every
//! operator, shape and the work of a decision (`graph`, `shapes`). What is run (`run`) is then known to be small and whole.
//!
//! It is run here, and not by a runtime such as tract or rten. They take the fastest instructions that a processor has, and
//! round otherwise where it has others, so that the same call would not be the same call on every machine; they trust the
//! file; and tract 0.23 brings a hundred crates, whose build takes four and a half minutes of a core for each profile. What
//! the nets of controllers take is some thirty operators.
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

pub use error::{MOST_BYTES, ModelError, Port};
#[cfg(feature = "learned")]
pub use file::Model;
#[cfg(not(feature = "learned"))]
pub use unbuilt::Model;
