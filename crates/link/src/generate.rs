//! Generated traces. Equal seeds give equal traces on every platform.

use std::time::Duration;

use lockstep_units::quantity::{MAX_RATE, QuantityError};
use lockstep_units::random::{exponential, happens, normal};
use lockstep_units::{Bitrate, Timestamp};

use crate::error::TraceError;
use crate::limits::{MAX_OPPORTUNITIES, MAX_SEGMENTS, OPPORTUNITY};
use crate::random::{Purpose, generator, times};
use crate::timeline::End;
use crate::timeline::MILLISECOND;
use crate::trace::{Capacity, Conditions};
use crate::trace::{Segment, Trace, nanos};

/// Number of steps of `step` in `duration`, within the limits of a trace.
fn steps(duration: Duration, step: Duration) -> Result<u64, TraceError> {
    if duration.is_zero() || step.is_zero() {
        return Err(TraceError::NoTime);
    }
    let steps = nanos(duration).div_ceil(nanos(step));
    if steps > MAX_SEGMENTS as u64 { Err(TraceError::TooManySegments) } else { Ok(steps) }
}

/// The error for a parameter that is out of range.
fn refuse(field: &'static str, value: impl ToString, range: &'static str) -> TraceError {
    TraceError::Segment { segment: 1, problem: QuantityError::Range { field, text: value.to_string(), range }.into() }
}

/// A rate that changes linearly in steps, and then holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ramp {
    /// Rate at the start.
    pub from: Bitrate,
    /// Rate at the end.
    pub to: Bitrate,
    /// Duration of the change.
    pub duration: Duration,
    /// Duration of each step.
    pub step: Duration,
}

impl Ramp {
    /// Generates the trace. Add an outage with [`Trace::with_outage`].
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

/// A constant rate with on/off loss: periods without and with loss alternate, both of exponential length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OnOff {
    /// The constant rate.
    pub rate: Bitrate,
    /// Mean length of the periods with loss.
    pub on: Duration,
    /// Mean length of the periods without loss.
    pub off: Duration,
    /// Probability of loss in the periods with loss.
    pub loss: f64,
    /// Period of the trace.
    pub duration: Duration,
    /// Seed of the random numbers.
    pub seed: u64,
}

impl OnOff {
    /// Generates the trace, which starts without loss.
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
            if segments.len() == MAX_SEGMENTS {
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
    /// Mean rate.
    pub rate: Bitrate,
    /// Period of the trace.
    pub duration: Duration,
    /// Seed of the random numbers.
    pub seed: u64,
}

impl Poisson {
    /// Generates the trace.
    ///
    /// # Errors
    /// [`TraceError::NoTime`], [`TraceError::TooLong`], [`TraceError::TooManyOpportunities`].
    /// [`TraceError::NoOpportunities`] if there is none, by chance or because of a low rate.
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
            if times.len() == MAX_OPPORTUNITIES {
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

/// A cellular link: a Markov chain over rates at equal logarithmic distances, with noise and occasional outages.
///
/// - The chain has [`Cellular::states`] states at `mean * exp(deviation * z)`, with z from -2 to 2.
/// - It stays in a state for an exponential time of mean [`Cellular::dwell`] and then moves to a neighbour.
/// - The probability of a move toward the middle grows linearly from 1/2 in the middle to 1 at the ends. So the middle
///   is most likely.
/// - Each step multiplies the rate by a log-normal factor of [`Cellular::noise`].
/// - Outages start at exponential intervals and have exponential lengths.
/// - Finally, all rates are scaled to the requested mean.
///
/// The defaults resemble the recorded LTE traces of mahimahi, judged by eye. The rate halves or doubles within one or
/// two seconds and spans a factor of ten per minute. There is an outage of about a second per minute.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cellular {
    /// Mean rate of the whole trace.
    pub mean: Bitrate,
    /// Deviation of the natural logarithm of the rate, 0 to 3; default 0.6. The states reach to twice this.
    pub deviation: f64,
    /// Number of states, 2 to 64; default 9.
    pub states: u32,
    /// Mean time in a state; default 500 ms.
    pub dwell: Duration,
    /// Duration of a rate; default 100 ms.
    pub step: Duration,
    /// Deviation of the natural logarithm of the noise in each step, 0 to 3; default 0.15.
    pub noise: f64,
    /// Mean time between outages, zero for none; default 60 s.
    pub outage_every: Duration,
    /// Mean length of an outage; default 1 s.
    pub outage: Duration,
    /// Period of the trace; default 120 s.
    pub duration: Duration,
    /// Seed of the random numbers; default 1.
    pub seed: u64,
}

impl Cellular {
    /// The default parameters with a mean rate of `mean`.
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

    /// Generates the trace.
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
        if self.mean > MAX_RATE {
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
            // At most one move per step; a shorter time in a state would have no effect.
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
            rate: Bitrate::from_bps((factor * scale) as u64).min(MAX_RATE),
            conditions: Conditions::NONE,
        });
        Trace::from_segments(&segments.collect::<Vec<_>>(), End::Repeat)
    }
}

impl Trace {
    /// The same trace with an outage from `start` for `length`.
    ///
    /// An outage beyond the end of a trace of rates extends the trace. One more second with the last rate follows the
    /// outage. For delivery opportunities, the part beyond the end is dropped.
    ///
    /// # Errors
    /// [`TraceError::NoOpportunities`] if no opportunity remains, [`TraceError::TooLong`].
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

    /// Recorded values: a change of platform, library or order of random numbers fails here.
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
    fn cellular_trace_has_its_mean_and_varies() {
        for seed in 0..20 {
            let mean = Bitrate::from_kbps(3_000);
            let trace = Cellular { seed, ..Cellular::new(mean) }.trace().unwrap();
            let summary = trace.summary();
            assert!(mean.as_bps() - summary.mean.as_bps() <= 1, "{summary}");
            assert!(summary.highest.as_bps() > 2 * summary.lowest.as_bps(), "{summary}");
        }
    }

    #[test]
    fn poisson_trace_has_variance_of_a_poisson_process() {
        let rate = Bitrate::from_kbps(570);
        let trace = Poisson { rate, duration: Duration::from_secs(10_000), seed: 3 }.trace().unwrap();
        // With 475,000 opportunities, the mean has an error of 0.15 %. The variance of the counts equals their mean.
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
    fn outage_stops_traffic_only_during_its_interval() {
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
    fn invalid_parameters_are_refused() {
        let cellular = Cellular::new(Bitrate::from_kbps(500));
        assert!(Cellular { states: 1, ..cellular }.trace().is_err());
        assert!(Cellular { noise: f64::NAN, ..cellular }.trace().is_err());
        assert!(Cellular { step: Duration::ZERO, ..cellular }.trace().is_err());
        assert!(Cellular { step: Duration::from_nanos(1), ..cellular }.trace().is_err());
        let poisson = Poisson { rate: MAX_RATE, duration: Duration::from_secs(4_000), seed: 1 };
        assert_eq!(poisson.trace(), Err(TraceError::TooManyOpportunities));
    }
}
