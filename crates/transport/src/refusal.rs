//! Why a datagram is not taken.

/// What is wrong with a datagram that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It is none of this version.
    Malformed,
    /// It is of another connection.
    Foreign,
    /// The connection is not known yet.
    BeforeHello,
    /// It is of a kind that only the other end takes.
    Unexpected,
    /// No proper peer would send it.
    Absurd,
}
