//! Frame records of a sending end until the owner takes them. Their number is bounded.

use std::collections::VecDeque;

use lockstep_units::Timestamp;

use crate::record::{FrameRecord, Outcome};

/// Maximum number of records that are kept if nobody takes them.
const MAX_OPEN_RECORDS: usize = 1_024;

/// Records of the pictures that a sending end has not decided yet, and of later ones.
#[derive(Debug, Default)]
pub struct OpenRecords {
    records: VecDeque<FrameRecord>,
    captured: u64,
}

impl OpenRecords {
    /// Number of captured pictures.
    #[must_use]
    pub fn captured(&self) -> u64 {
        self.captured
    }

    /// Number of records held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether no record is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Adds a picture captured at `now` and returns its number. `change` may add to its record.
    pub fn capture(&mut self, now: Timestamp, change: impl FnOnce(&mut FrameRecord)) -> u64 {
        let capture = self.captured;
        let mut record = FrameRecord::captured(capture, now);
        change(&mut record);
        self.records.push_back(record);
        self.captured += 1;
        if self.records.len() > MAX_OPEN_RECORDS {
            self.records.pop_front();
        }
        capture
    }

    /// The record of picture `capture`, unless it was taken.
    pub fn get_mut(&mut self, capture: u64) -> Option<&mut FrameRecord> {
        let first = self.captured - self.records.len() as u64;
        self.records.get_mut(usize::try_from(capture.checked_sub(first)?).ok()?)
    }

    /// Takes the record of the oldest picture, if it is decided.
    pub fn take_decided(&mut self) -> Option<FrameRecord> {
        let decided = self.records.front().is_some_and(|record| record.outcome != Outcome::Unfinished);
        if decided { self.records.pop_front() } else { None }
    }

    /// Takes the oldest record after the call, decided or not.
    pub fn take_any(&mut self) -> Option<FrameRecord> {
        self.records.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Timestamp {
        Timestamp::from_millis(milliseconds)
    }

    #[test]
    fn decided_records_leave_in_the_order_of_capture() {
        let mut records = OpenRecords::default();
        let captures = [0, 33, 66, 100].map(|now| records.capture(at(now), |_| {}));
        assert_eq!(captures, [0, 1, 2, 3]);
        records.get_mut(1).unwrap().outcome = Outcome::SkippedBusy;
        assert_eq!(records.take_decided(), None, "the first is still being coded");
        records.get_mut(0).unwrap().outcome = Outcome::Sent;
        let decided: Vec<u64> = std::iter::from_fn(|| records.take_decided()).map(|record| record.capture).collect();
        assert_eq!(decided, [0, 1]);
        assert!(records.get_mut(1).is_none() && records.get_mut(2).is_some_and(|record| record.capture == 2));
        let left: Vec<u64> = std::iter::from_fn(|| records.take_any()).map(|record| record.capture).collect();
        assert_eq!((left, records.captured()), (vec![2, 3], 4));
    }

    #[test]
    fn records_that_nobody_takes_are_bounded() {
        let mut records = OpenRecords::default();
        for capture in 0..100_000 {
            records.capture(at(33 * capture), |record| record.outcome = Outcome::Sent);
        }
        assert_eq!((records.captured(), records.len()), (100_000, MAX_OPEN_RECORDS));
        assert!(records.get_mut(0).is_none() && records.get_mut(99_999).is_some());
    }
}
