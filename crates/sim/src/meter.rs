//! Measures one flow in a network, for any kind of flow.

use std::time::Duration;

use lockstep_call::Distribution;
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use crate::flow::Arrived;

/// Interval over which sizes are summed.
pub const METER_INTERVAL: Duration = Duration::from_millis(100);

/// Limit on recorded intervals: 24 hours.
const MAX_INTERVALS: usize = 864_000;

/// Sizes over time, and delays of packets from the sender to the receiver.
#[derive(Debug, Clone)]
pub struct FlowMeter {
    sent: Vec<ByteCount>,
    received: Vec<ByteCount>,
    sent_packets: u64,
    received_packets: u64,
    one_way_ms: Distribution,
    queueing_ms: Distribution,
    marked_packets: u64,
    fed_back: ByteCount,
    /// Packets sent in this interval are counted, and their delays are recorded.
    counted: (Timestamp, Timestamp),
}

impl Default for FlowMeter {
    fn default() -> Self {
        Self {
            sent: Vec::new(),
            received: Vec::new(),
            sent_packets: 0,
            received_packets: 0,
            one_way_ms: Distribution::of_milliseconds(),
            queueing_ms: Distribution::of_milliseconds(),
            marked_packets: 0,
            fed_back: ByteCount::ZERO,
            counted: (Timestamp::ZERO, Timestamp::MAX),
        }
    }
}

fn add(bins: &mut Vec<ByteCount>, at: Timestamp, size: ByteCount) {
    let index = (u128::from(at.as_nanos()) / METER_INTERVAL.as_nanos()) as usize;
    if index >= MAX_INTERVALS {
        return;
    }
    if index >= bins.len() {
        bins.resize(index + 1, ByteCount::ZERO);
    }
    bins[index] += size;
}

fn between(bins: &[ByteCount], from: Timestamp, to: Timestamp) -> ByteCount {
    let index = |at: Timestamp| (u128::from(at.as_nanos()) / METER_INTERVAL.as_nanos()) as usize;
    let (from, to) = (index(from).min(bins.len()), index(to).min(bins.len()));
    bins.get(from..to).unwrap_or_default().iter().copied().sum()
}

/// Converts to ms, rounded down to whole microseconds.
fn milliseconds(time: Duration) -> f64 {
    f64::from(u32::try_from(time.as_micros()).unwrap_or(u32::MAX)) * 1e-3
}

impl FlowMeter {
    /// A meter of packets sent from `from` until `to` (exclusive).
    pub(crate) fn counting(from: Timestamp, to: Timestamp) -> Self {
        Self { counted: (from, to), ..Self::default() }
    }

    fn counts(&self, sent_at: Timestamp) -> bool {
        self.counted.0 <= sent_at && sent_at < self.counted.1
    }

    pub(crate) fn sent(&mut self, at: Timestamp, size: ByteCount) {
        add(&mut self.sent, at, size);
        self.sent_packets += u64::from(self.counts(at));
    }

    pub(crate) fn fed_back(&mut self, at: Timestamp, size: ByteCount) {
        if self.counts(at) {
            self.fed_back += size;
        }
    }

    pub(crate) fn received<P>(&mut self, arrived: &Arrived<P>) {
        add(&mut self.received, arrived.at, arrived.size);
        if self.counts(arrived.sent_at) {
            self.received_packets += 1;
            self.marked_packets += u64::from(arrived.congestion_experienced);
            self.one_way_ms.add(milliseconds(arrived.at.saturating_since(arrived.sent_at)));
            self.queueing_ms.add(milliseconds(arrived.queueing_delay));
        }
    }

    /// Bytes sent, headers included, from the interval of `from` until that of `to` (exclusive).
    #[must_use]
    pub fn sent_between(&self, from: Timestamp, to: Timestamp) -> ByteCount {
        between(&self.sent, from, to)
    }

    /// Bytes that arrived in the same intervals.
    #[must_use]
    pub fn received_between(&self, from: Timestamp, to: Timestamp) -> ByteCount {
        between(&self.received, from, to)
    }

    /// Sending rate in each [`METER_INTERVAL`] of the first `length`.
    #[must_use]
    pub fn sent_rates(&self, length: Duration) -> Vec<Bitrate> {
        Self::rates(&self.sent, length)
    }

    /// Arrival rate in each [`METER_INTERVAL`] of the first `length`.
    #[must_use]
    pub fn received_rates(&self, length: Duration) -> Vec<Bitrate> {
        Self::rates(&self.received, length)
    }

    fn rates(bins: &[ByteCount], length: Duration) -> Vec<Bitrate> {
        let count = ((length.as_nanos() / METER_INTERVAL.as_nanos()) as usize).min(MAX_INTERVALS);
        (0..count).map(|index| Bitrate::mean(bins.get(index).copied().unwrap_or_default(), METER_INTERVAL)).collect()
    }

    /// Counted packets that were sent. [`Network::metered_between`](crate::Network::metered_between) limits the counted
    /// interval.
    #[must_use]
    pub fn sent_packets(&self) -> u64 {
        self.sent_packets
    }

    /// Counted packets that arrived.
    #[must_use]
    pub fn received_packets(&self) -> u64 {
        self.received_packets
    }

    /// Counted packets that arrived with an ECN mark.
    #[must_use]
    pub fn marked_packets(&self) -> u64 {
        self.marked_packets
    }

    /// Bytes that the receiver sent in the counted interval, headers included.
    #[must_use]
    pub fn feedback_bytes(&self) -> ByteCount {
        self.fed_back
    }

    /// One-way delays of the counted packets that arrived, ms.
    #[must_use]
    pub fn one_way_delays_ms(&self) -> Distribution {
        self.one_way_ms.clone()
    }

    /// Queueing delays of these packets on all links together, ms.
    #[must_use]
    pub fn queueing_delays_ms(&self) -> Distribution {
        self.queueing_ms.clone()
    }
}
