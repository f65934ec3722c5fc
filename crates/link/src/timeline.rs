//! Capacity over time in integers: delivery opportunities and rates.

use serde::{Deserialize, Serialize};

use crate::limits::OPPORTUNITY;

/// What happens after the end of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The trace repeats.
    #[default]
    Repeat,
    /// The last rate and the last conditions hold. Not for delivery opportunities.
    Hold,
}

/// Nanoseconds in a millisecond.
pub(crate) const MILLISECOND: u64 = 1_000_000;

/// Work of a byte. Work is rate times nanoseconds (billionths of a bit), so that it is exact.
pub(crate) const WORK_OF_BYTE: u128 = 8_000_000_000;

/// Delivery opportunities in milliseconds, repeated every period. Invariants: at least one, ascending, the last at most
/// the period, the period not zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Opportunities {
    pub(crate) times: Vec<u32>,
    pub(crate) period: u32,
}

/// A delivery opportunity: repetition of the trace, and index in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Position {
    cycle: u64,
    index: usize,
}

impl Opportunities {
    pub(crate) fn period_nanos(&self) -> u64 {
        u64::from(self.period) * MILLISECOND
    }

    /// First opportunity strictly after `at` nanoseconds.
    pub(crate) fn first_after(&self, at: u64) -> Position {
        let cycle = at / self.period_nanos();
        let rest = at % self.period_nanos() / MILLISECOND;
        self.advance(Position { cycle, index: 0 }, self.times.partition_point(|&time| u64::from(time) <= rest) as u64)
    }

    /// The opportunity `count` places after `position`.
    pub(crate) fn advance(&self, position: Position, count: u64) -> Position {
        let length = self.times.len() as u64;
        let index = (position.index as u64).saturating_add(count);
        if index < length {
            return Position { index: index as usize, ..position };
        }
        Position { cycle: position.cycle.saturating_add(index / length), index: (index % length) as usize }
    }

    /// Time of an opportunity, nanoseconds. `None` if it exceeds the range.
    pub(crate) fn time_of(&self, position: Position) -> Option<u64> {
        let start = position.cycle.checked_mul(self.period_nanos())?;
        start.checked_add(u64::from(self.times[position.index]) * MILLISECOND)
    }

    /// Bytes of the opportunities after `from` up to and including `to`, nanoseconds.
    pub(crate) fn bytes_between(&self, from: u64, to: u64) -> u128 {
        let (first, last) = (self.first_after(from), self.first_after(to.max(from)));
        let cycles = u128::from(last.cycle - first.cycle) * self.times.len() as u128;
        (cycles + last.index as u128 - first.index as u128) * u128::from(OPPORTUNITY.get())
    }
}

/// Rates in bit/s, each up to its end in nanoseconds. Invariants: at least one segment, ascending ends, `work`
/// cumulative.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rates {
    ends: Vec<u64>,
    rates: Vec<u64>,
    work: Vec<u128>,
    pub(crate) end: End,
}

/// `numerator / denominator` rounded up. Uses 64 bits if possible, since 128-bit divisions are slow.
fn divide_up(numerator: u128, denominator: u128) -> u128 {
    match (u64::try_from(numerator), u64::try_from(denominator)) {
        (Ok(numerator), Ok(denominator)) => u128::from(numerator.div_ceil(denominator)),
        _ => numerator.div_ceil(denominator),
    }
}

impl Rates {
    /// Builds from pairs of length in nanoseconds and rate in bit/s. The caller ensures at least one segment, no zero
    /// length, and a total of at most the longest period.
    pub(crate) fn new(segments: impl Iterator<Item = (u64, u64)>, end: End) -> Self {
        let mut timeline = Self { ends: Vec::new(), rates: Vec::new(), work: Vec::new(), end };
        let (mut time, mut work) = (0, 0);
        for (length, rate) in segments {
            time += length;
            work += u128::from(length) * u128::from(rate);
            timeline.ends.push(time);
            timeline.rates.push(rate);
            timeline.work.push(work);
        }
        timeline
    }

    pub(crate) fn with_end(&self, end: End) -> Self {
        Self { end, ..self.clone() }
    }

