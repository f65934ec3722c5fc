//! Regularity of displays: frame rates and freezes.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use lockstep_units::Timestamp;

use crate::freezes::FreezeDetector;

/// Freezes of a call ([`FreezeDetector`]).
///
/// getStats counts a freeze when the next picture is shown. Here the time before the first picture and after the last
/// one can be a freeze, too. A call whose video never starts or stops for good therefore has one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct FreezeScores {
    /// Number of freezes (`freezeCount`).
    pub count: u64,
    /// Total duration, seconds (`totalFreezesDuration`).
    pub total_seconds: f64,
    /// Longest freeze, seconds; zero without freezes.
    pub longest_seconds: f64,
}

/// Results of [`Smoothness`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct SmoothnessScores {
    pub(super) frames_per_second: f64,
    pub(super) harmonic_frame_rate: Option<f64>,
    pub(super) freezes: FreezeScores,
}

/// Counters of display times.
#[derive(Debug, Clone)]
pub(super) struct Smoothness {
    start: Timestamp,
    detector: FreezeDetector,
    shown: u64,
    /// Sum of display durations, seconds.
    durations: f64,
    /// Sum of their squares, seconds squared.
    squares: f64,
    freezes: u64,
    frozen: Duration,
    longest: Duration,
}

impl Smoothness {
    /// Counters of a call that starts at `start`.
    pub(super) fn new(start: Timestamp, frame_interval: Duration) -> Self {
        Self {
            start,
            detector: FreezeDetector::new(frame_interval),
            shown: 0,
            durations: 0.0,
            squares: 0.0,
            freezes: 0,
            frozen: Duration::ZERO,
            longest: Duration::ZERO,
        }
    }

    /// Counts a display.
    pub(super) fn shown(&mut self, at: Timestamp) {
        if self.shown == 0 {
            self.count_outer_gap(at.saturating_since(self.start));
        }
        self.shown += 1;
        if let Some(duration) = self.detector.shown(at) {
            self.count(duration.length, duration.frozen);
        }
    }

    /// Counts a time before the first or after the last picture, if it is a freeze.
    fn count_outer_gap(&mut self, length: Duration) {
        if self.detector.would_freeze(length) {
            self.count(length, true);
        }
    }

    fn count(&mut self, length: Duration, frozen: bool) {
        let seconds = length.as_secs_f64();
        self.durations += seconds;
        self.squares += seconds * seconds;
        if frozen {
            self.freezes += 1;
            self.frozen += length;
            self.longest = self.longest.max(length);
        }
    }

    /// Scores if the scored part ends at `end`.
    pub(super) fn scores(mut self, end: Timestamp) -> SmoothnessScores {
        let length = end.saturating_since(self.start);
        self.count_outer_gap(end.saturating_since(self.detector.shown_at().unwrap_or(self.start)));
        SmoothnessScores {
            frames_per_second: if length.is_zero() { 0.0 } else { self.shown as f64 / length.as_secs_f64() },
            harmonic_frame_rate: (self.shown > 0 && self.squares > 0.0).then(|| self.durations / self.squares),
            freezes: FreezeScores {
                count: self.freezes,
                total_seconds: self.frozen.as_secs_f64(),
                longest_seconds: self.longest.as_secs_f64(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_millis(100);

    /// Scores of a source of ten frames per second with these display times, ms.
    fn scores(displays: &[u64], end: u64) -> SmoothnessScores {
        let mut smoothness = Smoothness::new(Timestamp::ZERO, INTERVAL);
        displays.iter().for_each(|&moment| smoothness.shown(Timestamp::from_millis(moment)));
        smoothness.scores(Timestamp::from_millis(end))
    }

    #[test]
    fn regular_displays_have_equal_frame_rates() {
        let displays: Vec<u64> = (0..100).map(|picture| 50 + 100 * picture).collect();
        let scores = scores(&displays, 10_000);
        assert!((scores.frames_per_second - 10.0).abs() < 1e-9, "{scores:?}");
        assert!((scores.harmonic_frame_rate.unwrap() - 10.0).abs() < 1e-9, "{scores:?}");
        assert_eq!(scores.freezes, FreezeScores::default());
    }

    #[test]
    fn a_freeze_lowers_the_harmonic_frame_rate() {
        // Eleven displays at 10 frames per second, one after 700 ms, then 10 frames per second again. These are 20
        // durations of 0.1 s and one of 0.7 s.
        let displays: Vec<u64> = (0..=10).map(|at| 100 * at).chain((0..=10).map(|at| 1_700 + 100 * at)).collect();
        let scores = scores(&displays, 2_750);
        assert_eq!(scores.freezes, FreezeScores { count: 1, total_seconds: 0.7, longest_seconds: 0.7 });
        assert!((scores.harmonic_frame_rate.unwrap() - 2.7 / (20.0 * 0.01 + 0.49)).abs() < 1e-9, "{scores:?}");
        assert!((scores.frames_per_second - 22.0 / 2.75).abs() < 1e-9, "{scores:?}");
    }

    #[test]
    fn late_starts_and_early_stops_of_video_are_freezes() {
        let scores = scores(&[2_000, 2_100], 10_100);
        assert_eq!(scores.freezes, FreezeScores { count: 2, total_seconds: 10.0, longest_seconds: 8.0 });
        assert!(scores.harmonic_frame_rate.unwrap() < 0.2, "{scores:?}");
    }

    #[test]
    fn a_call_without_displays_is_one_freeze() {
        let scores = scores(&[], 7_000);
        assert_eq!(scores.freezes, FreezeScores { count: 1, total_seconds: 7.0, longest_seconds: 7.0 });
        assert_eq!((scores.frames_per_second, scores.harmonic_frame_rate), (0.0, None));
    }
}
