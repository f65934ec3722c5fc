//! Whether acknowledgements queue on their way back: then the sender asks for fewer.

use std::time::Duration;

use lockstep_units::Timestamp;

/// The most that the interval of acknowledgements can be doubled: from 20 to 320 ms, somewhat more than the 50 to 250 ms that
/// WebRTC gives transport-wide feedback: at 160 ms they take 25 kb/s of a way back that has 32 and is to carry a voice, too.
pub(crate) const MOST_DOUBLINGS: u8 = 4;
/// A request takes effect after this many periods: a round trip, and a part of the queue's draining.
const EFFECT: u32 = 2;
/// A queue is gone below this part of one that is too long.
const GONE: u32 = 5;
/// The pause between trials doubles up to this many times the first one.
const MOST_PAUSES: u32 = 32;

/// Periods without a queue until more acknowledgements are tried; the pause doubles with each failure.
const PAUSE: u32 = 50;
/// The base delay is remembered for one to two times this many periods.
const HALF_MEMORY: u32 = 75;

lockstep_units::config! {
    /// Acknowledgements that queue on their way back.
    pub struct ReversePathConfig = "reverse_path" {
        /// The queue is the least delay of the packets of a period, on either way; a burst alone is no queue.
        period: Duration = 0.2, "s", 0.02..=2.0, "2026-11-control-ablation";
        /// A queue longer than this shows that the way back has no room.
        queue: Duration = 0.05, "s", 0.005..=1.0, "2026-11-control-ablation";
    }
}

/// Watches the delays of acknowledgements, which tell when they left, and says how many times their interval should be
/// doubled.
#[derive(Debug)]
pub(crate) struct ReversePath {
    /// The least delays of the half of the memory before and of this one, microseconds of clocks that need not agree.
    least: [i64; 2],
    half_began: Timestamp,
    /// The least delay of this period.
    period_least: i64,
    period_began: Timestamp,
    /// The queue of the period before.
    queue: Duration,
    doublings: u8,
    changed_at: Timestamp,
    /// Whether the last change was a trial of more acknowledgements.
    tried: bool,
    pause: Duration,
    config: ReversePathConfig,
}

impl ReversePath {
    /// A path of which nothing was heard.
    pub(crate) fn new(config: ReversePathConfig) -> Self {
        Self {
            least: [i64::MAX; 2],
            half_began: Timestamp::ZERO,
            period_least: i64::MAX,
            period_began: Timestamp::ZERO,
            queue: Duration::ZERO,
            doublings: 0,
            changed_at: Timestamp::ZERO,
            tried: false,
            pause: PAUSE * config.period,
            config,
        }
    }

    /// How many times the interval should be doubled, 0 to [`MOST_DOUBLINGS`].
    pub(crate) fn doublings(&self) -> u8 {
        self.doublings
    }

    /// How many times the receiver may have doubled it by now: it hears later what is asked for.
    pub(crate) fn most_obeyed(&self, now: Timestamp) -> u8 {
        let just_tried = self.tried && now.saturating_since(self.changed_at) < 2 * EFFECT * self.config.period;
        self.doublings + u8::from(just_tried)
    }

    /// An acknowledgement came that is newer than all before and left at `sent_at`, receiver's clock.
    pub(crate) fn on_acknowledgement(&mut self, now: Timestamp, sent_at: Timestamp) {
        let micros = |at: Timestamp| i64::try_from(at.as_micros()).unwrap_or(i64::MAX);
        let delay = micros(now).saturating_sub(micros(sent_at));
        if now.saturating_since(self.half_began) >= HALF_MEMORY * self.config.period {
            (self.half_began, self.least) = (now, [self.least[1], i64::MAX]);
        }
        self.least[1] = self.least[1].min(delay);
        self.period_least = self.period_least.min(delay);
        if now.saturating_since(self.period_began) >= self.config.period {
            self.period_began = now;
            let period_least = std::mem::replace(&mut self.period_least, i64::MAX);
            let queue = period_least.saturating_sub(self.least[0].min(self.least[1]));
            self.adapt(now, Duration::from_micros(u64::try_from(queue).unwrap_or(0)));
        }
    }

    fn adapt(&mut self, now: Timestamp, queue: Duration) {
        let since = now.saturating_since(self.changed_at);
        // One that shrinks is on its way to be gone.
        let ReversePathConfig { period, queue: too_long } = self.config;
        let pause = PAUSE * period;
        let stands = queue > too_long && queue >= std::mem::replace(&mut self.queue, queue);
        if stands && self.doublings < MOST_DOUBLINGS && since >= EFFECT * period {
            self.pause = if self.tried && since < pause { (2 * self.pause).min(MOST_PAUSES * pause) } else { pause };
            (self.doublings, self.changed_at, self.tried) = (self.doublings + 1, now, false);
        } else if queue < too_long / GONE && self.doublings > 0 && since >= self.pause {
            (self.doublings, self.changed_at, self.tried) = (self.doublings - 1, now, true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The doublings after each second in which an acknowledgement came every 20 ms and was under way for so long, ms.
    fn doublings(path: &mut ReversePath, begin: u64, delays: &[u64]) -> Vec<u8> {
        let second = |(second, &delay): (usize, &u64)| {
            for at in 0..50 {
                let now = 1_000 * (begin + second as u64) + 20 * at + 5_000;
                // The receiver's clock is three seconds behind.
                path.on_acknowledgement(Timestamp::from_millis(now), Timestamp::from_millis(now - 3_000 - delay));
            }
            path.doublings()
        };
        delays.iter().enumerate().map(second).collect()
    }

    #[test]
    fn a_standing_queue_thins_acknowledgements_out_and_a_short_one_does_not() {
        let mut path = ReversePath::new(ReversePathConfig::default());
        assert_eq!(doublings(&mut path, 0, &[20, 30, 60, 45]), [0; 4]);
        let grown = doublings(&mut path, 4, &[120, 250, 400]);
        assert!(grown[0] >= 1 && grown[2] == MOST_DOUBLINGS, "{grown:?}");
    }

    #[test]
    fn a_burst_of_a_tenth_of_a_second_is_no_queue() {
        let mut path = ReversePath::new(ReversePathConfig::default());
        for at in 0..1_000_u64 {
            let delay = if at % 20 < 5 { 150 } else { 20 };
            let now = Timestamp::from_millis(1_000 + 20 * at);
            path.on_acknowledgement(now, Timestamp::from_millis(1_000 + 20 * at - delay));
        }
        assert_eq!(path.doublings(), 0);
    }

    #[test]
    fn more_are_tried_again_after_a_while_and_ever_more_seldom_where_that_fails() {
        let mut path = ReversePath::new(ReversePathConfig::default());
        let mut trials = Vec::new();
        for at in 50..20_000_u64 {
            // There is room for half of what is sent without a doubling.
            let delay = if path.doublings() == 0 && at > 100 { 200 } else { 20 };
            let now = Timestamp::from_millis(20 * at);
            let before = path.doublings();
            path.on_acknowledgement(now, Timestamp::from_millis(20 * at - delay));
            if path.doublings() < before {
                trials.push(at / 50);
            }
        }
        assert!((3..=7).contains(&trials.len()), "{trials:?}");
        let gaps: Vec<u64> = trials.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.is_sorted(), "{gaps:?}");
    }
}
