//! Frames of a call within a step.

use std::collections::VecDeque;
use std::time::Duration;

use lockstep_call::{FrameRecord, Outcome};
use lockstep_measure::FreezeDetector;
use lockstep_units::{ByteCount, Timestamp};

/// Counters since the last [`StepStatistics::take`](super::StepStatistics::take).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FrameStatistics {
    /// Captured pictures.
    pub captured: u64,
    /// Sent frames.
    pub sent: u64,
    /// Bytes of sent frames, without headers.
    pub encoded: ByteCount,
    /// Sum of the quantizer indices of sent frames.
    pub quantizers: u64,
    /// Bytes that left the pacer, UDP and IPv4 headers included.
    pub transmitted: ByteCount,
    /// Shown frames.
    pub shown: u64,
    /// Sum of the displayed delays of shown frames, seconds.
    pub video_delay_seconds: f64,
    /// Sum of SSIM of shown frames, 0-1 each.
    pub ssim: f64,
    /// Captured pictures that are settled: this picture or a later one was shown.
    pub settled: u64,
    /// Sum of the video delays of settled pictures (as in Salsify), seconds. Each counts at most [`MAX_WAITED_SECONDS`], so
    /// that one outage does not dominate.
    pub waited_seconds: f64,
    /// Duration of freezes ([`FreezeDetector`]), counted at their end, seconds.
    pub frozen_seconds: f64,
}

/// A frame that may still be shown.
#[derive(Debug, Clone, Copy)]
struct Pending {
    frame: u32,
    captured_at: Timestamp,
    ssim: f64,
}

/// Limit on one picture's part of [`FrameStatistics::waited_seconds`], seconds.
pub const MAX_WAITED_SECONDS: f64 = 1.0;

/// Limit on frames remembered until a later one is shown: an outage of minutes.
const MAX_PENDING_FRAMES: usize = 8_192;

#[derive(Debug)]
pub(crate) struct FrameCounter {
    counts: FrameStatistics,
    pending: VecDeque<Pending>,
    /// Pictures that are not settled.
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
        if self.captures.len() > MAX_PENDING_FRAMES {
            self.captures.pop_front();
        }
    }

    /// Counts the sender's decision on a picture.
    pub(crate) fn decided(&mut self, record: &FrameRecord) {
        let (Outcome::Sent, Some(frame)) = (record.outcome, record.frame) else { return };
        self.counts.sent += 1;
        self.counts.encoded += record.size.unwrap_or(ByteCount::ZERO);
        self.counts.quantizers += u64::from(record.quantizer.unwrap_or(0));
        let (captured_at, ssim) = (record.captured_at, record.ssim.unwrap_or(0.0));
        self.pending.push_back(Pending { frame, captured_at, ssim });
        if self.pending.len() > MAX_PENDING_FRAMES {
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
                    self.counts.settled += 1;
                    self.counts.waited_seconds +=
                        at.saturating_since(captured_at).as_secs_f64().min(MAX_WAITED_SECONDS);
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
