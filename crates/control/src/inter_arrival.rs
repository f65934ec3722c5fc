//! Salsify's estimator: the smoothed time between two arrivals, without the sender's idle time (NSDI 2018, section
//! 3.2).

use std::time::Duration;

use lockstep_transport::{Arrival, Estimate};
use lockstep_units::{Timestamp, duration_from_seconds};

use crate::Estimator;
use crate::base_delay::BaseDelay;

/// Weight of a new sample in the average (Salsify, section 3.2).
const ALPHA: f64 = 0.1;

/// Inter-arrival time before the first arrival: ten fragments in the 100 ms that Salsify's sender tolerates. TCP starts
/// with the same number (RFC 6928).
pub(crate) const INITIAL_INTER_ARRIVAL: Duration = Duration::from_millis(10);

/// Lower bound of a sample of a fragment that found the link idle, as a share of the average. Such a sample shows only
/// that the link is at least as fast as the sender. With the bound, the average still falls and the window opens, but
/// only gradually.
const IDLE_LINK_SHARE: f64 = 0.5;

/// Window of the base delay. Clocks that drift by 50 ppm add an error of 0.5 ms.
const DELAY_MEMORY: Duration = Duration::from_secs(10);

/// Subtraction of the sender's idle time from the time between two arrivals.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum GracePeriod {
    /// No subtraction: a sender that pauses looks like a slow link. For comparison only.
    None,
    /// Subtracts the link's idle time: from the previous arrival until this fragment would have arrived over an empty
    /// link. Every fragment carries the timestamps, so a lost fragment loses no grace period. Gaps of the pacer count
    /// only as far as the link was idle.
    #[default]
    LinkIdle,
    /// Subtracts the pause that the sender names in the first fragment of a frame, as published. The loss of that
    /// fragment loses the grace period.
    Sender,
}

/// The inter-arrival average: `tau <- alpha (T_i - T_(i-1) - grace) + (1 - alpha) tau`, alpha = 0.1.
#[derive(Debug)]
pub struct InterArrival {
    grace_period: GracePeriod,
    base_delay: BaseDelay,
    previous: Option<Arrival>,
    average_seconds: f64,
}

impl InterArrival {
    /// An average before the first arrival.
    #[must_use]
    pub fn new(grace_period: GracePeriod) -> Self {
        Self {
            grace_period,
            base_delay: BaseDelay::new(DELAY_MEMORY),
            previous: None,
            average_seconds: INITIAL_INTER_ARRIVAL.as_secs_f64(),
        }
    }

    fn grace(&self, arrival: &Arrival, previous: &Arrival, smallest_delay: i64) -> Duration {
        match self.grace_period {
            GracePeriod::None => Duration::ZERO,
            GracePeriod::Sender => {
                if arrival.fragment == 0 {
                    arrival.grace
                } else {
                    Duration::ZERO
                }
            }
            GracePeriod::LinkIdle => {
                let earliest = i128::from(arrival.sent_at.as_nanos()) + i128::from(smallest_delay);
                let idle = earliest - i128::from(previous.arrived_at.as_nanos());
                Duration::from_nanos(u64::try_from(idle.max(0)).unwrap_or(u64::MAX))
            }
        }
    }
}

impl Estimator for InterArrival {
    fn on_arrival(&mut self, arrival: &Arrival) {
        let (_, smallest_delay) = self.base_delay.update(arrival.sent_at, arrival.arrived_at);
        if let Some(previous) = &self.previous {
            if arrival.sequence <= previous.sequence {
                return; // a later fragment overtook this one, and its sample covers the time
            }
            let grace = self.grace(arrival, previous, smallest_delay);
            let between = arrival.arrived_at.saturating_since(previous.arrived_at);
            let is_bounded = self.grace_period == GracePeriod::LinkIdle && grace > Duration::ZERO;
            let least = if is_bounded { IDLE_LINK_SHARE * self.average_seconds } else { 0.0 };
            let sample = between.saturating_sub(grace).as_secs_f64().max(least);
            self.average_seconds = ALPHA * sample + (1.0 - ALPHA) * self.average_seconds;
        }
        self.previous = Some(*arrival);
    }

    fn estimate(&mut self, _now: Timestamp) -> Estimate {
        Estimate { inter_arrival: Some(duration_from_seconds(self.average_seconds)), capacity: None }
    }

    fn follows_arrivals_alone(&self) -> bool {
        true
    }

    fn acknowledges_each_fragment(&self) -> bool {
        self.grace_period == GracePeriod::Sender
    }
}

#[cfg(test)]
mod tests {
    use lockstep_units::ByteCount;

    use super::*;

    /// Arrivals of frames of four fragments, 2 ms apart on a link that carries one in 5 ms. Frames start every 100 ms.
    fn arrivals() -> Vec<Arrival> {
        let fragment = |at: u64| {
            let (frame, fragment) = (at / 4, at % 4);
            let pause = if frame == 0 { 0 } else { 100 - 3 * 2 };
            Arrival {
                arrived_at: Timestamp::from_millis(100 * frame + 5 * fragment + 20),
                sent_at: Timestamp::from_millis(100 * frame + 2 * fragment),
                size: ByteCount::new(1_200),
                sequence: at,
                frame: frame as u32,
                fragment: fragment as u16,
                // Gaps of the pacer count as the sender's pauses, too.
                grace: Duration::from_millis(if fragment == 0 { pause } else { 2 }),
                congestion_experienced: false,
            }
        };
        (0..400).map(fragment).collect()
    }

    fn average(grace_period: GracePeriod, arrivals: &[Arrival]) -> Duration {
        let mut estimator = InterArrival::new(grace_period);
        arrivals.iter().for_each(|arrival| estimator.on_arrival(arrival));
        estimator.estimate(Timestamp::ZERO).inter_arrival.expect("the estimator always has an average")
    }

    #[test]
    fn pause_of_the_sender_is_subtracted_and_pacing_is_not() {
        let (with, without) = (average(GracePeriod::Sender, &arrivals()), average(GracePeriod::None, &arrivals()));
        // 85 ms pass between two frames, less than the pause of 94 ms, so that sample is zero.
        assert!((3..=4).contains(&with.as_millis()), "samples of 5, 5, 5 and 0 ms: {with:?}");
        assert!(without.as_millis() > 20, "the pauses count: {without:?}");
    }

    #[test]
    fn loss_of_the_first_fragment_loses_the_grace_period() {
        let all = arrivals();
        let lossy: Vec<Arrival> = all.iter().copied().filter(|arrival| arrival.fragment > 0).collect();
        assert!(average(GracePeriod::Sender, &lossy) > 4 * average(GracePeriod::Sender, &all));
        assert!(average(GracePeriod::LinkIdle, &lossy) < 2 * average(GracePeriod::LinkIdle, &all));
    }
}
