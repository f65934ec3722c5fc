//! What QUIC asks before it sends: nothing here holds a datagram back, because Lockstep's own controller has decided on it
//! already (a second controller below the first only adds delay: quinn-rs/quinn issue 2156).
//!
//! What a peer can make this end send by what it acknowledges is bounded by that controller and the limits of `control::limit`;
//! before its address is known to be its own, by QUIC: three times what came from there (RFC 9000, section 8).

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use quinn_proto::congestion::{Controller, ControllerFactory};

/// No window, and with that no pacer: quinn paces no window beyond 32 bits.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Unlimited;

impl Controller for Unlimited {
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
