//! Frames on their way from the ends to the observers of a call.
//!
//! ```text
//! sending end --decision--> PendingFrames --it or a later frame was shown--> FrameObserver
//! ```
//!
//! A record leaves the sending end ([`OpenRecords`](lockstep_call::OpenRecords)) after the decision on its picture.
//! Memory does not grow with the length of a call.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockstep_call::{DisplayRecord, FrameRecord};
use lockstep_media::PictureQuality;
use lockstep_units::Timestamp;

/// Limit on pictures that wait for a display: 18 minutes at 30 frames per second. In a longer outage the oldest ones
/// leave the log with their current delay.
pub const MAX_PENDING_FRAMES: usize = 1 << 15;

/// A captured frame whose record is final.
#[derive(Debug, Clone, PartialEq)]
pub struct LoggedFrame {
    /// Record of the frame.
    pub record: FrameRecord,
    /// Salsify's video delay: time from capture until this or a later frame was shown. If none was, until the last
    /// capture or display of the call.
    pub video_delay: Duration,
    /// Whether this or a later frame was shown.
    pub followed: bool,
}

/// Observer of every captured frame of a call, in order of capture, once its record is final.
pub trait FrameObserver: Send {
    /// Receives a final frame.
    fn frame(&mut self, frame: &LoggedFrame);
}

impl<Observer: FrameObserver> FrameObserver for Arc<Mutex<Observer>> {
    /// Does nothing if the observer panicked before.
    fn frame(&mut self, frame: &LoggedFrame) {
        if let Ok(mut observer) = self.lock() {
            observer.frame(frame);
        }
    }
}

impl<Observer: FrameObserver> FrameObserver for Option<Observer> {
    fn frame(&mut self, frame: &LoggedFrame) {
        if let Some(observer) = self {
            observer.frame(frame);
        }
    }
}

impl<Observer: FrameObserver + ?Sized> FrameObserver for Vec<Box<Observer>> {
    fn frame(&mut self, frame: &LoggedFrame) {
        for observer in self {
            observer.frame(frame);
        }
    }
}

/// Observer that keeps every frame in memory, for short calls. Clones share the frames.
#[derive(Debug, Clone, Default)]
pub struct KeptFrames(Arc<Mutex<Vec<LoggedFrame>>>);

impl KeptFrames {
    /// Removes and returns the frames so far.
    #[must_use]
    pub fn take(&self) -> Vec<LoggedFrame> {
        self.0.lock().map(|mut frames| std::mem::take(&mut *frames)).unwrap_or_default()
    }
}

impl FrameObserver for KeptFrames {
    fn frame(&mut self, frame: &LoggedFrame) {
        if let Ok(mut frames) = self.0.lock() {
            frames.push(frame.clone());
        }
    }
}

/// Decided records that wait until they or a later frame are shown.
#[derive(Debug)]
pub(crate) struct PendingFrames {
    records: VecDeque<FrameRecord>,
    /// Last capture or display so far.
    end: Timestamp,
}

impl PendingFrames {
    pub(crate) fn new() -> Self {
        Self { records: VecDeque::new(), end: Timestamp::ZERO }
    }

    /// Adds the next captured picture. Returns the oldest one if too many wait.
    pub(crate) fn decided(&mut self, record: FrameRecord) -> Option<LoggedFrame> {
        self.end = self.end.max(record.captured_at);
        self.records.push_back(record);
        if self.records.len() > MAX_PENDING_FRAMES { self.take_unfollowed() } else { None }
    }

    /// Position of the picture that frame `frame` shows, among those that wait.
    fn position(&self, frame: u32) -> Option<usize> {
        let at = self.records.iter().position(|record| record.frame.is_some_and(|number| number >= frame))?;
        (self.records[at].frame == Some(frame)).then_some(at)
    }

    /// Index of the captured picture that frame `frame` shows. `None` if it or a later one was already shown.
    pub(crate) fn capture_of(&self, frame: u32) -> Option<u64> {
        Some(self.records[self.position(frame)?].capture)
    }

    /// Passes the shown frame and all earlier ones to `done`. Earlier frames cannot be shown any more.
    pub(crate) fn shown(
        &mut self,
        display: &DisplayRecord,
        quality: Option<PictureQuality>,
        mut done: impl FnMut(LoggedFrame),
    ) {
        let Some(position) = self.position(display.frame) else { return };
        self.end = self.end.max(display.displayed_at);
        for (index, mut record) in self.records.drain(..=position).enumerate() {
            if index == position {
                record.completed_at = Some(display.completed_at);
                record.displayed_at = Some(display.displayed_at);
                if let Some(quality) = quality {
                    record.set_quality(quality);
                }
            }
            let video_delay = display.displayed_at.saturating_since(record.captured_at);
            done(LoggedFrame { record, video_delay, followed: true });
        }
    }

    /// Removes the oldest waiting record although nothing was shown after it.
    pub(crate) fn take_unfollowed(&mut self) -> Option<LoggedFrame> {
        let record = self.records.pop_front()?;
        let video_delay = self.end.saturating_since(record.captured_at);
        Some(LoggedFrame { record, video_delay, followed: false })
    }

    /// Last capture or display so far.
    pub(crate) fn end(&self) -> Timestamp {
        self.end
    }

    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }
}
