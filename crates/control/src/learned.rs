//! Learned controllers and estimators: one file each for what a model sees and what is made of what it says.
//!
//! An [`Observation`] turns what an end hears into the numbers that a model is given. The simulator's environments make
//! theirs with the same objects, so a model sees in a call what it saw in training, to the last bit. A [`Model`](lockstep_nn::Model) is an ONNX
//! file; those that come with Lockstep are in [`shipped`], and the Python package has the same files.
//!
//! # Features
//! `learned` runs models and embeds that of the controller `lockstep`; `baselines` adds the other learned controllers. Without
//! them every model is refused with [`ModelError::NotBuilt`](lockstep_nn::ModelError::NotBuilt).
//!
//! To add another: a file here with its `Observation` and its [`Controller`](crate::Controller) or
//! [`Estimator`](crate::Estimator), a line each in [`ObservationKind`], [`Shipped`](shipped::Shipped) and
//! [`Algorithm`](crate::Algorithm), and a file in `python/lockstep/learn` that trains it.

#[cfg(feature = "baselines")]
mod arrived;
#[cfg(feature = "baselines")]
mod bob;
#[cfg(feature = "baselines")]
mod concerto;
#[cfg(feature = "baselines")]
mod gemini;
#[cfg(feature = "baselines")]
mod hrcc;
mod lockstep;
#[cfg(feature = "baselines")]
mod mmsys24;
#[cfg(all(test, feature = "baselines"))]
mod model_tests;
mod observation;
#[cfg(feature = "baselines")]
mod observation_kind;
pub(crate) mod purpose;
#[cfg(feature = "baselines")]
mod receiver;
pub mod shipped;

#[cfg(feature = "baselines")]
pub use bob::{BobObservation, bob};
#[cfg(feature = "baselines")]
pub use concerto::{Concerto, ConcertoObservation};
#[cfg(feature = "baselines")]
pub use gemini::{GeminiObservation, gemini};
#[cfg(feature = "baselines")]
pub use hrcc::{HrccObservation, hrcc};
pub use lockstep::{
    Fallback, HORIZONS, LEVELS, Lesson, Lockstep, MODEL_STATE, OBSERVATIONS, OBSERVED, Rule, RuleTuning,
};
#[cfg(feature = "baselines")]
pub use mmsys24::mmsys24;
pub use observation::Observation;
#[cfg(feature = "baselines")]
pub use observation_kind::{ObservationKind, UnknownObservation};
