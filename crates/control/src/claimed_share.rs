//! Claimed share: lower bound on the rate beside cross traffic that keeps the bottleneck queue full, such as TCP.
//!
//! Waiting for a queue that cross traffic keeps full starves the flow. The [view of the path](crate::CrossTraffic)
//! reports such traffic. Then the flow sends a share of the path's rate at any delay.
//!
//! | quantity | value | reason |
//! |---|---|---|
//! | claimed rate | [`ClaimConfig::share`] of the path's rate, at most 1.5 times the arrival rate | the second bound keeps a wrong path rate from filling a slow path (lab: 2026-11-notes-control) |
//! | smallest frame | two packets back to back; the budget is three | one packet alone does not show the path's rate |
//! | pairs while cross traffic is suspected | whenever nothing is in flight, and once per second | single packets show neither the path's rate nor cross traffic, so a wrong suspicion would not end |
//! | picture | 0.75 frame intervals | a decision may be repeated while its picture is coded |

use std::time::Duration;

use lockstep_units::ByteCount;

use crate::fragments::{DATAGRAM_OVERHEAD_BYTES, MAX_PACING_SECONDS, PICTURE};
use crate::{ClaimConfig, InFlight, PathView};

/// Claimed share at the sender. Times are the sender's, seconds. Bytes are link bytes.
#[derive(Debug)]
pub(crate) struct ClaimedShare {
    config: ClaimConfig,
    /// Interval between two pairs of packets that measure the path's rate while cross traffic is suspected, seconds.
    retry: f64,
    /// Smallest frame that shows the path's rate, bytes.
    pair: f64,
    frame_interval: f64,
    /// Round-trip time of packets, seconds.
    delay: f64,
    picture_at: f64,
    /// Bytes of the share that may still be sent.
    unspent: f64,
    /// Time of the last pair that was sent because cross traffic was suspected.
    pair_at: f64,
    /// Number of pictures with a claimed share.
    pictures: u64,
}

impl ClaimedShare {
    /// A claim without measurements, for frames every `frame_interval` seconds in packets of `packet` bytes.
    pub fn new(packet: f64, frame_interval: f64, retry: Duration, config: ClaimConfig) -> Self {
        Self {
            retry: retry.as_secs_f64(),
            config,
            pair: config.pair * packet,
            frame_interval,
            delay: 0.0,
            picture_at: f64::NEG_INFINITY,
            unspent: 0.0,
            pair_at: f64::NEG_INFINITY,
            pictures: 0,
        }
    }

    /// Records that a datagram of `size` bytes was sent.
    pub fn on_transmit(&mut self, size: ByteCount) {
        self.unspent -= size.as_f64() + DATAGRAM_OVERHEAD_BYTES;
    }

    /// Advances the time. `delay` is the round-trip time in seconds, or the age of the oldest packet in flight if that
    /// is longer. Each picture adds the share of one frame interval to the bytes that may be sent.
    pub fn on_time(&mut self, path: &PathView<'_>, delay: f64) {
        let now = path.now.as_secs_f64();
        self.delay = delay;
        if now - self.picture_at < PICTURE * self.frame_interval {
            return;
        }
        self.picture_at = now;
        let rate = self.rate(path).unwrap_or(0.0);
        let most = (rate * self.config.kept).max(if rate > 0.0 { self.pair } else { 0.0 });
        self.unspent = (self.unspent.max(-most) + rate * self.frame_interval).min(most);
        self.pictures += u64::from(rate > 0.0);
        if path.cross_traffic.is_suspected && now - self.pair_at >= self.retry {
            self.pair_at = now;
        }
    }

    /// Claimed rate beside cross traffic, bytes per second.
    pub fn rate(&self, path: &PathView<'_>) -> Option<f64> {
        let rate = path.cross_traffic.path_rate?.as_bytes_per_second();
        let most = self.config.growth * path.cross_traffic.arrival_rate.as_bytes_per_second();
        Some((self.config.share * rate).min(most))
    }

    /// Link bytes that the claim gives the next frame.
    pub fn budget(&self, path: &PathView<'_>, in_flight: InFlight) -> f64 {
        let is_alone = in_flight.bytes == ByteCount::ZERO;
        let asks = path.cross_traffic.is_suspected && (is_alone || self.pair_at == self.picture_at);
        let budget = if asks { self.unspent.max(self.pair) } else { self.unspent - in_flight.queued.as_f64() };
        if budget >= self.pair { budget } else { 0.0 }
    }

    /// Pacing interval back to back, so that the burst of a frame shows the path's rate. `payload` is the payload of a
    /// packet, and `mean_rate` the sender's mean rate on the path.
    pub fn pacing_interval(&self, path: &PathView<'_>, payload: f64, mean_rate: f64) -> Option<Duration> {
        let interval = (payload / (self.config.pacing * mean_rate).max(1.0)).min(MAX_PACING_SECONDS);
        self.rate(path).map(|_| Duration::from_secs_f64(interval))
    }

    /// Bytes in flight that wait only behind packets of cross traffic.
    pub fn bytes_behind_cross_traffic(&self, path: &PathView<'_>) -> ByteCount {
        ByteCount::new((self.rate(path).unwrap_or(0.0) * self.delay) as u64)
    }

    /// Name and number of pictures with a claimed share, for reports.
    pub fn counter(&self) -> (&'static str, u64) {
        ("pictures_with_a_claimed_share", self.pictures)
    }
}
