//! Flows of packets between two ends, which a [`Network`](crate::Network) carries.

use std::time::Duration;

use lockstep_units::{ByteCount, Timestamp};

/// Direction of a packet, which also determines the end that receives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the sender to the receiver.
    Forward,
    /// From the receiver to the sender.
    Reverse,
}

/// A packet that left the network.
#[derive(Debug, Clone)]
pub struct Arrived<P> {
    /// Direction of the packet. [`Direction::Forward`] packets arrive at the receiver.
    pub direction: Direction,
    /// Time of sending.
    pub sent_at: Timestamp,
    /// Time at which it left the last link, which is now.
    pub at: Timestamp,
    /// Size on the links, headers included.
    pub size: ByteCount,
    /// Total queueing delay on all links.
    pub queueing_delay: Duration,
    /// Whether a queue marked the packet (ECN).
    pub congestion_experienced: bool,
    /// The packet.
    pub packet: P,
}

impl<P> Arrived<P> {
    /// The packet, and its arrival without a packet.
    pub(crate) fn take(self) -> (P, Arrived<()>) {
        let Self { direction, sent_at, at, size, queueing_delay, congestion_experienced, packet } = self;
        (packet, Arrived { direction, sent_at, at, size, queueing_delay, congestion_experienced, packet: () })
    }

    /// The same arrival with another packet.
    pub(crate) fn with<Q>(&self, packet: Q) -> Arrived<Q> {
        let Self { direction, sent_at, at, size, queueing_delay, congestion_experienced, packet: _ } = *self;
        Arrived { direction, sent_at, at, size, queueing_delay, congestion_experienced, packet }
    }
}

/// Both ends of one flow: a call, a download or other cross traffic. Like all control code, a flow does not read a
/// clock.
///
/// The ends communicate only through the network. One object holds both ends because that is simple for the simulator.
pub trait Flow {
    /// Packets of this flow.
    type Packet: Clone;

    /// Handles a packet that arrived at one of the ends.
    fn handle_packet(&mut self, now: Timestamp, arrived: Arrived<Self::Packet>);
    /// Next packet to send now, with its size on the links, headers included. The network polls until there is none,
    /// after every other call.
    fn poll_transmit(&mut self, now: Timestamp) -> Option<(Direction, ByteCount, Self::Packet)>;
    /// Time of the next call of [`Flow::handle_timeout`]. The first value is the start of the flow.
    fn poll_timeout(&self) -> Option<Timestamp>;
    /// Handles the time of [`Flow::poll_timeout`].
    fn handle_timeout(&mut self, now: Timestamp);
}
