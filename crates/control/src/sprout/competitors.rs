//! Whether somebody else fills the queue until it overflows, as TCP does; and what is held on the way beside such.
//!
//! This sender keeps its own queue far from full. A packet lost while the queue is at its longest says that others do
//! not, and to wait for their queue to empty would be to starve. For a while a window is then held as TCP's is (RFC
//! 5681): a packet more a round trip, less after a loss; but no more than the path drains in [`LONGEST_QUEUE`]. Losses
//! that do not coincide with a long queue are none of congestion. If bursts come through no faster than the sender's
//! own share, nobody else is there after all.

use std::cmp::Reverse;
use std::time::Duration;

use lockstep_units::Timestamp;

use crate::recent_least::RecentLeast;

/// A loss is one of congestion where packets now wait so long, seconds, and such a share of the longest wait of late.
const LEAST_WAIT: f64 = 0.04;
const LONGEST_SHARE: f64 = 0.5;
/// Over what time the longest wait is taken, and for how long a loss of congestion is remembered, seconds.
const MEMORY: Duration = Duration::from_secs(10);
const LASTING: f64 = 20.0;
/// The path's rate over one's own share of it, if there are others; and how long they are believed in until this is
/// looked at, seconds.
const SHARE: f64 = 1.3;
const TRIAL: f64 = 1.0;
/// The window at first, packets, and its factor after a loss.
const FIRST_WINDOW: f64 = 4.0;
const LOSS_FACTOR: f64 = 0.7;
/// The most that is held, seconds of the path's rate.
const LONGEST_QUEUE: f64 = 0.2;

#[derive(Debug, Clone, Copy)]
struct Window {
    since: f64,
    packets: f64,
    round_trip_from: f64,
    lost_at: f64,
}

#[derive(Debug)]
pub(super) struct Competitors {
    packet: f64,
    /// How long packets had waited: the longest, seconds.
    longest_wait: RecentLeast<Reverse<f64>>,
    last_wait: f64,
    window: Option<Window>,
}

impl Competitors {
    /// Nobody, for packets of `packet` bytes.
    pub(super) fn new(packet: f64) -> Self {
        Self { packet, longest_wait: RecentLeast::new(), last_wait: 0.0, window: None }
    }

    /// A packet that arrived at `at` had waited for `wait` seconds.
    pub(super) fn waited(&mut self, at: Timestamp, wait: f64) {
        self.last_wait = wait;
        self.longest_wait.put(at, Reverse(wait), MEMORY);
    }

    /// Feedback came: bursts came through at `path_rate`, if any did lately, and the sender's own share is `own_rate`,
    /// bytes a second; `round_trip` is the present one, queues included, seconds.
    pub(super) fn on_feedback(&mut self, now: f64, path_rate: Option<f64>, own_rate: f64, round_trip: f64) {
        let Some(window) = &mut self.window else { return };
        let alone = path_rate.is_some_and(|rate| rate < SHARE * own_rate) && now - window.since > TRIAL;
        if alone || now - window.lost_at > LASTING {
            self.window = None;
            return;
        }
        if now - window.round_trip_from >= round_trip {
            window.round_trip_from = now;
            window.packets += 1.0;
        }
        if let Some(rate) = path_rate {
            window.packets = window.packets.min((LONGEST_QUEUE * rate / self.packet).max(FIRST_WINDOW));
        }
    }

    /// Packets were lost; `round_trip` as above.
    pub(super) fn on_loss(&mut self, now: f64, round_trip: f64) {
        let longest = self.longest_wait.get().map_or(0.0, |Reverse(wait)| wait);
        if self.last_wait < LEAST_WAIT.max(LONGEST_SHARE * longest) {
            return;
        }
        match &mut self.window {
            Some(window) if now - window.lost_at > round_trip => {
                window.lost_at = now;
                window.packets = (LOSS_FACTOR * window.packets).max(FIRST_WINDOW);
            }
            Some(_) => {}
            None => {
                self.window = Some(Window { since: now, packets: FIRST_WINDOW, round_trip_from: now, lost_at: now });
            }
        }
    }

    /// What is held on the way, bytes; none if there is nobody else.
    pub(super) fn window(&self) -> Option<f64> {
        self.window.map(|window| window.packets * self.packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_from_a_full_queue_opens_a_window_that_grows_to_what_drains_soon() {
        let mut competitors = Competitors::new(1_500.0);
        competitors.waited(Timestamp::ZERO, 0.25);
        competitors.on_loss(0.1, 0.3);
        assert_eq!(competitors.window(), Some(6_000.0));
        for round_trip in 1..50 {
            competitors.on_feedback(0.1 + 0.3 * f64::from(round_trip), Some(250_000.0), 30_000.0, 0.3);
        }
        let held = competitors.window().unwrap();
        assert!((45_000.0..=50_000.0).contains(&held), "what drains in 200 ms: {held}");
        competitors.on_loss(15.0, 0.3);
        assert_eq!(competitors.window(), Some(0.7 * held));
        competitors.on_feedback(40.0, Some(250_000.0), 30_000.0, 0.3);
        assert_eq!(competitors.window(), None, "long without a loss");
    }

    #[test]
    fn random_losses_from_a_short_queue_are_nobody() {
        let mut competitors = Competitors::new(1_500.0);
        for (at, wait) in [(0.0, 0.2), (0.5, 0.03), (1.0, 0.05)] {
            competitors.waited(Timestamp::ZERO + Duration::from_secs_f64(at), wait);
            if wait < 0.2 {
                competitors.on_loss(at, 0.1);
            }
        }
        assert_eq!(competitors.window(), None);
    }

    #[test]
    fn a_path_that_is_ones_own_is_not_competed_for() {
        let mut competitors = Competitors::new(1_500.0);
        competitors.waited(Timestamp::ZERO, 0.25);
        competitors.on_loss(0.1, 0.3);
        competitors.on_feedback(1.3, Some(12_000.0), 11_000.0, 0.3);
        assert_eq!(competitors.window(), None);
    }
}
