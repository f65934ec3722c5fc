//! Congestion windows: how many packets of a TCP connection may be in flight.

use std::time::Duration;

use lockstep_units::Timestamp;

/// Initial window, packets (RFC 6928).
pub(super) const INITIAL_WINDOW: f64 = 10.0;
/// Smallest window after a loss, packets (RFC 5681, equation 4).
pub(super) const MIN_WINDOW: f64 = 2.0;

/// Congestion window of a TCP sender.
pub trait CongestionWindow {
    /// Current window, packets.
    fn window(&self) -> f64;
    /// `packets` were acknowledged while the window limited the sender, outside loss recovery.
    fn on_acknowledged(&mut self, now: Timestamp, packets: u64, round_trip: Duration);
    /// A packet was lost, the first since the last reduction.
    fn on_loss(&mut self, now: Timestamp);
    /// The retransmission timer expired.
    fn on_timeout(&mut self, now: Timestamp);
    /// Nothing was sent for longer than the timeout (RFC 5681, section 4.1).
    fn on_idle(&mut self);
}
