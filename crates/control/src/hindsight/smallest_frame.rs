//! Search for the smallest frame: the budget grows while the link stays idle. The path is known, but the codec is not.

use std::time::Duration;

use lockstep_units::{ByteCount, Timestamp};

/// Number of idle frame intervals with a budget, after which no frame is known to fit the budget.
const IDLE_INTERVALS: f64 = 2.5;
/// Upper bound of that time at low frame rates; coding one picture takes less.
const MAX_IDLE: Duration = Duration::from_millis(120);
/// Growth of the next offer (lab: 2026-11-notes-control).
const GROWTH: f64 = 2.0;
/// Factor of the failed offer with each sent frame, since later pictures may be easier.
const FADING: f64 = 0.97;
/// Ratio of a successful to a failed offer above which an offer between them is tried.
const RESOLUTION: f64 = 1.25;

/// Offers and results, link bytes.
#[derive(Debug, Default)]
pub(super) struct SmallestFrame {
    /// Largest recent offer that held no frame.
    too_small: f64,
    /// Smallest later offer that held a frame, or the first offer to try.
    enough: f64,
    /// Largest offer since the last frame or the last failure, and the time of the first one.
    offered: Option<(f64, Timestamp)>,
}

impl SmallestFrame {
    /// Minimum offer for a frame; zero while every coded frame fits.
    pub(super) fn wanted(&self) -> ByteCount {
        let wanted = if self.too_small > 0.0 && self.enough > RESOLUTION * self.too_small {
            libm::sqrt(self.enough * self.too_small)
        } else {
            self.enough
        };
        ByteCount::new(wanted as u64)
    }

    /// Handles an empty queue at `now`, with an offer of `room` bytes for a frame.
    pub(super) fn on_empty(&mut self, now: Timestamp, interval: Duration, room: ByteCount) {
        if room == ByteCount::ZERO {
            return;
        }
        let room = room.as_f64();
        let (offer, since) = self.offered.map_or((room, now), |(offer, since)| (offer.max(room), since));
        self.offered = Some((offer, since));
        if now.saturating_since(since) > interval.mul_f64(IDLE_INTERVALS).min(MAX_IDLE) {
            self.too_small = offer;
            self.enough = self.enough.max(GROWTH * offer);
            self.offered = None;
        }
    }

    /// Records that a frame was sent.
    pub(super) fn on_sent(&mut self) {
        if let Some((offer, _)) = self.offered.take() {
            self.enough = self.enough.min(offer);
            self.too_small = (FADING * self.too_small).min(self.enough);
        }
    }
}
