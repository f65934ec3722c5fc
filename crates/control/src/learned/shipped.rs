//! Embedded models. `models` links to the files of the Python package, so that Cargo packs them. A card next to each file
//! describes its training and results (`docs/lab/2026-11-learning.md`).

use std::sync::{Arc, OnceLock};

use lockstep_nn::{Model, ModelError};

/// Controller with an embedded model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shipped {
    /// Concerto's.
    Concerto,
    /// RL-V's.
    Rlv,
    /// Lockstep's own.
    Lockstep,
    /// BoB's.
    Bob,
    /// HRCC's.
    Hrcc,
    /// Gemini's.
    Gemini,
}

#[cfg(feature = "learned")]
macro_rules! file {
    ($name:literal) => {{
        const BYTES: &[u8] = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/models/", $name));
        const { assert!(BYTES.len() > 1_000, "models are links: run `git config core.symlinks true` and check out again") };
        BYTES
    }};
}

impl Shipped {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Concerto, Self::Rlv, Self::Lockstep, Self::Bob, Self::Hrcc, Self::Gemini];

    /// The ONNX file; none if the build lacks it.
    #[must_use]
    pub fn bytes(self) -> Option<&'static [u8]> {
        match self {
            #[cfg(feature = "learned")]
            Self::Lockstep => Some(file!("lockstep.onnx")),
            #[cfg(feature = "baselines")]
            Self::Concerto => Some(file!("concerto.onnx")),
            #[cfg(feature = "baselines")]
            Self::Rlv => Some(file!("rlv.onnx")),
            #[cfg(feature = "baselines")]
            Self::Bob => Some(file!("bob.onnx")),
            #[cfg(feature = "baselines")]
            Self::Hrcc => Some(file!("hrcc.onnx")),
            #[cfg(feature = "baselines")]
            Self::Gemini => Some(file!("gemini.onnx")),
            #[cfg(not(feature = "baselines"))]
            _ => None,
        }
    }

    /// The feature that embeds the file.
    fn feature(self) -> &'static str {
        if self == Self::Lockstep { "learned" } else { "baselines" }
    }

    /// The model. It is loaded once and shared, since a sweep makes thousands of controllers.
    ///
    /// # Errors
    /// [`ModelError::NotBuilt`] if the build lacks the file; another error if the file is invalid.
    pub fn model(self) -> Result<Arc<Model>, ModelError> {
        static MODELS: [OnceLock<Result<Arc<Model>, ModelError>>; Shipped::ALL.len()] =
            [const { OnceLock::new() }; Shipped::ALL.len()];
        let load = || {
            let bytes = self.bytes().ok_or(ModelError::NotBuilt(self.feature()))?;
            Model::from_bytes(bytes).map(Arc::new)
        };
        MODELS[self as usize].get_or_init(load).clone()
    }
}
