//! Log of one call: turns records and displays of frames into final frames, scores and series.
//!
//! ```text
//! records of the sending end --+
//!                              +--> CallLog --> FrameObserver (each final frame)
//! displays of the receiver ----+       \-----> FinishedCall (scores, series)
//! ```
//!
//! The simulator, modelled calls and live calls share it. Its memory does not grow with the call.

use std::time::Duration;

use lockstep_call::{DisplayRecord, FrameRecord};
use lockstep_media::PictureQuality;
use lockstep_units::{ByteCount, Timestamp};

use crate::frame_log::{FrameObserver, LoggedFrame, PendingFrames};
use crate::scores::{FrameScores, Scores, VideoDelayFloor};
use crate::series::{Series, SeriesRecorder, TargetRecorder};

/// Log of a call in progress.
pub struct CallLog {
    pending: PendingFrames,
    scores: FrameScores,
    targets: TargetRecorder,
    observer: Option<Box<dyn FrameObserver>>,
}

impl CallLog {
    /// Log of a call that starts at `start` and is scored for `length`. Its source captures a picture every
    /// `frame_interval`.
    #[must_use]
    pub fn new(start: Timestamp, length: Duration, frame_interval: Duration) -> Self {
        Self {
            pending: PendingFrames::new(),
            scores: FrameScores::new(start, length, frame_interval),
            targets: TargetRecorder::new(start),
            observer: None,
        }
    }

    /// Builder form of [`CallLog::observe`].
    #[must_use]
    pub fn observed_by(mut self, observer: Box<dyn FrameObserver>) -> Self {
        self.observe(observer);
        self
    }

    /// Reports every frame to `observer` once it is final.
    pub fn observe(&mut self, observer: Box<dyn FrameObserver>) {
        self.observer = Some(observer);
    }

    /// Compares the video delay of every later frame with `floor`.
    pub fn compare_with(&mut self, floor: VideoDelayFloor) {
        self.scores.compare_with(floor);
    }

    /// Records the sending end's decision on a picture, in order of capture.
    pub fn decided(&mut self, record: FrameRecord) {
        self.targets.captured(&record);
        if let Some(frame) = self.pending.decided(record) {
            let video_delay = frame.video_delay;
            self.done(&frame, video_delay);
        }
    }

    /// Index of the captured picture that frame `frame` shows. `None` if it or a later one was already shown.
    #[must_use]
    pub fn capture_of(&self, frame: u32) -> Option<u64> {
        self.pending.capture_of(frame)
    }

    /// Records that a frame was shown, in display order. The quality of the shown picture, if given, replaces the
    /// sending end's values.
    pub fn shown(&mut self, display: &DisplayRecord, quality: Option<PictureQuality>) {
        let Self { pending, scores, observer, .. } = self;
        pending.shown(display, quality, |frame| {
            scores.frame(&frame.record, frame.video_delay);
            if let Some(observer) = observer {
                observer.frame(&frame);
            }
        });
    }

    /// Ends the scored part at `end`, because the source ended.
    pub fn end_at(&mut self, end: Timestamp) {
        self.scores.end_at(end);
    }

    /// Number of records held because nothing was shown after them.
    #[must_use]
    pub fn held_records(&self) -> usize {
        self.pending.len()
    }

    fn done(&mut self, frame: &LoggedFrame, video_delay: Duration) {
        self.scores.frame(&frame.record, video_delay);
        if let Some(observer) = &mut self.observer {
            observer.frame(frame);
        }
    }

    /// Finishes the call. `recorder` observed the link on a separate clock, which starts with the call. `capacity`
    /// returns how many bytes the link could carry between two times of that clock.
    #[must_use]
    pub fn finish(
        mut self,
        mut recorder: SeriesRecorder,
        capacity: impl Fn(Timestamp, Timestamp) -> ByteCount,
    ) -> FinishedCall {
        let end = self.pending.end().max(self.scores.end());
        while let Some(frame) = self.pending.take_unfollowed() {
            let video_delay = end.saturating_since(frame.record.captured_at);
            self.done(&frame, video_delay);
        }
        let length = self.scores.length();
        let carried = capacity(recorder.start(), recorder.start() + length);
        let series = recorder.series(length, self.targets, capacity);
        let shown = self.scores.shown();
        FinishedCall { scores: self.scores.scores(&mut recorder, carried, &series), series, shown }
    }
}

/// Results of a finished call.
#[derive(Debug, Clone, PartialEq)]
pub struct FinishedCall {
    /// Scores of the call.
    pub scores: Scores,
    /// Rates and delays over time, from the start of the call.
    pub series: Series,
    /// Bytes of all shown frames, in the scored part and after it.
    pub shown: ByteCount,
}

#[cfg(test)]
mod tests {
    use lockstep_call::{Outcome, mean, quantile};
    use lockstep_units::Bitrate;
    use proptest::prelude::*;

    use super::*;
    use crate::frame_log::{KeptFrames, MAX_PENDING_FRAMES};
    use crate::scores::video_delays;

    const INTERVAL: Duration = Duration::from_millis(100);

    fn at(milliseconds: u64) -> Timestamp {
        Timestamp::from_millis(milliseconds)
    }

