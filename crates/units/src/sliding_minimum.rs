//! Sliding-window minimum.

use std::time::Duration;

use crate::Timestamp;

/// Sliding-window minimum in amortised constant time. With [`Reverse`](std::cmp::Reverse)d values it is the maximum.
#[derive(Debug)]
pub struct SlidingMinimum<V> {
    /// Candidates, oldest first, in ascending order: each is less than all later ones. A vector with a read position is
    /// faster than a ring for one insertion and one removal per packet.
    candidates: Vec<(Timestamp, V)>,
    gone: usize,
}

/// Largest number of expired candidates before the list is compacted.
const MAX_EXPIRED: usize = 16;

impl<V: PartialOrd + Copy> Default for SlidingMinimum<V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<V: PartialOrd + Copy> SlidingMinimum<V> {
    /// An empty window.
    #[must_use]
    pub fn new() -> Self {
        Self { candidates: Vec::new(), gone: 0 }
    }

    /// Adds `value` and expires values older than `memory`. Returns the minimum, `value` included.
    pub fn put(&mut self, now: Timestamp, value: V, memory: Duration) -> V {
        let mut kept = self.candidates.len();
        while kept > self.gone && self.candidates[kept - 1].1 >= value {
            kept -= 1;
        }
        self.candidates.truncate(kept);
        self.candidates.push((now, value));
        while self.candidates.get(self.gone).is_some_and(|&(at, _)| now.is_later_by(memory, at)) {
            self.gone += 1;
        }
        if self.gone > MAX_EXPIRED && self.gone > self.candidates.len() / 2 {
            self.candidates.drain(..self.gone);
            self.gone = 0;
        }
        self.get().unwrap_or(value)
    }

    /// The minimum as of the last [`Self::put`]; `None` in an empty window.
    #[must_use]
    pub fn get(&self) -> Option<V> {
        self.candidates.get(self.gone).map(|&(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;

    use super::*;

    #[test]
    fn minimum_expires_after_its_memory() {
        let mut window = SlidingMinimum::new();
        let memory = Duration::from_secs(10);
        assert_eq!(window.get(), None);
        let put = [(0, 5), (1, 7), (2, 6), (11, 9), (13, 8)];
        let found = put.map(|(second, value)| window.put(Timestamp::from_millis(1_000 * second), value, memory));
        assert_eq!(found, [5, 5, 5, 6, 8]);
        assert_eq!(window.get(), Some(8));
    }

    #[test]
    fn reversed_values_give_the_maximum() {
        let mut window = SlidingMinimum::new();
        let found = [3, 9, 4].map(|value| window.put(Timestamp::ZERO, Reverse(value), Duration::ZERO).0);
        assert_eq!(found, [3, 9, 9]);
    }
}
