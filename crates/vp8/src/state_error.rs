//! Errors of [`State::from_bytes`](crate::State::from_bytes).

/// Why bytes are not a saved state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The bytes do not begin with the signature and version of this format.
    #[error("bytes do not begin with the signature of a saved state of this version")]
    Form,
    /// The bytes end too early. The field is their number.
    #[error("saved state of {0} bytes is truncated")]
    Truncated(usize),
    /// Bytes follow the end of the state. The field is their number.
    #[error("saved state has {0} excess bytes")]
    Excess(usize),
    /// A field has an invalid value. The string names the field.
    #[error("saved state has an invalid {0}")]
    Field(&'static str),
    /// The hash does not match the contents.
    #[error("saved state is damaged: expected hash {expected:016x}, found {actual:016x}")]
    Hash {
        /// Hash in the saved bytes.
        expected: u64,
        /// Hash of the restored state.
        actual: u64,
    },
}
