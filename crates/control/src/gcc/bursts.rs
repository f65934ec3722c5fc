//! Bursts of datagrams: a frame of usual size leaves at once. Delays are compared between groups of datagrams that left
//! together. With bursts, the groups become whole frames, and fewer.

use std::time::Duration;

use lockstep_units::{Bitrate, ByteCount, Timestamp};

/// Size of a burst: the bytes that the pacing rate sends in this time, up to an upper bound (`kDefaultBurstInterval`
/// and `kMaxBurstSize` in WebRTC).
const BURST: Duration = Duration::from_millis(40);
const MAX_BURST_BYTES: f64 = 63_000.0;

/// Bytes sent ahead of the pacing rate (media debt of `PacingController` in WebRTC).
#[derive(Debug, Clone, Default)]
pub(super) struct Bursts {
    debt_bytes: f64,
    at: Timestamp,
}

impl Bursts {
    /// Records that a datagram of `size` was sent at this pacing rate.
    pub(super) fn on_transmit(&mut self, now: Timestamp, size: ByteCount, pacing_rate: Bitrate) {
        // The burst size also bounds the debt, so a large probe delays datagrams only briefly.
        let most = 2.0 * burst_bytes(pacing_rate) + size.as_f64();
        self.debt_bytes = (self.debt_at(now, pacing_rate) + size.as_f64()).min(most);
        self.at = now;
    }

    /// Whether the next datagram may leave without waiting.
    pub(super) fn may_leave_at_once(&self, now: Timestamp, pacing_rate: Bitrate) -> bool {
        self.debt_at(now, pacing_rate) <= burst_bytes(pacing_rate)
    }

    fn debt_at(&self, now: Timestamp, pacing_rate: Bitrate) -> f64 {
        let paid = pacing_rate.bytes_in(now.saturating_since(self.at)).as_f64();
        (self.debt_bytes - paid).max(0.0)
    }
}

fn burst_bytes(pacing_rate: Bitrate) -> f64 {
    pacing_rate.bytes_in(BURST).as_f64().min(MAX_BURST_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Bitrate = Bitrate::from_kbps(2_400);
    const SIZE: ByteCount = ByteCount::new(1_200);

    /// Number of waiting datagrams that leave at `at` milliseconds.
    fn leave(bursts: &mut Bursts, at: u64) -> u64 {
        let now = Timestamp::from_millis(at);
        let mut count = 0;
        while bursts.may_leave_at_once(now, RATE) && count < 1_000 {
            bursts.on_transmit(now, SIZE, RATE);
            count += 1;
        }
        count
    }

    #[test]
    fn bytes_of_40_ms_leave_at_once_and_the_rest_is_paced() {
        let mut bursts = Bursts::default();
        // 2.4 Mb/s are 12 000 bytes in 40 ms. The datagram that crosses this limit leaves too.
        assert_eq!(leave(&mut bursts, 1_000), 11);
        assert_eq!(leave(&mut bursts, 1_003), 0);
        assert_eq!(leave(&mut bursts, 1_004), 1);
        assert_eq!(leave(&mut bursts, 1_024), 5, "unused time is saved");
        assert_eq!(leave(&mut bursts, 60_000), 11, "up to a whole burst");
    }

    #[test]
    fn burst_at_a_high_rate_is_at_most_63_kilobytes() {
        let (mut bursts, rate) = (Bursts::default(), Bitrate::from_kbps(1_000_000));
        let mut sent = ByteCount::ZERO;
        while bursts.may_leave_at_once(Timestamp::ZERO, rate) {
            bursts.on_transmit(Timestamp::ZERO, SIZE, rate);
            sent += SIZE;
        }
        assert!((63_000..=64_200).contains(&sent.get()), "{sent}");
    }
}
