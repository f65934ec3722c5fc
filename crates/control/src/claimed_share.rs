//! A share of the path, claimed beside those who keep its queue filled, as TCP does.
//!
//! Waiting for a queue that cross traffic keeps filled starves the flow. Whether cross traffic keeps it filled is in the
//! [view of the path](crate::CrossTraffic); then a share of the path's rate is sent, whatever the delay.
//!
//! | what | value | why |
//! |---|---|---|
//! | claimed | [`ClaimConfig::share`] of the path's rate, and no more than 1.5 times what arrives | a path that was taken for a faster one is not filled: without the second bound p95 was 26 s in one of three calls over `Verizon-EVDO-driving.down`, with it as long as without claims |
//! | such a frame | two packets at least, right behind each other: a budget of three | one alone does not tell the path's rate |
//! | the same where others are suspected | whenever nothing is in flight, and every second | packets that come alone tell no rate, and so nothing of others; nor does what was once taken for a slow path end by itself |
//! | a picture | 0.75 frame intervals | a decision may be asked for again while its picture is coded |

use std::time::Duration;

use lockstep_units::ByteCount;

use crate::fragments::{DATAGRAM_CARRIAGE, LONGEST_PACE, PICTURE};
use crate::{ClaimConfig, InFlight, PathView};

/// The sender's side of it. Times are the sender's, seconds; bytes are those that the link carries.
#[derive(Debug)]
pub(crate) struct ClaimedShare {
    config: ClaimConfig,
    /// While cross traffic is suspected, time between two pairs of packets that show the path's rate, seconds.
    retry: f64,
    /// Bytes of a frame that tells the path's rate.
    pair: f64,
    frame_interval: f64,
    /// How long packets take there and back.
    delay: f64,
    picture_at: f64,
    /// What may still be sent of the share, bytes.
    unspent: f64,
    /// When two packets were last allowed because others are suspected.
    pair_at: f64,
    /// Pictures that had a share.
    pictures: u64,
}

impl ClaimedShare {
    /// Of a path that nothing is known of, for frames every `frame_interval` seconds in packets of `packet` bytes.
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

    /// A datagram of `size` bytes left.
    pub fn on_transmit(&mut self, size: ByteCount) {
        self.unspent -= size.as_f64() + DATAGRAM_CARRIAGE;
    }

    /// Time has passed: packets take `delay` seconds there and back, or the oldest in flight takes as long already. With each
    /// picture, the share of a frame interval is added to what may be sent.
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

    /// The rate that is claimed beside those who keep the queue filled, bytes a second.
    pub fn rate(&self, path: &PathView<'_>) -> Option<f64> {
        let rate = path.cross_traffic.path_rate?.as_bytes_per_second();
        let most = self.config.growth * path.cross_traffic.arrival_rate.as_bytes_per_second();
        Some((self.config.share * rate).min(most))
    }

    /// What a frame may have of the link because of it, bytes.
    pub fn budget(&self, path: &PathView<'_>, in_flight: InFlight) -> f64 {
        let is_alone = in_flight.bytes == ByteCount::ZERO;
        let asks = path.cross_traffic.is_suspected && (is_alone || self.pair_at == self.picture_at);
        let budget = if asks { self.unspent.max(self.pair) } else { self.unspent - in_flight.queued.as_f64() };
        if budget >= self.pair { budget } else { 0.0 }
    }

    /// Right behind each other, so that a frame's burst shows the path's rate, for a sender whose packets carry `payload`
    /// bytes and which has `mean_rate` of the path.
    pub fn pacing_interval(&self, path: &PathView<'_>, payload: f64, mean_rate: f64) -> Option<Duration> {
        let interval = (payload / (self.config.pacing * mean_rate).max(1.0)).min(LONGEST_PACE);
        self.rate(path).map(|_| Duration::from_secs_f64(interval))
    }

    /// Bytes on the way that only wait because others' packets are before them.
    pub fn held_up(&self, path: &PathView<'_>) -> ByteCount {
        ByteCount::new((self.rate(path).unwrap_or(0.0) * self.delay) as u64)
    }

    /// Pictures beside such, and the name of their count in reports.
    pub fn counter(&self) -> (&'static str, u64) {
        ("pictures_with_a_claimed_share", self.pictures)
    }
}
