//! Drives calls over sockets in real time, and is the real-time emulator.
#![forbid(unsafe_code)]

mod capture;
mod clock;
mod datagrams;
mod measuring;
mod menu;
mod peers;
mod receiver;
mod relay;
mod sender;
mod threads;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

pub use clock::Clock;
pub use menu::ThreadedMenu;
pub use receiver::{ReceiverOptions, Shown, receive};
pub use relay::{Relay, RelayOptions, RelayStatus};
pub use sender::{SenderOptions, send};

/// Asked several times a second whether a call is to end, because its user wants it to.
pub type Stop = Box<dyn Fn() -> bool + Send>;

/// How long an end may take to end once it has been decided: to tell the other end, and to decode and show what came.
const END_LIMIT: Duration = Duration::from_secs(10);
/// How long the other end is told of the end although it is silent: it may still hear.
const SILENT_END_LIMIT: Duration = Duration::from_millis(200);
/// How long a peer that was there and now refuses datagrams may take to come back.
const REFUSED_LIMIT: Duration = Duration::from_secs(3);

/// One end of a live call that is over.
pub struct Finished<End> {
    /// The end as the call left it, with its log, however it ended.
    pub end: End,
    /// How it ended.
    pub result: Result<Ended, LiveError>,
}

/// How long an end may take to end after that `result`.
fn end_limit(result: &Result<Ended, LiveError>) -> Duration {
    match result {
        Err(LiveError::Silent { .. } | LiveError::Gone { .. }) => SILENT_END_LIMIT,
        _ => END_LIMIT,
    }
}

/// How a call ended that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The time was up or the source ended.
    Done,
    /// The other end ended it.
    ByPeer,
    /// The person who watched closed the window.
    WindowClosed,
    /// [`Stop`] said so.
    Stopped,
}

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
    /// None of the peer's addresses can be used.
    #[error("there is no way to the other end: {tried}")]
    Connect {
        /// Each address and what the system said.
        tried: String,
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
    /// Nobody answered the sender's hello.
    #[error("nobody answered within {:.1} s: {tried}; is `lockstep receive` running there?", .waited.as_secs_f64())]
    Unanswered {
        /// How long it was tried.
        waited: Duration,
        /// Each address and what came of it.
        tried: String,
    },
    /// Nothing was heard from the sender or the receiver for too long.
    #[error("nothing came from the {peer} for {:.1} s; the call is over", .silence.as_secs_f64())]
    Silent {
        /// Which end is silent.
        peer: &'static str,
        /// The limit that passed.
        silence: Duration,
    },
    /// No sender called.
    #[error("no sender called within {:.1} s; is `lockstep send` running, and sending to this address?", .waited.as_secs_f64())]
    NotCalled {
        /// The limit that passed.
        waited: Duration,
    },
    /// The receiver was there and is no more.
    #[error("the receiver is gone: {tried}")]
    Gone {
        /// Its address and what the network said.
        tried: String,
    },
    /// The other end ended the call because it failed.
    #[error("the {peer} ended the call because it failed; its own message says why")]
    PeerFailed {
        /// Which end failed.
        peer: &'static str,
    },
    /// The receiver does not know the estimator that the sender's controller needs.
    #[error(
        "the receiver has not the estimator that this controller needs; is it of an older version? Choose another --controller"
    )]
    Refused,
    /// The sender's controller needs an estimator that this receiver does not know.
    #[error(
        "the sender's controller needs estimator {number}, which this receiver does not have: update it, or name the model that it runs with --model"
    )]
    UnknownEstimator {
        /// The estimator's number in the hello.
        number: u16,
    },
}
