//! Definition of freezes, shared by scores and learning.

use std::time::Duration;

use lockstep_units::Timestamp;

/// Number of recent display durations that are averaged (W3C webrtc-stats, `freezeCount`).
const AVERAGED: usize = 30;

/// Smallest ratio of a freeze to the mean duration.
const MIN_RATIO: u128 = 3;

/// Smallest difference of a freeze from the mean duration.
const MIN_EXCESS: Duration = Duration::from_millis(150);

/// Display duration of a picture: time until the next one was shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameDuration {
    /// Display duration.
    pub length: Duration,
    /// Whether it is a freeze.
    pub frozen: bool,
}

/// Detects freezes from display times.
///
/// A freeze is defined as in WebRTC's getStats (W3C webrtc-stats, `RTCInboundRtpStreamStats.freezeCount`). Its duration
/// is at least max(3 a, a + 150 ms). Here a is the mean of the last 30 durations including this one, as in libwebrtc.
/// The whole duration counts as frozen. Pictures at a low but regular rate are no freezes; frame rates show them.
///
/// getStats does not define a before 30 durations are known. Here missing durations count as one frame interval of the
/// source, so that the start of a call is evaluated. libwebrtc finds no freeze before the fifth duration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FreezeDetector {
    /// Ring of the last durations in nanoseconds; the oldest is at index `oldest`.
    durations: [u64; AVERAGED],
    oldest: usize,
    sum: u128,
    shown_at: Option<Timestamp>,
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl FreezeDetector {
    /// Detector for a source with this frame interval, before the first display.
    #[must_use]
    pub fn new(frame_interval: Duration) -> Self {
        let interval = nanoseconds(frame_interval);
        let sum = u128::from(interval) * AVERAGED as u128;
        Self { durations: [interval; AVERAGED], oldest: 0, sum, shown_at: None }
    }

    /// Records a display at `at`. Returns the duration of the previous picture; `None` for the first one.
    pub fn shown(&mut self, at: Timestamp) -> Option<FrameDuration> {
        let before = self.shown_at;
        self.shown_at = before.max(Some(at));
        let length = at.saturating_since(before?);
        let frozen = self.would_freeze(length);
        self.sum = self.sum_with(length);
        self.durations[self.oldest] = nanoseconds(length);
        self.oldest = (self.oldest + 1) % AVERAGED;
        Some(FrameDuration { length, frozen })
    }

    /// Time of the last display; `None` before the first one.
    #[must_use]
    pub fn shown_at(&self) -> Option<Timestamp> {
        self.shown_at
    }

    /// Whether a duration of `length` of the current picture is a freeze. Before the first picture: whether a wait of
    /// `length` is one.
    #[must_use]
    pub fn would_freeze(&self, length: Duration) -> bool {
        let sum = self.sum_with(length);
        let threshold = (MIN_RATIO * sum).max(sum + AVERAGED as u128 * MIN_EXCESS.as_nanos());
        AVERAGED as u128 * length.as_nanos() >= threshold
    }

    /// Sum of the last durations if the next one is `length`.
    fn sum_with(&self, length: Duration) -> u128 {
        self.sum - u128::from(self.durations[self.oldest]) + u128::from(nanoseconds(length))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(milliseconds: u64) -> Timestamp {
        Timestamp::from_millis(milliseconds)
    }

    /// Durations of freezes, ms, for a frame interval of `interval` and these display times, ms.
    fn freezes(interval: u64, displays: impl IntoIterator<Item = u64>) -> Vec<u128> {
        let mut detector = FreezeDetector::new(Duration::from_millis(interval));
        let durations = displays.into_iter().filter_map(|moment| detector.shown(at(moment)));
        durations.filter(|duration| duration.frozen).map(|duration| duration.length.as_millis()).collect()
    }

    #[test]
    fn a_picture_150_ms_longer_than_the_mean_is_a_freeze() {
        // 29 durations of 40 ms and one of d: d >= (1160 + d) / 30 + 150 if d >= 195.2 ms.
        let displays = |last: u64| (0..=29).map(|picture| 40 * picture).chain([29 * 40 + last]);
        assert_eq!(freezes(40, displays(196)), [196]);
        assert!(freezes(40, displays(195)).is_empty());
    }

    #[test]
    fn at_low_frame_rates_three_times_the_mean_is_a_freeze() {
        // 29 durations of 200 ms and one of d: d >= 3 (5800 + d) / 30 if d >= 644.4 ms.
        let displays = |last: u64| (0..=29).map(|picture| 200 * picture).chain([29 * 200 + last]);
        assert_eq!(freezes(200, displays(645)), [645]);
        assert!(freezes(200, displays(644)).is_empty());
    }

    #[test]
    fn the_mean_follows_displays_and_not_the_source() {
        // Every tenth picture of a source of 30 frames per second is shown. The first gaps are freezes, later ones are
        // not.
        let found = freezes(33, (0..100).map(|picture| 330 * picture));
        assert!((1..AVERAGED).contains(&found.len()), "{found:?}");
        assert_eq!(freezes(330, (0..100).map(|picture| 330 * picture)), [0; 0]);
    }

    #[test]
    fn the_frame_interval_defines_freezes_at_the_start_of_a_call() {
        assert_eq!(freezes(33, [50, 3_050]), [3_000]);
        let detector = FreezeDetector::new(Duration::from_millis(33));
        assert_eq!(detector.shown_at(), None);
        assert!(
            detector.would_freeze(Duration::from_millis(300)) && !detector.would_freeze(Duration::from_millis(100))
        );
    }

    proptest! {
        #[test]
        fn freezes_match_the_mean_of_the_whole_window(gaps in proptest::collection::vec(0u64..2_000, 0..120)) {
            let mut durations = vec![33.0; AVERAGED];
            let mut detector = FreezeDetector::new(Duration::from_millis(33));
            prop_assert_eq!(detector.shown(at(0)), None);
            let mut now = 0;
            for gap in gaps {
                now += gap;
                durations.push(gap as f64);
                let mean = durations[durations.len() - AVERAGED..].iter().sum::<f64>() / AVERAGED as f64;
                let excess = gap as f64 - (3.0 * mean).max(mean + 150.0);
                let found = detector.shown(at(now)).expect("not the first");
                prop_assert_eq!(found.length, Duration::from_millis(gap));
                // Skip cases at the threshold, where rounding decides.
                prop_assert!(excess.abs() < 1e-9 || found.frozen == (excess > 0.0), "{} {}", gap, mean);
            }
        }
    }

    #[test]
    fn extreme_times_and_intervals_do_not_panic() {
        let mut detector = FreezeDetector::new(Duration::MAX);
        assert_eq!(detector.shown(Timestamp::ZERO), None);
        for _ in 0..100 {
            assert!(detector.shown(Timestamp::MAX).is_some());
        }
        assert!(detector.would_freeze(Duration::MAX));
    }
}
