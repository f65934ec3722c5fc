//! What the smallest frame needs, found by offering more while the link stays idle: the path is known, but not the
//! codec.

use std::time::Duration;

use lockstep_units::{ByteCount, Timestamp};

/// The link was left idle for so many frame intervals although there was a budget: it held no frame.
const IDLE_INTERVALS: f64 = 2.5;
/// Or for so long, where pictures are far apart: coding one takes no longer.
const LONGEST_IDLE: Duration = Duration::from_millis(120);
/// The next offer is larger by this. With 1.3 it took seconds to find; QoE_d over all recorded traces is 4.1518 with that and 4.1525
/// with this, and at 1 to 10 pictures a second 3.914 and 3.986 (as `LONGEST_HORIZON` was chosen).
const GROWTH: f64 = 2.0;
/// What held no frame is forgotten by so much with each frame sent: pictures become easier.
const FADING: f64 = 0.97;
/// Between what held none and what held one lies what is tried next, unless they are nearer than this.
const RESOLUTION: f64 = 1.25;

/// Sizes on the link, bytes.
#[derive(Debug, Default)]
pub(super) struct SmallestFrame {
    /// The largest offer that lately held none.
    too_small: f64,
    /// The smallest offer after that which held one, or what is tried for the first time.
    enough: f64,
    /// The largest offer since the last frame, or since the last that failed; and when it was first made.
    offered: Option<(f64, Timestamp)>,
}

impl SmallestFrame {
    /// What a frame is to be offered at least; nothing as long as whatever is coded fits.
    pub(super) fn wanted(&self) -> ByteCount {
        let wanted = if self.too_small > 0.0 && self.enough > RESOLUTION * self.too_small {
            libm::sqrt(self.enough * self.too_small)
        } else {
            self.enough
        };
        ByteCount::new(wanted as u64)
    }

    /// It is `now`, the queue is empty, and a frame would be offered `room`.
    pub(super) fn on_empty(&mut self, now: Timestamp, interval: Duration, room: ByteCount) {
        if room == ByteCount::ZERO {
            return;
        }
        let room = room.as_f64();
        let (offer, since) = self.offered.map_or((room, now), |(offer, since)| (offer.max(room), since));
        self.offered = Some((offer, since));
        if now.saturating_since(since) > interval.mul_f64(IDLE_INTERVALS).min(LONGEST_IDLE) {
            self.too_small = offer;
            self.enough = self.enough.max(GROWTH * offer);
            self.offered = None;
        }
    }

    /// A frame was sent.
    pub(super) fn on_sent(&mut self) {
        if let Some((offer, _)) = self.offered.take() {
            self.enough = self.enough.min(offer);
            self.too_small = (FADING * self.too_small).min(self.enough);
        }
    }
}
