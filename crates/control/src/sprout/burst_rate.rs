//! The rate at which a frame's fragments come through right behind each other: that of the path, whatever share of it
//! the sender has.

/// Weight that what was seen before keeps with each new burst.
const KEPT: f64 = 0.9;
/// A burst says something if so many packets' bytes came behind its first packet.
const LEAST_PACKETS: f64 = 1.0;
/// A rate of bursts is believed for so long, seconds.
const MEMORY: f64 = 2.0;
/// No burst is told apart from one of this length, seconds.
const RESOLUTION: f64 = 1e-4;

#[derive(Debug)]
pub(super) struct BurstRate {
    packet: f64,
    /// Frame, when its last packet had left, and bytes and seconds behind its first packet.
    burst: Option<(u32, f64)>,
    bytes: f64,
    seconds: f64,
    /// Sums over bursts, the older ones weighing less.
    all_bytes: f64,
    all_seconds: f64,
    seen_at: f64,
}

impl BurstRate {
    /// Of packets of `packet` bytes.
    pub(super) fn new(packet: f64) -> Self {
        Self {
            packet,
            burst: None,
            bytes: 0.0,
            seconds: 0.0,
            all_bytes: 0.0,
            all_seconds: 0.0,
            seen_at: f64::NEG_INFINITY,
        }
    }

    /// A packet of `bytes` that belongs to `frame` left at `left`, seconds.
    pub(super) fn departed(&mut self, frame: u32, bytes: f64, left: f64) {
        match &mut self.burst {
            Some((current, before)) if *current == frame => {
                self.bytes += bytes;
                self.seconds += (left - *before).max(0.0);
                *before = left;
            }
            _ => {
                if self.bytes >= LEAST_PACKETS * self.packet {
                    self.all_bytes = KEPT * self.all_bytes + self.bytes;
                    self.all_seconds = KEPT * self.all_seconds + self.seconds;
                    self.seen_at = left;
                }
                (self.burst, self.bytes, self.seconds) = (Some((frame, left)), 0.0, 0.0);
            }
        }
    }

    /// Bytes a second; none if no burst was seen lately.
    pub(super) fn rate(&self, now: f64) -> Option<f64> {
        (now - self.seen_at < MEMORY).then(|| self.all_bytes / self.all_seconds.max(RESOLUTION))
    }
}
