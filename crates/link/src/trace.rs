//! What one direction of a path lets through over time.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockstep_units::quantity::{MAXIMUM_PERIOD, MAXIMUM_RATE, QuantityError, milliseconds};
use lockstep_units::{Bitrate, ByteCount, Timestamp};
use serde::{Deserialize, Serialize};

use crate::error::{Problem, TraceError};
use crate::limits::{MAXIMUM_OPPORTUNITIES, MAXIMUM_SEGMENTS, OPPORTUNITY};
use crate::timeline::{End, MILLISECOND, Opportunities, Rates, WORK_OF_BYTE};

/// The window over which delivery opportunities are averaged for [`Trace::capacity_at`]: half before the moment, half
/// after it. mahimahi's own throughput plots use bins of this order.
pub const CAPACITY_WINDOW: Duration = Duration::from_millis(500);

/// The most delivery opportunities in one millisecond: as many as [`MAXIMUM_RATE`] comes to, rounded up.
const MAXIMUM_AT_ONCE: usize = MAXIMUM_RATE.as_bps().div_ceil(8_000 * OPPORTUNITY.get()) as usize;

/// What a trace does to a packet beside limiting the rate.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Conditions {
    /// The probability that a packet is lost, each on its own.
    pub loss: f64,
    /// One-way delay, added to that of the link.
    #[serde(rename = "delay_ms", with = "milliseconds")]
    pub delay: Duration,
    /// The most that a packet is further delayed: the delay is uniform from zero to this.
    #[serde(rename = "jitter_ms", with = "milliseconds")]
    pub jitter: Duration,
}

impl Conditions {
    /// No loss, no delay, no jitter.
    pub const NONE: Self = Self { loss: 0.0, delay: Duration::ZERO, jitter: Duration::ZERO };
}

/// A time during which rate and conditions stay as they are.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Segment {
    /// How long; not zero.
    #[serde(rename = "duration_ms", with = "milliseconds")]
    pub duration: Duration,
    /// What passes; zero is an outage.
    #[serde(rename = "rate_bps")]
    pub rate: Bitrate,
    /// What else happens.
    #[serde(flatten)]
    pub conditions: Conditions,
}

/// The two kinds of capacity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Capacity {
    Opportunities(Opportunities),
    Rates(Rates),
}

#[derive(Debug, PartialEq)]
struct Content {
    capacity: Capacity,
    /// (end in nanoseconds, conditions until then), to the end of the trace; empty where there are none.
    conditions: Vec<(u64, Conditions)>,
}

/// The capacity of one direction over time, and what else happens to packets. Cheap to clone. Time zero is where the
/// trace starts; [`crate::LinkConfig::trace_offset`] starts elsewhere.
///
/// Two traces are equal if they do the same; whether they were read or generated does not matter.
#[derive(Clone, Serialize, Deserialize)]
#[serde(into = "crate::stored::StoredTrace", try_from = "crate::stored::StoredTrace")]
pub struct Trace {
    content: Arc<Content>,
    /// The words it was generated from.
    pub(crate) spec: Option<Arc<str>>,
}

impl PartialEq for Trace {
    fn eq(&self, other: &Self) -> bool {
        self.content == other.content
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Trace({})", self.summary())
    }
}

pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn check_conditions(conditions: &Conditions, segment: usize) -> Result<(), TraceError> {
    let range = |field, text: String, range| TraceError::Segment {
        segment,
        problem: QuantityError::Range { field, text, range }.into(),
    };
    if !(0.0..=1.0).contains(&conditions.loss) {
        return Err(range("loss", conditions.loss.to_string(), "0 to 1"));
    }
    for (field, time) in [("delay", conditions.delay), ("jitter", conditions.jitter)] {
        if time > MAXIMUM_PERIOD {
            return Err(range(field, format!("{time:?}"), "0 to 49 days"));
        }
    }
    Ok(())
}

impl Trace {
    /// `rate` for ever.
    ///
    /// # Panics
    /// Never: a rate above [`MAXIMUM_RATE`] is taken as that.
    #[must_use]
    pub fn constant(rate: Bitrate) -> Self {
        let second = std::iter::once((1_000_000_000, rate.min(MAXIMUM_RATE).as_bps()));
        Self::build(Capacity::Rates(Rates::new(second, End::Hold)), Vec::new())
    }

