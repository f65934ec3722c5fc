//! Bounds of a model, and why a file is none that can be run.

/// The largest file that is taken. Those that come with Lockstep have less than 5 MB.
pub const MOST_BYTES: usize = 16 << 20;

/// Why a file is no model that can be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The file is too large.
    #[error("the model has {0} bytes; {MOST_BYTES} are the most")]
    TooLarge(usize),
    /// It is no ONNX file, or not all of one.
    #[error("it is no whole ONNX file: {0}")]
    NotOnnx(String),
    /// It was written for another version of the operators.
    #[error("the model is of ONNX operator set {found}; {least} to {most} are run")]
    Opset {
        /// The version in the file; 0 where it has none.
        found: i64,
        /// The oldest that is run.
        least: i64,
        /// The newest that is run.
        most: i64,
    },
    /// Something in it is not run here, or makes no sense.
    #[error("the model is refused: {0}")]
    Refused(String),
    /// The program was built without the feature that runs or embeds the model.
    #[error(
        "cannot run a model: this program was built without lockstep-control's feature `{0}`; enable it or choose another \
         controller"
    )]
    NotBuilt(&'static str),
    /// It is a model for something else.
    #[error("the model does not fit the controller: {0}")]
    Unfit(String),
}

/// An input or output of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// Its shape.
    pub shape: Vec<usize>,
}
