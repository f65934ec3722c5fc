//! Generated traces: the same seed gives the same trace on every platform.

use std::time::Duration;

use lockstep_units::quantity::{MAXIMUM_RATE, QuantityError};
use lockstep_units::random::{exponential, happens, normal};
use lockstep_units::{Bitrate, Timestamp};

use crate::error::TraceError;
use crate::limits::{MAXIMUM_OPPORTUNITIES, MAXIMUM_SEGMENTS, OPPORTUNITY};
use crate::random::{Purpose, generator, times};
use crate::timeline::End;
use crate::timeline::MILLISECOND;
use crate::trace::{Capacity, Conditions};
use crate::trace::{Segment, Trace, nanos};

/// How many steps of `step` make `duration`, if that is a number that a trace can have.
fn steps(duration: Duration, step: Duration) -> Result<u64, TraceError> {
    if duration.is_zero() || step.is_zero() {
        return Err(TraceError::NoTime);
    }
    let steps = nanos(duration).div_ceil(nanos(step));
    if steps > MAXIMUM_SEGMENTS as u64 { Err(TraceError::TooManySegments) } else { Ok(steps) }
}

/// A number of the recipe that is out of range.
fn refuse(field: &'static str, value: impl ToString, range: &'static str) -> TraceError {
    TraceError::Segment { segment: 1, problem: QuantityError::Range { field, text: value.to_string(), range }.into() }
}

/// A rate that changes evenly from one value to another, in steps, and then holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ramp {
    /// The rate at the start.
    pub from: Bitrate,
    /// The rate at the end.
    pub to: Bitrate,
    /// How long the change takes.
    pub duration: Duration,
    /// How long each step of it lasts.
    pub step: Duration,
}

impl Ramp {
    /// The trace. Add an outage with [`Trace::with_outage`].
    ///
    /// # Errors
    /// [`TraceError::NoTime`], [`TraceError::TooManySegments`] and the limits of [`Trace::from_segments`].
    pub fn trace(&self) -> Result<Trace, TraceError> {
        let steps = steps(self.duration, self.step)?;
        let (from, to) = (i128::from(self.from.as_bps()), i128::from(self.to.as_bps()));
        let segments: Vec<Segment> = (0..steps)
            .map(|step| {
                // The first step has the first rate and the last one the last.
                let rate = from + (to - from) * i128::from(step) / i128::from((steps - 1).max(1));
                let start = nanos(self.step) * step;
                let duration = nanos(self.step).min(nanos(self.duration) - start);
                Segment {
                    duration: Duration::from_nanos(duration),
                    rate: Bitrate::from_bps(u64::try_from(rate).unwrap_or(0)),
                    conditions: Conditions::NONE,
                }
            })
            .collect();
        Trace::from_segments(&segments, End::Hold)
    }
}

/// A constant rate with losses that come and go: times without and times with loss follow each other, both exponential.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OnOff {
    /// The rate throughout.
    pub rate: Bitrate,
    /// Mean length of the times with loss.
    pub on: Duration,
    /// Mean length of the times without.
    pub off: Duration,
    /// The share of packets lost in the times with loss.
    pub loss: f64,
    /// How long the trace is before it repeats.
    pub duration: Duration,
    /// Where the randomness comes from.
    pub seed: u64,
}

impl OnOff {
    /// The trace. It starts without loss.
    ///
    /// # Errors
    /// [`TraceError::NoTime`] if a mean is below a millisecond, [`TraceError::TooManySegments`], and the limits of
    /// [`Trace::from_segments`].
    pub fn trace(&self) -> Result<Trace, TraceError> {
        if self.on.min(self.off) < Duration::from_millis(1) || self.duration.is_zero() {
            return Err(TraceError::NoTime);
        }
        let mut generator = generator(self.seed, Purpose::Trace);
        let (mut segments, mut time, mut on) = (Vec::new(), Duration::ZERO, false);
        while time < self.duration {
            if segments.len() == MAXIMUM_SEGMENTS {
                return Err(TraceError::TooManySegments);
            }
            let length = times(if on { self.on } else { self.off }, exponential(&mut generator));
            let duration = length.min(self.duration - time);
            let conditions = Conditions { loss: if on { self.loss } else { 0.0 }, ..Conditions::NONE };
            segments.push(Segment { duration, rate: self.rate, conditions });
            time += duration;
            on = !on;
        }
        Trace::from_segments(&segments, End::Repeat)
    }
}

