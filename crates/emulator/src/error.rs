//! Why sockets, threads and emulators fail.

use std::io;
use std::net::SocketAddr;

/// Why a socket or a thread failed.
#[derive(Debug, thiserror::Error)]
pub enum SystemError {
    /// The local address is taken or not ours.
    #[error("cannot bind UDP {address}: {error}; choose another port, or another address of this machine")]
    Bind {
        /// The address asked for.
        address: SocketAddr,
        /// What the system said.
        error: io::Error,
    },
    /// The socket failed while in use.
    #[error("the socket failed: {0}")]
    Socket(io::Error),
    /// A thread died.
    #[error("the call's {name} thread died: {reason}")]
    Thread {
        /// What the thread did.
        name: &'static str,
        /// What it said.
        reason: String,
    },
    /// A thread goes on for too long after the call's end.
    #[error("the call's {name} thread did not end within {seconds} s; what it wrote may be incomplete")]
    Stuck {
        /// What the thread does.
        name: &'static str,
        /// The limit that passed.
        seconds: u64,
    },
}

/// Why an emulator ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmulatorError {
    /// A socket or a thread failed.
    #[error(transparent)]
    System(#[from] SystemError),
    /// A device of a namespace failed while in use.
    #[error("the TUN device failed: {0}; was its network namespace removed?")]
    Device(io::Error),
    /// The emulated link cannot be so.
    #[error("the emulated link: {0}")]
    Link(String),
}
