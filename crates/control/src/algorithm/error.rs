//! Errors of algorithms.

use lockstep_nn::ModelError;

/// Error of an algorithm's name or setup.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AlgorithmError {
    /// No algorithm has this name.
    #[error("unknown controller `{name}`: choose one of {names}")]
    Unknown {
        /// The requested name.
        name: String,
        /// All known names, separated by commas.
        names: String,
    },
    /// A controller cannot be registered under this name.
    #[error(
        "cannot register the controller `{0}`: a name is 1 to 64 letters, digits, `-`, `_` and `.`; choose such a name"
    )]
    Name(String),
    /// Another controller is already registered under this name.
    #[error("cannot register the controller `{0}`: the name is taken; choose a different name")]
    Taken(String),
    /// The text after `fixed:` is not a bit rate.
    #[error("`fixed:{0}`: expected a bit rate, such as fixed:1.5mbps")]
    Rate(String),
    /// The controller needs the capacity of the path, and the setup does not contain it.
    #[error("the controller {0} needs the capacity of the path; use it in simulations only")]
    UnknownPath(&'static str),
    /// A learned controller has no embedded model.
    #[error("the controller {0} has no embedded model: choose one with --model")]
    NoModel(&'static str),
    /// The model does not fit this controller.
    #[error(transparent)]
    Model(#[from] ModelError),
}