    /// A piecewise-constant rate. Segments of no time are left out.
    ///
    /// # Errors
    /// [`TraceError::Segment`] for a rate above [`MAXIMUM_RATE`] or impossible conditions,
    /// [`TraceError::TooManySegments`], [`TraceError::TooLong`], [`TraceError::Empty`] without any segment,
    /// [`TraceError::NoTime`] if all are of no time.
    pub fn from_segments(segments: &[Segment], end: End) -> Result<Self, TraceError> {
        if segments.is_empty() {
            return Err(TraceError::Empty);
        }
        if segments.len() > MAXIMUM_SEGMENTS {
            return Err(TraceError::TooManySegments);
        }
        let (mut time, mut conditions) = (Duration::ZERO, Vec::<(u64, Conditions)>::new());
        for (index, segment) in segments.iter().enumerate() {
            if segment.rate > MAXIMUM_RATE {
                let (text, range) = (segment.rate.to_string(), "0 to 1000 Gb/s");
                let problem = QuantityError::Range { field: "rate", text, range }.into();
                return Err(TraceError::Segment { segment: index + 1, problem });
            }
            check_conditions(&segment.conditions, index + 1)?;
            time = time.saturating_add(segment.duration);
            if time > MAXIMUM_PERIOD {
                return Err(TraceError::TooLong);
            }
            match conditions.last_mut() {
                Some((end, same)) if *same == segment.conditions => *end = nanos(time),
                _ if segment.duration.is_zero() => {}
                _ => conditions.push((nanos(time), segment.conditions)),
            }
        }
        if time.is_zero() {
            return Err(TraceError::NoTime);
        }
        let lasting = segments.iter().filter(|segment| !segment.duration.is_zero());
        let lasting = lasting.map(|segment| (nanos(segment.duration), segment.rate.as_bps()));
        Ok(Self::build(Capacity::Rates(Rates::new(lasting, end)), conditions))
    }

    /// Delivery opportunities of [`OPPORTUNITY`] bytes at these milliseconds, in ascending order, repeated every
    /// `period` milliseconds, which is not before the last of them. (In a mahimahi file it is the last.)
    ///
    /// # Errors
    /// [`TraceError::Empty`], [`TraceError::TooManyOpportunities`], [`TraceError::NoTime`] for period zero,
    /// [`TraceError::TooLong`], [`TraceError::Line`] (counted as in a file) where a time is before the one above it or
    /// after the period, or where more come in a millisecond than [`MAXIMUM_RATE`] has.
    pub fn from_opportunities(times: Vec<u32>, period: u32) -> Result<Self, TraceError> {
        if times.is_empty() {
            return Err(TraceError::Empty);
        }
        if times.len() > MAXIMUM_OPPORTUNITIES {
            return Err(TraceError::TooManyOpportunities);
        }
        if let Some(index) = times.windows(2).position(|pair| pair[0] > pair[1]) {
            let (previous, found) = (times[index].to_string(), times[index + 1].to_string());
            return Err(TraceError::Line { line: index + 2, problem: Problem::TimeOrder { previous, found } });
        }
        if let Some(line) = times.iter().position(|&time| time > period) {
            let (text, range) = (times[line].to_string(), "up to the period");
            let problem = QuantityError::Range { field: "time", text, range }.into();
            return Err(TraceError::Line { line: line + 1, problem });
        }
        if period == 0 {
            return Err(TraceError::NoTime);
        }
        if Duration::from_millis(u64::from(period)) > MAXIMUM_PERIOD {
            return Err(TraceError::TooLong);
        }
        // Those at zero come with those at the period, of which they are the next round.
        let (at_zero, at_period) =
            (times.partition_point(|&time| time == 0), times.partition_point(|&time| time < period));
        let around = (at_zero + times.len() - at_period > MAXIMUM_AT_ONCE).then_some(times.len());
        let crowded = times.windows(MAXIMUM_AT_ONCE + 1).position(|window| window[0] == window[MAXIMUM_AT_ONCE]);
        if let Some(line) = crowded.map(|index| index + MAXIMUM_AT_ONCE + 1).or(around) {
            let (text, range) = (format!("of more than {MAXIMUM_AT_ONCE} packets in a millisecond"), "0 to 1000 Gb/s");
            return Err(TraceError::Line { line, problem: QuantityError::Range { field: "rate", text, range }.into() });
        }
        Ok(Self::build(Capacity::Opportunities(Opportunities { times, period }), Vec::new()))
    }

