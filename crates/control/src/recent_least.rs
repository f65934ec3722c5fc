//! The least of what was put in lately.

use std::time::Duration;

use lockstep_units::Timestamp;

/// The least of the values of the last while, without looking at all of them each time. For the greatest, the values
/// are [`Reverse`](std::cmp::Reverse)d.
#[derive(Debug)]
pub(crate) struct RecentLeast<V> {
    /// Candidates, oldest first, values rising: each is less than all that came after it. A list whose first ones are gone,
    /// since one is put in and taken out at the other end with every packet, which a ring makes slower.
    candidates: Vec<(Timestamp, V)>,
    gone: usize,
}

/// So many may be gone before the others move up, unless those are fewer.
const MOST_GONE: usize = 16;

impl<V: PartialOrd + Copy> RecentLeast<V> {
    /// Nothing.
    pub(crate) fn new() -> Self {
        Self { candidates: Vec::new(), gone: 0 }
    }

    /// Puts `value` in, and forgets what is older than `memory`. Gives the least, `value` included.
    pub(crate) fn put(&mut self, now: Timestamp, value: V, memory: Duration) -> V {
        let mut kept = self.candidates.len();
        while kept > self.gone && self.candidates[kept - 1].1 >= value {
            kept -= 1;
        }
        self.candidates.truncate(kept);
        self.candidates.push((now, value));
        while self.candidates.get(self.gone).is_some_and(|&(at, _)| now.is_later_by(memory, at)) {
            self.gone += 1;
        }
        if self.gone > MOST_GONE && self.gone > self.candidates.len() / 2 {
            self.candidates.drain(..self.gone);
            self.gone = 0;
        }
        self.get().unwrap_or(value)
    }

    /// The least of what was not forgotten when something was last put in.
    pub(crate) fn get(&self) -> Option<V> {
        self.candidates.get(self.gone).map(|&(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;

    use super::*;

    #[test]
    fn the_least_is_remembered_for_as_long_as_it_is_asked() {
        let mut least = RecentLeast::new();
        let memory = Duration::from_secs(10);
        assert_eq!(least.get(), None);
        let put = [(0, 5), (1, 7), (2, 6), (11, 9), (13, 8)];
        let found = put.map(|(second, value)| least.put(Timestamp::from_millis(1_000 * second), value, memory));
        assert_eq!(found, [5, 5, 5, 6, 8]);
        assert_eq!(least.get(), Some(8));
    }

    #[test]
    fn reversed_it_is_the_greatest() {
        let mut greatest = RecentLeast::new();
        let found = [3, 9, 4].map(|value| greatest.put(Timestamp::ZERO, Reverse(value), Duration::ZERO).0);
        assert_eq!(found, [3, 9, 9]);
    }
}
