//! Connection that carries a call: QUIC of a native end, or WebTransport of a browser.

use std::time::Duration;

use lockstep_units::Timestamp;

use crate::TicketRefusal;
use crate::control::CloseReason;
use crate::messages::{Delivery, Message, MessageError};
use crate::presence::Presence;
use crate::stream::StreamName;

/// After this silence of the other end, which sends a keep-alive five times as often, the path counts as interrupted.
pub const SILENT: Duration = Duration::from_secs(1);

/// After this silence, the other end counts as away, and pictures wait for it. WebRTC's consent expires after the same
/// time (RFC 7675, section 5.1).
pub(crate) const AWAY: Duration = Duration::from_secs(30);

/// Route of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Route {
    /// Directly between the ends.
    Direct,
    /// Relayed by the rendezvous.
    Relayed,
}

impl Route {
    /// Name in events, as in the serialized form.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Relayed => "relayed",
        }
    }
}

/// Why a connection ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Loss {
    /// The other end closed it.
    Closed(CloseReason),
    /// The listener refused the ticket.
    Refused(TicketRefusal),
    /// The other end no longer knows the connection.
    Restarted,
    /// After a silence, another peer joined with the standing ticket of this call.
    Replaced,
    /// One of the ends detected a protocol error.
    Broken(String),
}

/// Event of a connection, for its call. `D` is a received datagram.
#[derive(Debug)]
pub enum CarrierEvent<D> {
    /// The other end has joined and has proved its identity.
    Joined,
    /// A datagram arrived after a pause, at this end or, as the other end reports, there.
    Returned,
    /// The other end has a new address; recent datagrams went to the old one.
    Moved,
    /// A datagram, with its arrival time.
    Datagram(Timestamp, D),
    /// Content of a datagram of the transport that arrived in the stream.
    Control(Vec<u8>),
    /// New presence of the other end.
    Presence(Presence),
    /// Name of the video stream that the other end sends with this connection number.
    Stream {
        /// The connection number.
        connection: u32,
        /// The name.
        name: StreamName,
    },
    /// A peer proved the ticket, and was refused because the call is busy.
    Missed,
    /// A message of the application.
    Message {
        /// Arrival time.
        at: Timestamp,
        /// How it was delivered.
        delivery: Delivery,
        /// Sending time, on the other end's clock.
        sent_at: Timestamp,
        /// Its bytes.
        payload: Vec<u8>,
    },
    /// The connection has ended.
    Lost(Loss),
}

/// Connection of one end of a call, without a clock.
///
/// Its driver passes in what arrives and the time; [`Exchange`](crate::Exchange) uses the rest.
pub trait Carrier {
    /// Bytes of a received datagram.
    type Datagram: AsRef<[u8]>;
    /// Destination of a datagram.
    type Destination;

    /// The next event.
    fn poll(&mut self) -> Option<CarrierEvent<Self::Datagram>>;

    /// Writes the next datagram into the empty `buffer` and returns its destination. The caller repeats this until it
    /// returns `None`, after every other event of the connection.
    fn poll_transmit(&mut self, now: Timestamp, buffer: &mut Vec<u8>) -> Option<Self::Destination>;

    /// When the connection must be driven next.
    fn poll_timeout(&mut self) -> Option<Timestamp>;

    /// Whether the other end has joined.
    fn is_joined(&self) -> bool;

    /// Whether the other end has joined, and this end has not begun to close the connection.
    fn is_open(&self) -> bool;

    /// When the other end last sent an authenticated packet.
    fn last_received(&self) -> Timestamp;

    /// Largest datagram that the path is known to carry; `None` before the other end has joined.
    fn largest_datagram(&mut self) -> Option<usize>;

    /// Shortest round-trip time so far.
    fn min_round_trip(&self) -> Option<Duration>;

    /// Route of the call; `None` before the other end has joined.
    fn route(&self) -> Option<Route>;

    /// Description of the addresses that were tried, for error messages; empty at a listener.
    fn tried(&self) -> String;

    /// Silence of the other end at the end of the call. Set only if the silence began well before this end closed, and
    /// the close message was never acknowledged.
    fn unconfirmed(&self) -> Option<Duration>;

    /// Sends a datagram; the path loses it if it is too large.
    fn send(&mut self, datagram: Vec<u8>);

    /// Sends a datagram of the transport in the stream, reliably.
    fn send_control(&mut self, datagram: Vec<u8>);

    /// Sends a message of the application; returns the number of bytes on the path.
    ///
    /// # Errors
    /// The message is too long, the call is not connected, or too many messages wait.
    fn send_message(&mut self, now: Timestamp, message: &Message) -> Result<usize, MessageError>;

    /// Announces the name of a video stream of this end.
    fn name_stream(&mut self, connection: u32, name: StreamName);

    /// Requests an answer from the other end.
    fn ping(&mut self);
}
