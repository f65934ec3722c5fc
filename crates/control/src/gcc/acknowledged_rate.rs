//! Throughput: the lower of the sending rate and the arrival rate over about one second. The longest pause between
//! arrivals does not count. A link that stops briefly and then delivers everything at once is therefore not slow.

use std::collections::VecDeque;
use std::time::Duration;

use lockstep_transport::AcknowledgedFragment;
use lockstep_units::{Bitrate, ByteCount, Timestamp};

/// Lower bounds of the window (`RobustThroughputEstimatorSettings` in WebRTC).
const MIN_WINDOW: Duration = Duration::from_secs(1);
const MIN_FRAGMENTS: usize = 20;
/// Upper bounds of the window.
const MAX_WINDOW: Duration = Duration::from_secs(5);
const MAX_FRAGMENTS: usize = 500;
/// Minimum number of fragments for an estimate.
const REQUIRED_FRAGMENTS: usize = 10;
/// If a fragment arrived this long before the newest one, the receiver's clock was set back.
const MAX_REORDERING: Duration = Duration::from_secs(1);
/// Lower bound of the sending time and of the arrival time.
const SHORTEST: Duration = Duration::from_millis(1);

#[derive(Debug, Clone, Copy)]
struct Arrival {
    sent_at: Timestamp,
    arrived_at: Timestamp,
    size: ByteCount,
}

/// The acknowledged bit rate (`RobustThroughputEstimator` in WebRTC).
#[derive(Debug, Clone, Default)]
pub(super) struct AcknowledgedRate {
    /// Arrivals in the order of their arrival times.
    window: VecDeque<Arrival>,
    /// Latest sending time of the fragments that have left the window.
    newest_discarded: Option<Timestamp>,
    estimate: Option<Bitrate>,
}

impl AcknowledgedRate {
    /// The throughput; none before ten fragments have arrived.
    pub(super) fn estimate(&self) -> Option<Bitrate> {
        self.estimate
    }

    /// Adds arrived fragments.
    pub(super) fn on_acknowledged(&mut self, fragments: &[AcknowledgedFragment]) {
        for &AcknowledgedFragment { sent_at, arrived_at, size, .. } in fragments {
            if self.window.back().is_some_and(|newest| newest.arrived_at > arrived_at + MAX_REORDERING) {
                (self.newest_discarded, self.estimate) = (None, None);
                self.window.clear();
            }
            let at = self.window.partition_point(|earlier| earlier.arrived_at <= arrived_at);
            self.window.insert(at, Arrival { sent_at, arrived_at, size });
            while let Some(oldest) = self.take_outside() {
                self.newest_discarded = self.newest_discarded.max(Some(oldest.sent_at));
            }
        }
        self.estimate = self.rate();
    }

    /// Removes the oldest arrival if the window is full without it.
    fn take_outside(&mut self) -> Option<Arrival> {
        let (oldest, newest) = (self.window.front()?, self.window.back()?);
        let span = newest.arrived_at.saturating_since(oldest.arrived_at);
        let full = self.window.len() > MIN_FRAGMENTS && span > MIN_WINDOW;
        if full || self.window.len() > MAX_FRAGMENTS || span > MAX_WINDOW { self.window.pop_front() } else { None }
    }

    fn rate(&self) -> Option<Bitrate> {
        let (first, last) = (self.window.front()?, self.window.back()?);
        if self.window.len() < REQUIRED_FRAGMENTS {
            return None;
        }
        // The longest pause between two arrivals is replaced by the second longest.
        let (mut longest, mut second) = (Duration::ZERO, Duration::ZERO);
        for (before, after) in self.window.iter().zip(self.window.iter().skip(1)) {
            let pause = after.arrived_at.saturating_since(before.arrived_at);
            second = second.max(pause.min(longest));
            longest = longest.max(pause);
        }
        let span = last.arrived_at.saturating_since(first.arrived_at);
        let arriving = span.saturating_sub(longest - second).max(SHORTEST);
        // The first arrival's size does not belong to the time after it. The last transmission's size does not belong
        // to the time before it.
        let size: ByteCount = self.window.iter().map(|arrival| arrival.size).sum();
        let arrived = Bitrate::mean(size.saturating_sub(first.size), arriving);
        Some(self.sending_rate().map_or(arrived, |sent| sent.min(arrived)))
    }

