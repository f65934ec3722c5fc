//! Why bytes may not be a saved state.

/// Why bytes are no state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The bytes do not begin as a state of this form does.
    #[error("bytes do not begin as a saved state of this version")]
    Form,
    /// The bytes end too early.
    #[error("saved state ends after {0} bytes")]
    Truncated(usize),
    /// There are bytes behind the end.
    #[error("saved state has {0} bytes behind its end")]
    Excess(usize),
    /// A field has a value that it cannot have.
    #[error("saved state has an impossible {0}")]
    Field(&'static str),
    /// The content is not what it was when it was saved.
    #[error("saved state has hash {actual:016x}, not {expected:016x}")]
    Hash {
        /// The hash that was saved.
        expected: u64,
        /// The hash of what was restored.
        actual: u64,
    },
}
