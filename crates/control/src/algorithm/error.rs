//! Errors of algorithms.

use lockstep_nn::ModelError;

/// Why there is no such algorithm.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AlgorithmError {
    /// No algorithm has this name.
    #[error("no controller is called `{name}`; there are: {names}")]
    Unknown {
        /// The name.
        name: String,
        /// Every name there is, with commas between them.
        names: String,
    },
    /// A controller cannot be registered under this name.
    #[error(
        "cannot register the controller `{0}`: a name is 1 to 64 letters, digits, `-`, `_` and `.`; choose such a name"
    )]
    Name(String),
    /// Another controller has this name.
    #[error("cannot register the controller `{0}`: another one has this name; choose a different name")]
    Taken(String),
    /// What follows `fixed:` is no bit rate.
    #[error("`fixed:{0}` names no bit rate; it should be like fixed:1.5mbps")]
    Rate(String),
    /// A controller that has to know the path was not told of it.
    #[error("the controller {0} must know what the path carries, which only a simulation tells it")]
    UnknownPath(&'static str),
    /// No model comes with a learned controller.
    #[error("no model comes with the controller {0}: name one with --model")]
    NoModel(&'static str),
    /// The model is none for this controller.
    #[error(transparent)]
    Model(#[from] ModelError),
}
