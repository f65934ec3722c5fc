//! When a flow is there.

use std::time::Duration;

use lockstep_units::Timestamp;

/// The times in which a flow has something to send: from a start to a stop, perhaps with pauses between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Activity {
    /// (from, to), `to` exclusive; in order, not empty and apart from each other.
    intervals: Vec<(Timestamp, Timestamp)>,
}

impl Activity {
    /// From `from` until `to`, exclusive.
    #[must_use]
    pub fn between(from: Timestamp, to: Timestamp) -> Self {
        Self::of([(from, to)])
    }

    /// In all of `intervals`, each until its second moment, exclusive. Those that touch or overlap become one.
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

    /// When it begins; the end of time if it never does.
    #[must_use]
    pub fn start(&self) -> Timestamp {
        self.intervals.first().map_or(Timestamp::MAX, |&(from, _)| from)
    }

    /// When it is over for good.
    #[must_use]
    pub fn end(&self) -> Timestamp {
        self.intervals.last().map_or(Timestamp::ZERO, |&(_, to)| to)
    }

    /// Whether it is active at `at`.
    #[must_use]
    pub fn contains(&self, at: Timestamp) -> bool {
        self.intervals.iter().any(|&(from, to)| from <= at && at < to)
    }

    /// The first moment from `at` on at which it is active.
    #[must_use]
    pub fn next_from(&self, at: Timestamp) -> Option<Timestamp> {
        self.intervals.iter().find(|&&(_, to)| at < to).map(|&(from, _)| from.max(at))
    }

    /// The intervals: (from, to), in order.
    #[must_use]
    pub fn intervals(&self) -> &[(Timestamp, Timestamp)] {
        &self.intervals
    }

    /// What is left of it until `end`.
    #[must_use]
    pub fn until(&self, end: Timestamp) -> Self {
        Self::of(self.intervals.iter().map(|&(from, to)| (from, to.min(end))))
    }

    /// How long it is active between `from` and `to`.
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
