//! What a [`Network`](crate::Network) carries: flows of packets between two ends.

use std::time::Duration;

use lockstep_units::{ByteCount, Timestamp};

/// The way of a packet, and the end that gets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the sender to the receiver.
    Forward,
    /// From the receiver to the sender.
    Reverse,
}

/// A packet that came out of the network.
#[derive(Debug, Clone)]
pub struct Arrived<P> {
    /// Which end gets it: the receiver gets what went [`Direction::Forward`].
    pub direction: Direction,
    /// When its sender sent it.
    pub sent_at: Timestamp,
    /// When it came out of the last link; now.
    pub at: Timestamp,
    /// Its size on the links, headers included.
    pub size: ByteCount,
    /// How long it waited in queues, on all links together.
    pub queueing_delay: Duration,
    /// Whether one of the queues marked it (ECN).
    pub congestion_experienced: bool,
    /// The packet.
    pub packet: P,
}

impl<P> Arrived<P> {
    /// What is inside, and the same arrival of whatever else is made of that.
    pub(crate) fn take(self) -> (P, Arrived<()>) {
        let Self { direction, sent_at, at, size, queueing_delay, congestion_experienced, packet } = self;
        (packet, Arrived { direction, sent_at, at, size, queueing_delay, congestion_experienced, packet: () })
    }

    /// The same arrival of another packet.
    pub(crate) fn with<Q>(&self, packet: Q) -> Arrived<Q> {
        let Self { direction, sent_at, at, size, queueing_delay, congestion_experienced, packet: _ } = *self;
        Arrived { direction, sent_at, at, size, queueing_delay, congestion_experienced, packet }
    }
}

/// Both ends of one flow: a call, a download, cross traffic. Clock-free, as everything that decides is.
///
/// The ends talk to each other through the network alone; that both are in one object is for the simulator's
/// convenience.
pub trait Flow {
    /// What this flow sends.
    type Packet: Clone;

    /// A packet of this flow came to one of its ends.
    fn handle_packet(&mut self, now: Timestamp, arrived: Arrived<Self::Packet>);
    /// The next packet that an end sends now, with its size on the links, headers included. Asked until there is none,
    /// after everything else that happens to the flow.
    fn poll_transmit(&mut self, now: Timestamp) -> Option<(Direction, ByteCount, Self::Packet)>;
    /// When [`Flow::handle_timeout`] wants to be called next. The first answer says when the flow begins.
    fn poll_timeout(&self) -> Option<Timestamp>;
    /// The time that [`Flow::poll_timeout`] gave has come.
    fn handle_timeout(&mut self, now: Timestamp);
}