    pub(crate) fn period(&self) -> u64 {
        self.ends[self.ends.len() - 1]
    }

    /// Work of one period.
    pub(crate) fn total(&self) -> u128 {
        self.work[self.work.len() - 1]
    }

    /// Start, end and rate of each segment.
    pub(crate) fn segments(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).zip(&self.rates).map(|((start, &end), &rate)| (start, end, rate))
    }

    /// Start of segment `index`, and the work until then.
    fn start(&self, index: usize) -> (u64, u128) {
        if index == 0 { (0, 0) } else { (self.ends[index - 1], self.work[index - 1]) }
    }

    /// Rate from `at` on, bit/s.
    pub(crate) fn rate_at(&self, at: u64) -> u64 {
        let at = match self.end {
            End::Repeat => at % self.period(),
            End::Hold => at.min(self.period() - 1),
        };
        self.rates[self.ends.partition_point(|&end| end <= at)]
    }

    /// Work from zero to `at` nanoseconds.
    pub(crate) fn work_until(&self, at: u64) -> u128 {
        let (whole, rest) = match self.end {
            End::Repeat if at < self.period() => (0, at),
            End::Repeat => (u128::from(at / self.period()) * self.total(), at % self.period()),
            End::Hold if at >= self.period() => {
                let rate = self.rates[self.rates.len() - 1];
                return self.total() + u128::from(at - self.period()) * u128::from(rate);
            }
            End::Hold => (0, at),
        };
        let index = self.ends.partition_point(|&end| end <= rest);
        let (start, work) = self.start(index);
        whole + work + u128::from(rest - start) * u128::from(self.rates[index])
    }

    /// First nanosecond at which `work` is done; `None` if it never is.
    pub(crate) fn time_of(&self, work: u128) -> Option<u64> {
        let total = self.total();
        let (whole, rest) = match self.end {
            _ if work <= total => (0, work),
            End::Hold => {
                let rate = u128::from(self.rates[self.rates.len() - 1]);
                if rate == 0 {
                    return None;
                }
                return u64::try_from(u128::from(self.period()) + divide_up(work - total, rate)).ok();
            }
            End::Repeat if total == 0 => return None,
            End::Repeat => {
                let cycles = divide_up(work, total) - 1;
                (cycles.checked_mul(u128::from(self.period()))?, work - cycles * total)
            }
        };
        if rest == 0 {
            return u64::try_from(whole).ok();
        }
        let index = self.work.partition_point(|&done| done < rest);
        let (start, done) = self.start(index);
        // The segment does a part of the work, so its rate is not zero.
        let within = divide_up(rest - done, u128::from(self.rates[index]));
        u64::try_from(whole + u128::from(start) + within).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn time_of_work_is_the_first_at_which_it_is_done(
            segments in prop::collection::vec((1u64..5_000, prop_oneof![Just(0u64), 1u64..1 << 40]), 1..20),
            hold in any::<bool>(),
            share in 0u128..3_000,
        ) {
            let rates = Rates::new(segments.into_iter(), if hold { End::Hold } else { End::Repeat });
            let work = rates.total() * share / 1_000;
            if let Some(time) = rates.time_of(work) {
                prop_assert!(rates.work_until(time) >= work);
                prop_assert!(time == 0 || rates.work_until(time - 1) < work);
            } else {
                prop_assert!(rates.total() == 0 || hold);
            }
        }

        #[test]
        fn each_opportunity_counts_exactly_once(
            mut times in prop::collection::vec(0u32..50, 1..30), from in 0u64..200, length in 0u64..200,
        ) {
            times.sort_unstable();
            let period = times[times.len() - 1].max(1);
            let slow = (0..500u64).flat_map(|cycle| times.iter().map(move |&t| cycle * u64::from(period) + u64::from(t)))
                .filter(|&t| t > from && t <= from + length).count();
            let opportunities = Opportunities { times, period };
            let bytes = opportunities.bytes_between(from * MILLISECOND, (from + length) * MILLISECOND);
            prop_assert_eq!(bytes, 1_500 * slow as u128);
            let first = opportunities.first_after(from * MILLISECOND);
            prop_assert!(opportunities.time_of(first).unwrap() > from * MILLISECOND);
        }
    }
}