    /// Sending rate of the fragments that arrived in order, if there are enough. An overtaken fragment may have been
    /// sent long ago.
    fn sending_rate(&self) -> Option<Bitrate> {
        let in_order = || self.window.iter().filter(|arrival| Some(arrival.sent_at) >= self.newest_discarded);
        let first = in_order().map(|arrival| arrival.sent_at).min()?;
        let last = in_order().max_by_key(|arrival| arrival.sent_at)?;
        if in_order().count() < REQUIRED_FRAGMENTS {
            return None;
        }
        let size: ByteCount = in_order().map(|arrival| arrival.size).sum();
        let sending = last.sent_at.saturating_since(first).max(SHORTEST);
        Some(Bitrate::mean(size.saturating_sub(last.size), sending))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::acknowledged;
    use super::*;

    /// Feeds 125 bytes every `gap` ms between two sending times; each arrives `late` ms later.
    fn arrive(rate: &mut AcknowledgedRate, from: u64, to: u64, gap: u64, late: u64) {
        let times = (from..to).step_by(gap as usize);
        times.for_each(|at| rate.on_acknowledged(&[acknowledged(at, at + late, 125)]));
    }

    fn kbps(rate: &AcknowledgedRate) -> u64 {
        rate.estimate().map_or(0, |rate| rate.as_bps() / 1_000)
    }

    #[test]
    fn ten_fragments_give_the_first_estimate() {
        let mut rate = AcknowledgedRate::default();
        arrive(&mut rate, 0, 45, 5, 50);
        assert_eq!(rate.estimate(), None);
        arrive(&mut rate, 45, 50, 5, 50);
        assert_eq!(kbps(&rate), 200);
    }

    #[test]
    fn lasting_change_shows_within_a_second() {
        let mut rate = AcknowledgedRate::default();
        arrive(&mut rate, 0, 5_000, 5, 50);
        arrive(&mut rate, 5_000, 5_500, 10, 50);
        assert!((140..=160).contains(&kbps(&rate)), "{}", kbps(&rate));
        arrive(&mut rate, 5_500, 6_020, 10, 50);
        assert_eq!(kbps(&rate), 100);
    }

    #[test]
    fn pause_with_catch_up_does_not_lower_the_rate() {
        let mut rate = AcknowledgedRate::default();
        arrive(&mut rate, 0, 3_000, 5, 50);
        // Nothing arrives for 300 ms, then everything at once.
        (3_000..3_300).step_by(5).for_each(|sent| rate.on_acknowledged(&[acknowledged(sent, 3_350, 125)]));
        assert!((195..=205).contains(&kbps(&rate)), "{}", kbps(&rate));
    }

    #[test]
    fn rate_is_at_most_the_sending_rate() {
        let mut rate = AcknowledgedRate::default();
        (0..100).for_each(|number| rate.on_acknowledged(&[acknowledged(number * 10, 2_000 + number, 125)]));
        assert_eq!(kbps(&rate), 100);
    }

    #[test]
    fn clock_set_back_resets_the_estimate() {
        let mut rate = AcknowledgedRate::default();
        arrive(&mut rate, 10_000, 13_000, 5, 9_000);
        arrive(&mut rate, 13_000, 13_040, 5, 50);
        assert_eq!(rate.estimate(), None);
        arrive(&mut rate, 13_040, 15_000, 5, 50);
        assert_eq!(kbps(&rate), 200);
    }

    #[test]
    fn window_is_bounded() {
        let mut rate = AcknowledgedRate::default();
        (0..5_000).for_each(|_| rate.on_acknowledged(&[acknowledged(10, 60, 125)]));
        assert_eq!(rate.window.len(), MAX_FRAGMENTS);
        assert!(rate.estimate().is_some());
    }
}
