//! How much is borne before a fragment counts as lost: learned from losses that were none, and taken back in time.

use std::time::Duration;

use super::{LossDetectionConfig, TIMER_GRANULARITY};

/// How many newer fragments must be acknowledged before one is lost, at first (RFC 9002, section 6.1.1).
const PACKET_THRESHOLD: u64 = 3;
/// Eighths of a round trip after which an overtaken fragment is lost, at first (RFC 9002, section 6.1.2).
const TIME_EIGHTHS: u32 = 9;
/// The margin of the tail timer grows up to this many times the first one after it was wrong, as when acknowledgements are
/// lost and the next frame's bring the news.
const MOST_MARGINS: u32 = 10;

/// What is borne.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tolerance {
    packet_threshold: u64,
    time_eighths: u32,
    tail_margin: Duration,
    /// Fragments acknowledged since a loss was spurious or a step was taken back.
    calm: u32,
    config: LossDetectionConfig,
}

impl Tolerance {
    /// That of a path on which no loss was spurious.
    pub(super) fn new(config: LossDetectionConfig) -> Self {
        let (packet_threshold, time_eighths) = (PACKET_THRESHOLD, TIME_EIGHTHS);
        Self { packet_threshold, time_eighths, tail_margin: TIMER_GRANULARITY, calm: 0, config }
    }

    /// How many newer fragments must be acknowledged before one is lost.
    pub(super) fn packet_threshold(&self) -> u64 {
        self.packet_threshold
    }

    /// Eighths of a round trip after which an overtaken fragment is lost.
    pub(super) fn time_eighths(&self) -> u32 {
        self.time_eighths
    }

    /// How much longer than round trip and variation say is waited where nothing was overtaken.
    pub(super) fn tail_margin(&self) -> Duration {
        self.tail_margin
    }

    /// A fragment that had counted as lost was acknowledged, so much later than round trip and variation say. If newer
    /// ones had been acknowledged before, the threshold that would have borne it is `overtaken_by`.
    pub(super) fn mistaken(&mut self, late: Duration, overtaken_by: Option<u64>) {
        self.tail_margin = self.tail_margin.max((late * 5 / 4).min(MOST_MARGINS * TIMER_GRANULARITY));
        self.calm = 0;
        if let Some(overtaken_by) = overtaken_by {
            self.packet_threshold = self.packet_threshold.max(overtaken_by).min(self.config.most_packet_threshold);
            self.time_eighths = (self.time_eighths + 1).min((8.0 * self.config.most_time_threshold) as u32);
        }
    }

    /// A fragment was acknowledged, mistaken or not. Says whether a step of tolerance was taken back.
    pub(super) fn acknowledged(&mut self) -> bool {
        self.calm += 1;
        if self.calm < self.config.calm {
            return false;
        }
        self.calm = 0;
        self.packet_threshold = (self.packet_threshold - 1).max(PACKET_THRESHOLD);
        self.time_eighths = (self.time_eighths - 1).max(TIME_EIGHTHS);
        self.tail_margin = (self.tail_margin * 3 / 4).max(TIMER_GRANULARITY);
        true
    }
}
