//! The states that the receiver's decoder holds.

use std::collections::{BTreeMap, BTreeSet};

use crate::StateId;

/// What the sender asked to be kept.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Keep {
    /// States of older frames may go.
    pub(crate) from: u32,
    /// The frame whose state outlives a shortage of room.
    pub(crate) anchor: u32,
    /// The frame whose state stays though it is older than `from`.
    pub(crate) pinned: Option<u32>,
}

/// States by the frame that yielded them. Two frames may have yielded the same state; it is released with the last.
#[derive(Debug)]
pub(crate) struct Catalogue {
    entries: BTreeMap<u32, StateId>,
    bound: usize,
}

impl Catalogue {
    /// Room for `bound` frames' states, at least four: the newest, the anchor, the pinned one and one to work with.
    pub(crate) fn new(bound: usize) -> Self {
        Self { entries: BTreeMap::new(), bound: bound.max(4) }
    }

    pub(crate) fn bound(&self) -> usize {
        self.bound
    }

    pub(crate) fn holds(&self, state: StateId) -> bool {
        state == StateId::EMPTY || self.entries.values().any(|&held| held == state)
    }

    pub(crate) fn insert(&mut self, frame: u32, state: StateId) {
        self.entries.insert(frame, state);
    }

    /// Newest first.
    pub(crate) fn list(&self) -> impl Iterator<Item = (u32, StateId)> + '_ {
        self.entries.iter().rev().map(|(&frame, &state)| (frame, state))
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Lets go of what the sender lets go, except the states `in_use`, then of the oldest if there are too many.
    /// Returns the states that no entry names any longer and how many entries went for want of room.
    pub(crate) fn sweep(&mut self, keep: Keep, in_use: &BTreeSet<StateId>) -> (Vec<StateId>, u64) {
        let mut gone: Vec<u32> = (self.entries.iter())
            .filter(|&(&frame, state)| frame < keep.from && Some(frame) != keep.pinned && !in_use.contains(state))
            .map(|(&frame, _)| frame)
            .collect();
        let mut released = self.remove(&gone);
        let mut evicted = 0;
        while self.entries.len() > self.bound {
            let newest = self.entries.keys().next_back().copied();
            let spare = |frame: u32| Some(frame) != newest && Some(frame) != keep.pinned && frame != keep.anchor;
            let unused = self.entries.iter().find(|&(&frame, state)| spare(frame) && !in_use.contains(state));
            let victim = unused.or_else(|| self.entries.iter().find(|&(&frame, _)| spare(frame)));
            gone = victim.map(|(&frame, _)| vec![frame]).unwrap_or_default();
            released.extend(self.remove(&gone));
            evicted += 1;
        }
        (released, evicted)
    }

    fn remove(&mut self, frames: &[u32]) -> Vec<StateId> {
        let mut states: Vec<StateId> = frames.iter().filter_map(|frame| self.entries.remove(frame)).collect();
        states.sort_unstable();
        states.dedup();
        states.retain(|&state| !self.holds(state));
        states
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(bound: usize, frames: u32) -> Catalogue {
        let mut catalogue = Catalogue::new(bound);
        (0..frames).for_each(|frame| catalogue.insert(frame, StateId(u64::from(frame) + 100)));
        catalogue
    }

    #[test]
    fn a_state_is_released_with_the_last_frame_that_yielded_it() {
        let mut catalogue = filled(8, 2);
        catalogue.insert(2, StateId(100));
        let (released, _) = catalogue.sweep(Keep { from: 1, ..Keep::default() }, &BTreeSet::new());
        assert_eq!(released, []);
        let (released, _) = catalogue.sweep(Keep { from: 3, ..Keep::default() }, &BTreeSet::new());
        assert_eq!(released, [StateId(100), StateId(101)]);
    }

    #[test]
    fn want_of_room_spares_the_newest_the_anchor_and_the_pinned() {
        let mut catalogue = filled(4, 10);
        let (_, evicted) = catalogue.sweep(Keep { from: 0, anchor: 1, pinned: Some(0) }, &BTreeSet::new());
        assert_eq!(evicted, 6);
        assert_eq!(catalogue.list().map(|(frame, _)| frame).collect::<Vec<_>>(), [9, 8, 1, 0]);
    }

    #[test]
    fn a_state_in_use_waits() {
        let mut catalogue = filled(8, 2);
        let (released, _) = catalogue.sweep(Keep { from: 2, anchor: 2, pinned: None }, &[StateId(100)].into());
        assert_eq!(released, [StateId(101)]);
        assert!(catalogue.holds(StateId(100)) && catalogue.holds(StateId::EMPTY) && !catalogue.holds(StateId(101)));
    }
}
