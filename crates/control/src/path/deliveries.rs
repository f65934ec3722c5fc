//! How much the path delivered lately, by acknowledgements and by the spacing of fragments inside bursts.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::time::Duration;

use lockstep_transport::AcknowledgedFragment;
use lockstep_units::{Bitrate, ByteCount, Timestamp, duration_from_seconds};

use super::{GROWTH, MEMORY, WINDOW};
use crate::path_delay::{PathDelay, PathDelayConfig};
use crate::recent_least::RecentLeast;

/// A burst counts as evidence only if its first fragment was queued no longer than this: a tick of most schedulers.
/// A burst that queued behind a pause of the link shows the rate of the last hop, not of the path.
const IDLE_WAIT: Duration = Duration::from_millis(10);
/// Bursts shorter than this are taken to have lasted this long, since clocks and timers are no finer.
const SHORTEST_BURST: Duration = Duration::from_millis(1);
/// How long the base delay is remembered.
const BASE_DELAY_MEMORY: Duration = Duration::from_secs(10);
/// Arrivals remembered at most, whatever their times: half a second of a gigabit.
const MOST_ARRIVALS: usize = 65_536;

/// The fragments of one frame as they arrived.
#[derive(Debug, Clone, Copy)]
struct Burst {
    frame: u32,
    first_at: Timestamp,
    last_at: Timestamp,
    /// All its bytes, and those after the first fragment.
    bytes: u64,
    later: u64,
    /// Whether its first fragment found the link idle.
    is_evidence: bool,
}

/// Bytes delivered in sliding windows, on the receiver's clock.
#[derive(Debug)]
pub(super) struct Deliveries {
    path_delay: PathDelay,
    /// Of each packet that the last feedback acknowledged.
    queueing_delays: Vec<Duration>,
    /// Arrivals of the last [`WINDOW`], and their bytes.
    arrivals: VecDeque<(Timestamp, u64)>,
    in_window: u64,
    /// Sliding-window maximum of the bytes of a window.
    most_in_window: RecentLeast<Reverse<u64>>,
    /// Sliding-window maximum of the bytes a window that bursts show.
    most_by_bursts: RecentLeast<Reverse<u64>>,
    burst: Option<Burst>,
}

/// The maximum of a reversed sliding-window minimum; zero if it is empty.
fn most(recent: &RecentLeast<Reverse<u64>>) -> ByteCount {
    ByteCount::new(recent.get().map_or(0, |Reverse(bytes)| bytes))
}

impl Deliveries {
    pub(super) fn new(path_delay: PathDelayConfig) -> Self {
        Self {
            path_delay: PathDelay::tuned(BASE_DELAY_MEMORY, path_delay),
            queueing_delays: Vec::new(),
            arrivals: VecDeque::new(),
            in_window: 0,
            most_in_window: RecentLeast::new(),
            most_by_bursts: RecentLeast::new(),
            burst: None,
        }
    }

    /// How long the packet that was acknowledged last was queued.
    pub(super) fn queueing_delay(&self) -> Duration {
        self.queueing_delays.last().copied().unwrap_or_default()
    }

    /// How long each packet that the last feedback acknowledged was queued.
    pub(super) fn queueing_delays(&self) -> &[Duration] {
        &self.queueing_delays
    }

    /// Bytes that arrived in the last [`WINDOW`].
    pub(super) fn in_window(&self) -> ByteCount {
        ByteCount::new(self.in_window)
    }

    /// Most bytes that arrived in any [`WINDOW`] of the last [`MEMORY`].
    pub(super) fn most_in_window(&self) -> ByteCount {
        most(&self.most_in_window)
    }

    /// Most bytes a [`WINDOW`] that the spacing of a burst's fragments shows, up to [`GROWTH`] times the burst's own.
    pub(super) fn most_by_bursts(&self) -> ByteCount {
        most(&self.most_by_bursts)
    }

    /// Packets were acknowledged at `now`.
    pub(super) fn on_feedback(&mut self, now: Timestamp, arrivals: &[AcknowledgedFragment]) {
        self.queueing_delays.clear();
        for arrival in arrivals {
            self.on_arrival(now, arrival);
        }
    }

    fn on_arrival(&mut self, now: Timestamp, arrival: &AcknowledgedFragment) {
        let (at, size) = (arrival.arrived_at, arrival.size.get());
        let queued = duration_from_seconds(self.path_delay.wait(arrival));
        self.queueing_delays.push(queued);
        self.arrivals.push_back((at, size));
        self.in_window += size;
        while let Some(&(first, size)) = self.arrivals.front()
            && (at.is_later_by(WINDOW, first) || self.arrivals.len() > MOST_ARRIVALS)
        {
            self.in_window -= size;
            self.arrivals.pop_front();
        }
        self.most_in_window.put(now, Reverse(self.in_window), MEMORY);
        match &mut self.burst {
            Some(burst) if burst.frame == arrival.frame => {
                (burst.bytes, burst.later) = (burst.bytes + size, burst.later + size);
                burst.last_at = burst.last_at.max(at);
                if burst.is_evidence {
                    let time = burst.last_at.saturating_since(burst.first_at).max(SHORTEST_BURST);
                    let window = Bitrate::mean(ByteCount::new(burst.later), time).bytes_in(WINDOW);
                    self.most_by_bursts.put(now, Reverse(window.get().min(GROWTH * burst.bytes)), MEMORY);
                }
            }
            _ => {
                let is_evidence = arrival.fragment == 0 && queued <= IDLE_WAIT;
                let frame = arrival.frame;
                self.burst = Some(Burst { frame, first_at: at, last_at: at, bytes: size, later: 0, is_evidence });
            }
        }
    }
}
