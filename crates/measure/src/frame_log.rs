//! The frames of a call on their way from the ends that decide on them to whoever keeps a log of them.
//!
//! Nothing here grows with the length of a call. A record leaves the sending end when the picture is decided on
//! ([`OpenRecords`](lockstep_call::OpenRecords)), waits until it or a later frame has been shown, and goes to the [`CallObserver`] then.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockstep_call::{DisplayRecord, FrameRecord};
use lockstep_units::Timestamp;

/// So many pictures may be decided on and wait for one to be shown: 18 minutes at 30 a second. In a longer outage the
/// oldest leave the log with the delay that they have by then.
pub const MOST_PENDING_FRAMES: usize = 1 << 15;

/// A captured frame of which nothing can change any more.
#[derive(Debug, Clone, PartialEq)]
pub struct LoggedFrame {
    /// What became of it.
    pub record: FrameRecord,
    /// Salsify's video delay: from its capture until it or a later frame was shown. Where none ever was, until the last
    /// capture or display of the call.
    pub video_delay: Duration,
    /// Whether it or a later frame was shown.
    pub followed: bool,
}

/// Hears of every captured frame of a call, in the order of capture, as soon as nothing about it can change any more.
pub trait CallObserver: Send {
    /// `frame` is final.
    fn frame(&mut self, frame: &LoggedFrame);
}

impl<Observer: CallObserver> CallObserver for Arc<Mutex<Observer>> {
    /// An observer that panicked hears no more.
    fn frame(&mut self, frame: &LoggedFrame) {
        if let Ok(mut observer) = self.lock() {
            observer.frame(frame);
        }
    }
}

impl<Observer: CallObserver> CallObserver for Option<Observer> {
    fn frame(&mut self, frame: &LoggedFrame) {
        if let Some(observer) = self {
            observer.frame(frame);
        }
    }
}

impl<Observer: CallObserver + ?Sized> CallObserver for Vec<Box<Observer>> {
    fn frame(&mut self, frame: &LoggedFrame) {
        for observer in self {
            observer.frame(frame);
        }
    }
}

/// Keeps every frame in memory: for short calls, and for whoever wants the whole table. Clones keep the same frames.
#[derive(Debug, Clone, Default)]
pub struct KeptFrames(Arc<Mutex<Vec<LoggedFrame>>>);

impl KeptFrames {
    /// The frames so far; they are kept no longer.
    #[must_use]
    pub fn take(&self) -> Vec<LoggedFrame> {
        self.0.lock().map(|mut frames| std::mem::take(&mut *frames)).unwrap_or_default()
    }
}

impl CallObserver for KeptFrames {
    fn frame(&mut self, frame: &LoggedFrame) {
        if let Ok(mut frames) = self.0.lock() {
            frames.push(frame.clone());
        }
    }
}

/// Records that are decided on and wait until they or a later frame are shown.
#[derive(Debug)]
pub(crate) struct PendingFrames {
    records: VecDeque<FrameRecord>,
    /// The last capture or display so far.
    end: Timestamp,
}

impl PendingFrames {
    pub(crate) fn new() -> Self {
        Self { records: VecDeque::new(), end: Timestamp::ZERO }
    }

    /// The next captured picture is decided on. Gives the oldest back where too many wait.
    pub(crate) fn decided(&mut self, record: FrameRecord) -> Option<LoggedFrame> {
        self.end = self.end.max(record.captured_at);
        self.records.push_back(record);
        if self.records.len() > MOST_PENDING_FRAMES { self.take_unfollowed() } else { None }
    }

    /// Which of the pictures that wait frame `frame` shows: its place among them.
    fn position(&self, frame: u32) -> Option<usize> {
        let at = self.records.iter().position(|record| record.frame.is_some_and(|number| number >= frame))?;
        (self.records[at].frame == Some(frame)).then_some(at)
    }

    /// The captured picture that frame `frame` shows, if it was not shown yet, nor a later one.
    pub(crate) fn capture_of(&self, frame: u32) -> Option<u64> {
        Some(self.records[self.position(frame)?].capture)
    }

    /// A frame was shown, and so no earlier one will be: `done` hears of all of them.
    pub(crate) fn shown(
        &mut self,
        display: &DisplayRecord,
        quality: Option<(f64, f64)>,
        mut done: impl FnMut(LoggedFrame),
    ) {
        let Some(position) = self.position(display.frame) else { return };
        self.end = self.end.max(display.displayed_at);
        for (index, mut record) in self.records.drain(..=position).enumerate() {
            if index == position {
                record.completed_at = Some(display.completed_at);
                record.displayed_at = Some(display.displayed_at);
                if let Some((ssim, psnr_db)) = quality {
                    (record.ssim, record.psnr_db) = (Some(ssim), Some(psnr_db));
                }
            }
            let video_delay = display.displayed_at.saturating_since(record.captured_at);
            done(LoggedFrame { record, video_delay, followed: true });
        }
    }

    /// The oldest that waits, although nothing was shown after it.
    pub(crate) fn take_unfollowed(&mut self) -> Option<LoggedFrame> {
        let record = self.records.pop_front()?;
        let video_delay = self.end.saturating_since(record.captured_at);
        Some(LoggedFrame { record, video_delay, followed: false })
    }

    /// The last capture or display so far.
    pub(crate) fn end(&self) -> Timestamp {
        self.end
    }

    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }
}
