//! The model of a learned controller, in a file.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};

use lockstep_control::learned::{MOST_MODEL_BYTES, Model};
use lockstep_control::{EstimatorKind, RateBounds};

/// A model of a learned controller, read from its file.
#[derive(Debug, Clone)]
pub struct ModelFile {
    path: PathBuf,
    model: Arc<Model>,
}

impl ModelFile {
    /// Reads the model in `path`.
    ///
    /// # Errors
    /// If there is no such file, or it holds no model that can be run.
    pub fn open(path: &Path) -> Result<Self> {
        let named = || format!("model {}", path.display());
        // A file without an end, such as a device, is read no further than a model may be long.
        let mut bytes = Vec::new();
        let file = File::open(path).with_context(named)?;
        file.take(MOST_MODEL_BYTES as u64 + 1).read_to_end(&mut bytes).with_context(named)?;
        let model = Model::from_bytes(&bytes).with_context(named)?;
        Ok(Self { path: path.to_owned(), model: Arc::new(model) })
    }

    /// The same, for an estimator at the receiver.
    ///
    /// # Errors
    /// As [`ModelFile::open`], and if it is a model for something else.
    pub fn open_for_receiver(path: &Path) -> Result<Self> {
        let file = Self::open(path)?;
        let named = || format!("model {}", path.display());
        let kind = EstimatorKind::of_model(&file.model).with_context(|| {
            let said = file.model.metadata("lockstep.controller").unwrap_or_default();
            format!("model {}: it is for the controller {said}, which has its model at the sender", path.display())
        })?;
        kind.with_model(RateBounds::default(), Some(Arc::clone(&file.model))).with_context(named)?;
        Ok(file)
    }

    /// Its file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }
}
