//! Errors of both libraries.

use crate::header::HeaderError;

/// Why a library cannot be used, or refuses an operation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Av1Error {
    /// The library is not installed, or lacks a function.
    #[error("cannot load {library}: {reason} (on Debian 12 install {package})")]
    Missing {
        /// Name of the library.
        library: &'static str,
        /// Reason of the system's loader.
        reason: String,
        /// Package of Debian 12 that contains the library.
        package: &'static str,
    },
    /// The library has another interface than the one that this crate declares.
    #[error("{library} {version} has an unsupported interface: {what}")]
    Interface {
        /// Name of the library.
        library: &'static str,
        /// Version that the library reports.
        version: String,
        /// Part of the interface that differs.
        what: String,
    },
    /// The library refused an operation.
    #[error("{library} cannot {what}: {reason}")]
    Refused {
        /// Name of the library.
        library: &'static str,
        /// The operation: a verb and its object.
        what: &'static str,
        /// Reason that the library reports.
        reason: String,
    },
    /// The picture's size is invalid or differs from that of the encoder.
    #[error("picture size {0}x{1} is invalid or differs from the encoder's")]
    Size(usize, usize),
    /// A slot, a quantizer or a speed is out of range.
    #[error("{what} {value} is out of range: at most {most}")]
    Range {
        /// The value that is out of range.
        what: &'static str,
        /// Its value.
        value: u8,
        /// Largest permitted value.
        most: u8,
    },
    /// A coded frame has an unexpected header.
    #[error("cannot read a frame header: {0}")]
    Header(#[from] HeaderError),
}
