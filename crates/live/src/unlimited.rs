//! Congestion controller for QUIC that never holds a datagram back.
//!
//! Lockstep's own controller has already decided on each datagram. A second controller below it would only add delay
//! (quinn-rs/quinn issue 2156).
//!
//! Lockstep's controller and the limits of `control::limit` bound what a peer can trigger by false acknowledgements.
//! For an unvalidated address, QUIC sends at most three times the received bytes (RFC 9000, section 8).
//!
//! QUIC remembers each packet until the peer acknowledges it or a later one. This controller counts these packets
//! ([`unacknowledged`]), so that the connection can bound them.

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use quinn_proto::Connection;
use quinn_proto::congestion::{Controller, ControllerFactory};

/// Unlimited window. It also disables the pacer, because quinn does not pace windows beyond 32 bits.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Unlimited {
    /// Number of the newest packet.
    sent: u64,
    /// Number of the newest acknowledged packet. Before that, number of the first packet on the path.
    acknowledged: Option<u64>,
}

/// Number of packets that left after the newest one that the peer acknowledged.
pub(crate) fn unacknowledged(connection: &Connection) -> u64 {
    let controller = connection.congestion_state().clone_box().into_any().downcast::<Unlimited>();
    controller
        .map_or(0, |controller| controller.sent.saturating_sub(controller.acknowledged.unwrap_or(controller.sent)))
}

impl Controller for Unlimited {
    fn on_sent(&mut self, _now: Instant, _bytes: u64, last_packet_number: u64) {
        self.sent = self.sent.max(last_packet_number);
        self.acknowledged.get_or_insert(last_packet_number);
    }

    fn on_end_acks(&mut self, _now: Instant, _in_flight: u64, _app_limited: bool, largest_acknowledged: Option<u64>) {
        self.acknowledged = self.acknowledged.max(largest_acknowledged);
    }

    fn on_congestion_event(&mut self, _now: Instant, _sent: Instant, _persistent: bool, _lost_bytes: u64) {}

    fn on_mtu_update(&mut self, _new_mtu: u16) {}

    fn window(&self) -> u64 {
        u64::MAX
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(*self)
    }

    fn initial_window(&self) -> u64 {
        u64::MAX
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl ControllerFactory for Unlimited {
    fn build(self: Arc<Self>, _now: Instant, _mtu: u16) -> Box<dyn Controller> {
        Box::new(*self)
    }
}
