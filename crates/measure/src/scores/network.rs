//! The score of the network half of a call, as the MMSys'21 challenge on bandwidth estimation (AlphaRTC) computes it.
//!
//! Three parts, each 0-1 where 1 is best:
//! - delay = (400 - p95) / (400 - least) of the one-way delays of all packets in milliseconds, less that of the first
//!   packet; p95 of delays capped at 400, least of those not capped;
//! - rate = min(1, received rate / mean capacity), where the rate is that from the first arrival to the last;
//! - loss = the share of gaps among the sequence numbers, so that nothing lost after the last arrival counts.
//!
//! The challenge weighs 100 (0.2 delay + 0.2 rate + 0.3 (1 - loss)). The paper of BoB (MMSys'21) prints numbers that
//! are 100 (0.1 delay + 0.5 rate + 0.1 (1 - loss)). Either leaves 30 points to the video: 0.3 times its VMAF of 0-100.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use lockstep_units::{Bitrate, ByteCount};

use crate::packets::PacketLog;

/// Delays count up to this, milliseconds.
const MOST_DELAY_MS: f64 = 400.0;
/// Weight of the video's VMAF, 0-100, in the total.
const VIDEO_WEIGHT: f64 = 0.3;

/// How much the parts of a network score weigh.
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

/// The network score of a call and its parts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct NetworkScores {
    /// The part for delay, at most 1.
    pub delay: f64,
    /// The part for the received rate, 0-1.
    pub rate: f64,
    /// Share of gaps among the packets, 0-1: what is lost after the last arrival is none.
    pub loss: f64,
    /// As the challenge weighs them, at most 70.
    pub challenge: f64,
    /// As BoB's paper weighs them, at most 70.
    pub bob: f64,
}

/// Network and video together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TotalScores {
    /// The challenge's network score plus 0.3 VMAF, at most 100.
    pub challenge: f64,
    /// BoB's network score plus 0.3 VMAF, at most 100.
    pub bob: f64,
}

impl NetworkScores {
    /// Of the packets that came out within `length`, in which the link could have carried `capacity` bytes. None where
    /// nothing came out.
    pub(super) fn of(packets: &mut PacketLog, length: Duration, capacity: ByteCount) -> Option<Self> {
        let (one_way_ms, first) = packets.one_way()?;
        let least = one_way_ms.least()? - first;
        let late = one_way_ms.quantile_of(0.95, |delay| (delay - first).min(MOST_DELAY_MS))?;
        let delay = (MOST_DELAY_MS - late) / (MOST_DELAY_MS - least);

        let (bytes, time) = packets.arrivals();
        let received = Bitrate::mean(bytes, time).as_bps() as f64;
        let mean_capacity = Bitrate::mean(capacity, length).as_bps() as f64;
        let rate = if mean_capacity > 0.0 { (received / mean_capacity).min(1.0) } else { 0.0 };

        // The challenge knows no more of losses than the gaps.
        let loss = packets.gaps();
        Some(Self {
            delay,
            rate,
            loss,
            challenge: CHALLENGE.score(delay, rate, loss),
            bob: BOB.score(delay, rate, loss),
        })
    }

    /// With video of a `vmaf` of 0-100.
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

    /// Packets of 1,000 bytes by when they were sent and when they arrived.
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
    fn the_parts_and_both_weightings_are_those_worked_out_by_hand() {
        // Delays 50, 40, lost, 150 ms: shifted 0, -10, 100. The 95th percentile lies nine tenths between 0 and 100.
        let mut log = log(&[(0, Some(50)), (20, Some(60)), (40, None), (50, Some(200))]);
        // 3,000 bytes in 150 ms are 160 kb/s; 40,000 bytes a second are 320 kb/s.
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
    fn delays_beyond_400_ms_count_as_400_and_a_rate_beyond_the_capacity_as_all_of_it() {
        let mut log = log(&[(0, Some(10)), (10, Some(900))]);
        let scores = NetworkScores::of(&mut log, Duration::from_secs(1), ByteCount::new(1_000)).unwrap();
        assert!((scores.delay - 20.0 / 400.0).abs() < 1e-12 && scores.rate == 1.0, "{scores:?}");
    }

    #[test]
    fn one_packet_has_no_rate() {
        let scores =
            NetworkScores::of(&mut log(&[(0, Some(10))]), Duration::from_secs(1), ByteCount::new(1_000)).unwrap();
        assert_eq!((scores.delay, scores.rate, scores.loss), (1.0, 0.0, 0.0));
    }
}
