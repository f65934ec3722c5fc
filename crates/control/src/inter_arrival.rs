//! Salsify's estimate: the smoothed time between the arrivals of two fragments, less the time for which the sender
//! left the link idle (NSDI 2018, section 3.3).

use std::time::Duration;

use lockstep_transport::{Arrival, Estimate};
use lockstep_units::{Timestamp, duration_from_seconds};

use crate::Estimator;
use crate::base_delay::BaseDelay;

/// Weight of a new sample in the average (Salsify, section 3.3).
const ALPHA: f64 = 0.1;

/// Inter-arrival time assumed before any fragment arrived: ten fragments in the 100 ms that Salsify's sender tolerates,
/// as many as TCP starts with (RFC 6928).
pub(crate) const INITIAL_INTER_ARRIVAL: Duration = Duration::from_millis(10);

/// A fragment that found the link idle shows by its inter-arrival time only that the link is no slower than the sender;
/// it counts as no less than this share of the average. So the average still falls, and the window opens, while a
/// source has little to send, but not within a few fragments to what no link could carry.
const IDLE_LINK_SHARE: f64 = 0.5;

/// How long a smallest one-way delay is believed. Clocks that drift by 50 millionths are then wrong by 0.5 ms at most.
const DELAY_MEMORY: Duration = Duration::from_secs(10);

/// How the time for which the sender did not send is taken out of the time between two arrivals.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum GracePeriod {
    /// Not at all: a sender that pauses looks like a slow link. Exists to show why the others are needed.
    None,
    /// The time for which the link had nothing to carry: from the moment the fragment before arrived until this one
    /// could have, had the link been empty. Both ends of that interval come from timestamps that every fragment
    /// carries, so a lost fragment takes no grace period with it, and the pacer's gaps count exactly as far as the
    /// link waited for them.
    #[default]
    LinkIdle,
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
    /// An average that has seen nothing yet.
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
                return; // overtaken by a later fragment, whose sample already covered this one's time
            }
            let grace = self.grace(arrival, previous, smallest_delay);
            let between = arrival.arrived_at.saturating_since(previous.arrived_at);
            let least = if grace > Duration::ZERO { IDLE_LINK_SHARE * self.average_seconds } else { 0.0 };
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
}
