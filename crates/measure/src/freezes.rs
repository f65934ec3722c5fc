//! What a freeze is: the only place that says it, for scores and for whoever learns from calls.

use std::time::Duration;

use lockstep_units::Timestamp;

/// So many durations of pictures are averaged to know how long one is usually on the screen (W3C webrtc-stats,
/// `freezeCount`).
const AVERAGED: usize = 30;

/// A picture that is on the screen so many times as long as usual may be a freeze.
const LEAST_RATIO: u128 = 3;

/// And it is on the screen at least so much longer than usual.
const LEAST_EXCESS: Duration = Duration::from_millis(150);

/// How long a picture was on the screen: the time until the next one was shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameDuration {
    /// That time.
    pub length: Duration,
    /// Whether it was a freeze.
    pub frozen: bool,
}

/// Finds the freezes in the moments at which pictures are shown.
///
/// A freeze is what getStats of WebRTC counts (W3C webrtc-stats, `RTCInboundRtpStreamStats.freezeCount`): a picture
/// that is on the screen for no less than max(3 a, a + 150 ms), where a is the mean duration of the last 30 pictures,
/// itself among them, as libwebrtc has it. All of that time is frozen. So a freeze is long for what the viewer has
/// become used to: pictures that come slowly but evenly are none, and show in the frame rates.
///
/// One thing getStats leaves open: of what the mean is before 30 durations are known. Here those that lack are one
/// frame interval of the source each, so that the beginning of a call is judged, too (libwebrtc finds no freeze before
/// the fifth duration).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FreezeDetector {
    /// The last durations, nanoseconds, in a ring whose oldest is at `oldest`.
    durations: [u64; AVERAGED],
    oldest: usize,
    sum: u128,
    shown_at: Option<Timestamp>,
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl FreezeDetector {
    /// Of the pictures of a source that gives one every `frame_interval`; none was shown yet.
    #[must_use]
    pub fn new(frame_interval: Duration) -> Self {
        let interval = nanoseconds(frame_interval);
        let sum = u128::from(interval) * AVERAGED as u128;
        Self { durations: [interval; AVERAGED], oldest: 0, sum, shown_at: None }
    }

    /// A picture is shown at `at`. Gives how long the one before was on the screen; none for the first.
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

    /// When the picture on the screen was shown; none before the first.
    #[must_use]
    pub fn shown_at(&self) -> Option<Timestamp> {
        self.shown_at
    }

    /// Whether it is a freeze if the picture on the screen is there for `length`; before the first picture, whether
    /// having nothing to show for `length` counts as one.
    #[must_use]
    pub fn would_freeze(&self, length: Duration) -> bool {
        let sum = self.sum_with(length);
        let threshold = (LEAST_RATIO * sum).max(sum + AVERAGED as u128 * LEAST_EXCESS.as_nanos());
        AVERAGED as u128 * length.as_nanos() >= threshold
    }

    /// The sum of the last durations where the next is `length`.
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

    /// The lengths of the freezes of a source of one picture every `interval` of which these moments are displays,
    /// milliseconds.
    fn freezes(interval: u64, displays: impl IntoIterator<Item = u64>) -> Vec<u128> {
        let mut detector = FreezeDetector::new(Duration::from_millis(interval));
        let durations = displays.into_iter().filter_map(|moment| detector.shown(at(moment)));
        durations.filter(|duration| duration.frozen).map(|duration| duration.length.as_millis()).collect()
    }

    #[test]
    fn a_picture_that_stays_150_ms_longer_than_the_mean_of_thirty_is_a_freeze_and_one_of_a_millisecond_less_is_none() {
        // Twenty-nine of 40 ms and one of d: d >= (1160 + d) / 30 + 150 where d >= 195.2 ms.
        let displays = |last: u64| (0..=29).map(|picture| 40 * picture).chain([29 * 40 + last]);
        assert_eq!(freezes(40, displays(196)), [196]);
        assert!(freezes(40, displays(195)).is_empty());
    }

    #[test]
    fn of_slow_pictures_three_times_the_mean_is_a_freeze() {
        // Twenty-nine of 200 ms and one of d: d >= 3 (5800 + d) / 30 where d >= 644.4 ms.
        let displays = |last: u64| (0..=29).map(|picture| 200 * picture).chain([29 * 200 + last]);
        assert_eq!(freezes(200, displays(645)), [645]);
        assert!(freezes(200, displays(644)).is_empty());
    }

    #[test]
    fn what_is_usual_is_what_was_shown_and_not_what_the_source_gives() {
        // A source of 30 a second of which every tenth picture is shown: the first gaps are freezes, later ones are
        // not.
        let found = freezes(33, (0..100).map(|picture| 330 * picture));
        assert!((1..AVERAGED).contains(&found.len()), "{found:?}");
        assert_eq!(freezes(330, (0..100).map(|picture| 330 * picture)), [0; 0]);
    }

    #[test]
    fn the_beginning_of_a_call_is_judged_by_the_frame_interval() {
        assert_eq!(freezes(33, [50, 3_050]), [3_000]);
        let detector = FreezeDetector::new(Duration::from_millis(33));
        assert_eq!(detector.shown_at(), None);
        assert!(
            detector.would_freeze(Duration::from_millis(300)) && !detector.would_freeze(Duration::from_millis(100))
        );
    }

    proptest! {
        #[test]
        fn freezes_are_those_that_the_mean_of_the_whole_window_gives(gaps in proptest::collection::vec(0u64..2_000, 0..120)) {
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
                // Floats do not decide what is on the border.
                prop_assert!(excess.abs() < 1e-9 || found.frozen == (excess > 0.0), "{} {}", gap, mean);
            }
        }
    }

    #[test]
    fn moments_at_the_end_of_time_are_no_harm() {
        let mut detector = FreezeDetector::new(Duration::MAX);
        assert_eq!(detector.shown(Timestamp::ZERO), None);
        for _ in 0..100 {
            assert!(detector.shown(Timestamp::MAX).is_some());
        }
        assert!(detector.would_freeze(Duration::MAX));
    }
}
