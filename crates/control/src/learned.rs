//! Learned controllers and estimators: one file each for what a model sees and what is made of what it says.
//!
//! An [`Observation`] turns what an end hears into the numbers that a model is given. The simulator's environments make
//! theirs with the same objects, so a model sees in a call what it saw in training, to the last bit. A [`Model`](lockstep_nn::Model) is an ONNX
//! file; those that come with Lockstep are in [`shipped`], and the Python package has the same files.
//!
//! To add another: a file here with its `Observation` and its [`Controller`](crate::Controller) or
//! [`Estimator`](crate::Estimator), a line each in [`ObservationKind`], [`Shipped`](shipped::Shipped) and
//! [`Algorithm`](crate::Algorithm), and a file in `python/lockstep/learn` that trains it.

mod arrived;
mod bob;
mod concerto;
mod gemini;
mod hrcc;
mod lockstep;
mod mmsys24;
#[cfg(test)]
mod model_tests;
mod observation;
pub(crate) mod purpose;
mod receiver;
pub mod shipped;

pub use bob::{BobObservation, bob};
pub use concerto::{Concerto, ConcertoObservation};
pub use gemini::{GeminiObservation, gemini};
pub use hrcc::{HrccObservation, hrcc};
pub use lockstep::{
    Fallback, HORIZONS, LEVELS, Lesson, Lockstep, LockstepConfig, MODEL_STATE, OBSERVATIONS, OBSERVED, Rule, RuleTuning,
};
pub use mmsys24::mmsys24;
pub use observation::{Observation, ObservationKind, UnknownObservation};
