//! Arrivals at the receiver within a step.

use std::time::Duration;

use lockstep_transport::wire::Data;
use lockstep_units::{ByteCount, Timestamp};

/// Counters since the last [`StepStatistics::take`](super::StepStatistics::take).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ArrivalStatistics {
    /// Bytes that arrived, UDP and IPv4 headers included.
    pub received: ByteCount,
    /// Packets that arrived.
    pub packets: u64,
    /// Packets that did not arrive before a packet sent later. A late arrival is subtracted again.
    pub lost: u64,
    /// Sum of one-way delays, seconds.
    pub delay_seconds: f64,
    /// Largest one-way delay, seconds.
    pub largest_delay_seconds: f64,
    /// Sum of queueing delays, seconds. Real receivers do not know it; it is for logs and scores.
    pub queueing_seconds: f64,
    /// Sum of the absolute differences of one-way delay between consecutive packets, seconds.
    pub jitter_seconds: f64,
    /// Time from the first to the last arrival, seconds.
    pub span_seconds: f64,
    /// Smallest one-way delay of the call so far, seconds; zero before the first arrival.
    pub smallest_delay_seconds: f64,
    next_sequence: u32,
    first: Option<Timestamp>,
    last_delay: Option<f64>,
}

impl ArrivalStatistics {
    /// Counts a fragment of `size` bytes, all headers included, after a queueing delay of `queueing`.
    pub(crate) fn on_arrival<P>(&mut self, now: Timestamp, data: &Data<P>, size: ByteCount, queueing: Duration) {
        let delay = now.saturating_since(data.sent_at);
        // Sequence numbers wrap: compare by signed difference.
        match data.sequence.wrapping_sub(self.next_sequence) as i32 {
            missing @ 0.. => {
                self.lost += missing as u64;
                self.next_sequence = data.sequence.wrapping_add(1);
            }
            _ => self.lost = self.lost.saturating_sub(1),
        }
        let delay = delay.as_secs_f64();
        if self.smallest_delay_seconds == 0.0 || delay < self.smallest_delay_seconds {
            self.smallest_delay_seconds = delay;
        }
        self.received += size;
        self.packets += 1;
        self.delay_seconds += delay;
        self.largest_delay_seconds = self.largest_delay_seconds.max(delay);
        self.queueing_seconds += queueing.as_secs_f64();
        if let Some(last) = self.last_delay.replace(delay) {
            self.jitter_seconds += (delay - last).abs();
        }
        let first = *self.first.get_or_insert(now);
        self.span_seconds = now.saturating_since(first).as_secs_f64();
    }

    /// Returns and resets the counters. The smallest delay of the call remains.
    pub(crate) fn take(&mut self) -> Self {
        let taken = *self;
        *self = Self {
            smallest_delay_seconds: taken.smallest_delay_seconds,
            last_delay: taken.last_delay,
            next_sequence: taken.next_sequence,
            ..Self::default()
        };
        taken
    }

    /// Mean one-way delay, seconds; `None` without arrivals.
    #[must_use]
    pub fn mean_delay(&self) -> Option<f64> {
        (self.packets > 0).then(|| self.delay_seconds / self.packets as f64)
    }

    /// One-way delay of the last packet of the call so far, seconds; zero before the first arrival.
    #[must_use]
    pub fn last_delay_seconds(&self) -> f64 {
        self.last_delay.unwrap_or(0.0)
    }

    /// Share of lost packets, 0-1.
    #[must_use]
    pub fn loss_share(&self) -> f64 {
        let sent = self.packets + self.lost;
        if sent == 0 { 0.0 } else { self.lost as f64 / sent as f64 }
    }
}
