//! Recent deliveries of the path, by acknowledgements and by the spacing of fragments inside bursts.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::time::Duration;

use lockstep_transport::AcknowledgedFragment;
use lockstep_units::{Bitrate, ByteCount, SlidingMinimum, Timestamp};

use super::GROWTH;
use super::bursts::Burst;
use crate::PathConfig;

/// Lower bound of a burst's duration: the granularity of clocks and timers.
const MIN_BURST_DURATION: Duration = Duration::from_millis(1);
/// Maximum number of remembered arrivals: half a second at 1 Gb/s.
const MAX_ARRIVALS: usize = 65_536;

/// Bytes delivered in sliding windows, on the receiver's clock.
#[derive(Debug)]
pub(super) struct Deliveries {
    config: PathConfig,
    /// Arrivals of the last window, and their bytes.
    arrivals: VecDeque<(Timestamp, u64)>,
    in_window: u64,
    /// Sliding-window maximum of the bytes of a window.
    max_in_window: SlidingMinimum<Reverse<u64>>,
    /// Sliding-window maximum of the bytes per window that bursts show.
    max_by_bursts: SlidingMinimum<Reverse<u64>>,
}

/// The maximum of a reversed sliding-window minimum; zero if it is empty.
fn most(recent: &SlidingMinimum<Reverse<u64>>) -> ByteCount {
    ByteCount::new(recent.get().map_or(0, |Reverse(bytes)| bytes))
}

impl Deliveries {
    pub(super) fn new(config: PathConfig) -> Self {
        Self {
            config,
            arrivals: VecDeque::new(),
            in_window: 0,
            max_in_window: SlidingMinimum::new(),
            max_by_bursts: SlidingMinimum::new(),
        }
    }

    /// Length of a window.
    pub(super) fn window(&self) -> Duration {
        self.config.window
    }

    /// Bytes that arrived in the last window.
    pub(super) fn in_window(&self) -> ByteCount {
        ByteCount::new(self.in_window)
    }

    /// Maximum bytes of any remembered window.
    pub(super) fn max_in_window(&self) -> ByteCount {
        most(&self.max_in_window)
    }

    /// Maximum bytes per window by the spacing of a burst's fragments, at most [`GROWTH`] times the burst's own bytes.
    pub(super) fn max_by_bursts(&self) -> ByteCount {
        most(&self.max_by_bursts)
    }

    /// Adds a packet that was acknowledged at `now`, the last of `burst`.
    pub(super) fn on_arrival(&mut self, now: Timestamp, arrival: &AcknowledgedFragment, burst: Option<&Burst>) {
        let PathConfig { window, memory, idle_wait, .. } = self.config;
        let (at, size) = (arrival.arrived_at, arrival.size.get());
        self.arrivals.push_back((at, size));
        self.in_window += size;
        while let Some(&(first, size)) = self.arrivals.front()
            && (at.is_later_by(window, first) || self.arrivals.len() > MAX_ARRIVALS)
        {
            self.in_window -= size;
            self.arrivals.pop_front();
        }
        self.max_in_window.put(now, Reverse(self.in_window), memory);
        let Some(burst) = burst.filter(|burst| burst.is_whole && burst.queued <= idle_wait) else { return };
        let ((first_at, last_at), (all, later)) = (burst.arrived_at, burst.bytes);
        if later > ByteCount::ZERO {
            let rate = Bitrate::mean(later, last_at.saturating_since(first_at).max(MIN_BURST_DURATION));
            let bytes = rate.bytes_in(window);
            self.max_by_bursts.put(now, Reverse(bytes.get().min(GROWTH * all.get())), memory);
        }
    }
}
