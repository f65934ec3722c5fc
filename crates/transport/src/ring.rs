//! Things by number, the numbers close to each other: a ring in which each is found by its distance from the first.

use std::collections::VecDeque;

/// Entries for all numbers from [`Self::first`] to before [`Self::end`]; those that nobody put there are the default.
#[derive(Debug)]
pub(crate) struct Ring<T> {
    first: u64,
    entries: VecDeque<T>,
}

impl<T: Default> Ring<T> {
    pub(crate) fn new() -> Self {
        Self { first: 0, entries: VecDeque::new() }
    }

    /// The number of the first entry, where there is one.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// The number after the last entry's.
    pub(crate) fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn place(&self, number: u64) -> Option<usize> {
        usize::try_from(number.checked_sub(self.first)?).ok()
    }

    pub(crate) fn get(&self, number: u64) -> Option<&T> {
        self.entries.get(self.place(number)?)
    }

    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        let place = self.place(number)?;
        self.entries.get_mut(place)
    }

    pub(crate) fn front(&self) -> Option<&T> {
        self.entries.front()
    }

    pub(crate) fn pop_front(&mut self) -> Option<T> {
        let entry = self.entries.pop_front()?;
        self.first += 1;
        if self.entries.is_empty() {
            // Begins anew at its front, which is in the cache: it matters where a thousand calls take turns.
            self.entries.clear();
        }
        Some(entry)
    }

    /// Forgets the entries before `number`.
    pub(crate) fn forget_before(&mut self, number: u64) {
        while self.first < number && self.pop_front().is_some() {}
    }

    /// The entry of a number; makes room for it and those between. It is up to the caller that those are few.
    pub(crate) fn reach(&mut self, number: u64) -> &mut T {
        if self.entries.is_empty() {
            self.first = number;
        }
        while number < self.first {
            self.entries.push_front(T::default());
            self.first -= 1;
        }
        while number >= self.end() {
            self.entries.push_back(T::default());
        }
        let place = (number - self.first) as usize;
        &mut self.entries[place]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_ring_is_a_map_of_numbers_close_to_each_other(operations in prop::collection::vec((0..4u8, 0..40u64), 0..200)) {
            let mut ring = Ring::<u64>::new();
            let mut map = BTreeMap::<u64, u64>::new();
            for (at, (operation, number)) in operations.into_iter().enumerate() {
                match operation {
                    0 | 1 => {
                        let number = number + 100;
                        let ends = [map.keys().next(), map.keys().next_back()].map(|end| end.copied().unwrap_or(number));
                        (ends[0].min(number)..=ends[1].max(number)).for_each(|between| _ = map.entry(between).or_default());
                        map.insert(number, at as u64);
                        *ring.reach(number) = at as u64;
                    }
                    2 => prop_assert_eq!(ring.pop_front(), map.pop_first().map(|(_, value)| value)),
                    _ => {
                        ring.forget_before(number + 80);
                        map = map.split_off(&(number + 80));
                    }
                }
                for number in 60..160 {
                    prop_assert_eq!(ring.get(number), map.get(&number));
                    prop_assert_eq!(ring.get_mut(number).copied(), map.get(&number).copied());
                }
                prop_assert_eq!(ring.front(), map.values().next());
                prop_assert_eq!(ring.is_empty(), map.is_empty());
                if let (Some((&first, _)), Some((&last, _))) = (map.first_key_value(), map.last_key_value()) {
                    prop_assert_eq!((ring.first(), ring.end()), (first, last + 1));
                }
            }
        }
    }
}
