//! The log of one call: what its driver hears of frames goes in, and comes out as finished frames, scores and series.
//! One place for the simulator, for modelled calls and for live ones; in memory that does not grow with the call.

use std::time::Duration;

use lockstep_call::{DisplayRecord, FrameRecord};
use lockstep_units::{ByteCount, Timestamp};

use crate::frame_log::{CallObserver, LoggedFrame, PendingFrames};
use crate::scores::{FrameScores, Scores, VideoDelayFloor};
use crate::series::{Series, SeriesRecorder, TargetRecorder};

/// The log of a call that is going on.
pub struct CallLog {
    pending: PendingFrames,
    scores: FrameScores,
    targets: TargetRecorder,
    observer: Option<Box<dyn CallObserver>>,
}

impl CallLog {
    /// The log of a call that begins at `start` and is scored for `length` from then on; its source gives a picture
    /// every `frame_interval`.
    #[must_use]
    pub fn new(start: Timestamp, length: Duration, frame_interval: Duration) -> Self {
        Self {
            pending: PendingFrames::new(),
            scores: FrameScores::new(start, length, frame_interval),
            targets: TargetRecorder::new(start),
            observer: None,
        }
    }

    /// The same, heard by `observer`.
    #[must_use]
    pub fn observed_by(mut self, observer: Box<dyn CallObserver>) -> Self {
        self.observe(observer);
        self
    }

    /// Has `observer` hear of every frame that is not final yet.
    pub fn observe(&mut self, observer: Box<dyn CallObserver>) {
        self.observer = Some(observer);
    }

    /// Has the video delay of every frame that is not final yet compared with `floor`.
    pub fn compare_with(&mut self, floor: VideoDelayFloor) {
        self.scores.compare_with(floor);
    }

    /// The sending end has decided on a picture. Pictures come in the order of capture.
    pub fn decided(&mut self, record: FrameRecord) {
        self.targets.captured(&record);
        if let Some(frame) = self.pending.decided(record) {
            let video_delay = frame.video_delay;
            self.done(&frame, video_delay);
        }
    }

    /// The captured picture that frame `frame` on the wire shows, if it was not shown yet, nor a later one.
    #[must_use]
    pub fn capture_of(&self, frame: u32) -> Option<u64> {
        self.pending.capture_of(frame)
    }

    /// A frame was shown. Frames come in their order. `quality` is the luma SSIM and PSNR (dB) of what is shown, where
    /// the sending end does not say it.
    pub fn shown(&mut self, display: &DisplayRecord, quality: Option<(f64, f64)>) {
        let Self { pending, scores, observer, .. } = self;
        pending.shown(display, quality, |frame| {
            scores.frame(&frame.record, frame.video_delay);
            if let Some(observer) = observer {
                observer.frame(&frame);
            }
        });
    }

    /// The source has ended, and the call is not scored beyond `end`.
    pub fn end_at(&mut self, end: Timestamp) {
        self.scores.end_at(end);
    }

    /// How many records are held, because nothing was shown after them yet.
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

    /// The call is over, and `recorder` has seen its link, on a clock of its own whose start is the call's. `capacity`
    /// says how many bytes the link could have carried between two moments of that clock.
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

/// What a call leaves.
#[derive(Debug, Clone, PartialEq)]
pub struct FinishedCall {
    /// Its scores.
    pub scores: Scores,
    /// Rates and delays over time, from its start on.
    pub series: Series,
    /// Bytes of the frames that were shown, in the scored time and after it.
    pub shown: ByteCount,
}

#[cfg(test)]
mod tests {
    use lockstep_call::{Outcome, mean, quantile};
    use lockstep_units::Bitrate;
    use proptest::prelude::*;

    use super::*;
    use crate::frame_log::{KeptFrames, MOST_PENDING_FRAMES};
    use crate::scores::video_delays;

    const INTERVAL: Duration = Duration::from_millis(100);

    fn at(milliseconds: u64) -> Timestamp {
        Timestamp::from_millis(milliseconds)
    }

    /// A picture that was captured, and sent as frame `frame` if that is given.
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
        fn frames_come_out_in_order_with_the_delays_that_the_whole_log_gives(
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

            // What was not followed by the end of the scored time waits until then; p95 and mean are of all scored.
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
    fn a_frame_that_is_shown_long_after_it_left_the_log_changes_nothing() {
        let (mut log, kept) = log(Duration::from_secs(5));
        for capture in 0..=MOST_PENDING_FRAMES as u64 {
            log.decided(record(capture, Some(capture as u32)));
        }
        let first = &kept.take()[..];
        let [first] = first else { panic!("one frame too many waits, {} came", first.len()) };
        assert!(!first.followed && first.video_delay == INTERVAL * MOST_PENDING_FRAMES as u32);
        log.shown(&DisplayRecord { frame: 0, completed_at: at(9_000_000), displayed_at: at(9_000_000) }, None);
        assert_eq!((kept.take().len(), log.held_records()), (0, MOST_PENDING_FRAMES));
        log.shown(&DisplayRecord { frame: 1, completed_at: at(9_000_000), displayed_at: at(9_000_000) }, None);
        assert_eq!((kept.take().len(), log.held_records()), (1, MOST_PENDING_FRAMES - 1));
    }

    #[test]
    fn quality_is_that_of_what_is_shown_and_bytes_shown_are_counted() {
        let (mut log, kept) = log(Duration::from_secs(5));
        (0..3).for_each(|capture| log.decided(record(capture, Some(capture as u32))));
        assert_eq!(log.capture_of(1), Some(1));
        log.shown(&DisplayRecord { frame: 1, completed_at: at(200), displayed_at: at(210) }, Some((0.99, 40.0)));
        assert_eq!(log.capture_of(1), None);
        let finished = finish(log);
        assert_eq!((finished.shown, finished.scores.frames.displayed), (ByteCount::new(1_000), 1));
        assert_eq!(finished.scores.psnr_db.map(|psnr| psnr.mean), Some(40.0));
        let qualities: Vec<Option<f64>> = kept.take().iter().map(|frame| frame.record.ssim).collect();
        assert_eq!(qualities, [Some(0.9), Some(0.99), Some(0.9)]);
    }
}
