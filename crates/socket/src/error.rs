//! Errors of sockets and threads.

use std::io;
use std::net::SocketAddr;

/// Why a socket or a thread failed.
#[derive(Debug, thiserror::Error)]
pub enum SystemError {
    /// The local address is in use, or does not belong to this machine.
    #[error("cannot bind UDP {address}: {error}; choose another port, or another address of this machine")]
    Bind {
        /// The requested address.
        address: SocketAddr,
        /// The system's error.
        error: io::Error,
    },
    /// The socket failed while in use.
    #[error("the socket failed: {0}")]
    Socket(io::Error),
    /// A thread panicked or could not be started.
    #[error("the call's {name} thread died: {reason}")]
    Thread {
        /// The thread's task.
        name: &'static str,
        /// The cause.
        reason: String,
    },
    /// A thread did not end within the limit after the call's end.
    #[error("the call's {name} thread did not end within {seconds} s; what it wrote may be incomplete")]
    Stuck {
        /// The thread's task.
        name: &'static str,
        /// The limit that passed.
        seconds: u64,
    },
}