/// Delivery opportunities as a Poisson process, as in the trace of 0.57 Mb/s in Salsify's evaluation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Poisson {
    /// The mean rate.
    pub rate: Bitrate,
    /// How long the trace is before it repeats.
    pub duration: Duration,
    /// Where the randomness comes from.
    pub seed: u64,
}

impl Poisson {
    /// The trace.
    ///
    /// # Errors
    /// [`TraceError::NoTime`], [`TraceError::TooLong`], [`TraceError::TooManyOpportunities`], and
    /// [`TraceError::NoOpportunities`] if chance or a low rate gives none.
    pub fn trace(&self) -> Result<Trace, TraceError> {
        let period = u32::try_from(self.duration.as_millis()).map_err(|_| TraceError::TooLong)?;
        if period == 0 {
            return Err(TraceError::NoTime);
        }
        if self.rate == Bitrate::ZERO {
            return Err(TraceError::NoOpportunities);
        }
        let mean = self.rate.time_for(OPPORTUNITY).as_nanos() as f64;
        let mut generator = generator(self.seed, Purpose::Trace);
        let (mut at, mut times) = (0.0, Vec::new());
        loop {
            at += mean * exponential(&mut generator);
            let time = (at / MILLISECOND as f64).ceil();
            if time > f64::from(period) {
                break;
            }
            if times.len() == MAXIMUM_OPPORTUNITIES {
                return Err(TraceError::TooManyOpportunities);
            }
            times.push(time as u32);
        }
        if times.is_empty() {
            return Err(TraceError::NoOpportunities);
        }
        Trace::from_opportunities(times, period)
    }
}

/// A cellular link: a Markov chain over rates that stand evenly apart in the logarithm, noise around them, and
/// occasional outages.
///
/// The chain has [`Cellular::states`] states at `mean * exp(deviation * z)`, z from -2 to 2; it stays in one for an
/// exponential time of mean [`Cellular::dwell`] and then moves to a neighbour, toward the middle state with a
/// probability that grows evenly from 1/2 there to 1 at either end, so that the middle is likeliest. Each step
/// multiplies the state's rate by a log-normal factor of [`Cellular::noise`]. Outages start at exponential intervals
/// and last an exponential time. In the end all rates are scaled so that the mean over the trace is the one asked for.
/// The defaults give what the recorded LTE traces of mahimahi show by the eye: the rate halves or doubles within a
/// second or two, spans a factor of ten in a minute, and is gone for about a second once a minute.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cellular {
    /// The mean rate of the whole trace.
    pub mean: Bitrate,
    /// Deviation of the logarithm (to base e) of the rate: the states reach to twice this. 0 to 3; 0.6 by default.
    pub deviation: f64,
    /// How many states, 2 to 64; 9 by default.
    pub states: u32,
    /// Mean time in a state; 500 ms by default.
    pub dwell: Duration,
    /// How long a rate lasts; 100 ms by default.
    pub step: Duration,
    /// Deviation of the logarithm of the noise on each step, 0 to 3; 0.15 by default.
    pub noise: f64,
    /// Mean time between outages, zero for none; 60 s by default.
    pub outage_every: Duration,
    /// Mean length of an outage; 1 s by default.
    pub outage: Duration,
    /// How long the trace is before it repeats; 120 s by default.
    pub duration: Duration,
    /// Where the randomness comes from; 1 by default.
    pub seed: u64,
}

impl Cellular {
    /// The defaults at `mean`.
    #[must_use]
    pub const fn new(mean: Bitrate) -> Self {
        Self {
            mean,
            deviation: 0.6,
            states: 9,
            dwell: Duration::from_millis(500),
            step: Duration::from_millis(100),
            noise: 0.15,
            outage_every: Duration::from_secs(60),
            outage: Duration::from_secs(1),
            duration: Duration::from_secs(120),
            seed: 1,
        }
    }

