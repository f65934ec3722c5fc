//! Errors of emulators.

use std::io;

use lockstep_socket::SystemError;

/// Error that ends an emulator.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmulatorError {
    /// A socket or a thread failed.
    #[error(transparent)]
    System(#[from] SystemError),
    /// A device of a namespace failed while in use.
    #[error("the TUN device failed: {0}; was its network namespace removed?")]
    Device(io::Error),
    /// The configuration of the link is invalid.
    #[error("invalid emulated link: {0}")]
    Link(String),
}
