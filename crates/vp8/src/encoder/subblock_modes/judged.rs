//! What is found of a subblock's modes.

/// A subblock's prediction and its transformed error under each mode, in the order of `SubblockMode::ALL`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Judged {
    pub(crate) predictions: [[u8; 16]; 10],
    pub(crate) errors: [u32; 10],
}

/// The samples around a subblock: the eight above it, the four to its left, and the one between them.
pub(crate) type SubblockEdges = ([u8; 8], [u8; 4], u8);
