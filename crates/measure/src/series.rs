//! Series of rates and delays on a link during a call, and the log of its packets.
//!
//! A series has at most [`MAX_POINTS`] points. If it would exceed that, neighbouring points are joined and the
//! interval doubles. Memory is bounded for calls of any length.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use lockstep_call::FrameRecord;
use lockstep_units::{Bitrate, ByteCount, Timestamp};

use crate::packets::PacketLog;

/// Interval of a [`Series`] of at most [`MAX_POINTS`] points. It doubles for longer calls.
pub const SERIES_INTERVAL: Duration = Duration::from_millis(100);

/// Limit on the points of a [`Series`]: one hour of [`SERIES_INTERVAL`].
pub const MAX_POINTS: usize = 36_000;

/// Rates and delays over time, one point per interval.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Interval, ms: [`SERIES_INTERVAL`], doubled until the call has at most [`MAX_POINTS`] points.
    pub interval_ms: u64,
    /// Capacity of the link, bit/s.
    pub capacity_bps: Vec<u64>,
    /// Rate at which datagrams entered the link, bit/s.
    pub sent_bps: Vec<u64>,
    /// Rate at which datagrams left the link, bit/s.
    pub received_bps: Vec<u64>,
    /// Mean queueing delay of the datagrams that left the link, ms; `None` if none did.
    pub queueing_delay_ms: Vec<Option<f64>>,
    /// Controller's target at the last capture until the end of the interval, bit/s; `None` before the first.
    #[serde(default)]
    pub target_bps: Vec<Option<u64>>,
    /// Controller's estimate of the path's capacity at the same time, bit/s.
    #[serde(default)]
    pub estimate_bps: Vec<Option<u64>>,
}

/// Values collected in one interval.
trait Bin: Copy + Default {
    /// Adds the values of the next interval.
    fn join(&mut self, later: &Self);
}

/// Bins of equal intervals. The interval doubles if there would be too many.
#[derive(Debug, Clone)]
struct Bins<B> {
    interval: Duration,
    bins: Vec<B>,
}

fn whole(length: Duration, interval: Duration) -> usize {
    let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    usize::try_from(nanoseconds(length) / nanoseconds(interval).max(1)).unwrap_or(usize::MAX)
}

impl<B: Bin> Bins<B> {
    fn new() -> Self {
        Self { interval: SERIES_INTERVAL, bins: Vec::new() }
    }

    /// Bin of the time `since` the start.
    fn at(&mut self, since: Duration) -> &mut B {
        while whole(since, self.interval) >= MAX_POINTS {
            self.coarsen();
        }
        let index = whole(since, self.interval);
        if index >= self.bins.len() {
            self.bins.resize(index + 1, B::default());
        }
        &mut self.bins[index]
    }

    fn coarsen(&mut self) {
        self.interval *= 2;
        for index in 0..self.bins.len().div_ceil(2) {
            let mut joined = self.bins[2 * index];
            if let Some(later) = self.bins.get(2 * index + 1) {
                joined.join(later);
            }
            self.bins[index] = joined;
        }
        self.bins.truncate(self.bins.len().div_ceil(2));
    }

    fn get(&self, index: usize) -> B {
        self.bins.get(index).copied().unwrap_or_default()
    }
}

/// Datagrams on the link in one interval.
#[derive(Debug, Clone, Copy, Default)]
struct LinkBin {
    sent: ByteCount,
    received: ByteCount,
    delivered: u32,
    queueing: Duration,
}

impl Bin for LinkBin {
    fn join(&mut self, later: &Self) {
        self.sent += later.sent;
        self.received += later.received;
        self.delivered = self.delivered.saturating_add(later.delivered);
        self.queueing += later.queueing;
    }
}

/// Records the datagrams on a link: the link's part of a [`Series`], and the log of packets.
#[derive(Debug, Clone)]
pub struct SeriesRecorder {
    start: Timestamp,
    bins: Bins<LinkBin>,
    packets: PacketLog,
}

impl SeriesRecorder {
    /// Recorder whose first interval starts at `start`, for a call that is scored for `length`.
    #[must_use]
    pub fn new(start: Timestamp, length: Duration) -> Self {
        Self { start, bins: Bins::new(), packets: PacketLog::new(start + length) }
    }

    /// Records that a datagram of `size` entered the link.
    pub fn sent(&mut self, at: Timestamp, size: ByteCount) {
        self.bins.at(at.saturating_since(self.start)).sent += size;
        self.packets.sent(at);
    }

    /// Records that a datagram of `size`, which entered the link at `sent_at`, left it after `queueing` in its queue.
    pub fn received(&mut self, at: Timestamp, sent_at: Timestamp, size: ByteCount, queueing: Duration) {
        let bin = self.bins.at(at.saturating_since(self.start));
        bin.received += size;
        bin.delivered += 1;
        bin.queueing += queueing;
        self.packets.received(at, sent_at, size, queueing);
    }

    /// Ends the scored part at `end`. Datagrams sent or received from then on are not scored.
    pub fn end_at(&mut self, end: Timestamp) {
        self.packets.end_at(end);
    }

