//! Evaluation of a subblock's modes.

/// Predictions and SATDs of a subblock in each mode, in the order of `SubblockMode::ALL`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Judged {
    pub(crate) predictions: [[u8; 16]; 10],
    pub(crate) errors: [u32; 10],
}

/// Samples around a subblock: the eight above, the four to the left, and the corner.
pub(crate) type SubblockEdges = ([u8; 8], [u8; 4], u8);
