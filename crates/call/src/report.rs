//! What a finished call leaves behind: its scores, its counters and a time series, as one JSON document.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use lockstep_units::{Bitrate, ByteCount, Timestamp};

use crate::record::FrameRecord;
use crate::scores::Scores;

/// The time between two points of a [`Series`].
pub const SERIES_INTERVAL: Duration = Duration::from_millis(100);

/// How long a call goes on after its scored length, so that the last scored frames have later ones to be followed by.
pub const DRAIN: Duration = Duration::from_secs(1);

/// Bytes of IPv4 and UDP headers, which a link carries with every datagram (RFC 791, RFC 768).
const HEADER_BYTES: u64 = 28;

/// What a link carries of a datagram: its bytes and those of the headers before it.
#[must_use]
pub fn carried(datagram: &[u8]) -> ByteCount {
    ByteCount::of(datagram) + ByteCount::new(HEADER_BYTES)
}

/// When the receiver had a frame and when it showed it, as its own log has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DisplayRecord {
    /// Frame number on the wire.
    pub frame: u32,
    /// When the last fragment arrived.
    pub completed_at: Timestamp,
    /// When the picture was shown.
    pub displayed_at: Timestamp,
}

/// Puts what the receiver saw into the sender's records.
pub fn merge_displays(records: &mut [FrameRecord], displays: &[DisplayRecord]) {
    let by_frame: BTreeMap<u32, &DisplayRecord> = displays.iter().map(|display| (display.frame, display)).collect();
    for record in records {
        if let Some(display) = record.frame.and_then(|frame| by_frame.get(&frame)) {
            record.completed_at = Some(display.completed_at);
            record.displayed_at = Some(display.displayed_at);
        }
    }
}

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
}

/// Collects a [`Series`].
#[derive(Debug, Clone)]
pub struct SeriesRecorder {
    start: Timestamp,
    bins: Vec<Bin>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Bin {
    sent: ByteCount,
    received: ByteCount,
    delivered: u32,
    queueing: Duration,
}

/// A call longer than this is recorded no further: 24 hours.
const MOST_BINS: usize = 864_000;

impl SeriesRecorder {
    /// A recorder whose first interval begins at `start`.
    #[must_use]
    pub fn new(start: Timestamp) -> Self {
        Self { start, bins: Vec::new() }
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
        if let Some(bin) = self.bin(at) {
            bin.sent += size;
        }
    }

    /// A datagram of `size` came out of the link after `queueing` in its queue.
    pub fn received(&mut self, at: Timestamp, size: ByteCount, queueing: Duration) {
        if let Some(bin) = self.bin(at) {
            bin.received += size;
            bin.delivered += 1;
            bin.queueing += queueing;
        }
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

/// The JSON document of a call. `Configuration` is whatever the driver was told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallReport<Configuration> {
    /// Version of Lockstep that made it.
    pub lockstep: String,
    /// `simulate` or `call`.
    pub kind: String,
    /// Seed of everything random in it.
    pub seed: u64,
    /// What was run.
    pub config: Configuration,
    /// The scores, at the top level.
    #[serde(flatten)]
    pub scores: Scores,
    /// Counters of sender, receiver and link, by name.
    pub counters: BTreeMap<String, BTreeMap<String, u64>>,
    /// Rates and delays over time.
    pub series: Series,
}