    /// The trace.
    ///
    /// # Errors
    /// [`TraceError::Segment`] for a parameter out of range, [`TraceError::NoTime`], [`TraceError::TooManySegments`],
    /// [`TraceError::TooLong`].
    pub fn trace(&self) -> Result<Trace, TraceError> {
        if !(2..=64).contains(&self.states) {
            return Err(refuse("states", self.states, "2 to 64"));
        }
        for (field, value) in [("deviation", self.deviation), ("noise", self.noise)] {
            if !(0.0..=3.0).contains(&value) {
                return Err(refuse(field, value, "0 to 3"));
            }
        }
        if self.mean > MAXIMUM_RATE {
            return Err(refuse("mean", self.mean, "0 to 1000 Gb/s"));
        }
        let steps = steps(self.duration, self.step)?;
        let mut generator = generator(self.seed, Purpose::Trace);
        let middle = f64::from(self.states - 1) / 2.0;
        let mut state = self.states / 2;
        let mut next_outage = match self.outage_every.is_zero() {
            true => Duration::MAX,
            false => times(self.outage_every, exponential(&mut generator)),
        };
        let mut outage_end = Duration::ZERO;
        let mut leave = times(self.dwell, exponential(&mut generator));
        let (mut factors, mut time) = (Vec::new(), Duration::ZERO);
        for _ in 0..steps {
            // At most one move a step: a shorter dwelling would not be seen.
            if time >= leave {
                let distance = (f64::from(state) - middle) / middle;
                let upward = happens(&mut generator, 0.5 - 0.5 * distance);
                state = if upward { (state + 1).min(self.states - 1) } else { state.saturating_sub(1) };
                leave = time + times(self.dwell, exponential(&mut generator));
            }
            if time >= next_outage {
                outage_end = time + times(self.outage, exponential(&mut generator));
                next_outage = outage_end + times(self.outage_every, exponential(&mut generator));
            }
            let exponent = self.deviation * 2.0 * (f64::from(state) - middle) / middle;
            let factor = libm::exp(exponent + self.noise * normal(&mut generator));
            factors.push(if time < outage_end { 0.0 } else { factor });
            time += self.step;
        }
        let sum: f64 = factors.iter().sum();
        let scale = if sum > 0.0 { self.mean.as_bps() as f64 * factors.len() as f64 / sum } else { 0.0 };
        let segments = factors.iter().map(|factor| Segment {
            duration: self.step,
            rate: Bitrate::from_bps((factor * scale) as u64).min(MAXIMUM_RATE),
            conditions: Conditions::NONE,
        });
        Trace::from_segments(&segments.collect::<Vec<_>>(), End::Repeat)
    }
}

