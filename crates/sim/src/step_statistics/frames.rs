//! What became of the frames of a call within a step.

use std::collections::VecDeque;
use std::time::Duration;

use lockstep_call::{FrameRecord, Outcome};
use lockstep_measure::FreezeDetector;
use lockstep_units::{ByteCount, Timestamp};

/// Counts since the last [`StepStatistics::take`](super::StepStatistics::take).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FrameStatistics {
    /// Pictures that the source gave.
    pub captured: u64,
    /// Frames that were sent.
    pub sent: u64,
    /// Their sizes, without headers.
    pub encoded: ByteCount,
    /// Sum of the quantizer indices of the frames sent.
    pub quantizers: u64,
    /// Bytes that left the pacer, headers of UDP and IPv4 included.
    pub transmitted: ByteCount,
    /// Frames that were shown.
    pub shown: u64,
    /// Sum over the frames shown of the time from capture to display, seconds.
    pub video_delay_seconds: f64,
    /// Sum over the frames shown of their SSIM, 0-1.
    pub ssim: f64,
    /// Pictures that the source gave and that are over with: shown, or a later one is.
    pub over: u64,
    /// Sum over those of the time from capture until they, or a later one, were shown: the video delay of Salsify's text,
    /// but no more than [`MOST_WAITED`] for each, so that one outage does not hide all else; seconds.
    pub waited_seconds: f64,
    /// Time for which the picture on the screen was frozen ([`FreezeDetector`]), counted when it moves again, seconds.
    pub frozen_seconds: f64,
}

/// A frame that may still be shown.
#[derive(Debug, Clone, Copy)]
struct Pending {
    frame: u32,
    captured_at: Timestamp,
    ssim: f64,
}

/// The most that a picture counts in [`FrameStatistics::waited_seconds`], seconds.
pub const MOST_WAITED: f64 = 1.0;

/// Most frames that are remembered until a later one is shown: an outage of minutes.
const MOST_PENDING: usize = 8_192;

#[derive(Debug)]
pub(crate) struct FrameCounter {
    counts: FrameStatistics,
    pending: VecDeque<Pending>,
    /// Pictures that are not over with.
    captures: VecDeque<Timestamp>,
    freezes: FreezeDetector,
}

impl FrameCounter {
    pub(crate) fn new(frame_interval: Duration) -> Self {
        Self {
            counts: FrameStatistics::default(),
            pending: VecDeque::new(),
            captures: VecDeque::new(),
            freezes: FreezeDetector::new(frame_interval),
        }
    }

    pub(crate) fn captured(&mut self, at: Timestamp) {
        self.counts.captured += 1;
        self.captures.push_back(at);
        if self.captures.len() > MOST_PENDING {
            self.captures.pop_front();
        }
    }

    /// The sender has decided on a picture.
    pub(crate) fn decided(&mut self, record: &FrameRecord) {
        let (Outcome::Sent, Some(frame)) = (record.outcome, record.frame) else { return };
        self.counts.sent += 1;
        self.counts.encoded += record.size.unwrap_or(ByteCount::ZERO);
        self.counts.quantizers += u64::from(record.quantizer.unwrap_or(0));
        let (captured_at, ssim) = (record.captured_at, record.ssim.unwrap_or(0.0));
        self.pending.push_back(Pending { frame, captured_at, ssim });
        if self.pending.len() > MOST_PENDING {
            self.pending.pop_front();
        }
    }

    pub(crate) fn transmitted(&mut self, size: ByteCount) {
        self.counts.transmitted += size;
    }

    pub(crate) fn shown(&mut self, frame: u32, at: Timestamp) {
        while let Some(pending) = self.pending.front().copied().filter(|pending| pending.frame <= frame) {
            self.pending.pop_front();
            if pending.frame == frame {
                self.counts.shown += 1;
                self.counts.video_delay_seconds += at.saturating_since(pending.captured_at).as_secs_f64();
                self.counts.ssim += pending.ssim;
                while let Some(captured_at) = self.captures.front().copied().filter(|at| *at <= pending.captured_at) {
                    self.captures.pop_front();
                    self.counts.over += 1;
                    self.counts.waited_seconds += at.saturating_since(captured_at).as_secs_f64().min(MOST_WAITED);
                }
            }
        }
        if let Some(duration) = self.freezes.shown(at).filter(|duration| duration.frozen) {
            self.counts.frozen_seconds += duration.length.as_secs_f64();
        }
    }

    pub(crate) fn take(&mut self) -> FrameStatistics {
        std::mem::take(&mut self.counts)
    }
}
