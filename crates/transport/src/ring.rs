//! Ring buffer indexed by numbers that are close to each other.

/// Entries for all numbers from [`Self::first`] to before [`Self::end`]. Entries that were not set are the default.
///
/// The lookup is fast, since a modelled call does about two thousand per second. The number of slots is a power of two.
/// The lower bits of a number are its slot, and unused slots hold the default.
#[derive(Debug)]
pub(crate) struct Ring<T> {
    first: u64,
    end: u64,
    /// Number whose slot is the first one.
    origin: u64,
    slots: Vec<T>,
}

/// Initial number of slots.
const INITIAL_SLOTS: usize = 4;

impl<T: Default> Ring<T> {
    pub(crate) fn new() -> Self {
        Self { first: 0, end: 0, origin: 0, slots: Vec::new() }
    }

    /// Number of the first entry, if there is one.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// Number after the last entry.
    #[cfg(test)]
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first == self.end
    }

    #[inline]
    fn slot(&self, number: u64) -> usize {
        number.wrapping_sub(self.origin) as usize & self.slots.len().wrapping_sub(1)
    }

    #[inline]
    fn has(&self, number: u64) -> bool {
        number.wrapping_sub(self.first) < self.end - self.first
    }

    #[inline]
    pub(crate) fn get(&self, number: u64) -> Option<&T> {
        if self.has(number) { self.slots.get(self.slot(number)) } else { None }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        let slot = self.slot(number);
        if self.has(number) { self.slots.get_mut(slot) } else { None }
    }

    #[inline]
    pub(crate) fn front(&self) -> Option<&T> {
        self.get(self.first)
    }

    pub(crate) fn pop_front(&mut self) -> Option<T> {
        let entry = std::mem::take(self.get_mut(self.first)?);
        self.first += 1;
        if self.is_empty() {
            // Restart at the first slot, which is in the cache. This matters if a thousand calls take turns.
            self.origin = self.first;
        }
        Some(entry)
    }

    /// Removes the entries before `number`.
    pub(crate) fn forget_before(&mut self, number: u64) {
        while self.first < number && self.pop_front().is_some() {}
    }

    /// Entry of a number. Creates it and those in between, which the caller keeps few.
    pub(crate) fn reach(&mut self, number: u64) -> &mut T {
        if !self.has(number) {
            self.extend(number);
        }
        let slot = self.slot(number);
        &mut self.slots[slot]
    }

    fn extend(&mut self, number: u64) {
        if self.is_empty() {
            (self.first, self.end, self.origin) = (number, number, number);
        }
        let (first, end) = (self.first.min(number), self.end.max(number + 1));
        let needed = usize::try_from(end - first).unwrap_or(usize::MAX).next_power_of_two().max(INITIAL_SLOTS);
        if needed > self.slots.len() {
            let mut slots = Vec::new();
            slots.resize_with(needed, T::default);
            for held in self.first..self.end {
                let from = self.slot(held);
                slots[(held - self.first) as usize] = std::mem::take(&mut self.slots[from]);
            }
            (self.slots, self.origin) = (slots, self.first);
        }
        (self.first, self.end) = (first, end);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ring_equals_a_map_of_close_numbers(operations in prop::collection::vec((0..4u8, 0..40u64), 0..200)) {
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
