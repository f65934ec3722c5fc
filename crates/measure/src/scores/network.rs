//! Network score of a call, as in the MMSys'21 challenge on bandwidth estimation (AlphaRTC).
//!
//! The score has three parts; 1 is best:
//!
//! - delay = (400 - p95) / (400 - minimum) of the one-way delays in ms, minus that of the first packet. Only the p95
//!   caps delays at 400 ms.
//! - rate = min(1, received rate / mean capacity). The rate covers the time from the first to the last arrival.
//! - loss = share of gaps among the sequence numbers. Losses after the last arrival do not count.
//!
//! The challenge weights them as 100 (0.2 delay + 0.2 rate + 0.3 (1 - loss)). The paper of BoB (IEEE TMM 2022) prints
//! numbers that match 100 (0.1 delay + 0.5 rate + 0.1 (1 - loss)). Both leave 30 points to the video: 0.3 times its
//! VMAF of 0-100.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use lockstep_units::{Bitrate, ByteCount};

use crate::packets::PacketLog;

/// Limit on delays, ms.
const MAX_DELAY_MS: f64 = 400.0;
/// Weight of the video's VMAF (0-100) in the total.
const VIDEO_WEIGHT: f64 = 0.3;

/// Weights of the parts of a network score.
struct Weights {
    delay: f64,
    rate: f64,
    loss: f64,
}

const CHALLENGE: Weights = Weights { delay: 0.2, rate: 0.2, loss: 0.3 };
const BOB: Weights = Weights { delay: 0.1, rate: 0.5, loss: 0.1 };

impl Weights {
    fn score(&self, delay: f64, rate: f64, loss: f64) -> f64 {
        100.0 * (self.delay * delay + self.rate * rate + self.loss * (1.0 - loss))
    }
}

/// Network score of a call and its parts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct NetworkScores {
    /// Delay part, at most 1.
    pub delay: f64,
    /// Rate part, 0-1.
    pub rate: f64,
    /// Share of gaps among the packets, 0-1. Losses after the last arrival do not count.
    pub loss: f64,
    /// Score with the challenge's weights, at most 70.
    pub challenge: f64,
    /// Score with the weights of BoB's paper, at most 70.
    pub bob: f64,
}

/// Combined scores of network and video.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TotalScores {
    /// The challenge's network score plus 0.3 VMAF, at most 100.
    pub challenge: f64,
    /// BoB's network score plus 0.3 VMAF, at most 100.
    pub bob: f64,
}

impl NetworkScores {
    /// Score of the packets that arrived within `length`. `capacity` is the link's capacity in that time, bytes. `None`
    /// without arrivals.
    pub(super) fn of(packets: &mut PacketLog, length: Duration, capacity: ByteCount) -> Option<Self> {
        let (one_way_ms, first) = packets.one_way()?;
        let least = one_way_ms.least()? - first;
        let late = one_way_ms.quantile_of(0.95, |delay| (delay - first).min(MAX_DELAY_MS))?;
        let delay = (MAX_DELAY_MS - late) / (MAX_DELAY_MS - least);

        let (bytes, time) = packets.arrivals();
        let received = Bitrate::mean(bytes, time).as_bps() as f64;
        let mean_capacity = Bitrate::mean(capacity, length).as_bps() as f64;
        let rate = if mean_capacity > 0.0 { (received / mean_capacity).min(1.0) } else { 0.0 };

        // The challenge measures losses only by gaps.
        let loss = packets.gaps();
        Some(Self {
            delay,
            rate,
            loss,
            challenge: CHALLENGE.score(delay, rate, loss),
            bob: BOB.score(delay, rate, loss),
        })
    }

    /// Adds the score of a video with a VMAF of 0-100.
    #[must_use]
    pub(super) fn with_video(&self, vmaf: f64) -> TotalScores {
        let video = VIDEO_WEIGHT * vmaf;
        TotalScores { challenge: self.challenge + video, bob: self.bob + video }
    }
}

#[cfg(test)]
mod tests {
    use lockstep_units::Timestamp;

    use super::*;

    fn at(milliseconds: u64) -> Timestamp {
        Timestamp::from_millis(milliseconds)
    }

    /// Log of packets of 1,000 bytes with these sending and arrival times.
    fn log(packets: &[(u64, Option<u64>)]) -> PacketLog {
        let mut log = PacketLog::new(at(1_000));
        for &(sent, arrived) in packets {
            log.sent(at(sent));
            if let Some(arrived) = arrived {
                log.received(at(arrived), at(sent), ByteCount::new(1_000), Duration::ZERO);
            }
        }
        log
    }

    #[test]
    fn parts_and_both_weightings_match_a_manual_calculation() {
        // Delays 50, 40, lost, 150 ms; relative 0, -10, 100. The 95th percentile lies nine tenths between 0 and 100.
        let mut log = log(&[(0, Some(50)), (20, Some(60)), (40, None), (50, Some(200))]);
        // 3,000 bytes in 150 ms are 160 kb/s; 40,000 bytes per second are 320 kb/s.
        let scores = NetworkScores::of(&mut log, Duration::from_secs(1), ByteCount::new(40_000)).unwrap();
        assert!((scores.delay - (400.0 - 90.0) / 410.0).abs() < 1e-12, "{scores:?}");
        assert!((scores.rate - 0.5).abs() < 1e-9 && (scores.loss - 0.25).abs() < 1e-12, "{scores:?}");
        let delay = 310.0 / 410.0;
        assert!((scores.challenge - 100.0 * (0.2 * delay + 0.2 * 0.5 + 0.3 * 0.75)).abs() < 1e-6, "{scores:?}");
        assert!((scores.bob - 100.0 * (0.1 * delay + 0.5 * 0.5 + 0.1 * 0.75)).abs() < 1e-6, "{scores:?}");
        let total = scores.with_video(80.0);
        assert!((total.challenge - scores.challenge - 24.0).abs() < 1e-9);
        assert!((total.bob - scores.bob - 24.0).abs() < 1e-9);
    }

    #[test]
    fn delays_are_capped_at_400_ms_and_rates_at_the_capacity() {
        let mut log = log(&[(0, Some(10)), (10, Some(900))]);
        let scores = NetworkScores::of(&mut log, Duration::from_secs(1), ByteCount::new(1_000)).unwrap();
        assert!((scores.delay - 20.0 / 400.0).abs() < 1e-12 && scores.rate == 1.0, "{scores:?}");
    }

    #[test]
    fn a_single_packet_has_no_rate() {
        let scores =
            NetworkScores::of(&mut log(&[(0, Some(10))]), Duration::from_secs(1), ByteCount::new(1_000)).unwrap();
        assert_eq!((scores.delay, scores.rate, scores.loss), (1.0, 0.0, 0.0));
    }
}
