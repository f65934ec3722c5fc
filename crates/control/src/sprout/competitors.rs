//! Whether somebody else fills the queue until it overflows, as TCP does; and what is held on the way beside such.
//!
//! This sender keeps its own queue far from full. A packet lost while the queue is at its longest says that others do
//! not, and to wait for their queue to empty would be to starve. For a while a window is then held as TCP's is (RFC
//! 5681): a packet more a round trip, less after a loss; but no more than the path drains in `longest_queue`. Losses
//! that do not coincide with a long queue are none of congestion. If bursts come through no faster than the sender's
//! own share, nobody else is there after all.

use std::cmp::Reverse;
use std::time::Duration;

use lockstep_units::Timestamp;

use crate::recent_least::RecentLeast;

lockstep_units::config! {
    /// The window held beside flows that fill the queue until it overflows.
    pub struct CompetitorsConfig = "competitors" {
        /// A loss is one of congestion if packets now wait this long.
        least_wait: f64 = 0.04, "s", 0.0..=5.0, "2026-11-control-ablation";
        /// And this share of the longest wait lately.
        longest_share: f64 = 0.5, "", 0.0..=1.0, "2026-11-control-ablation";
        /// Over what time the longest wait is taken; a loss of congestion is remembered for twice as long.
        memory: Duration = 10.0, "s", 0.5..=120.0, "2026-11-control-ablation";
        /// Rate of bursts over the own rate beside other flows.
        share: f64 = 1.3, "", 1.0..=10.0, "2026-11-control-ablation";
        /// Other flows are assumed for this long before that is checked.
        trial: f64 = 1.0, "s", 0.0..=60.0, "2026-11-control-ablation";
        /// The window at first.
        first_window: f64 = 4.0, "packets", 1.0..=100.0, "2026-11-control-ablation";
        /// Its factor after a loss.
        loss_factor: f64 = 0.7, "", 0.1..=1.0, "2026-11-control-ablation";
        /// The window is at most what the rate of bursts drains in this time.
        longest_queue: f64 = 0.2, "s", 0.01..=5.0, "2026-11-control-ablation";
    }
}

#[derive(Debug, Clone, Copy)]
struct Window {
    since: f64,
    packets: f64,
    round_trip_from: f64,
    lost_at: f64,
}

#[derive(Debug)]
pub(super) struct Competitors {
    config: CompetitorsConfig,
    packet: f64,
    /// How long packets had waited: the longest, seconds.
    longest_wait: RecentLeast<Reverse<f64>>,
    last_wait: f64,
    window: Option<Window>,
}

impl Competitors {
    /// Nobody, for packets of `packet` bytes.
    pub(super) fn new(packet: f64, config: CompetitorsConfig) -> Self {
        Self { config, packet, longest_wait: RecentLeast::new(), last_wait: 0.0, window: None }
    }

    /// A packet that arrived at `at` had waited for `wait` seconds.
    pub(super) fn waited(&mut self, at: Timestamp, wait: f64) {
        self.last_wait = wait;
        self.longest_wait.put(at, Reverse(wait), self.config.memory);
    }

    /// Feedback came: bursts came through at `path_rate`, if any did lately, and the sender's own share is `own_rate`,
    /// bytes a second; `round_trip` is the present one, queues included, seconds.
    pub(super) fn on_feedback(&mut self, now: f64, path_rate: Option<f64>, own_rate: f64, round_trip: f64) {
        let CompetitorsConfig { memory, share, trial, first_window, longest_queue, .. } = self.config;
        let Some(window) = &mut self.window else { return };
        let alone = path_rate.is_some_and(|rate| rate < share * own_rate) && now - window.since > trial;
        if alone || now - window.lost_at > 2.0 * memory.as_secs_f64() {
            self.window = None;
            return;
        }
        if now - window.round_trip_from >= round_trip {
            window.round_trip_from = now;
            window.packets += 1.0;
        }
        if let Some(rate) = path_rate {
            window.packets = window.packets.min((longest_queue * rate / self.packet).max(first_window));
        }
    }

    /// Packets were lost; `round_trip` as above.
    pub(super) fn on_loss(&mut self, now: f64, round_trip: f64) {
        let CompetitorsConfig { least_wait, longest_share, first_window, loss_factor, .. } = self.config;
        let longest = self.longest_wait.get().map_or(0.0, |Reverse(wait)| wait);
        if self.last_wait < least_wait.max(longest_share * longest) {
            return;
        }
        match &mut self.window {
            Some(window) if now - window.lost_at > round_trip => {
                window.lost_at = now;
                window.packets = (loss_factor * window.packets).max(first_window);
            }
            Some(_) => {}
            None => {
                self.window = Some(Window { since: now, packets: first_window, round_trip_from: now, lost_at: now });
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
        let mut competitors = Competitors::new(1_500.0, CompetitorsConfig::default());
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
        let mut competitors = Competitors::new(1_500.0, CompetitorsConfig::default());
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
        let mut competitors = Competitors::new(1_500.0, CompetitorsConfig::default());
        competitors.waited(Timestamp::ZERO, 0.25);
        competitors.on_loss(0.1, 0.3);
        competitors.on_feedback(1.3, Some(12_000.0), 11_000.0, 0.3);
        assert_eq!(competitors.window(), None);
    }
}
