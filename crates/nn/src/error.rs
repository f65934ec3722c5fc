//! Why a file is no model that can be run.

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
    /// It is a model for something else.
    #[error("the model does not fit the controller: {0}")]
    Unfit(String),
}
