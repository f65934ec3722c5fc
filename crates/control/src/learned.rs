//! Learned controllers and estimators: each file has the observation of a model and the use of its output.
//!
//! An [`Observation`] turns the inputs of one end into the numbers for a model. The simulator's environments use the
//! same objects, so a model sees in a call exactly the numbers of its training. A [`Model`](lockstep_nn::Model) is an
//! ONNX file. [`shipped`] contains the embedded ones; the Python package has the same files.
//!
//! # Features
//! `learned` runs models and embeds the model of the controller `lockstep`. `baselines` adds the other learned
//! controllers. Without them every model is refused with [`ModelError::NotBuilt`](lockstep_nn::ModelError::NotBuilt).
//!
//! To add a controller, write a file here with its `Observation` and its [`Controller`](crate::Controller) or
//! [`Estimator`](crate::Estimator). Add it to [`ObservationKind`], [`Shipped`](shipped::Shipped) and
//! [`Algorithm`](crate::Algorithm). Put its training into `python/lockstep/learn`.

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
pub use concerto::{Concerto, ConcertoInputs, ConcertoObservation};
#[cfg(feature = "baselines")]
pub use gemini::{GeminiObservation, gemini};
#[cfg(feature = "baselines")]
pub use hrcc::{HrccObservation, hrcc};
pub use lockstep::{
    Fallback, HORIZONS, LEVELS, Lockstep, MODEL_STATE, OBSERVATIONS, OBSERVED, Rule, RuleTuning, TrainingSample,
};
#[cfg(feature = "baselines")]
pub use mmsys24::mmsys24;
pub use observation::Observation;
#[cfg(feature = "baselines")]
pub use observation_kind::{ObservationKind, UnknownObservation};
