//! What went through the link during a call: every packet, and rates and delays over time.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use lockstep_units::{Bitrate, ByteCount, Timestamp};

use crate::record::FrameRecord;

/// The time between two points of a [`Series`].
pub const SERIES_INTERVAL: Duration = Duration::from_millis(100);

/// A call longer than this is recorded no further: 24 hours.
const MOST_BINS: usize = 864_000;
/// The most packets that are kept: two hours at 20 Mb/s.
const MOST_PACKETS: usize = 1 << 24;

/// Rates and delays over time, one point for each [`SERIES_INTERVAL`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Time between two points, milliseconds.
    pub interval_ms: u64,
    /// What the link could have carried, bit/s.
    pub capacity_bps: Vec<u64>,
    /// What entered the link, bit/s.
    pub sent_bps: Vec<u64>,
    /// What came out of it, bit/s.
    pub received_bps: Vec<u64>,
    /// Mean time in the link's queue of what came out, milliseconds; none where nothing did.
    pub queueing_delay_ms: Vec<Option<f64>>,
    /// The controller's target at the last picture captured until the end of the interval, bit/s; none before the first.
    #[serde(default)]
    pub target_bps: Vec<Option<u64>>,
    /// What the controller took the path to carry at that moment, bit/s.
    #[serde(default)]
    pub estimate_bps: Vec<Option<u64>>,
}

/// One packet that came out of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PacketRecord {
    pub(crate) sent_at: Timestamp,
    pub(crate) arrived_at: Timestamp,
    /// Bytes, headers included.
    pub(crate) size: u32,
    queueing_microseconds: u32,
}

impl PacketRecord {
    /// From entering the link to coming out of it, milliseconds.
    pub(crate) fn one_way_delay_ms(&self) -> f64 {
        self.arrived_at.saturating_since(self.sent_at).as_secs_f64() * 1e3
    }

    /// Time in queues, milliseconds.
    pub(crate) fn queueing_delay_ms(&self) -> f64 {
        f64::from(self.queueing_microseconds) * 1e-3
    }
}

/// Collects a [`Series`], and the packets that the scores are computed from.
#[derive(Debug, Clone)]
pub struct SeriesRecorder {
    start: Timestamp,
    bins: Vec<Bin>,
    /// When each packet entered the link.
    sent_at: Vec<Timestamp>,
    /// In the order in which they came out.
    packets: Vec<PacketRecord>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Bin {
    sent: ByteCount,
    received: ByteCount,
    delivered: u32,
    queueing: Duration,
}

impl SeriesRecorder {
    /// A recorder whose first interval begins at `start`.
    #[must_use]
    pub fn new(start: Timestamp) -> Self {
        Self { start, bins: Vec::new(), sent_at: Vec::new(), packets: Vec::new() }
    }

    fn bin(&mut self, at: Timestamp) -> Option<&mut Bin> {
        let index = (at.saturating_since(self.start).as_nanos() / SERIES_INTERVAL.as_nanos()) as usize;
        if index >= MOST_BINS {
            return None;
        }
        if index >= self.bins.len() {
            self.bins.resize(index + 1, Bin::default());
        }
        self.bins.get_mut(index)
    }

    /// A datagram of `size` entered the link.
    pub fn sent(&mut self, at: Timestamp, size: ByteCount) {
        let Some(bin) = self.bin(at) else { return };
        bin.sent += size;
        if self.sent_at.len() < MOST_PACKETS {
            self.sent_at.push(at);
        }
    }

    /// A datagram of `size` that entered the link at `sent_at` came out of it after `queueing` in its queue.
    pub fn received(&mut self, at: Timestamp, sent_at: Timestamp, size: ByteCount, queueing: Duration) {
        let Some(bin) = self.bin(at) else { return };
        bin.received += size;
        bin.delivered += 1;
        bin.queueing += queueing;
        if self.packets.len() < MOST_PACKETS {
            self.packets.push(PacketRecord {
                sent_at,
                arrived_at: at,
                size: u32::try_from(size.get()).unwrap_or(u32::MAX),
                queueing_microseconds: u32::try_from(queueing.as_micros()).unwrap_or(u32::MAX),
            });
        }
    }

    /// Where the first interval begins.
    #[must_use]
    pub fn start(&self) -> Timestamp {
        self.start
    }

    /// The packets that came out before `end`, in the order in which they did.
    pub(crate) fn packets_until(&self, end: Timestamp) -> &[PacketRecord] {
        &self.packets[..self.packets.partition_point(|packet| packet.arrived_at < end)]
    }

    /// How many packets had entered the link at `moment`, what enters at that moment included.
    pub(crate) fn sent_by(&self, moment: Timestamp) -> usize {
        self.sent_at.partition_point(|&at| at <= moment)
    }

    /// Of the packets that entered the link before `end`: how many there were, and how many came out of it, however late.
    pub(crate) fn sent_and_arrived(&self, end: Timestamp) -> (usize, usize) {
        let sent = self.sent_at.partition_point(|&at| at < end);
        (sent, self.packets.iter().filter(|packet| packet.sent_at < end).count())
    }

    /// Bytes that came out of the link from the start until `length` after it.
    #[must_use]
    pub fn received_within(&self, length: Duration) -> ByteCount {
        let bins = (length.as_nanos() / SERIES_INTERVAL.as_nanos()) as usize;
        self.bins.iter().take(bins).map(|bin| bin.received).sum()
    }

    /// The series of the first `length`; `capacity` says how many bytes the link could have carried between two
    /// moments.
    #[must_use]
    pub fn finish(&self, length: Duration, capacity: impl Fn(Timestamp, Timestamp) -> ByteCount) -> Series {
        let count = (length.as_nanos() / SERIES_INTERVAL.as_nanos()) as usize;
        let mut series = Series { interval_ms: SERIES_INTERVAL.as_millis() as u64, ..Series::default() };
        for index in 0..count.min(MOST_BINS) {
            let bin = self.bins.get(index).copied().unwrap_or_default();
            let from = self.start + SERIES_INTERVAL * index as u32;
            let rate = |bytes| Bitrate::mean(bytes, SERIES_INTERVAL).as_bps();
            series.capacity_bps.push(rate(capacity(from, from + SERIES_INTERVAL)));
            series.sent_bps.push(rate(bin.sent));
            series.received_bps.push(rate(bin.received));
            series
                .queueing_delay_ms
                .push((bin.delivered > 0).then(|| bin.queueing.as_secs_f64() * 1e3 / f64::from(bin.delivered)));
        }
        series
    }
}

impl Series {
    /// Adds target and estimate from the frames of the call, which began at `start` on their clock.
    #[must_use]
    pub(crate) fn with_targets(mut self, records: &[FrameRecord], start: Timestamp) -> Self {
        let mut records = records.iter().peekable();
        let (mut target, mut estimate) = (None, None);
        for index in 1..=self.capacity_bps.len() {
            let end = start + SERIES_INTERVAL * index as u32;
            while let Some(record) = records.next_if(|record| record.captured_at < end) {
                target = record.target.map(Bitrate::as_bps).or(target);
                estimate = record.estimate.map(Bitrate::as_bps).or(estimate);
            }
            self.target_bps.push(target);
            self.estimate_bps.push(estimate);
        }
        self
    }
}
