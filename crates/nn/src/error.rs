//! Limits of a model, and why a file is refused.

/// Largest size of a file, bytes. The models of Lockstep have less than 5 MB.
pub const MAX_FILE_BYTES: usize = 16 << 20;

/// Why a model cannot be loaded or run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The file is too large.
    #[error("the model has {0} bytes, at most {MAX_FILE_BYTES} are allowed")]
    TooLarge(usize),
    /// The file is not a complete ONNX file.
    #[error("truncated or invalid ONNX file: {0}")]
    NotOnnx(String),
    /// The model needs another version of the operators.
    #[error("unsupported ONNX operator set {found}, expected {least} to {most}")]
    Opset {
        /// Version in the file; 0 if there is none.
        found: i64,
        /// Oldest supported version.
        least: i64,
        /// Newest supported version.
        most: i64,
    },
    /// The model is invalid, or has an unsupported part.
    #[error("unsupported model: {0}")]
    Refused(String),
    /// The program was built without the feature that runs or embeds models.
    #[error(
        "cannot run a model: this program was built without lockstep-control's feature `{0}`; enable it or choose another \
         controller"
    )]
    NotBuilt(&'static str),
    /// The model is for another purpose, or its inputs do not fit.
    #[error("the model does not fit the controller: {0}")]
    Unfit(String),
}

/// An input or output of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Name of the port.
    pub name: String,
    /// Shape of the tensor.
    pub shape: Vec<usize>,
}