    /// Start of the first interval.
    #[must_use]
    pub fn start(&self) -> Timestamp {
        self.start
    }

    /// Bytes that left the link in the whole intervals of the first `length`.
    pub(crate) fn received_within(&self, length: Duration) -> ByteCount {
        self.bins.bins.iter().take(whole(length, self.bins.interval)).map(|bin| bin.received).sum()
    }

    /// Log of the packets.
    pub(crate) fn packets(&mut self) -> &mut PacketLog {
        &mut self.packets
    }

    /// Series of the first `length`. `capacity` returns how many bytes the link could carry between two times.
    pub(crate) fn series(
        &mut self,
        length: Duration,
        mut targets: TargetRecorder,
        capacity: impl Fn(Timestamp, Timestamp) -> ByteCount,
    ) -> Series {
        while whole(length, self.bins.interval) > MAX_POINTS || self.bins.interval < targets.bins.interval {
            self.bins.coarsen();
        }
        while targets.bins.interval < self.bins.interval {
            targets.bins.coarsen();
        }
        let interval = self.bins.interval;
        let mut series = Series { interval_ms: interval.as_millis() as u64, ..Series::default() };
        let (mut target, mut estimate) = (None, None);
        for index in 0..whole(length, interval) {
            let bin = self.bins.get(index);
            let from = self.start + interval * index as u32;
            let rate = |bytes| Bitrate::mean(bytes, interval).as_bps();
            series.capacity_bps.push(rate(capacity(from, from + interval)));
            series.sent_bps.push(rate(bin.sent));
            series.received_bps.push(rate(bin.received));
            series
                .queueing_delay_ms
                .push((bin.delivered > 0).then(|| bin.queueing.as_secs_f64() * 1e3 / f64::from(bin.delivered)));
            let decided = targets.bins.get(index);
            (target, estimate) = (decided.target.or(target), decided.estimate.or(estimate));
            series.target_bps.push(target.map(Bitrate::as_bps));
            series.estimate_bps.push(estimate.map(Bitrate::as_bps));
        }
        series
    }
}

/// Controller's last decision in an interval.
#[derive(Debug, Clone, Copy, Default)]
struct TargetBin {
    target: Option<Bitrate>,
    estimate: Option<Bitrate>,
}

impl Bin for TargetBin {
    fn join(&mut self, later: &Self) {
        (self.target, self.estimate) = (later.target.or(self.target), later.estimate.or(self.estimate));
    }
}

/// Records targets and estimates: the controller's part of a [`Series`], on the clock of the frames.
#[derive(Debug, Clone)]
pub(crate) struct TargetRecorder {
    start: Timestamp,
    bins: Bins<TargetBin>,
}

impl TargetRecorder {
    pub(crate) fn new(start: Timestamp) -> Self {
        Self { start, bins: Bins::new() }
    }

    pub(crate) fn captured(&mut self, record: &FrameRecord) {
        let (target, estimate) = (record.target, record.estimate);
        self.bins.at(record.captured_at.saturating_since(self.start)).join(&TargetBin { target, estimate });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Timestamp {
        Timestamp::from_millis(milliseconds)
    }

    #[test]
    fn long_series_have_bounded_points_and_keep_all_bytes() {
        // Ten hours plus 100 ms, a packet of 1,000 bytes every second, and a target equal to the second.
        let length = Duration::from_millis(36_000_100);
        let mut recorder = SeriesRecorder::new(Timestamp::ZERO, length);
        let mut targets = TargetRecorder::new(Timestamp::ZERO);
        for second in 0..36_000 {
            recorder.sent(at(1_000 * second), ByteCount::new(1_000));
            recorder.received(at(1_000 * second + 20), at(1_000 * second), ByteCount::new(1_000), Duration::ZERO);
            let mut record = FrameRecord::captured(second, at(1_000 * second));
            record.target = Some(Bitrate::from_bps(second));
            targets.captured(&record);
        }
        let series = recorder.series(length, targets, |from, to| ByteCount::new((to.saturating_since(from)).as_secs()));
        assert_eq!(series.interval_ms, 1_600);
        assert_eq!(series.received_bps.len(), 22_500);
        assert!(series.capacity_bps.len() <= MAX_POINTS);
        let bits: u64 = series.received_bps.iter().map(|rate| rate * series.interval_ms / 1_000).sum();
        assert_eq!(bits, 36_000 * 8_000);
        assert_eq!(series.target_bps[..4], [Some(1), Some(3), Some(4), Some(6)]);
        assert_eq!(series.queueing_delay_ms[0], Some(0.0));
    }

    #[test]
    fn a_series_of_a_long_silence_is_bounded() {
        let length = Duration::from_secs(100 * 3_600);
        let mut recorder = SeriesRecorder::new(Timestamp::ZERO, length);
        recorder.sent(at(50), ByteCount::new(1_600));
        let series = recorder.series(length, TargetRecorder::new(Timestamp::ZERO), |_, _| ByteCount::ZERO);
        assert!(series.sent_bps.len() <= MAX_POINTS && series.interval_ms == 12_800, "{}", series.interval_ms);
        assert_eq!(series.sent_bps[0], 1_000);
    }
}
