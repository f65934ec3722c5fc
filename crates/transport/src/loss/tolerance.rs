//! Tolerance of loss detection. Spurious losses raise its thresholds; a period without one lowers them again.

use std::time::Duration;

use super::{LossDetectionConfig, TIMER_GRANULARITY};

/// Initial packet threshold: newer fragments that must be acknowledged (RFC 9002, section 6.1.1).
pub const PACKET_THRESHOLD: u64 = 3;
/// Initial time threshold for an overtaken fragment, eighths of a round trip (RFC 9002, section 6.1.2).
const TIME_EIGHTHS: u32 = 9;
/// Largest margin of the tail timer, in units of the first one. The margin grows after a spurious loss. Example:
/// acknowledgements are lost, and those of the next frame repeat them.
const MAX_MARGINS: u32 = 10;

/// Thresholds of loss detection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tolerance {
    packet_threshold: u64,
    time_eighths: u32,
    tail_margin: Duration,
    /// Fragments acknowledged since the last spurious loss or the last reduction.
    calm: u32,
    config: LossDetectionConfig,
}

impl Tolerance {
    /// Tolerance of a path without spurious losses.
    pub(super) fn new(config: LossDetectionConfig) -> Self {
        let (packet_threshold, time_eighths) = (PACKET_THRESHOLD, TIME_EIGHTHS);
        Self { packet_threshold, time_eighths, tail_margin: TIMER_GRANULARITY, calm: 0, config }
    }

    /// Number of newer fragments that must be acknowledged before a fragment is lost.
    pub(super) fn packet_threshold(&self) -> u64 {
        self.packet_threshold
    }

    /// Time threshold for an overtaken fragment, eighths of a round trip.
    pub(super) fn time_eighths(&self) -> u32 {
        self.time_eighths
    }

    /// Margin of the tail timer above round trip and variation.
    pub(super) fn tail_margin(&self) -> Duration {
        self.tail_margin
    }

    /// Raises the tolerance after a spurious loss. `late` is the delay of the acknowledgement beyond round trip and
    /// variation. `overtaken_by` is the packet threshold that would have avoided the loss, if newer fragments were
    /// acknowledged before.
    pub(super) fn on_spurious_loss(&mut self, late: Duration, overtaken_by: Option<u64>) {
        self.tail_margin = self.tail_margin.max((late * 5 / 4).min(MAX_MARGINS * TIMER_GRANULARITY));
        self.calm = 0;
        if let Some(overtaken_by) = overtaken_by {
            self.packet_threshold = self.packet_threshold.max(overtaken_by).min(self.config.most_packet_threshold);
            self.time_eighths = (self.time_eighths + 1).min((8.0 * self.config.most_time_threshold) as u32);
        }
    }

    /// Counts an acknowledged fragment. Returns whether the tolerance shrank by one step.
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
