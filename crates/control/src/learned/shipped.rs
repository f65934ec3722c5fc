//! The models that come with Lockstep. The files are those of the Python package, `python/lockstep/learn/models`, each
//! with a card beside it that says what it was trained on and what came of it (`docs/learning.md`).

use std::sync::{Arc, OnceLock};

use lockstep_nn::{Model, ModelError};

/// A controller that comes with a model.
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

macro_rules! file {
    ($name:literal) => {
        include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../python/lockstep/learn/models/", $name))
    };
}

impl Shipped {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Concerto, Self::Rlv, Self::Lockstep, Self::Bob, Self::Hrcc, Self::Gemini];

    /// The file.
    #[must_use]
    pub fn bytes(self) -> &'static [u8] {
        match self {
            Self::Concerto => file!("concerto.onnx"),
            Self::Rlv => file!("rlv.onnx"),
            Self::Lockstep => file!("lockstep.onnx"),
            Self::Bob => file!("bob.onnx"),
            Self::Hrcc => file!("hrcc.onnx"),
            Self::Gemini => file!("gemini.onnx"),
        }
    }

    /// The model. A sweep makes thousands of controllers: it is made ready once, and never changes.
    ///
    /// # Errors
    /// If the file is none that can be run.
    pub fn model(self) -> Result<Arc<Model>, ModelError> {
        static MODELS: [OnceLock<Result<Arc<Model>, ModelError>>; Shipped::ALL.len()] =
            [const { OnceLock::new() }; Shipped::ALL.len()];
        MODELS[self as usize].get_or_init(|| Model::from_bytes(self.bytes()).map(Arc::new)).clone()
    }
}
