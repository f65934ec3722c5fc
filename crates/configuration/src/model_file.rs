//! Reads the model of a learned controller from a file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use lockstep_control::{Algorithm, EstimatorKind, RateBounds};
use lockstep_nn::Model;

use crate::content_hash::content_hash;
use crate::regular_file::read_regular_file;

/// The [`content_hash`] of the model that the sender's controller runs.
///
/// The model is `given` or the default one; the result is `None` if the controller runs no model.
#[must_use]
pub fn sender_model_hash(algorithm: &Algorithm, given: Option<&ModelFile>) -> Option<String> {
    let shipped = algorithm.shipped()?;
    given.map_or_else(|| shipped.bytes().map(content_hash), |file| Some(file.hash().to_owned()))
}

/// A model of a learned controller, read from its file.
#[derive(Debug, Clone)]
pub struct ModelFile {
    path: PathBuf,
    model: Arc<Model>,
    hash: String,
}

impl ModelFile {
    /// Reads the model in `path`.
    ///
    /// # Errors
    /// If the file cannot be read, or is a truncated or invalid model.
    pub fn open(path: &Path) -> Result<Self> {
        let named = || format!("model {}", path.display());
        let bytes = read_regular_file(path).with_context(named)?;
        let model = Model::from_bytes(&bytes).with_context(named)?;
        Ok(Self { path: path.to_owned(), model: Arc::new(model), hash: content_hash(&bytes) })
    }

    /// Reads the model of an estimator at the receiver.
    ///
    /// # Errors
    /// As [`ModelFile::open`], and if the model has another purpose.
    pub fn open_for_receiver(path: &Path) -> Result<Self> {
        let file = Self::open(path)?;
        let named = || format!("model {}", path.display());
        let kind = EstimatorKind::of_model(&file.model).with_context(named)?;
        kind.with_model(RateBounds::default(), Some(Arc::clone(&file.model))).with_context(named)?;
        Ok(file)
    }

    /// Path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The [`content_hash`] of the file.
    #[must_use]
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }
}