    /// Record of a captured picture, sent as frame `frame` if given.
    fn record(capture: u64, frame: Option<u32>) -> FrameRecord {
        let outcome = if frame.is_some() { Outcome::Sent } else { Outcome::SkippedOverBudget };
        FrameRecord {
            frame,
            outcome,
            size: frame.map(|_| ByteCount::new(1_000)),
            ssim: Some(0.9),
            target: Some(Bitrate::from_kbps(100 + capture % 7)),
            ..FrameRecord::captured(capture, at(100 * capture))
        }
    }

    fn log(length: Duration) -> (CallLog, KeptFrames) {
        let kept = KeptFrames::default();
        (CallLog::new(Timestamp::ZERO, length, INTERVAL).observed_by(Box::new(kept.clone())), kept)
    }

    fn finish(log: CallLog) -> FinishedCall {
        log.finish(SeriesRecorder::new(Timestamp::ZERO, Duration::MAX), |_, _| ByteCount::ZERO)
    }

    proptest! {
        #[test]
        fn final_frames_have_the_order_and_delays_of_the_whole_log(
            fates in proptest::collection::vec((any::<bool>(), any::<bool>(), 0u64..400), 1..80),
        ) {
            let (mut log, kept) = log(Duration::from_secs(5));
            let (mut whole, mut sent, mut shown_at) = (Vec::new(), 0, 0);
            for (capture, (is_sent, is_shown, wait)) in (0u64..).zip(fates) {
                let mut record = record(capture, is_sent.then_some(sent));
                log.decided(record.clone());
                if is_sent {
                    if is_shown {
                        shown_at = shown_at.max(100 * capture + wait) + 1;
                        (record.completed_at, record.displayed_at) = (Some(at(shown_at - 1)), Some(at(shown_at)));
                        let display =
                            DisplayRecord { frame: sent, completed_at: at(shown_at - 1), displayed_at: at(shown_at) };
                        log.shown(&display, None);
                    }
                    sent += 1;
                }
                whole.push(record);
            }
            let end = whole.iter().flat_map(|record| [Some(record.captured_at), record.displayed_at]).flatten().max();
            let delays = video_delays(&whole, end.unwrap());
            let finished = finish(log);
            let frames = kept.take();
            prop_assert_eq!(frames.iter().map(|frame| &frame.record).collect::<Vec<_>>(), whole.iter().collect::<Vec<_>>());
            prop_assert_eq!(frames.iter().map(|frame| frame.video_delay.as_secs_f64()).collect::<Vec<_>>(), delays);

            // Frames without a later display wait until the end of the scored part. Mean and p95 cover all scored
            // frames.
            let scored_end = end.unwrap().max(at(5_000));
            let mut scored: Vec<f64> = whole.iter().zip(video_delays(&whole, scored_end))
                .filter(|(record, _)| record.captured_at < at(5_000)).map(|(_, delay)| delay * 1e3).collect();
            scored.sort_unstable_by(f64::total_cmp);
            let displayed = whole.iter().any(|record| record.captured_at < at(5_000) && record.displayed_at.is_some());
            let delay = finished.scores.video_delay_ms;
            prop_assert_eq!(delay.map(|delay| delay.p95), quantile(&scored, 0.95).filter(|_| displayed));
            prop_assert_eq!(delay.map(|delay| delay.mean), mean(&scored).filter(|_| displayed));
        }
    }

    #[test]
    fn a_display_after_the_frame_left_the_log_changes_nothing() {
        let (mut log, kept) = log(Duration::from_secs(5));
        for capture in 0..=MAX_PENDING_FRAMES as u64 {
            log.decided(record(capture, Some(capture as u32)));
        }
        let first = &kept.take()[..];
        let [first] = first else { panic!("expected one final frame, found {}", first.len()) };
        assert!(!first.followed && first.video_delay == INTERVAL * MAX_PENDING_FRAMES as u32);
        log.shown(&DisplayRecord { frame: 0, completed_at: at(9_000_000), displayed_at: at(9_000_000) }, None);
        assert_eq!((kept.take().len(), log.held_records()), (0, MAX_PENDING_FRAMES));
        log.shown(&DisplayRecord { frame: 1, completed_at: at(9_000_000), displayed_at: at(9_000_000) }, None);
        assert_eq!((kept.take().len(), log.held_records()), (1, MAX_PENDING_FRAMES - 1));
    }

    #[test]
    fn measured_quality_replaces_the_senders_and_bytes_are_counted() {
        let (mut log, kept) = log(Duration::from_secs(5));
        (0..3).for_each(|capture| log.decided(record(capture, Some(capture as u32))));
        assert_eq!(log.capture_of(1), Some(1));
        log.shown(
            &DisplayRecord { frame: 1, completed_at: at(200), displayed_at: at(210) },
            Some(PictureQuality { ssim: 0.99, psnr_db: 40.0, text_ssim: None }),
        );
        assert_eq!(log.capture_of(1), None);
        let finished = finish(log);
        assert_eq!((finished.shown, finished.scores.frames.displayed), (ByteCount::new(1_000), 1));
        assert_eq!(finished.scores.psnr_db.map(|psnr| psnr.mean), Some(40.0));
        let qualities: Vec<Option<f64>> = kept.take().iter().map(|frame| frame.record.ssim).collect();
        assert_eq!(qualities, [Some(0.9), Some(0.99), Some(0.9)]);
    }
}
