//! Catalogue of the states that the receiver's decoder holds.

use crate::StateId;

/// The states that the sender asks the receiver to keep.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Keep {
    /// The decoder may release states of older frames. The state of this frame is never evicted, since a frame in
    /// flight may depend on it.
    pub(crate) from: u32,
    /// Another frame whose state is never evicted.
    pub(crate) anchor: u32,
}

/// States by the frame that yielded them. If two frames yield the same state, it is released with the last of them.
#[derive(Debug)]
pub(crate) struct Catalogue {
    /// Frames and their states, oldest first.
    entries: Vec<(u32, StateId)>,
    bound: usize,
    /// The states that [`Self::sweep`] released last. The vector is reused.
    released: Vec<StateId>,
}

impl Catalogue {
    /// A catalogue for the states of `bound` frames, at least four: the newest, the two of [`Keep`], and one to work
    /// with.
    pub(crate) fn new(bound: usize) -> Self {
        Self { entries: Vec::new(), bound: bound.max(4), released: Vec::new() }
    }

    pub(crate) fn bound(&self) -> usize {
        self.bound
    }

    pub(crate) fn holds(&self, state: StateId) -> bool {
        state == StateId::EMPTY || self.entries.iter().rev().any(|&(_, held)| held == state)
    }

    pub(crate) fn insert(&mut self, frame: u32, state: StateId) {
        let at = self.entries.partition_point(|&(known, _)| known < frame);
        match self.entries.get_mut(at) {
            Some(entry) if entry.0 == frame => entry.1 = state,
            _ => self.entries.insert(at, (frame, state)),
        }
    }

    /// Frame numbers, newest first.
    pub(crate) fn list(&self) -> impl Iterator<Item = u32> + '_ {
        self.entries.iter().rev().map(|&(frame, _)| frame)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether [`Self::sweep`] may release a state.
    pub(crate) fn needs_sweep(&self, keep: Keep) -> bool {
        self.entries.len() > self.bound || self.entries.first().is_some_and(|&(oldest, _)| oldest < keep.from)
    }

    /// Releases the states that the sender no longer needs, except those `in_use`. If too many remain, evicts the
    /// oldest. Returns the states that no entry names any more, and the number of evicted entries.
    pub(crate) fn sweep(&mut self, keep: Keep, in_use: impl Fn(StateId) -> bool) -> (&[StateId], u64) {
        self.released.clear();
        let Self { entries, released, .. } = self;
        entries.retain(|&(frame, state)| {
            let stays = frame >= keep.from || in_use(state);
            if !stays {
                released.push(state);
            }
            stays
        });
        released.sort_unstable();
        released.dedup();
        released.retain(|&state| state != StateId::EMPTY && !entries.iter().any(|&(_, held)| held == state));
        let mut evicted = 0;
        while self.entries.len() > self.bound && self.evict_oldest(keep, &in_use) {
            evicted += 1;
        }
        (&self.released, evicted)
    }

    /// Evicts the oldest state as [`Self::sweep`] does. Returns the states that no entry names any more; `None` if there
    /// is no state to evict.
    pub(crate) fn evict(&mut self, keep: Keep, in_use: impl Fn(StateId) -> bool) -> Option<&[StateId]> {
        self.released.clear();
        self.evict_oldest(keep, &in_use).then_some(&self.released)
    }

    /// Evicts the oldest state that is not in use; if all are, the oldest one. Returns whether there was one.
    fn evict_oldest(&mut self, keep: Keep, in_use: &impl Fn(StateId) -> bool) -> bool {
        let newest = self.entries.len().saturating_sub(1);
        let spare = |at: usize| at != newest && ![keep.anchor, keep.from].contains(&self.entries[at].0);
        let unused = (0..newest).find(|&at| spare(at) && !in_use(self.entries[at].1));
        let Some(victim) = unused.or_else(|| (0..newest).find(|&at| spare(at))) else { return false };
        let (_, state) = self.entries.remove(victim);
        if !self.holds(state) {
            self.released.push(state);
        }
        true
    }
}

#[cfg(test)]
mod model;

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(bound: usize, frames: u32) -> Catalogue {
        let mut catalogue = Catalogue::new(bound);
        (0..frames).for_each(|frame| catalogue.insert(frame, StateId(u64::from(frame) + 100)));
        catalogue
    }

    #[test]
    fn state_is_released_with_the_last_frame_that_yielded_it() {
        let mut catalogue = filled(8, 2);
        catalogue.insert(2, StateId(100));
        let (released, _) = catalogue.sweep(Keep { from: 1, ..Keep::default() }, |_| false);
        assert_eq!(released, []);
        let (released, _) = catalogue.sweep(Keep { from: 3, ..Keep::default() }, |_| false);
        assert_eq!(released, [StateId(100), StateId(101)]);
    }

    #[test]
    fn eviction_spares_newest_anchor_and_oldest_kept_state() {
        let mut catalogue = filled(4, 10);
        let (_, evicted) = catalogue.sweep(Keep { from: 0, anchor: 3 }, |_| false);
        assert_eq!(evicted, 6);
        assert_eq!(catalogue.list().collect::<Vec<_>>(), [9, 8, 3, 0]);
    }

    #[test]
    fn state_in_use_is_not_released() {
        let mut catalogue = filled(8, 2);
        let (released, _) = catalogue.sweep(Keep { from: 2, anchor: 2 }, |state| state == StateId(100));
        assert_eq!(released, [StateId(101)]);
        assert!(catalogue.holds(StateId(100)) && catalogue.holds(StateId::EMPTY) && !catalogue.holds(StateId(101)));
    }
}
