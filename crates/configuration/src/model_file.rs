//! The model of a learned controller, in a file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use lockstep_control::learned::Model;
use lockstep_control::{EstimatorKind, RateBounds};

use crate::regular_file::read_regular_file;

/// What tells a model from others: SHA-256 of the bytes of its file, in hexadecimal, as `sha256sum` prints it.
#[must_use]
pub fn model_hash(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes))
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
    /// If there is no such file, or it holds no model that can be run.
    pub fn open(path: &Path) -> Result<Self> {
        let named = || format!("model {}", path.display());
        let bytes = read_regular_file(path).with_context(named)?;
        let model = Model::from_bytes(&bytes).with_context(named)?;
        Ok(Self { path: path.to_owned(), model: Arc::new(model), hash: model_hash(&bytes) })
    }

    /// The same, for an estimator at the receiver.
    ///
    /// # Errors
    /// As [`ModelFile::open`], and if it is a model for something else.
    pub fn open_for_receiver(path: &Path) -> Result<Self> {
        let file = Self::open(path)?;
        let named = || format!("model {}", path.display());
        let kind = EstimatorKind::of_model(&file.model).with_context(named)?;
        kind.with_model(RateBounds::default(), Some(Arc::clone(&file.model))).with_context(named)?;
        Ok(file)
    }

    /// Its file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The [`model_hash`] of its file.
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
