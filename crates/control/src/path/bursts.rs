//! Bursts: the fragments of a frame as they pass the bottleneck.
//!
//! Inside a burst, fragments leave the bottleneck back to back. Their spacing therefore shows the rate of the path, at
//! any share of the flow.

use std::time::Duration;

use libm::exp;
use lockstep_transport::AcknowledgedFragment;
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use crate::PathConfig;
use crate::fragments::DATAGRAM_OVERHEAD_BYTES;

/// Lower bound of a burst's duration, seconds: it prevents a division by zero.
const RESOLUTION: f64 = 1e-4;

/// Acknowledged fragments of one frame. Times at the bottleneck are on the sender's clock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Burst {
    /// The frame.
    pub frame: u32,
    /// Whether the burst starts with the first fragment of the frame.
    pub is_whole: bool,
    /// Queueing delay of its first fragment.
    pub queued: Duration,
    /// Time when its first fragment was sent.
    pub sent_at: Timestamp,
    /// Time when its last fragment left the bottleneck, if only queues delay packets.
    pub left_at: Timestamp,
    /// Arrival times of its first and its last fragment, on the receiver's clock.
    pub arrived_at: (Timestamp, Timestamp),
    /// Bytes of all its fragments, and of all but the first.
    pub bytes: (ByteCount, ByteCount),
    /// Bytes of all its fragments, including link headers.
    pub carried: ByteCount,
}

/// The last burst, and an average over bursts.
#[derive(Debug)]
pub(super) struct Bursts {
    config: PathConfig,
    last: Option<Burst>,
    /// Bytes behind the first fragments of bursts, and their duration in seconds; both fade.
    behind: (f64, f64),
    /// Arrival time (receiver's clock) and acknowledgement time of the last fragment that counts in `behind`.
    arrived_at: Option<Timestamp>,
    acknowledged_at: Option<Timestamp>,
}

impl Bursts {
    pub(super) fn new(config: PathConfig) -> Self {
        Self { config, last: None, behind: (0.0, 0.0), arrived_at: None, acknowledged_at: None }
    }

    /// The burst whose fragments are being acknowledged.
    pub(super) fn last(&self) -> Option<&Burst> {
        self.last.as_ref()
    }

    /// Rate inside bursts at any age, bytes per second.
    pub(super) fn rate(&self) -> Option<f64> {
        let (bytes, seconds) = self.behind;
        (bytes > 0.0).then(|| bytes / seconds.max(RESOLUTION))
    }

    /// Rate inside bursts at `now`; none if it is too old.
    pub(super) fn recent_rate(&self, now: Timestamp) -> Option<Bitrate> {
        let is_recent = self.acknowledged_at.is_some_and(|at| !now.is_later_by(self.config.burst_memory, at));
        self.rate().filter(|_| is_recent).map(Bitrate::from_bytes_per_second)
    }

    /// Arrival time of the last fragment that shows the rate, on the receiver's clock.
    pub(super) fn arrived_at(&self) -> Option<Timestamp> {
        self.arrived_at
    }

    /// Acknowledgement time of that fragment, on the sender's clock.
    pub(super) fn acknowledged_at(&self) -> Option<Timestamp> {
        self.acknowledged_at
    }

    /// Adds a packet that was acknowledged at `now`, with its queueing delay.
    pub(super) fn on_arrival(&mut self, now: Timestamp, arrival: &AcknowledgedFragment, queued: Duration) {
        let (at, left_at) = (arrival.arrived_at, arrival.sent_at + queued);
        let carried = arrival.size + ByteCount::new(DATAGRAM_OVERHEAD_BYTES as u64);
        match &mut self.last {
            Some(burst) if burst.frame == arrival.frame => {
                let since = self.arrived_at.map_or(Duration::ZERO, |before| at.saturating_since(before));
                let fade = exp(-since.as_secs_f64() / self.config.burst_fade);
                let took = at.saturating_since(burst.arrived_at.1).as_secs_f64();
                self.behind = (fade * self.behind.0 + carried.as_f64(), fade * self.behind.1 + took);
                self.arrived_at = Some(self.arrived_at.map_or(at, |before| before.max(at)));
                self.acknowledged_at = Some(now);
                burst.sent_at = burst.sent_at.min(arrival.sent_at);
                burst.left_at = burst.left_at.max(left_at);
                burst.arrived_at.1 = burst.arrived_at.1.max(at);
                burst.bytes = (burst.bytes.0 + arrival.size, burst.bytes.1 + arrival.size);
                burst.carried += carried;
            }
            _ => {
                self.last = Some(Burst {
                    frame: arrival.frame,
                    is_whole: arrival.fragment == 0,
                    queued,
                    sent_at: arrival.sent_at,
                    left_at,
                    arrived_at: (at, at),
                    bytes: (arrival.size, ByteCount::ZERO),
                    carried,
                });
            }
        }
    }
}
