//! Shares of the budget for sound and messages.

use std::collections::VecDeque;
use std::time::Duration;

use lockstep_control::{Budget, Limit, LimitedBy, PathView};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

/// Length of the sliding window.
const WINDOW: Duration = Duration::from_secs(1);

/// Bit rate of recent datagrams: sound, or the application's messages.
#[derive(Debug, Default)]
pub(crate) struct RecentRate {
    left: VecDeque<(Timestamp, ByteCount)>,
    bytes: ByteCount,
}

impl RecentRate {
    /// Adds a sent datagram of `size`.
    pub(crate) fn on_transmit(&mut self, now: Timestamp, size: ByteCount) {
        self.left.push_back((now, size));
        self.bytes += size;
        while let Some(&(_, size)) = self.left.front().filter(|(at, _)| *at + WINDOW <= now) {
            self.left.pop_front();
            self.bytes -= size;
        }
    }

    /// Mean over the last second; zero once a second passes without a datagram.
    pub(crate) fn bitrate(&self, now: Timestamp) -> Bitrate {
        let Some(&(newest, _)) = self.left.back() else { return Bitrate::ZERO };
        // Without new datagrams nothing removes the last ones from the window.
        if newest + WINDOW <= now { Bitrate::ZERO } else { Bitrate::mean(self.bytes, WINDOW) }
    }
}

/// Share of sound or messages in the budget of one frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Share {
    /// [`LimitedBy::Sound`] or [`LimitedBy::Messages`].
    pub kind: LimitedBy,
    /// Bytes expected until the next picture.
    pub bytes: ByteCount,
}

impl Limit for Share {
    fn kind(&self) -> LimitedBy {
        self.kind
    }

    fn limit(&self, _path: &PathView<'_>, budget: Budget) -> Budget {
        budget.less(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_is_the_mean_of_a_second_and_zero_after_a_pause() {
        let mut rate = RecentRate::default();
        assert_eq!(rate.bitrate(Timestamp::ZERO), Bitrate::ZERO);
        for packet in 0..200 {
            rate.on_transmit(Timestamp::from_millis(20 * packet), ByteCount::new(100));
        }
        let now = Timestamp::from_millis(20 * 199);
        assert_eq!(rate.bitrate(now), Bitrate::from_kbps(40));
        assert_eq!(rate.bitrate(now + WINDOW), Bitrate::ZERO);
        assert_eq!(rate.left.len(), 50);
    }
}
