//! Random loss and random delay of packets.

use std::time::Duration;

use lockstep_units::Timestamp;
use lockstep_units::random::{exponential, happens, normal};
use rand_pcg::Pcg64;

use crate::config::{GilbertElliott, Jitter, JitterDistribution, LossConfig, LossInterval, OnOffLoss};
use crate::random::{Purpose, generator, times};
use crate::statistics::DropReason;
use crate::trace::Conditions;
use rand::Rng;

/// Normal jitter is truncated at this number of deviations (RFC 8868, section 4.5.3).
const MAX_DEVIATIONS: f64 = 3.0;

/// All kinds of loss of a link.
#[derive(Debug, Clone)]
pub(crate) struct Losses {
    /// Whether only the trace has loss.
    are_none: bool,
    random: Option<(f64, Pcg64)>,
    burst: Option<Burst>,
    on_off: Option<OnOff>,
    scheduled: Scheduled,
    trace: Pcg64,
}

#[derive(Debug, Clone)]
struct Burst {
    model: GilbertElliott,
    bad: bool,
    generator: Pcg64,
}

#[derive(Debug, Clone)]
struct OnOff {
    model: OnOffLoss,
    on: bool,
    /// Time of the next change.
    until: Timestamp,
    /// Separate from the random numbers for packets, so that the periods do not depend on the packets.
    times: Pcg64,
    packets: Pcg64,
}

#[derive(Debug, Clone)]
struct Scheduled {
    intervals: Vec<LossInterval>,
    origin: Timestamp,
    generator: Pcg64,
}

impl Losses {
    /// Losses of a link that starts at `origin`.
    pub(crate) fn new(config: &LossConfig, seed: u64, origin: Timestamp) -> Self {
        let on_off = config.on_off.map(|model| {
            let (mut lengths, packets) = (generator(seed, Purpose::OnOffTimes), generator(seed, Purpose::OnOffLoss));
            let until = origin + times(model.mean_off, exponential(&mut lengths));
            OnOff { model, on: false, until, times: lengths, packets }
        });
        Self {
            are_none: config.random <= 0.0
                && config.burst.is_none()
                && config.on_off.is_none()
                && config.scheduled.is_empty(),
            random: (config.random > 0.0).then(|| (config.random, generator(seed, Purpose::RandomLoss))),
            burst: config.burst.map(|model| Burst {
                model,
                bad: false,
                generator: generator(seed, Purpose::BurstLoss),
            }),
            on_off,
            scheduled: Scheduled {
                intervals: config.scheduled.clone(),
                origin,
                generator: generator(seed, Purpose::ScheduledLoss),
            },
            trace: generator(seed, Purpose::TraceLoss),
        }
    }

    /// Whether only the trace has loss.
    pub(crate) fn are_none(&self) -> bool {
        self.are_none
    }

    /// Decides whether the packet at `now` is lost, and why. Each kind of loss draws a number for each packet, so that
    /// no kind affects another. Calls are in the order of time.
    pub(crate) fn decide(&mut self, now: Timestamp, conditions: &Conditions) -> Option<DropReason> {
        if self.are_none && conditions.loss <= 0.0 {
            return None;
        }
        let random = self.random.as_mut().is_some_and(|(share, generator)| happens(generator, *share));
        let burst = self.burst.as_mut().is_some_and(Burst::decide);
        let on_off = self.on_off.as_mut().is_some_and(|on_off| on_off.decide(now));
        let scheduled = self.scheduled.decide(now);
        let trace = conditions.loss > 0.0 && happens(&mut self.trace, conditions.loss);
        [
            (random, DropReason::RandomLoss),
            (burst, DropReason::BurstLoss),
            (on_off, DropReason::OnOffLoss),
            (scheduled, DropReason::ScheduledLoss),
            (trace, DropReason::TraceLoss),
        ]
        .into_iter()
        .find_map(|(lost, reason)| lost.then_some(reason))
    }
}

impl Burst {
    fn decide(&mut self) -> bool {
        let (loss, change) = match self.bad {
            true => (self.model.loss_in_bad, self.model.to_good),
            false => (self.model.loss_in_good, self.model.to_bad),
        };
        let lost = happens(&mut self.generator, loss);
        self.bad ^= happens(&mut self.generator, change);
        lost
    }
}

impl OnOff {
    fn decide(&mut self, now: Timestamp) -> bool {
        // A link may be idle for long. The process forgets its state within a few periods, so a long idle time is
        // skipped. The cost would otherwise grow with the idle time.
        let cycle = self.model.mean_on.saturating_add(self.model.mean_off);
        let horizon = now - cycle.saturating_mul(64);
        if self.until < horizon {
            let share = self.model.mean_on.as_nanos() as f64 / cycle.as_nanos() as f64;
            self.on = happens(&mut self.times, share);
            self.until = horizon + self.length();
        }
        while self.until <= now && self.until < Timestamp::MAX {
            self.on = !self.on;
            // At least a nanosecond, so that the loop ends.
            let length = self.length().max(Duration::from_nanos(1));
            self.until += length;
        }
        let lost = happens(&mut self.packets, self.model.loss);
        self.on && lost
    }

    fn length(&mut self) -> Duration {
        let mean = if self.on { self.model.mean_on } else { self.model.mean_off };
        times(mean, exponential(&mut self.times))
    }
}

impl Scheduled {
    fn decide(&mut self, now: Timestamp) -> bool {
        if self.intervals.is_empty() {
            return false;
        }
        let since = now.saturating_since(self.origin);
        let index = self.intervals.partition_point(|interval| interval.to <= since);
        let lost = self.intervals.get(index).filter(|interval| interval.from <= since);
        lost.is_some_and(|interval| happens(&mut self.generator, interval.loss))
    }
}

/// Random delays of a link.
#[derive(Debug, Clone)]
pub(crate) struct Delays {
    jitter: Option<(JitterDistribution, Pcg64)>,
    trace: Pcg64,
}

impl Delays {
    pub(crate) fn new(jitter: Option<Jitter>, seed: u64) -> Self {
        let jitter = jitter.map(|jitter| (jitter.distribution, generator(seed, Purpose::Jitter)));
        Self { jitter, trace: generator(seed, Purpose::TraceJitter) }
    }

    /// Draws the delay of the next packet beyond propagation: jitter of link and trace, and delay of the trace.
    pub(crate) fn draw(&mut self, conditions: &Conditions) -> Duration {
        let own = self.jitter.as_mut().map_or(Duration::ZERO, |(distribution, generator)| match *distribution {
            JitterDistribution::Uniform { max } => times(max, generator.random()),
            JitterDistribution::Exponential { mean } => times(mean, exponential(generator)),
            JitterDistribution::Normal { mean, deviation } => {
                let deviations = normal(generator).clamp(-MAX_DEVIATIONS, MAX_DEVIATIONS);
                let nanoseconds = mean.as_nanos() as f64 + deviation.as_nanos() as f64 * deviations;
                Duration::from_nanos(nanoseconds as u64)
            }
        });
        let trace = match conditions.jitter.is_zero() {
            true => Duration::ZERO,
            false => times(conditions.jitter, self.trace.random()),
        };
        own + trace + conditions.delay
    }
}
