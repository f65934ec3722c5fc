//! Model of [`Catalogue`] for tests: a map that is swept after every change.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::{Catalogue, Keep};
use crate::StateId;

/// States by the frame that yielded them. If two frames yield the same state, it is released with the last of them.
#[derive(Debug)]
struct Model {
    entries: BTreeMap<u32, StateId>,
    bound: usize,
}

impl Model {
    /// A model for the states of `bound` frames, at least four.
    fn new(bound: usize) -> Self {
        Self { entries: BTreeMap::new(), bound: bound.max(4) }
    }

    fn holds(&self, state: StateId) -> bool {
        state == StateId::EMPTY || self.entries.values().any(|&held| held == state)
    }

    fn insert(&mut self, frame: u32, state: StateId) {
        self.entries.insert(frame, state);
    }

    /// Frame numbers, newest first.
    fn list(&self) -> impl Iterator<Item = u32> + '_ {
        self.entries.keys().rev().copied()
    }

    fn len(&self) -> usize {
        self.entries.len()
    }

    /// Releases the states that the sender no longer needs, except those `in_use`. If too many remain, evicts the
    /// oldest. Returns the states that no entry names any more, and the number of evicted entries.
    fn sweep(&mut self, keep: Keep, in_use: &BTreeSet<StateId>) -> (Vec<StateId>, u64) {
        let mut gone: Vec<u32> = (self.entries.iter())
            .filter(|&(&frame, state)| frame < keep.from && !in_use.contains(state))
            .map(|(&frame, _)| frame)
            .collect();
        let mut released = self.remove(&gone);
        let mut evicted = 0;
        while self.entries.len() > self.bound {
            let newest = self.entries.keys().next_back().copied();
            let spare = |frame: u32| Some(frame) != newest && frame != keep.anchor && frame != keep.from;
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

proptest! {
    #[test]
    fn catalogue_swept_when_untidy_equals_map_swept_each_time(
        operations in prop::collection::vec((0..5u8, 0..24u32, any::<u8>()), 0..200),
        twins in any::<bool>(),
    ) {
        let (mut catalogue, mut model) = (Catalogue::new(6), Model::new(6));
        let target = |frame: u32| StateId(u64::from(if twins { frame / 2 } else { frame }) + 1);
        let (mut newest, mut keep) = (0u32, Keep::default());
        for (operation, number, bits) in operations {
            let frame = (newest + 2).saturating_sub(number);
            match operation {
                0 | 1 => {
                    catalogue.insert(frame, target(frame));
                    model.insert(frame, target(frame));
                    newest = newest.max(frame);
                }
                2 => keep = Keep { from: keep.from.max(frame.min(newest)), anchor: newest.saturating_sub(number / 4) },
                _ => {
                    let in_use: BTreeSet<StateId> =
                        (0..8).filter(|at| bits >> at & 1 == 1).map(|at| target(newest.saturating_sub(at))).collect();
                    let expected = model.sweep(keep, &in_use);
                    let untidy = catalogue.needs_sweep(keep);
                    let (released, evicted) = catalogue.sweep(keep, |state| in_use.contains(&state));
                    prop_assert!(untidy || released.is_empty() && evicted == 0);
                    prop_assert_eq!((released, evicted), (&expected.0[..], expected.1));
                }
            }
            prop_assert_eq!(catalogue.list().collect::<Vec<_>>(), model.list().collect::<Vec<_>>());
            prop_assert_eq!(catalogue.len(), model.len());
            for frame in 0..newest + 2 {
                prop_assert_eq!(catalogue.holds(target(frame)), model.holds(target(frame)));
            }
        }
    }
}