impl Trace {
    /// The same trace with nothing passing from `start` for `length`. An outage that ends after the trace makes a trace
    /// of rates longer by as much (and a second more, in which its last rate is back); what does not fit into a trace
    /// of delivery opportunities is left out.
    ///
    /// # Errors
    /// [`TraceError::NoOpportunities`] if no opportunity is left, [`TraceError::TooLong`].
    pub fn with_outage(&self, start: Duration, length: Duration) -> Result<Self, TraceError> {
        let (from, to) = (nanos(start), nanos(start.saturating_add(length)));
        match self.capacity() {
            Capacity::Opportunities(opportunities) => {
                let outside = |&&time: &&u32| {
                    let time = u64::from(time) * MILLISECOND;
                    time <= from || time > to
                };
                let times: Vec<u32> = opportunities.times.iter().filter(outside).copied().collect();
                if times.is_empty() {
                    return Err(TraceError::NoOpportunities);
                }
                let segments = self.to_segments(self.period())?;
                let conditions: Vec<_> = segments.iter().map(|part| (part.duration, part.conditions)).collect();
                Self::from_opportunities(times, opportunities.period)?.with_conditions(&conditions)
            }
            Capacity::Rates(_) => {
                let mut segments = self.to_segments(self.period())?;
                if Timestamp::ZERO + self.period() <= Timestamp::from_nanos(to) {
                    let last = segments[segments.len() - 1];
                    let missing = Duration::from_nanos(to).saturating_sub(self.period());
                    segments.push(Segment { duration: missing.saturating_add(Duration::from_secs(1)), ..last });
                }
                let (mut cut, mut begin) = (Vec::with_capacity(segments.len() + 2), 0u64);
                for segment in segments {
                    let end = begin.saturating_add(nanos(segment.duration));
                    let (dark, light) = (from.clamp(begin, end), to.clamp(begin, end));
                    for (length, rate) in
                        [(dark - begin, segment.rate), (light - dark, Bitrate::ZERO), (end - light, segment.rate)]
                    {
                        cut.push(Segment { duration: Duration::from_nanos(length), rate, ..segment });
                    }
                    begin = end;
                }
                cut.retain(|segment| !segment.duration.is_zero());
                Self::from_segments(&cut, self.end())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written down once: a change of platform, library or order of draws shows here.
    #[test]
    fn seeds_give_the_same_trace_on_every_platform() {
        let trace = Cellular { seed: 7, ..Cellular::new(Bitrate::from_kbps(3_000)) }.trace().unwrap();
        let rates: Vec<u64> = [0u64, 10, 60, 100]
            .iter()
            .map(|&s| trace.capacity_at(Timestamp::from_millis(s * 1_000)).as_bps())
            .collect();
        assert_eq!(rates, CELLULAR_SEED_7);
        let poisson = Poisson { rate: Bitrate::from_kbps(570), duration: Duration::from_secs(60), seed: 7 };
        let Capacity::Opportunities(opportunities) = poisson.trace().unwrap().capacity().clone() else { panic!() };
        assert_eq!(opportunities.times[..6], POISSON_SEED_7);
    }
    const CELLULAR_SEED_7: [u64; 4] = [2_298_491, 2_490_440, 2_124_716, 6_013_359];
    const POISSON_SEED_7: [u32; 6] = [78, 118, 119, 134, 143, 161];

    #[test]
    fn a_cellular_trace_has_its_mean_and_varies() {
        for seed in 0..20 {
            let mean = Bitrate::from_kbps(3_000);
            let trace = Cellular { seed, ..Cellular::new(mean) }.trace().unwrap();
            let summary = trace.summary();
            assert!(mean.as_bps() - summary.mean.as_bps() <= 1, "{summary}");
            assert!(summary.highest.as_bps() > 2 * summary.lowest.as_bps(), "{summary}");
        }
    }

    #[test]
    fn a_poisson_trace_has_gaps_as_wide_as_a_poisson_process() {
        let rate = Bitrate::from_kbps(570);
        let trace = Poisson { rate, duration: Duration::from_secs(10_000), seed: 3 }.trace().unwrap();
        // 475,000 opportunities: the mean is known to 0.15 %, and counts in windows have variance = mean.
        let mean = trace.summary().mean.as_bps() as f64;
        assert!((mean / 570_000.0 - 1.0).abs() < 0.006, "{mean}");
        let counts: Vec<f64> = (0..10_000)
            .map(|s| trace.bytes_between(Timestamp::from_millis(s * 1_000), Timestamp::from_millis(s * 1_000 + 1_000)))
            .map(|bytes| bytes.as_f64() / 1_500.0)
            .collect();
        let mean = counts.iter().sum::<f64>() / 10_000.0;
        let variance = counts.iter().map(|count| (count - mean) * (count - mean)).sum::<f64>() / 10_000.0;
        assert!((variance / mean - 1.0).abs() < 0.06, "{variance} {mean}");
    }

    #[test]
    fn an_outage_takes_what_would_have_passed_in_it() {
        let second = Duration::from_secs(1);
        for trace in [
            Trace::constant(Bitrate::from_kbps(800)).with_outage(10 * second, second).unwrap(),
            Poisson { rate: Bitrate::from_kbps(800), duration: 30 * second, seed: 1 }
                .trace()
                .unwrap()
                .with_outage(10 * second, second)
                .unwrap(),
        ] {
            let bytes = |from, to| trace.bytes_between(Timestamp::from_millis(from), Timestamp::from_millis(to)).get();
            assert_eq!(bytes(10_000, 11_000), 0);
            assert!(bytes(9_000, 10_000) > 50_000 && bytes(11_000, 12_000) > 50_000);
        }
    }

    #[test]
    fn recipes_without_sense_are_refused() {
        let cellular = Cellular::new(Bitrate::from_kbps(500));
        assert!(Cellular { states: 1, ..cellular }.trace().is_err());
        assert!(Cellular { noise: f64::NAN, ..cellular }.trace().is_err());
        assert!(Cellular { step: Duration::ZERO, ..cellular }.trace().is_err());
        assert!(Cellular { step: Duration::from_nanos(1), ..cellular }.trace().is_err());
        let poisson = Poisson { rate: MAXIMUM_RATE, duration: Duration::from_secs(4_000), seed: 1 };
        assert_eq!(poisson.trace(), Err(TraceError::TooManyOpportunities));
    }
}
