//! The receiving end of a modelled call.

use std::collections::VecDeque;
use std::time::Duration;

use lockstep_control::Estimator;
use lockstep_transport::Arrival;
use lockstep_units::{ByteCount, Timestamp};

use super::FeedbackInterval;
use super::packet::{FeedbackReport, MediaFragment, ModelledPacket};
use super::window::WindowStatistics;
use crate::flow::Arrived;

/// Over how many frames fragments may come in any order, as in the real transport (`ReceiverConfig::window`).
const WINDOW: usize = 256;
/// Most arrivals that a report lists.
const MOST_LISTED: usize = 4_096;

/// A frame at the receiver.
#[derive(Debug, Clone, Copy, Default)]
struct Frame {
    arrived: u16,
    fragments: u16,
    source: Option<u32>,
    decoded: bool,
    /// Which of the first 64 fragments came; a frame of more than that is counted without looking at duplicates.
    seen: u64,
}

/// The fragment with the highest sequence number.
#[derive(Debug, Clone, Copy)]
struct Highest {
    sequence: u64,
    idle: Duration,
    arrived_at: Timestamp,
}

/// A frame was shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) frame: u32,
    pub(crate) completed_at: Timestamp,
    pub(crate) displayed_at: Timestamp,
}

pub(crate) struct ModelledReceiver {
    estimator: Box<dyn Estimator>,
    feedback: FeedbackInterval,
    decode_time: Duration,
    frames: VecDeque<Frame>,
    /// Number of the first of `frames`.
    first: u32,
    /// The last frames that were decoded and have left the window, in order.
    decoded_before: VecDeque<u32>,
    newest_decoded: Option<u32>,
    decoder_free_at: Timestamp,
    highest: Option<Highest>,
    received: u64,
    /// What came since the last report, and what that one listed.
    fresh: Vec<(u64, Timestamp, bool)>,
    listed: Vec<(u64, Timestamp, bool)>,
    reports: u64,
    /// When the next report is due; [`Timestamp::MAX`] if none is.
    due: Timestamp,
    window: WindowStatistics,
    pub(crate) shown: VecDeque<Shown>,
}

impl ModelledReceiver {
    pub(crate) fn new(estimator: Box<dyn Estimator>, feedback: FeedbackInterval, decode_time: Duration) -> Self {
        Self {
            estimator,
            feedback,
            decode_time,
            frames: VecDeque::new(),
            first: 0,
            decoded_before: VecDeque::new(),
            newest_decoded: None,
            decoder_free_at: Timestamp::ZERO,
            highest: None,
            received: 0,
            fresh: Vec::new(),
            listed: Vec::new(),
            reports: 0,
            due: Timestamp::MAX,
            window: WindowStatistics::default(),
            shown: VecDeque::new(),
        }
    }

    pub(crate) fn handle_media(&mut self, now: Timestamp, media: MediaFragment, arrived: &Arrived<ModelledPacket>) {
        let &Arrived { size, queueing_delay: queueing, congestion_experienced, .. } = arrived;
        // A report is due after the first fragment, and from then on at its interval, whatever comes.
        match self.feedback {
            FeedbackInterval::EveryFragment => self.due = now,
            FeedbackInterval::Every(interval) => self.due = self.due.min(now + interval),
        }
        self.received += 1;
        let before = self.highest;
        let ahead = before.is_none_or(|highest| media.sequence > highest.sequence);
        let grace = match before {
            Some(highest) if ahead => media.idle.saturating_sub(highest.idle),
            _ => Duration::ZERO,
        };
        if ahead {
            self.window.on_gap(media.sequence - before.map_or(0, |highest| highest.sequence + 1));
            self.highest = Some(Highest { sequence: media.sequence, idle: media.idle, arrived_at: now });
        } else {
            self.window.on_late();
        }
        self.fresh.push((media.sequence, now, congestion_experienced));
        let datagram = size.saturating_sub(ByteCount::new(28));
        self.window.on_arrival(now, size, now.saturating_since(media.sent_at), queueing);
        self.estimator.on_arrival(&Arrival {
            arrived_at: now,
            sent_at: media.sent_at,
            size: datagram,
            sequence: media.sequence,
            frame: media.frame,
            fragment: media.fragment,
            grace,
            congestion_experienced,
        });
        self.collect(now, &media);
    }

