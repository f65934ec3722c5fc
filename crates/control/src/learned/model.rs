//! Learned models: ONNX files and how they are run.
//!
//! A file comes from anywhere, so it is looked at before it is run: its size, what of it is not weights (`wire`), every
//! operator, shape and the work of a decision (`graph`, `shapes`). What is run (`run`) is then known to be small and whole.
//!
//! It is run here, and not by a runtime such as tract or rten. They take the fastest instructions that a processor has, and
//! round otherwise where it has others, so that the same call would not be the same call on every machine; they trust the
//! file; and tract 0.23 brings a hundred crates, whose build takes four and a half minutes of a core for each profile. What
//! the nets of controllers take is some thirty operators.

#[cfg(feature = "learned")]
mod conv;
#[cfg(feature = "learned")]
mod file;
#[cfg(feature = "learned")]
mod graph;
#[cfg(feature = "learned")]
mod onnx;
#[cfg(feature = "learned")]
mod product;
#[cfg(feature = "learned")]
mod recurrent;
#[cfg(feature = "learned")]
mod run;
#[cfg(feature = "learned")]
mod shapes;
#[cfg(all(test, feature = "learned"))]
mod tests;
#[cfg(not(feature = "learned"))]
mod unbuilt;
#[cfg(feature = "learned")]
mod wire;

#[cfg(feature = "learned")]
pub use file::Model;
#[cfg(not(feature = "learned"))]
pub use unbuilt::Model;

/// The largest file that is taken. Those that come with Lockstep have less than 5 MB.
pub const MOST_BYTES: usize = 16 << 20;
/// The most of a file that may be something else than weights.
#[cfg(feature = "learned")]
const MOST_BESIDES_WEIGHTS: usize = 256 << 10;

/// An input or output of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// Its shape.
    pub shape: Vec<usize>,
}

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

impl Model {
    /// Checks that nothing says that the model is for something else than `controller`: a name under `lockstep.controller`
    /// must be its own. One that says nothing is taken, since models of one's own and of the MMSys'24 challenge do not.
    ///
    /// # Errors
    /// [`ModelError::Unfit`] if it says another name, or none that is a name.
    pub(super) fn check_controller(&self, controller: &str) -> Result<(), ModelError> {
        match self.metadata("lockstep.controller") {
            Some(other) if other != controller => Err(self.is_not_for(&format!("`{controller}`"))),
            _ => Ok(()),
        }
    }

    /// The error that it is none for `wanted`, by what it says of itself.
    pub(crate) fn is_not_for(&self, wanted: &str) -> ModelError {
        let said = excerpt(self.metadata("lockstep.controller").unwrap_or_default());
        ModelError::Unfit(format!("it is one for `{said}`, not for {wanted}"))
    }
}

/// The beginning of a text of a file, in one line that a terminal shows as it is.
pub(super) fn excerpt(text: &str) -> String {
    lockstep_link::excerpt(text).chars().flat_map(char::escape_debug).collect()
}
