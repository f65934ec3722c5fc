//! Counts arrivals of data and sound: loss, jitter and the newest datagram at the receiver.

use std::time::Duration;

use lockstep_units::{ByteCount, SlidingMinimum, Timestamp};

use super::FURTHEST_FRAME;
use crate::Arrival;
use crate::wire::expand;

/// Largest distance of a sequence number from the highest; datagrams further ahead are refused.
const FURTHEST_SEQUENCE: u64 = FURTHEST_FRAME as u64 * 256;

/// Memory of the smallest delay: the base-delay memory of the sender's path observer (lab: 2026-11-path-observer).
const BASE_DELAY_MEMORY: Duration = Duration::from_secs(60);

/// Header fields that data and sound share, and properties of the arrival.
#[derive(Debug)]
pub(super) struct Stamp {
    pub(super) sequence: u64,
    pub(super) sent_at: Timestamp,
    pub(super) idle: u32,
    pub(super) frame: u32,
    pub(super) fragment: u16,
    pub(super) size: ByteCount,
    pub(super) congestion_experienced: bool,
}

/// The datagram with the highest sequence number that arrived.
#[derive(Debug, Clone, Copy)]
pub(super) struct Newest {
    pub(super) sequence: u64,
    pub(super) sent_at: Timestamp,
    pub(super) arrived_at: Timestamp,
    idle: u32,
}

/// Arrivals of data and sound.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    newest: Option<Newest>,
    /// Number of arrived datagrams; each sequence number counts once.
    received: u64,
    /// Smoothed difference between the delays of consecutive arrivals, nanoseconds.
    jitter: f64,
    /// Delay of the last arrival, nanoseconds, with an unknown offset between the clocks.
    last_delay: Option<i64>,
    /// Sliding-window minimum of the delay, nanoseconds, with the same offset.
    min_delay: SlidingMinimum<i64>,
}

impl Arrivals {
    pub(super) fn newest(&self) -> Option<Newest> {
        self.newest
    }

    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// Sequence number whose lower 32 bits are `low`; `None` if it is too far ahead.
    pub(super) fn sequence(&self, low: u32) -> Option<u64> {
        let highest = self.newest.map_or(0, |newest| newest.sequence);
        let sequence = expand(low, highest);
        (sequence <= highest + FURTHEST_SEQUENCE).then_some(sequence)
    }

    /// Whether `sequence` is higher than that of each earlier arrival.
    pub(super) fn is_newest(&self, sequence: u64) -> bool {
        self.newest.is_none_or(|newest| sequence > newest.sequence)
    }

    /// Counts a datagram that arrived at `now`, and returns its description for the estimator.
    pub(super) fn on_arrival(&mut self, now: Timestamp, stamp: &Stamp) -> Arrival {
        let &Stamp { sequence, sent_at, idle, frame, fragment, size, congestion_experienced } = stamp;
        self.received += 1;
        let delay = now.as_nanos().wrapping_sub(sent_at.as_nanos()) as i64;
        if let Some(before) = self.last_delay.replace(delay) {
            self.jitter += (delay.saturating_sub(before).unsigned_abs() as f64 - self.jitter) / 16.0;
        }
        self.min_delay.put(now, delay, BASE_DELAY_MEMORY);
        let is_newest = self.is_newest(sequence);
        let grace = match self.newest {
            Some(newest) if is_newest => idle.wrapping_sub(newest.idle),
            _ => 0,
        };
        if is_newest {
            self.newest = Some(Newest { sequence, sent_at, arrived_at: now, idle });
        }
        let grace = Duration::from_micros(u64::from(grace));
        Arrival { arrived_at: now, sent_at, size, sequence, frame, fragment, grace, congestion_experienced }
    }

    /// Sliding-window minimum of the delay, nanoseconds: the base delay plus the offset between the clocks.
    pub(super) fn min_delay(&self) -> Option<i64> {
        self.min_delay.get()
    }

    /// Interarrival jitter (RFC 3550, section 6.4.1).
    pub(super) fn jitter(&self) -> Duration {
        Duration::from_nanos(self.jitter as u64)
    }

    /// Number of datagrams that were sent before the newest arrival and did not arrive.
    pub(super) fn missing(&self) -> u64 {
        self.newest.map_or(0, |newest| (newest.sequence + 1).saturating_sub(self.received))
    }
}
