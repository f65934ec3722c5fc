//! The states that the receiver's decoder holds.

use crate::StateId;

/// What the sender asked to be kept.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Keep {
    /// States of older frames may go. This frame's outlives a shortage of room: a frame under way may be decoded from it.
    pub(crate) from: u32,
    /// The frame whose state outlives a shortage of room.
    pub(crate) anchor: u32,
}

/// States by the frame that yielded them. Two frames may have yielded the same state; it is released with the last.
#[derive(Debug)]
pub(crate) struct Catalogue {
    /// By frame, the oldest first.
    entries: Vec<(u32, StateId)>,
    bound: usize,
    /// What [`Self::sweep`] found last, in a place that is used again.
    released: Vec<StateId>,
}

impl Catalogue {
    /// Room for `bound` frames' states, at least four: the newest, the two that the sender names and one to work with.
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

    /// The frames, newest first.
    pub(crate) fn list(&self) -> impl Iterator<Item = u32> + '_ {
        self.entries.iter().rev().map(|&(frame, _)| frame)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether [`Self::sweep`] may find something.
    pub(crate) fn is_untidy(&self, keep: Keep) -> bool {
        self.entries.len() > self.bound || self.entries.first().is_some_and(|&(oldest, _)| oldest < keep.from)
    }

    /// Lets go of what the sender lets go, except the states `in_use`, then of the oldest if there are too many.
    /// Returns the states that no entry names any longer and how many entries went for want of room.
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
        while self.entries.len() > self.bound {
            let newest = self.entries.len() - 1;
            let spare = |at: usize| at != newest && ![keep.anchor, keep.from].contains(&self.entries[at].0);
            let unused = (0..newest).find(|&at| spare(at) && !in_use(self.entries[at].1));
            if let Some(victim) = unused.or_else(|| (0..newest).find(|&at| spare(at))) {
                let (_, state) = self.entries.remove(victim);
                if !self.holds(state) {
                    self.released.push(state);
                }
            }
            evicted += 1;
        }
        (&self.released, evicted)
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
    fn a_state_is_released_with_the_last_frame_that_yielded_it() {
        let mut catalogue = filled(8, 2);
        catalogue.insert(2, StateId(100));
        let (released, _) = catalogue.sweep(Keep { from: 1, ..Keep::default() }, |_| false);
        assert_eq!(released, []);
        let (released, _) = catalogue.sweep(Keep { from: 3, ..Keep::default() }, |_| false);
        assert_eq!(released, [StateId(100), StateId(101)]);
    }

    #[test]
    fn want_of_room_spares_the_newest_the_anchor_and_the_oldest_that_is_kept() {
        let mut catalogue = filled(4, 10);
        let (_, evicted) = catalogue.sweep(Keep { from: 0, anchor: 3 }, |_| false);
        assert_eq!(evicted, 6);
        assert_eq!(catalogue.list().collect::<Vec<_>>(), [9, 8, 3, 0]);
    }

    #[test]
    fn a_state_in_use_waits() {
        let mut catalogue = filled(8, 2);
        let (released, _) = catalogue.sweep(Keep { from: 2, anchor: 2 }, |state| state == StateId(100));
        assert_eq!(released, [StateId(101)]);
        assert!(catalogue.holds(StateId(100)) && catalogue.holds(StateId::EMPTY) && !catalogue.holds(StateId(101)));
    }
}
