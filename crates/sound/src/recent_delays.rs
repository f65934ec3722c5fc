//! Recent delays of packets or pictures without outages, from which buffers set their wait.

use std::collections::VecDeque;
use std::time::Duration;

/// A delay this far above the shortest is an outage, nanoseconds. It says nothing about later delays. The packets that
/// queued behind it are excluded, too.
const OUTAGE: i64 = 500_000_000;
/// A packet queued behind an outage if its delay falls by more than this from the previous one, nanoseconds.
const FASTER: i64 = 10_000_000;

/// Recent delays from capture to arrival, nanoseconds. They are differences between two clocks, so only their distance
/// from the shortest counts.
#[derive(Debug)]
pub struct RecentDelays {
    delays: VecDeque<i64>,
    most: usize,
    /// Previous delay, if an outage caused it.
    bytes_behind_cross_traffic: Option<i64>,
}

/// Whether no outage caused `delay`. `shortest` is the shortest delay.
fn is_usual(delay: i64, shortest: i64) -> bool {
    delay.saturating_sub(shortest) < OUTAGE
}

impl RecentDelays {
    /// An empty window of `most` delays.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { delays: VecDeque::new(), most, bytes_behind_cross_traffic: None }
    }

    /// Adds a delay. Returns whether it counts: a packet that queued behind an outage does not. Delays up to
    /// `waited_for` always count.
    pub fn note(&mut self, delay: i64, waited_for: i64) -> bool {
        let is_outage = self.shortest().is_some_and(|shortest| !is_usual(delay, shortest));
        let is_faster = self.bytes_behind_cross_traffic.is_some_and(|before| before.saturating_sub(delay) > FASTER);
        let still_queues = is_faster && delay > waited_for;
        self.bytes_behind_cross_traffic = (is_outage || still_queues).then_some(delay);
        if !still_queues {
            self.delays.push_back(delay);
            if self.delays.len() > self.most {
                self.delays.pop_front();
            }
        }
        !still_queues
    }

    /// The shortest delay.
    #[must_use]
    pub fn shortest(&self) -> Option<i64> {
        self.delays.iter().copied().min()
    }

    /// The quantile `share` (0 to 1) of the delays without outages. None without delays.
    #[must_use]
    pub fn within(&self, share: f64) -> Option<i64> {
        let shortest = self.shortest()?;
        let mut usual: Vec<i64> = self.delays.iter().copied().filter(|&delay| is_usual(delay, shortest)).collect();
        let rank = ((usual.len() as f64 * share).ceil() as usize).clamp(1, usual.len()) - 1;
        Some(*usual.select_nth_unstable(rank).1)
    }

    /// Number of delays in the window.
    pub(crate) fn len(&self) -> usize {
        self.delays.len()
    }
}

/// Distance of `delay` above `shortest`.
pub(crate) fn beyond(shortest: i64, delay: i64) -> Duration {
    Duration::from_nanos(delay.saturating_sub(shortest).max(0).unsigned_abs())
}
