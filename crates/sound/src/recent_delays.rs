//! How late packets or pictures come lately, outages left out: what whoever waits for them goes by.

use std::collections::VecDeque;
use std::time::Duration;

/// A delay this far beyond the shortest is an outage. Nobody waits for the next one: neither it nor what had queued up
/// behind it, and comes faster than it was captured, says how late others will be.
const OUTAGE: i64 = 500_000_000;
/// What comes by more than this less late than the one before had queued, nanoseconds.
const FASTER: i64 = 10_000_000;

/// The delays of what came lately, from capture to arrival, in nanoseconds. They are differences between two clocks: only how
/// they differ from the shortest counts.
#[derive(Debug)]
pub struct RecentDelays {
    delays: VecDeque<i64>,
    most: usize,
    /// The delay before, if an outage held up what had it.
    held_up: Option<i64>,
}

/// Whether no outage held up what took so long, where the fastest takes `shortest`.
fn is_usual(delay: i64, shortest: i64) -> bool {
    delay.saturating_sub(shortest) < OUTAGE
}

impl RecentDelays {
    /// None yet; the last `most` will be remembered.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { delays: VecDeque::new(), most, held_up: None }
    }

    /// Takes note of a delay, and says whether it counts: not where what has it had queued up behind an outage, which is never
    /// so up to `waited_for`.
    pub fn note(&mut self, delay: i64, waited_for: i64) -> bool {
        let is_outage = self.shortest().is_some_and(|shortest| !is_usual(delay, shortest));
        let is_faster = self.held_up.is_some_and(|before| before.saturating_sub(delay) > FASTER);
        let still_queues = is_faster && delay > waited_for;
        self.held_up = (is_outage || still_queues).then_some(delay);
        if !still_queues {
            self.delays.push_back(delay);
            if self.delays.len() > self.most {
                self.delays.pop_front();
            }
        }
        !still_queues
    }

    /// The shortest.
    #[must_use]
    pub fn shortest(&self) -> Option<i64> {
        self.delays.iter().copied().min()
    }

    /// The delay within which this share (0-1) comes of what no outage holds up; none where there is no delay.
    #[must_use]
    pub fn within(&self, share: f64) -> Option<i64> {
        let shortest = self.shortest()?;
        let mut usual: Vec<i64> = self.delays.iter().copied().filter(|&delay| is_usual(delay, shortest)).collect();
        let rank = ((usual.len() as f64 * share).ceil() as usize).clamp(1, usual.len()) - 1;
        Some(*usual.select_nth_unstable(rank).1)
    }

    /// How many are remembered.
    pub(crate) fn len(&self) -> usize {
        self.delays.len()
    }
}

/// How much longer `delay` is than `shortest`.
pub(crate) fn beyond(shortest: i64, delay: i64) -> Duration {
    Duration::from_nanos(delay.saturating_sub(shortest).max(0).unsigned_abs())
}
