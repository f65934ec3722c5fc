//! State of one call over any connection: what both ends say in the control stream, messages of the application,
//! events, tickets.
//!
//! [`Exchange`] stands between a [`Carrier`] (QUIC of a native end, or WebTransport of a browser) and the sending and
//! receiving ends of `lockstep-call`. It reads no clock and opens no socket.
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
pub use exchange::{Ends, Exchange, TimeLimits, reason};
pub use freshness::Freshness;
