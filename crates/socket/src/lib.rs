//! Clock, UDP sockets and threads for everything that runs in real time: live calls and the emulator.
//!
//! [`Sockets`] of both address families send. A [`Reader`] receives on a separate [`Thread`], behind an [`Admission`],
//! and stamps each datagram by the [`Clock`].
#![forbid(unsafe_code)]
// A browser uses the errors alone.
#![cfg_attr(target_family = "wasm", allow(dead_code, unused_imports))]

mod clock;
mod datagrams;
mod error;
#[cfg(not(target_family = "wasm"))]
mod local_addresses;
mod packet_info;
#[cfg(not(target_family = "wasm"))]
mod sockets;
mod threads;

pub use clock::{Clock, Origin};
pub use datagrams::{Admission, Incoming, Reader};
pub use error::SystemError;
#[cfg(not(target_family = "wasm"))]
pub use sockets::Sockets;
pub use threads::Thread;
