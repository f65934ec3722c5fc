//! What sound takes of what may be sent.

use std::collections::VecDeque;
use std::time::Duration;

use lockstep_control::{Budget, Limit, LimitedBy, PathView};
use lockstep_units::{Bitrate, ByteCount, Timestamp};

/// Sound of so long counts.
const WINDOW: Duration = Duration::from_secs(1);

/// Datagrams of sound that left lately.
#[derive(Debug, Default)]
pub(crate) struct SoundRate {
    left: VecDeque<(Timestamp, ByteCount)>,
    bytes: ByteCount,
}

impl SoundRate {
    /// A datagram of `size` left.
    pub(crate) fn on_transmit(&mut self, now: Timestamp, size: ByteCount) {
        self.left.push_back((now, size));
        self.bytes += size;
        while let Some(&(_, size)) = self.left.front().filter(|(at, _)| *at + WINDOW <= now) {
            self.left.pop_front();
            self.bytes -= size;
        }
    }

    /// What sound takes: of the last second with sound in it.
    pub(crate) fn bitrate(&self, now: Timestamp) -> Bitrate {
        let Some(&(newest, _)) = self.left.back() else { return Bitrate::ZERO };
        // In silence nothing leaves that would push the last words out of the window.
        if newest + WINDOW <= now { Bitrate::ZERO } else { Bitrate::mean(self.bytes, WINDOW) }
    }
}

/// What sound takes out of the budget of one frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SoundShare {
    /// Bytes of sound until the next picture.
    pub bytes: ByteCount,
}

impl Limit for SoundShare {
    fn kind(&self) -> LimitedBy {
        LimitedBy::Sound
    }

    fn limit(&self, _path: &PathView<'_>, budget: Budget) -> Budget {
        budget.less(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sound_takes_what_it_took_in_the_last_second_and_nothing_when_it_is_over() {
        let mut rate = SoundRate::default();
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