    /// Puts the fragment to its frame; decodes what has become complete.
    fn collect(&mut self, now: Timestamp, media: &MediaFragment) {
        let Some(index) = media.frame.checked_sub(self.first) else { return };
        let index = index as usize;
        if index >= self.frames.len() {
            self.frames.resize(index + 1, Frame::default());
        }
        let frame = &mut self.frames[index];
        let bit = 1u64.checked_shl(u32::from(media.fragment)).unwrap_or(0);
        if frame.decoded || frame.seen & bit != 0 {
            return; // a copy
        }
        frame.seen |= bit;
        frame.arrived += 1;
        frame.fragments = media.fragments;
        frame.source = media.source;
        if frame.arrived == frame.fragments {
            self.decode_from(now, index);
        }
        while self.frames.len() > WINDOW {
            if self.frames.pop_front().is_some_and(|frame| frame.decoded) {
                self.decoded_before.push_back(self.first);
                if self.decoded_before.len() > WINDOW {
                    self.decoded_before.pop_front();
                }
            }
            self.first += 1;
        }
    }

    fn is_decoded(&self, frame: u32) -> bool {
        match frame.checked_sub(self.first) {
            Some(index) => self.frames.get(index as usize).is_some_and(|frame| frame.decoded),
            None => self.decoded_before.binary_search(&frame).is_ok(),
        }
    }

    /// Decodes frame `index` if it can be, and all that waited for it.
    fn decode_from(&mut self, now: Timestamp, index: usize) {
        for at in index..self.frames.len() {
            let frame = self.frames[at];
            let complete = frame.fragments > 0 && frame.arrived == frame.fragments && !frame.decoded;
            if !complete || !frame.source.is_none_or(|source| self.is_decoded(source)) {
                if at == index {
                    return;
                }
                continue;
            }
            self.frames[at].decoded = true;
            let number = self.first + at as u32;
            let displayed_at = self.decoder_free_at.max(now) + self.decode_time;
            self.decoder_free_at = displayed_at;
            if self.newest_decoded.is_none_or(|newest| number > newest) {
                self.newest_decoded = Some(number);
                self.shown.push_back(Shown { frame: number, completed_at: now, displayed_at });
            }
        }
    }

    /// When the next report is due; [`Timestamp::MAX`] if none is.
    pub(crate) fn poll_timeout(&self) -> Timestamp {
        self.due
    }

    /// The report that is due, if one is.
    pub(crate) fn poll_feedback(&mut self, now: Timestamp) -> Option<FeedbackReport> {
        if self.due > now {
            return None;
        }
        self.due = match self.feedback {
            FeedbackInterval::EveryFragment => Timestamp::MAX,
            FeedbackInterval::Every(interval) => now + interval,
        };
        let before = &self.listed[self.listed.len().saturating_sub(MOST_LISTED / 2)..];
        // One allocation of the right size; the lists keep theirs.
        let arrivals = [before, &self.fresh[..]].concat();
        std::mem::swap(&mut self.listed, &mut self.fresh);
        self.fresh.clear();
        self.reports += 1;
        Some(FeedbackReport {
            number: self.reports,
            arrivals,
            highest: self.highest.map_or(0, |highest| highest.sequence),
            hold: self.highest.map_or(Duration::ZERO, |highest| now.saturating_since(highest.arrived_at)),
            received: self.received,
            decoded: self.newest_decoded,
            estimate: self.estimator.estimate(now),
        })
    }

    pub(crate) fn take_window(&mut self) -> WindowStatistics {
        self.window.take()
    }
}
