//! The model of a program that runs none: there is no value of it.

use std::convert::Infallible;

use crate::error::{ModelError, Port};

/// A model; without the feature `learned` there is none.
#[derive(Debug)]
pub struct Model(Infallible);

impl Model {
    /// The model in the bytes of an ONNX file.
    ///
    /// # Errors
    /// Always [`ModelError::NotBuilt`].
    pub fn from_bytes(_bytes: &[u8]) -> Result<Self, ModelError> {
        Err(ModelError::NotBuilt("learned"))
    }

    /// What goes in, in this order.
    #[must_use]
    pub fn inputs(&self) -> &[Port] {
        match self.0 {}
    }

    /// What comes out, in this order.
    #[must_use]
    pub fn outputs(&self) -> &[Port] {
        match self.0 {}
    }

    /// What the file says of itself under `key` (`metadata_props` of ONNX).
    #[must_use]
    pub fn metadata(&self, _key: &str) -> Option<&str> {
        match self.0 {}
    }

    /// What comes out for `inputs`, each in the order of its rows.
    ///
    /// # Errors
    /// None: there is no model.
    pub fn run(&self, _inputs: &[&[f32]]) -> Result<Vec<Vec<f32>>, ModelError> {
        match self.0 {}
    }
}
