//! Datagrams leave in bursts, such that a frame of usual size leaves at once. Delays are compared between groups of
//! datagrams that left together; so these groups become whole frames, and fewer.

use std::time::Duration;

use lockstep_units::{Bitrate, ByteCount, Timestamp};

/// What may leave at once is what the pacing rate lets through in this time, and no more than these bytes
/// (`kDefaultBurstInterval` and `kMaxBurstSize` in WebRTC).
const BURST: Duration = Duration::from_millis(40);
const MOST_BYTES: f64 = 63_000.0;

/// Counts what left before its time (the media debt of `PacingController` in WebRTC).
#[derive(Debug, Clone, Default)]
pub(super) struct Bursts {
    debt_bytes: f64,
    at: Timestamp,
}

impl Bursts {
    /// A datagram of `size` left, at this pacing rate.
    pub(super) fn on_transmit(&mut self, now: Timestamp, size: ByteCount, pacing_rate: Bitrate) {
        // What a burst may be bounds the debt, too: after a large probe it is not owed for long.
        let most = 2.0 * burst_bytes(pacing_rate) + size.as_f64();
        self.debt_bytes = (self.debt_at(now, pacing_rate) + size.as_f64()).min(most);
        self.at = now;
    }

    /// Whether the next datagram need not wait.
    pub(super) fn may_leave_at_once(&self, now: Timestamp, pacing_rate: Bitrate) -> bool {
        self.debt_at(now, pacing_rate) <= burst_bytes(pacing_rate)
    }

    fn debt_at(&self, now: Timestamp, pacing_rate: Bitrate) -> f64 {
        let paid = pacing_rate.bytes_in(now.saturating_since(self.at)).as_f64();
        (self.debt_bytes - paid).max(0.0)
    }
}

fn burst_bytes(pacing_rate: Bitrate) -> f64 {
    pacing_rate.bytes_in(BURST).as_f64().min(MOST_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Bitrate = Bitrate::from_kbps(2_400);
    const SIZE: ByteCount = ByteCount::new(1_200);

    /// How many datagrams leave at `at` milliseconds, of many that wait.
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
    fn forty_milliseconds_worth_leave_at_once_and_the_rest_at_the_pace() {
        let mut bursts = Bursts::default();
        // 2.4 Mb/s are 12 000 bytes in 40 ms; the datagram that goes beyond that leaves as well.
        assert_eq!(leave(&mut bursts, 1_000), 11);
        assert_eq!(leave(&mut bursts, 1_003), 0);
        assert_eq!(leave(&mut bursts, 1_004), 1);
        assert_eq!(leave(&mut bursts, 1_024), 5, "what was not used is saved");
        assert_eq!(leave(&mut bursts, 60_000), 11, "up to a whole burst");
    }

    #[test]
    fn a_high_rate_makes_no_burst_beyond_what_a_socket_takes() {
        let (mut bursts, rate) = (Bursts::default(), Bitrate::from_kbps(1_000_000));
        let mut sent = ByteCount::ZERO;
        while bursts.may_leave_at_once(Timestamp::ZERO, rate) {
            bursts.on_transmit(Timestamp::ZERO, SIZE, rate);
            sent += SIZE;
        }
        assert!((63_000..=64_200).contains(&sent.get()), "{sent}");
    }
}
