//! Probabilities that frames inherit (RFC 6386, section 9.11).

use crate::tables::{
    CoefficientProbabilities, DEFAULT_CHROMA_MODE_PROBABILITIES, DEFAULT_COEFFICIENT_PROBABILITIES,
    DEFAULT_LUMA_MODE_PROBABILITIES, DEFAULT_MOTION_VECTOR_PROBABILITIES,
};

/// The entropy context that a state saves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Probabilities {
    pub(crate) coefficients: CoefficientProbabilities,
    pub(crate) motion_vectors: [[u8; 19]; 2],
    pub(crate) luma_modes: [u8; 4],
    pub(crate) chroma_modes: [u8; 3],
}

impl Default for Probabilities {
    /// The probabilities at the start of a key frame.
    fn default() -> Self {
        Self {
            coefficients: DEFAULT_COEFFICIENT_PROBABILITIES,
            motion_vectors: DEFAULT_MOTION_VECTOR_PROBABILITIES,
            luma_modes: DEFAULT_LUMA_MODE_PROBABILITIES,
            chroma_modes: DEFAULT_CHROMA_MODE_PROBABILITIES,
        }
    }
}

impl Probabilities {
    /// Length of [`Probabilities::to_bytes`].
    pub(crate) const LENGTH: usize = 1056 + 38 + 4 + 3;

    /// All probabilities, in a fixed order.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let coefficients = self.coefficients.as_flattened().as_flattened().as_flattened();
        [coefficients, self.motion_vectors.as_flattened(), &self.luma_modes, &self.chroma_modes].concat()
    }

    /// Restores the result of [`Probabilities::to_bytes`]; `None` if the length differs.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != Self::LENGTH {
            return None;
        }
        let mut probabilities = Self::default();
        let (coefficients, rest) = bytes.split_at(1056);
        probabilities
            .coefficients
            .as_flattened_mut()
            .as_flattened_mut()
            .as_flattened_mut()
            .copy_from_slice(coefficients);
        let (vectors, rest) = rest.split_at(38);
        probabilities.motion_vectors.as_flattened_mut().copy_from_slice(vectors);
        let (luma, chroma) = rest.split_at(4);
        probabilities.luma_modes.copy_from_slice(luma);
        probabilities.chroma_modes.copy_from_slice(chroma);
        Some(probabilities)
    }
}