    /// The same capacity with other conditions: (how long, what), in order. They hold to the end of the trace from the
    /// last one on, and what lies behind the end is left out. An empty slice takes all conditions away.
    ///
    /// # Errors
    /// [`TraceError::Segment`] for impossible conditions, [`TraceError::TooManySegments`].
    pub fn with_conditions(&self, conditions: &[(Duration, Conditions)]) -> Result<Self, TraceError> {
        if conditions.len() > MAXIMUM_SEGMENTS {
            return Err(TraceError::TooManySegments);
        }
        let period = nanos(self.period());
        let (mut time, mut merged) = (0u64, Vec::<(u64, Conditions)>::new());
        for (index, (duration, conditions)) in conditions.iter().enumerate() {
            check_conditions(conditions, index + 1)?;
            let start = time;
            time = time.saturating_add(nanos(*duration)).min(period);
            match merged.last_mut() {
                Some((end, same)) if same == conditions => *end = time,
                _ if time == start => {}
                _ => merged.push((time, *conditions)),
            }
        }
        if let Some(last) = merged.last_mut() {
            last.0 = period;
        }
        Ok(Self::build(self.content.capacity.clone(), merged))
    }

    /// The same trace with another end.
    ///
    /// # Errors
    /// [`TraceError::CannotHold`] for delivery opportunities and [`End::Hold`].
    pub fn with_end(&self, end: End) -> Result<Self, TraceError> {
        let capacity = match &self.content.capacity {
            Capacity::Opportunities(_) if end == End::Hold => return Err(TraceError::CannotHold),
            Capacity::Rates(rates) => Capacity::Rates(rates.with_end(end)),
            opportunities => opportunities.clone(),
        };
        Ok(Self::build(capacity, self.content.conditions.clone()))
    }

    fn build(capacity: Capacity, mut conditions: Vec<(u64, Conditions)>) -> Self {
        if conditions.iter().all(|(_, conditions)| *conditions == Conditions::NONE) {
            conditions.clear();
        }
        Self { content: Arc::new(Content { capacity, conditions }), spec: None }
    }

    pub(crate) fn capacity(&self) -> &Capacity {
        &self.content.capacity
    }

    /// (end in nanoseconds, conditions until then); empty where there are none.
    pub(crate) fn condition_changes(&self) -> &[(u64, Conditions)] {
        &self.content.conditions
    }

    /// The words this trace was generated from, if it was.
    #[must_use]
    pub fn spec(&self) -> Option<&str> {
        self.spec.as_deref()
    }

    /// How long the trace is before it repeats or holds.
    #[must_use]
    pub fn period(&self) -> Duration {
        Duration::from_nanos(match self.capacity() {
            Capacity::Opportunities(opportunities) => opportunities.period_nanos(),
            Capacity::Rates(rates) => rates.period(),
        })
    }

    /// What happens after [`Trace::period`].
    #[must_use]
    pub fn end(&self) -> End {
        match self.capacity() {
            Capacity::Opportunities(_) => End::Repeat,
            Capacity::Rates(rates) => rates.end,
        }
    }

    /// Whether the capacity is made of single delivery opportunities.
    #[must_use]
    pub fn has_opportunities(&self) -> bool {
        matches!(self.capacity(), Capacity::Opportunities(_))
    }

    /// The rate at `at`; for delivery opportunities their mean over [`CAPACITY_WINDOW`] around it.
    #[must_use]
    pub fn capacity_at(&self, at: Timestamp) -> Bitrate {
        match self.capacity() {
            Capacity::Rates(rates) => Bitrate::from_bps(rates.rate_at(at.as_nanos())),
            Capacity::Opportunities(_) => {
                let from = at - CAPACITY_WINDOW / 2;
                self.mean_capacity(from, from + CAPACITY_WINDOW)
            }
        }
    }

    /// Whether it has no loss, delay and jitter of its own.
    #[must_use]
    pub fn has_no_conditions(&self) -> bool {
        self.condition_changes().iter().all(|&(_, conditions)| conditions == Conditions::NONE)
    }

    /// Loss, delay and jitter at `at`.
    #[must_use]
    pub fn conditions_at(&self, at: Timestamp) -> Conditions {
        let changes = self.condition_changes();
        let Some(&(period, last)) = changes.last() else {
            return Conditions::NONE;
        };
        let at = match self.end() {
            End::Repeat => at.as_nanos() % period,
            End::Hold if at.as_nanos() >= period => return last,
            End::Hold => at.as_nanos(),
        };
        changes[changes.partition_point(|&(end, _)| end <= at)].1
    }

    /// The work done (see [`WORK_OF_BYTE`]) after `from` and up to and with `to`.
    fn work_between(&self, from: Timestamp, to: Timestamp) -> u128 {
        let (from, to) = (from.as_nanos(), to.as_nanos().max(from.as_nanos()));
        match self.capacity() {
            Capacity::Opportunities(opportunities) => opportunities.bytes_between(from, to) * WORK_OF_BYTE,
            Capacity::Rates(rates) => rates.work_until(to) - rates.work_until(from),
        }
    }

