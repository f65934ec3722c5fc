//! Why an end refuses a datagram.

/// Reason for the refusal of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The datagram does not decode.
    Malformed,
    /// The datagram belongs to another connection.
    Foreign,
    /// The connection is not known yet.
    BeforeHello,
    /// Only the other end accepts datagrams of this kind.
    Unexpected,
    /// A field has a value that no valid peer sends.
    Absurd,
}
