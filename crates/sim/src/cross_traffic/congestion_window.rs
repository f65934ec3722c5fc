//! How many packets of a TCP connection may be on the way.

use std::time::Duration;

use lockstep_units::Timestamp;

/// RFC 6928: packets that may be on the way at first.
pub(super) const INITIAL_WINDOW: f64 = 10.0;
/// RFC 5681, equation 4: no loss takes the window below two packets.
pub(super) const LEAST_WINDOW: f64 = 2.0;

/// How many packets may be on the way, by what became of those before.
pub trait CongestionWindow {
    /// Packets that may be on the way.
    fn window(&self) -> f64;
    /// So many packets arrived while the window was in use and no loss is being made up for.
    fn on_acknowledged(&mut self, now: Timestamp, packets: u64, round_trip: Duration);
    /// Packets were lost, the first since the window was last reduced.
    fn on_loss(&mut self, now: Timestamp);
    /// No acknowledgement came for too long.
    fn on_timeout(&mut self, now: Timestamp);
    /// Nothing was sent for longer than the timeout (RFC 5681, section 4.1).
    fn on_idle(&mut self);
}
