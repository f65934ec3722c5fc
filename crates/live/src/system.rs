//! Threads of a call, and the errors of sockets and threads as those of a call.

use lockstep_socket::SystemError;

use crate::LiveError;

/// A thread that does one part of a call's work.
pub(crate) type Thread = lockstep_socket::Thread<LiveError>;

impl From<SystemError> for LiveError {
    fn from(error: SystemError) -> Self {
        match error {
            SystemError::Bind { address, error } => Self::Bind { address, error },
            SystemError::Socket(error) => Self::Socket(error),
            SystemError::Thread { name, reason } => Self::Thread { name, reason },
            SystemError::Stuck { name, seconds } => Self::Stuck { name, seconds },
        }
    }
}
