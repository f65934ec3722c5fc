//! Model of a program without the feature `learned`: it has no values.

use std::convert::Infallible;

use crate::error::{ModelError, Port};

/// A model. Without the feature `learned` it cannot be constructed.
#[derive(Debug)]
pub struct Model(Infallible);

impl Model {
    /// Refuses every model.
    ///
    /// # Errors
    /// Always [`ModelError::NotBuilt`].
    pub fn from_bytes(_bytes: &[u8]) -> Result<Self, ModelError> {
        Err(ModelError::NotBuilt("learned"))
    }

    /// Inputs, in the order of `run`.
    #[must_use]
    pub fn inputs(&self) -> &[Port] {
        match self.0 {}
    }

    /// Outputs, in the order of `run`.
    #[must_use]
    pub fn outputs(&self) -> &[Port] {
        match self.0 {}
    }

    /// Metadata of the file under `key` (`metadata_props` of ONNX).
    #[must_use]
    pub fn metadata(&self, _key: &str) -> Option<&str> {
        match self.0 {}
    }

    /// Runs the model.
    ///
    /// # Errors
    /// None: there is no model.
    pub fn run(&self, _inputs: &[&[f32]]) -> Result<Vec<Vec<f32>>, ModelError> {
        match self.0 {}
    }
}
