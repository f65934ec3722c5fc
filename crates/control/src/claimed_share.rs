//! A share of the path, claimed beside those who keep its queue filled, as TCP does.
//!
//! Waiting for a queue that cross traffic keeps filled starves the flow. Whether cross traffic keeps it filled is in the
//! [view of the path](crate::CrossTraffic); then a share of the path's rate is sent, whatever the delay.
//!
//! | what | value | why |
//! |---|---|---|
//! | claimed | [`ClaimRule::share`] of the path's rate, and no more than 1.5 times what arrives | a path that was taken for a faster one is not filled: without the second bound p95 was 26 s in one of three calls over `Verizon-EVDO-driving.down`, with it as long as without claims |
//! | such a frame | two packets at least, right behind each other: a budget of three | one alone does not tell the path's rate |
//! | the same where others are suspected | where nothing is on the way and it takes 0.1 s at most, and every second, or 30 times as long as it takes | packets that come alone tell no rate, and so nothing of others; nor does what was once taken for a slow path end by itself |
//! | a picture | 0.75 frame intervals | a decision may be asked for again while its picture is coded |

use std::time::Duration;

use lockstep_units::{Bitrate, ByteCount};

use crate::fragments::{DATAGRAM_CARRIAGE, LONGEST_PACE, PICTURE};
use crate::{InFlight, PathView};

lockstep_units::config! {
    /// The share claimed beside cross traffic.
    pub struct ClaimConfig = "claim" {
        /// An unused claim is kept for this long; a picture may be larger than its part.
        kept: f64 = 0.25, "s", 0.0..=10.0, "2026-11-control-ablation";
        /// Bytes in flight wait no longer than this behind cross traffic, as far as budgets count it.
        longest_held_up: f64 = 5.0, "s", 0.0..=60.0, "2026-11-control-ablation";
        /// The claim is at most this many times the rate of arrivals: a path that was taken for a faster one is not filled.
        growth: f64 = 1.5, "", 1.0..=100.0, "2026-11-control-ablation";
        /// Pacing rate over the mean rate: right behind each other, so that bursts show the path's rate.
        pacing: f64 = 32.0, "", 1.0..=1000.0, "2026-11-control-ablation";
        /// Packets that a frame may have that should be two at least: a codec fills three quarters of a budget.
        pair: f64 = 3.0, "packets", 1.0..=64.0, "2026-11-control-ablation";
        /// That time, as a multiple of the time that such a frame takes on the link.
        pair_rest: f64 = 30.0, "", 0.0..=1000.0, "2026-11-control-ablation";
        /// Such a frame is sent whenever nothing is in flight if it takes no longer than this on the link.
        longest_pair: f64 = 0.1, "s", 0.0..=10.0, "2026-11-control-ablation";
    }
}

/// What is claimed, and beside whom. The numbers of [`Default`] were chosen among some ten settings by what a call has beside
/// CUBIC (`lockstep scenario run` of `long-tcp-cubic` with links of 1 to 20 Mb/s, round trips of 20 to 100 ms and queues of 64
/// and 256 packets, seeds 1 and 2; `docs/controllers.md`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClaimRule {
    /// The share of the path's rate that is claimed.
    pub share: f64,
    /// It is claimed while the next delivery is overdue by no more than this, seconds.
    pub overdue: f64,
}

impl Default for ClaimRule {
    fn default() -> Self {
        Self { share: 0.4, overdue: 0.3 }
    }
}

/// The sender's side of it. Times are the sender's, seconds; bytes are those that the link carries.
#[derive(Debug)]
pub(crate) struct ClaimedShare {
    config: ClaimConfig,
    /// While cross traffic is suspected, time between two pairs of packets that show the path's rate, seconds.
    retry: f64,
    rule: ClaimRule,
    /// Bytes of a frame that tells the path's rate.
    pair: f64,
    frame_interval: f64,
    now: f64,
    /// How long packets take there and back, and by how much the next delivery is overdue.
    delay: f64,
    overdue: f64,
    picture_at: f64,
    /// What may still be sent of the share, bytes.
    unspent: f64,
    /// When two packets were last allowed because others are suspected.
    pair_at: f64,
    /// Pictures that had a share.
    pictures: u64,
}

fn bytes_per_second(rate: Bitrate) -> f64 {
    rate.as_bps() as f64 / 8.0
}

impl ClaimedShare {
    /// Of a path that nothing is known of, for frames every `frame_interval` seconds in packets of `packet` bytes.
    pub fn new(packet: f64, frame_interval: f64, retry: Duration, config: ClaimConfig) -> Self {
        Self {
            retry: retry.as_secs_f64(),
            config,
            rule: ClaimRule::default(),
            pair: config.pair * packet,
            frame_interval,
            now: 0.0,
            delay: 0.0,
            overdue: 0.0,
            picture_at: f64::NEG_INFINITY,
            unspent: 0.0,
            pair_at: f64::NEG_INFINITY,
            pictures: 0,
        }
    }

    pub fn set_rule(&mut self, rule: ClaimRule) {
        self.rule = rule;
    }

    /// A datagram of `size` bytes left.
    pub fn on_transmit(&mut self, size: ByteCount) {
        self.unspent -= size.as_f64() + DATAGRAM_CARRIAGE;
    }

    /// Time has passed: packets take `delay` seconds there and back, or the oldest in flight takes as long already, and the next
    /// delivery is overdue by `overdue`. With each picture, the share of a frame interval is added to what may be sent.
    pub fn on_time(&mut self, path: &PathView<'_>, delay: f64, overdue: f64) {
        (self.now, self.delay, self.overdue) = (path.now.as_secs_f64(), delay, overdue);
        if self.now - self.picture_at < PICTURE * self.frame_interval {
            return;
        }
        self.picture_at = self.now;
        let rate = self.rate(path).unwrap_or(0.0);
        let most = (rate * self.config.kept).max(if rate > 0.0 { self.pair } else { 0.0 });
        self.unspent = (self.unspent.max(-most) + rate * self.frame_interval).min(most);
        self.pictures += u64::from(rate > 0.0);
        if path.cross_traffic.is_suspected
            && self.now - self.pair_at >= self.retry.max(self.config.pair_rest * self.pair_lasts(path))
        {
            self.pair_at = self.now;
        }
    }

    /// How long such a frame is on the link, as far as is known, seconds.
    fn pair_lasts(&self, path: &PathView<'_>) -> f64 {
        path.burst_rate.map_or(0.0, |rate| self.pair / bytes_per_second(rate).max(1.0))
    }

    /// The rate that is claimed beside those who keep the queue filled, bytes a second.
    pub fn rate(&self, path: &PathView<'_>) -> Option<f64> {
        let rate = bytes_per_second(path.cross_traffic.path_rate?);
        let rate = (self.rule.share * rate).min(self.config.growth * bytes_per_second(path.cross_traffic.arrival_rate));
        (self.overdue <= self.rule.overdue).then_some(rate)
    }

    /// What a frame may have of the link because of it, bytes.
    pub fn budget(&self, path: &PathView<'_>, in_flight: InFlight) -> f64 {
        let alone = in_flight.bytes == ByteCount::ZERO && self.pair_lasts(path) <= self.config.longest_pair;
        let asks = path.cross_traffic.is_suspected && (alone || self.pair_at == self.picture_at);
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
        ByteCount::new((self.rate(path).unwrap_or(0.0) * self.delay.min(self.config.longest_held_up)) as u64)
    }

    /// Pictures beside such, and the name of their count in reports.
    pub fn counter(&self) -> (&'static str, u64) {
        ("pictures_with_a_claimed_share", self.pictures)
    }
}
