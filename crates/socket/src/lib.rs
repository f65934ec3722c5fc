//! Clock, UDP sockets and threads for everything that runs in real time: live calls and the emulator.
//!
//! [`Sockets`] of both address families send. A [`Reader`] receives on a separate [`Thread`], behind an [`Admission`],
//! and stamps each datagram by the [`Clock`].
#![forbid(unsafe_code)]

mod clock;
mod datagrams;
mod error;
mod local_addresses;
mod packet_info;
mod sockets;
mod threads;

pub use clock::{Clock, Origin};
pub use datagrams::{Admission, Incoming, Reader};
pub use error::SystemError;
pub use sockets::Sockets;
pub use threads::Thread;
