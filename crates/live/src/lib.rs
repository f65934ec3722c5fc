//! Drives calls over sockets in real time, and is the real-time emulator.
#![forbid(unsafe_code)]

mod capture;
mod clock;
mod datagrams;
mod measuring;
mod menu;
mod receiver;
mod relay;
mod sender;

use std::io;
use std::net::SocketAddr;

pub use clock::Clock;
pub use menu::ThreadedMenu;
pub use receiver::{ReceiverOptions, Shown, receive};
pub use relay::{Relay, RelayOptions, RelayStatus};
pub use sender::{SenderOptions, send};

/// Why a live call or relay ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LiveError {
    /// The local address is taken or not ours.
    #[error("cannot bind UDP {address}: {error}; choose another port, or another address of this machine")]
    Bind {
        /// The address asked for.
        address: SocketAddr,
        /// What the system said.
        error: io::Error,
    },
    /// The peer's address cannot be used.
    #[error("cannot send to {address}: {error}")]
    Connect {
        /// The address asked for.
        address: SocketAddr,
        /// What the system said.
        error: io::Error,
    },
    /// The socket failed while in use.
    #[error("the socket failed: {0}")]
    Socket(io::Error),
    /// The source of pictures failed.
    #[error("the source failed: {0}")]
    Source(String),
    /// The sink of pictures failed.
    #[error("the sink failed: {0}")]
    Sink(String),
    /// The sender's pictures have more pixels than the receiver decodes.
    #[error(
        "the sender's pictures of {width}x{height} have more than the {limit} pixels that are decoded here; allow more with \
         --max-pixels"
    )]
    TooManyPixels {
        /// Width that the sender announced.
        width: u16,
        /// Height that the sender announced.
        height: u16,
        /// The limit.
        limit: usize,
    },
    /// Nothing was heard from the sender.
    #[error("no datagram for {seconds} s; is the sender running, and sending to this address?")]
    Silent {
        /// The limit that passed.
        seconds: u64,
    },
}
