//! How much of what packets wait is jitter: time in which the path did not work for anybody, and that comes on top however
//! little is sent.
//!
//! A frame's first packet that finds nothing of one's own before it still waits: for the turns of a scheduler, for
//! others' packets, for a link that has become slower than it was believed to be, or for nothing at all, as where a radio
//! sends again what was not heard. Of these the last alone is drawn anew for each packet. A queue changes little from one
//! frame to the next, and a link that pauses lets most packets pass at once and few of them late. So waits are taken
//! for jitter as far as successive ones differ more than each does from their mean: by √2 times as much where they are
//! independent and normally distributed, 4/3 where uniformly, e/2 where exponentially, by as much where there are
//! only two kinds of them, and by less where one is like the one before.
//!
//! Jitter is no time that the path was busy.
//!
//! | constant | chosen among, and what it brings |
//! |---|---|
//! | `weight` | 0.01, 0.02, 0.04: the same within 0.001 |
//! | `independent` | 1.2, 1.1: 4.262, 4.254; whether most waits are as long as half of the mean, asked beside or instead: less, or longer queues on recorded links |
//!
//! by the mean QoE_d of `lockstep simulate --modelled --clip generated:1280x720@30 --seconds 30 --jitter-ms J`, J from 3 to 30, over
//! eight links of 0.6 to 20 Mb/s, seeds 1, 2, 4 and 5, without any of this 4.213; and such that over all recorded links, which have no
//! such jitter, QoE_d and p95 stay what they were (`docs/controllers.md`, "Where delays scatter").

use libm::fabs;

use crate::JitterConfig;

/// Nothing counts as jitter before this share of the waits that the averages are made of.
const LEAST_SHARE: f64 = 0.6;

/// Times are in seconds.
#[derive(Debug, Default)]
pub(super) struct Jitter {
    config: JitterConfig,
    waits: f64,
    last: f64,
    /// The mean of the waits, of what they differ from it, and of what each differs from the one before.
    mean: f64,
    deviation: f64,
    change: f64,
}

impl Jitter {
    pub(super) fn new(config: JitterConfig) -> Self {
        Self { config, ..Self::default() }
    }

    /// A packet with nothing of one's own before it waited for `wait` beyond what it takes itself.
    pub(super) fn waited(&mut self, wait: f64) {
        self.waits += 1.0;
        let weight = self.config.weight.max(1.0 / self.waits);
        self.mean += weight * (wait - self.mean);
        self.deviation += weight * (fabs(wait - self.mean) - self.deviation);
        self.change += weight * (fabs(wait - self.last) - self.change);
        self.last = wait;
    }

    /// Which part of the waits is jitter.
    fn share(&self) -> f64 {
        if self.waits < LEAST_SHARE / self.config.weight || self.deviation <= 0.0 {
            return 0.0;
        }
        ((self.change / self.deviation - 1.0) / (self.config.independent - 1.0)).clamp(0.0, 1.0)
    }

    /// Of a `wait` that is jitter in part, that part.
    pub(super) fn of(&self, wait: f64) -> f64 {
        self.share() * wait.max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After these waits.
    fn after(waits: impl IntoIterator<Item = f64>) -> Jitter {
        let mut jitter = Jitter::default();
        waits.into_iter().for_each(|wait| jitter.waited(wait));
        jitter
    }

    /// Numbers from 0 to 1 that look as if drawn.
    fn drawn() -> impl Iterator<Item = f64> {
        let mut state = 1_u64;
        std::iter::repeat_with(move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f64 / (1_u64 << 24) as f64
        })
    }

    #[test]
    fn waits_that_are_drawn_anew_for_each_packet_are_jitter() {
        for wait in [|x: f64| -0.02 * libm::log(1.0 - x), |x| 0.05 * x] {
            let jitter = after(drawn().map(wait).take(300));
            assert!(jitter.share() > 0.8, "{jitter:?}");
        }
    }

    #[test]
    fn a_queue_that_grows_and_drains_is_none() {
        let jitter = after((0..300).map(|frame| 0.1 + 0.1 * libm::sin(f64::from(frame) / 10.0)));
        assert!(jitter.share() < 0.01, "{jitter:?}");
    }

    #[test]
    fn pauses_that_hold_several_frames_up_are_none() {
        let waits = (0..300).map(|frame| (0.2 - 0.033 * f64::from(frame % 60)).max(0.0));
        let jitter = after(waits);
        assert!(jitter.share() < 0.01, "{jitter:?}");
    }

    #[test]
    fn nothing_is_said_of_a_few_waits_or_of_those_that_are_all_alike() {
        assert_eq!(after(drawn().take(20)).of(0.1), 0.0);
        assert_eq!(after([0.02; 300]).of(0.1), 0.0);
    }
}
