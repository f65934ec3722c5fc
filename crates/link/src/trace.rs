//! Capacity of one direction of a path over time.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockstep_units::quantity::{MAX_PERIOD, MAX_RATE, QuantityError, milliseconds};
use lockstep_units::{Bitrate, ByteCount, Timestamp};
use serde::{Deserialize, Serialize};

use crate::error::{Problem, TraceError};
use crate::limits::{MAX_OPPORTUNITIES, MAX_SEGMENTS, OPPORTUNITY};
use crate::timeline::{End, MILLISECOND, Opportunities, Rates, WORK_OF_BYTE};

/// Averaging window of delivery opportunities in [`Trace::capacity_at`], centered on the time. mahimahi's throughput
/// plots use bins of this order.
pub const CAPACITY_WINDOW: Duration = Duration::from_millis(500);

/// Largest number of delivery opportunities in one millisecond: [`MAX_RATE`], rounded up.
const MAX_AT_ONCE: usize = MAX_RATE.as_bps().div_ceil(8_000 * OPPORTUNITY.get()) as usize;

/// Loss, delay and jitter of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Conditions {
    /// Probability that a packet is lost, independently of others.
    pub loss: f64,
    /// One-way delay, added to that of the link.
    #[serde(rename = "delay_ms", with = "milliseconds")]
    pub delay: Duration,
    /// Upper bound of an additional uniform delay.
    #[serde(rename = "jitter_ms", with = "milliseconds")]
    pub jitter: Duration,
}

impl Conditions {
    /// No loss, no delay, no jitter.
    pub const NONE: Self = Self { loss: 0.0, delay: Duration::ZERO, jitter: Duration::ZERO };
}

/// An interval of constant rate and conditions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Segment {
    /// Duration, not zero.
    #[serde(rename = "duration_ms", with = "milliseconds")]
    pub duration: Duration,
    /// Rate; zero is an outage.
    #[serde(rename = "rate_bps")]
    pub rate: Bitrate,
    /// Loss, delay and jitter.
    #[serde(flatten)]
    pub conditions: Conditions,
}

/// Capacity over time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Capacity {
    Opportunities(Opportunities),
    Rates(Rates),
}

#[derive(Debug, PartialEq)]
struct Content {
    capacity: Capacity,
    /// Pairs of end in nanoseconds and conditions until then, up to the end of the trace. Empty without conditions.
    conditions: Vec<(u64, Conditions)>,
}

/// Capacity and conditions of one direction over time. Cheap to clone. Time zero is the start of the trace;
/// [`crate::LinkConfig::trace_offset`] sets another start.
///
/// Traces are equal if they have equal content, whether read or generated.
#[derive(Clone, Serialize, Deserialize)]
#[serde(into = "crate::stored::StoredTrace", try_from = "crate::stored::StoredTrace")]
pub struct Trace {
    content: Arc<Content>,
    /// Description from which the trace was generated.
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
        if time > MAX_PERIOD {
            return Err(range(field, format!("{time:?}"), "0 to 49 days"));
        }
    }
    Ok(())
}

impl Trace {
    /// A constant rate without end.
    ///
    /// # Panics
    /// Never: a rate above [`MAX_RATE`] is reduced to it.
    #[must_use]
    pub fn constant(rate: Bitrate) -> Self {
        let second = std::iter::once((1_000_000_000, rate.min(MAX_RATE).as_bps()));
        Self::build(Capacity::Rates(Rates::new(second, End::Hold)), Vec::new())
    }