    /// The whole bytes that can pass after `from` and up to and with `to`; none if `to` is not later. Exact, in
    /// logarithmic time. An opportunity at `from` does not count and one at `to` does, as in [`crate::Link`], where an
    /// opportunity serves packets that came before it: a link that is never without packets from `from` on has
    /// delivered this much by `to`.
    #[must_use]
    pub fn bytes_between(&self, from: Timestamp, to: Timestamp) -> ByteCount {
        ByteCount::new(u64::try_from(self.work_between(from, to) / WORK_OF_BYTE).unwrap_or(u64::MAX))
    }

    /// The mean rate from `from` to `to`, rounded down to a bit a second; zero if `to` is not later.
    #[must_use]
    pub fn mean_capacity(&self, from: Timestamp, to: Timestamp) -> Bitrate {
        let span = nanos(to.saturating_since(from));
        if span == 0 {
            return Bitrate::ZERO;
        }
        Bitrate::from_bps(u64::try_from(self.work_between(from, to) / u128::from(span)).unwrap_or(u64::MAX))
    }

    /// The first moment by which `size` bytes can have passed after `from`. None if they never can.
    #[must_use]
    pub fn time_to_pass(&self, from: Timestamp, size: ByteCount) -> Option<Timestamp> {
        if size == ByteCount::ZERO {
            return Some(from);
        }
        let nanoseconds = match self.capacity() {
            Capacity::Opportunities(opportunities) => {
                let first = opportunities.first_after(from.as_nanos());
                opportunities.time_of(opportunities.advance(first, size.get().div_ceil(OPPORTUNITY.get()) - 1))
            }
            Capacity::Rates(rates) => {
                rates.time_of(rates.work_until(from.as_nanos()) + u128::from(size.get()) * WORK_OF_BYTE)
            }
        };
        nanoseconds.map(Timestamp::from_nanos)
    }

    /// The trace as segments of constant rate and conditions: exactly, if it is made of rates; else in bins of `bin`
    /// (the last one shorter if the period is no multiple), each with the opportunities after its start and up to and
    /// with its end. There, rates are rounded to a bit a second such that no sum of bins from the start falls short of
    /// its bytes, or exceeds them by as much as one bit a second for one bin.
    ///
    /// # Errors
    /// [`TraceError::Bin`] if `bin` is shorter than a millisecond or gives more than [`MAXIMUM_SEGMENTS`].
    pub fn to_segments(&self, bin: Duration) -> Result<Vec<Segment>, TraceError> {
        let (boundaries, rates): (Vec<u64>, Vec<u64>) = match self.capacity() {
            Capacity::Rates(rates) => rates.segments().map(|(_, end, rate)| (end, rate)).unzip(),
            Capacity::Opportunities(opportunities) => {
                let (period, bin) = (opportunities.period_nanos(), nanos(bin));
                if bin < MILLISECOND || period.div_ceil(bin) > MAXIMUM_SEGMENTS as u64 {
                    return Err(TraceError::Bin);
                }
                let (mut given, mut from) = (0u128, 0u64);
                let bins = (0..period.div_ceil(bin)).map(|index| {
                    let to = (index + 1).saturating_mul(bin).min(period);
                    let wanted = opportunities.bytes_between(0, to) * WORK_OF_BYTE;
                    let rate = wanted.saturating_sub(given).div_ceil(u128::from(to - from));
                    given += rate * u128::from(to - from);
                    from = to;
                    (to, u64::try_from(rate).unwrap_or(u64::MAX))
                });
                bins.unzip()
            }
        };
        // Conditions may change within a segment: every change of either starts a new one.
        let mut segments = Vec::with_capacity(boundaries.len());
        let (mut start, mut rates_left) = (0, boundaries.iter().zip(&rates).peekable());
        let none = [(u64::MAX, Conditions::NONE)];
        let changes = if self.condition_changes().is_empty() { &none[..] } else { self.condition_changes() };
        let mut changes = changes.iter().peekable();
        while let (Some(&(&rate_end, &rate)), Some(&&(change, conditions))) = (rates_left.peek(), changes.peek()) {
            let end = rate_end.min(change);
            let duration = Duration::from_nanos(end - start);
            segments.push(Segment { duration, rate: Bitrate::from_bps(rate), conditions });
            if end == rate_end {
                rates_left.next();
            }
            if end == change {
                changes.next();
            }
            start = end;
        }
        Ok(segments)
    }

