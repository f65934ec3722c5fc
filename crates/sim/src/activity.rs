//! Intervals in which a flow is active.

use std::time::Duration;

use lockstep_units::Timestamp;

/// Times at which a flow has something to send: one interval, or several with pauses between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Activity {
    /// Intervals (from, to); `to` is exclusive. They are in order, not empty and disjoint.
    intervals: Vec<(Timestamp, Timestamp)>,
}

impl Activity {
    /// One interval from `from` to `to` (exclusive).
    #[must_use]
    pub fn between(from: Timestamp, to: Timestamp) -> Self {
        Self::of([(from, to)])
    }

    /// All `intervals` (from, to); `to` is exclusive. Intervals that touch or overlap are merged; empty ones are
    /// ignored.
    #[must_use]
    pub fn of(intervals: impl IntoIterator<Item = (Timestamp, Timestamp)>) -> Self {
        let mut given: Vec<_> = intervals.into_iter().filter(|(from, to)| from < to).collect();
        given.sort_unstable();
        let mut merged: Vec<(Timestamp, Timestamp)> = Vec::with_capacity(given.len());
        for (from, to) in given {
            match merged.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => merged.push((from, to)),
            }
        }
        Self { intervals: merged }
    }

    /// Start of the first interval; [`Timestamp::MAX`] if there is none.
    #[must_use]
    pub fn start(&self) -> Timestamp {
        self.intervals.first().map_or(Timestamp::MAX, |&(from, _)| from)
    }

    /// End of the last interval; zero if there is none.
    #[must_use]
    pub fn end(&self) -> Timestamp {
        self.intervals.last().map_or(Timestamp::ZERO, |&(_, to)| to)
    }

    /// Whether the flow is active at `at`.
    #[must_use]
    pub fn contains(&self, at: Timestamp) -> bool {
        self.intervals.iter().any(|&(from, to)| from <= at && at < to)
    }

    /// First time from `at` onwards at which the flow is active.
    #[must_use]
    pub fn next_from(&self, at: Timestamp) -> Option<Timestamp> {
        self.intervals.iter().find(|&&(_, to)| at < to).map(|&(from, _)| from.max(at))
    }

    /// Intervals (from, to), in order.
    #[must_use]
    pub fn intervals(&self) -> &[(Timestamp, Timestamp)] {
        &self.intervals
    }

    /// The same intervals, cut off at `end`.
    #[must_use]
    pub fn until(&self, end: Timestamp) -> Self {
        Self::of(self.intervals.iter().map(|&(from, to)| (from, to.min(end))))
    }

    /// Total active time between `from` and `to`.
    #[must_use]
    pub fn time_between(&self, from: Timestamp, to: Timestamp) -> Duration {
        self.intervals.iter().map(|&(begin, end)| end.min(to).saturating_since(begin.max(from))).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(1_000 * seconds)
    }

    #[test]
    fn a_pause_lies_between_two_intervals() {
        let activity = Activity::of([(at(6), at(9)), (at(0), at(2)), (at(2), at(4)), (at(5), at(5))]);
        assert_eq!(activity.intervals(), [(at(0), at(4)), (at(6), at(9))]);
        assert!(activity.contains(at(3)) && !activity.contains(at(4)) && !activity.contains(at(9)));
        assert_eq!(activity.next_from(at(4)), Some(at(6)));
        assert_eq!(activity.next_from(at(7)), Some(at(7)));
        assert_eq!(activity.next_from(at(9)), None);
        assert_eq!(activity.time_between(at(3), at(8)), Duration::from_secs(3));
        assert_eq!(activity.until(at(7)).end(), at(7));
    }
}