    /// A piecewise-constant rate. Segments of zero duration are skipped.
    ///
    /// # Errors
    /// [`TraceError::Segment`] for a rate above [`MAX_RATE`] or invalid conditions,
    /// [`TraceError::TooManySegments`], [`TraceError::TooLong`]. [`TraceError::Empty`] without a segment,
    /// [`TraceError::NoTime`] if all have zero duration.
    pub fn from_segments(segments: &[Segment], end: End) -> Result<Self, TraceError> {
        if segments.is_empty() {
            return Err(TraceError::Empty);
        }
        if segments.len() > MAX_SEGMENTS {
            return Err(TraceError::TooManySegments);
        }
        let (mut time, mut conditions) = (Duration::ZERO, Vec::<(u64, Conditions)>::new());
        for (index, segment) in segments.iter().enumerate() {
            if segment.rate > MAX_RATE {
                let (text, range) = (segment.rate.to_string(), "0 to 1000 Gb/s");
                let problem = QuantityError::Range { field: "rate", text, range }.into();
                return Err(TraceError::Segment { segment: index + 1, problem });
            }
            check_conditions(&segment.conditions, index + 1)?;
            time = time.saturating_add(segment.duration);
            if time > MAX_PERIOD {
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

    /// Delivery opportunities of [`OPPORTUNITY`] bytes at these milliseconds, ascending, repeated every `period`
    /// milliseconds. The period is at least the last of them; in a mahimahi file it is the last.
    ///
    /// # Errors
    /// [`TraceError::Empty`], [`TraceError::TooManyOpportunities`], [`TraceError::NoTime`] for a zero period,
    /// [`TraceError::TooLong`]. [`TraceError::Line`], as in a file, for a time before the one above it or after the
    /// period. The same for more opportunities in a millisecond than [`MAX_RATE`] allows.
    pub fn from_opportunities(times: Vec<u32>, period: u32) -> Result<Self, TraceError> {
        if times.is_empty() {
            return Err(TraceError::Empty);
        }
        if times.len() > MAX_OPPORTUNITIES {
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
        if Duration::from_millis(u64::from(period)) > MAX_PERIOD {
            return Err(TraceError::TooLong);
        }
        // Opportunities at zero coincide with those at the period, as they belong to its next repetition.
        let (at_zero, at_period) =
            (times.partition_point(|&time| time == 0), times.partition_point(|&time| time < period));
        let around = (at_zero + times.len() - at_period > MAX_AT_ONCE).then_some(times.len());
        let crowded = times.windows(MAX_AT_ONCE + 1).position(|window| window[0] == window[MAX_AT_ONCE]);
        if let Some(line) = crowded.map(|index| index + MAX_AT_ONCE + 1).or(around) {
            let (text, range) = (format!("of more than {MAX_AT_ONCE} packets in a millisecond"), "0 to 1000 Gb/s");
            return Err(TraceError::Line { line, problem: QuantityError::Range { field: "rate", text, range }.into() });
        }
        Ok(Self::build(Capacity::Opportunities(Opportunities { times, period }), Vec::new()))
    }

    /// The same capacity with other conditions: pairs of duration and conditions, in order. The last conditions hold to
    /// the end of the trace; conditions after the end are ignored. An empty slice removes all conditions.
    ///
    /// # Errors
    /// [`TraceError::Segment`] for invalid conditions, [`TraceError::TooManySegments`].
    pub fn with_conditions(&self, conditions: &[(Duration, Conditions)]) -> Result<Self, TraceError> {
        if conditions.len() > MAX_SEGMENTS {
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

    /// Pairs of end in nanoseconds and conditions until then. Empty without conditions.
    pub(crate) fn condition_changes(&self) -> &[(u64, Conditions)] {
        &self.content.conditions
    }

    /// Description from which the trace was generated, if it was.
    #[must_use]
    pub fn spec(&self) -> Option<&str> {
        self.spec.as_deref()
    }

    /// Duration of the trace before it repeats or holds.
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

    /// Whether the capacity consists of delivery opportunities.
    #[must_use]
    pub fn has_opportunities(&self) -> bool {
        matches!(self.capacity(), Capacity::Opportunities(_))
    }

    /// Rate at `at`. For delivery opportunities, their mean over [`CAPACITY_WINDOW`] around it.
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

    /// Whether the trace has no loss, delay and jitter.
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

    /// Work (see [`WORK_OF_BYTE`]) after `from` up to and including `to`.
    fn work_between(&self, from: Timestamp, to: Timestamp) -> u128 {
        let (from, to) = (from.as_nanos(), to.as_nanos().max(from.as_nanos()));
        match self.capacity() {
            Capacity::Opportunities(opportunities) => opportunities.bytes_between(from, to) * WORK_OF_BYTE,
            Capacity::Rates(rates) => rates.work_until(to) - rates.work_until(from),
        }
    }

    /// Whole bytes that can pass after `from` up to and including `to`; zero if `to` is not later. Exact, in
    /// logarithmic time.
    ///
    /// An opportunity at `from` does not count and one at `to` does. This agrees with [`crate::Link`], where an
    /// opportunity serves packets that arrived before it. A link that always has packets from `from` on has delivered
    /// this number of bytes by `to`.
    #[must_use]
    pub fn bytes_between(&self, from: Timestamp, to: Timestamp) -> ByteCount {
        ByteCount::new(u64::try_from(self.work_between(from, to) / WORK_OF_BYTE).unwrap_or(u64::MAX))
    }

    /// Mean rate from `from` to `to`, rounded down to 1 bit/s; zero if `to` is not later.
    #[must_use]
    pub fn mean_capacity(&self, from: Timestamp, to: Timestamp) -> Bitrate {
        let span = nanos(to.saturating_since(from));
        if span == 0 {
            return Bitrate::ZERO;
        }
        Bitrate::from_bps(u64::try_from(self.work_between(from, to) / u128::from(span)).unwrap_or(u64::MAX))
    }

    /// Earliest time by which `size` bytes can have passed after `from`; `None` if they never can.
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

    /// The trace as segments of constant rate and conditions. Exact for rates. Delivery opportunities are summed in
    /// bins of `bin`; the last bin may be shorter.
    ///
    /// A bin has the opportunities after its start up to and including its end. Its rate is rounded to 1 bit/s. The
    /// bytes of the bins from the start are never fewer than those of the trace. They never exceed them by 1 bit/s for
    /// one bin.
    ///
    /// # Errors
    /// [`TraceError::Bin`] if `bin` is shorter than a millisecond or gives more than [`MAX_SEGMENTS`].
    pub fn to_segments(&self, bin: Duration) -> Result<Vec<Segment>, TraceError> {
        let (boundaries, rates): (Vec<u64>, Vec<u64>) = match self.capacity() {
            Capacity::Rates(rates) => rates.segments().map(|(_, end, rate)| (end, rate)).unzip(),
            Capacity::Opportunities(opportunities) => {
                let (period, bin) = (opportunities.period_nanos(), nanos(bin));
                if bin < MILLISECOND || period.div_ceil(bin) > MAX_SEGMENTS as u64 {
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
        // Conditions may change within a segment, so each change of rate or conditions starts a new one.
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

    /// Summary of one period in numbers.
    #[must_use]
    pub fn summary(&self) -> TraceSummary {
        const WINDOWS: u32 = 100_000;
        let end = Timestamp::ZERO + self.period();
        let window = Duration::from_secs(1).max(self.period() / WINDOWS);
        let (mut lowest, mut highest, mut from) = (None::<Bitrate>, Bitrate::ZERO, Timestamp::ZERO);
        while from < end {
            let to = (from + window).min(end);
            // A short remainder at the end is skipped, since its rate would not be comparable.
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

/// Summary of one period of a trace.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TraceSummary {
    /// Whether the capacity consists of delivery opportunities, not of segments.
    pub opportunities: bool,
    /// Number of opportunities or segments.
    pub parts: usize,
    /// Duration of the period.
    #[serde(rename = "period_ms", with = "milliseconds")]
    pub period: Duration,
    /// What happens after the period.
    pub end: End,
    /// Mean rate of the period.
    #[serde(rename = "mean_bps")]
    pub mean: Bitrate,
    /// Lowest mean rate over a whole second, or over a 100,000th of the period if that is longer.
    #[serde(rename = "lowest_bps")]
    pub lowest: Bitrate,
    /// Highest mean rate over such an interval.
    #[serde(rename = "highest_bps")]
    pub highest: Bitrate,
    /// Longest time at rate zero, or between two opportunities.
    #[serde(rename = "longest_outage_ms", with = "milliseconds")]
    pub longest_outage: Duration,
    /// Probability of loss, averaged over time.
    pub mean_loss: f64,
    /// Longest one-way delay.
    #[serde(rename = "longest_delay_ms", with = "milliseconds")]
    pub longest_delay: Duration,
    /// Largest jitter.
    #[serde(rename = "longest_jitter_ms", with = "milliseconds")]
    pub longest_jitter: Duration,
}

/// A time in seconds with one decimal. Below 100 ms it has three, so that a short time is not shown as zero.
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