    /// A description in numbers, of one period.
    #[must_use]
    pub fn summary(&self) -> TraceSummary {
        const WINDOWS: u32 = 100_000;
        let end = Timestamp::ZERO + self.period();
        let window = Duration::from_secs(1).max(self.period() / WINDOWS);
        let (mut lowest, mut highest, mut from) = (None::<Bitrate>, Bitrate::ZERO, Timestamp::ZERO);
        while from < end {
            let to = (from + window).min(end);
            // A short rest at the end would be a window with a rate of its own.
            if to == from + window || lowest.is_none() {
                let rate = self.mean_capacity(from, to);
                lowest = Some(lowest.map_or(rate, |lowest| lowest.min(rate)));
                highest = highest.max(rate);
            }
            from = to;
        }
        let (mut outage, mut longest) = (0, 0);
        let parts = match self.capacity() {
            Capacity::Rates(rates) => {
                for (start, end, rate) in rates.segments() {
                    outage = if rate == 0 { outage + end - start } else { 0 };
                    longest = longest.max(outage);
                }
                rates.segments().count()
            }
            Capacity::Opportunities(opportunities) => {
                let times = &opportunities.times;
                let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
                let around = opportunities.period - times[times.len() - 1] + times[0];
                longest = u64::from(gaps.chain([around]).max().unwrap_or(0)) * MILLISECOND;
                times.len()
            }
        };
        let (mut loss, mut start) = (0.0, 0);
        for &(end, conditions) in self.condition_changes() {
            loss += conditions.loss * (end - start) as f64;
            start = end;
        }
        let delays = || self.condition_changes().iter().map(|(_, conditions)| conditions);
        TraceSummary {
            opportunities: self.has_opportunities(),
            parts,
            period: self.period(),
            end: self.end(),
            mean: self.mean_capacity(Timestamp::ZERO, end),
            lowest: lowest.unwrap_or_default(),
            highest,
            longest_outage: Duration::from_nanos(longest),
            mean_loss: loss / nanos(self.period()) as f64,
            longest_delay: delays().map(|conditions| conditions.delay).max().unwrap_or_default(),
            longest_jitter: delays().map(|conditions| conditions.jitter).max().unwrap_or_default(),
        }
    }
}

/// One period of a trace in numbers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TraceSummary {
    /// Whether the capacity is made of delivery opportunities, else of segments of constant rate.
    pub opportunities: bool,
    /// How many opportunities or segments there are.
    pub parts: usize,
    /// How long it is.
    #[serde(rename = "period_ms", with = "milliseconds")]
    pub period: Duration,
    /// What comes after.
    pub end: End,
    /// Mean rate over the period.
    #[serde(rename = "mean_bps")]
    pub mean: Bitrate,
    /// The lowest mean over a whole second (or a 100,000th of the period, if that is more).
    #[serde(rename = "lowest_bps")]
    pub lowest: Bitrate,
    /// The highest mean over such a time.
    #[serde(rename = "highest_bps")]
    pub highest: Bitrate,
    /// The longest time at rate zero, or between two opportunities.
    #[serde(rename = "longest_outage_ms", with = "milliseconds")]
    pub longest_outage: Duration,
    /// The probability of loss, averaged over time.
    pub mean_loss: f64,
    /// The longest one-way delay.
    #[serde(rename = "longest_delay_ms", with = "milliseconds")]
    pub longest_delay: Duration,
    /// The largest jitter.
    #[serde(rename = "longest_jitter_ms", with = "milliseconds")]
    pub longest_jitter: Duration,
}

/// A time in seconds, to the tenth where it has some and else to the millisecond, so that none is called nothing.
fn tenths_or_finer(time: Duration) -> String {
    let digits = if time < Duration::from_millis(100) { 3 } else { 1 };
    format!("{:.digits$}", time.as_secs_f64())
}

impl fmt::Display for TraceSummary {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.opportunities { "delivery opportunities" } else { "segments" };
        write!(
            formatter,
            "{} {kind} in {} s, mean {}, {} to {} by the second, longest outage {:.3} s",
            self.parts,
            tenths_or_finer(self.period),
            self.mean,
            self.lowest,
            self.highest,
            self.longest_outage.as_secs_f64()
        )?;
        if self.mean_loss > 0.0 {
            write!(formatter, ", loss {:.2} %", self.mean_loss * 100.0)?;
        }
        if !self.longest_delay.is_zero() {
            write!(formatter, ", delay up to {} ms", self.longest_delay.as_millis())?;
        }
        if !self.longest_jitter.is_zero() {
            write!(formatter, ", jitter up to {} ms", self.longest_jitter.as_millis())?;
        }
        Ok(())
    }
}
