//! State of one call over any connection: control messages, messages of the application, events and tickets.
//!
//! [`Exchange`] stands between a [`Carrier`] and the ends of `lockstep-call`. A carrier is QUIC of a native end, or
//! WebTransport of a browser. Nothing here reads a clock or opens a socket.
//!
//! ```text
//!  Carrier --CarrierEvent--> Exchange --datagrams--> SendingEnd, ReceivingEnd
//!     ^                       |    |
//!     +------- datagrams -----+    +--CallEvent--> application
//! ```
#![forbid(unsafe_code)]

mod carrier;
pub mod control;
mod error;
mod event;
mod exchange;
mod freshness;
pub mod messages;
pub mod presence;
pub mod probe;
pub mod stream;
pub mod ticket;

pub use carrier::{Carrier, CarrierEvent, Loss, Route, SILENT};
pub use error::{Ended, LiveError, TicketRefusal, Warning};
pub use event::{CallEvent, Quality, ReceivingQuality, SendingQuality};
pub use exchange::{Ends, Exchange, TimeLimits, encoder_failure, reason, refusal};
pub use freshness::Freshness;
