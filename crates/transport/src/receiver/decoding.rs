//! The decoder as the receiver knows it: the states that it holds, the frames that wait for its verdict.

use crate::StateId;
use crate::catalogue::{Catalogue, Keep};
use crate::payload::Payload;
use crate::reassembly::Window;

/// What happens to a complete frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// The decoder receives it now.
    HandOut,
    /// It waits for its source state, an older frame, or room at the decoder.
    Wait,
    /// A newer frame was decoded, and no frame needs its state.
    Superseded,
}

/// A frame that was handed out and whose verdict is due.
#[derive(Debug)]
struct Pending {
    frame: u32,
    source: StateId,
    target: StateId,
}

/// The states that the decoder holds, and the frames that it works on.
#[derive(Debug)]
pub(super) struct Decoding {
    /// By number, oldest first. They are few.
    pending: Vec<Pending>,
    most_pending: usize,
    newest_decoded: Option<u32>,
    catalogue: Catalogue,
    keep: Keep,
    /// The states that frames in the window are decoded from. The list keeps its memory.
    needed: Vec<StateId>,
}

impl Decoding {
    /// A decoder that holds at most `retained_states` states and works on at most `most_pending` frames.
    pub(super) fn new(retained_states: usize, most_pending: usize) -> Self {
        Self {
            pending: Vec::new(),
            most_pending,
            newest_decoded: None,
            catalogue: Catalogue::new(retained_states),
            keep: Keep::default(),
            needed: Vec::new(),
        }
    }

    pub(super) fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// Sets the states that the sender asks to keep.
    pub(super) fn set_keep(&mut self, keep: Keep) {
        self.keep = keep;
    }

    /// Finds the states that frames in `window` are decoded from, for [`Self::turn`].
    pub(super) fn find_needed<P: Payload>(&mut self, window: &Window<P>) {
        window.needed(self.newest_decoded, &mut self.needed);
    }

    /// What happens to a complete frame, by the states that [`Self::find_needed`] found last.
    pub(super) fn turn(&self, frame: u32, source: StateId, target: StateId) -> Turn {
        let is_needed = self.needed.contains(&target);
        if !is_needed && self.newest_decoded.is_some_and(|decoded| frame < decoded) {
            return Turn::Superseded;
        }
        let in_turn = is_needed || self.pending.last().is_none_or(|newest| frame > newest.frame);
        let has_room = self.pending.len() < self.most_pending;
        if in_turn && has_room && self.catalogue.holds(source) { Turn::HandOut } else { Turn::Wait }
    }

    /// The decoder received a frame.
    pub(super) fn on_handed_out(&mut self, frame: u32, source: StateId, target: StateId) {
        let place = self.pending.partition_point(|pending| pending.frame < frame);
        self.pending.insert(place, Pending { frame, source, target });
    }

    /// The verdict on a frame is no longer due; returns its target, or none if it was not due before.
    pub(super) fn take_pending(&mut self, frame: u32) -> Option<StateId> {
        let place = self.pending.iter().position(|pending| pending.frame == frame)?;
        Some(self.pending.remove(place).target)
    }

    /// A frame yielded `state`, which the decoder holds.
    pub(super) fn on_decoded(&mut self, frame: u32, state: StateId) {
        self.catalogue.insert(frame, state);
        self.newest_decoded = self.newest_decoded.max(Some(frame));
    }

    /// Takes back a frame that was handed out, if a newer one was decoded and no frame needs its state.
    pub(super) fn take_superseded<P: Payload>(&mut self, frame: u32, window: &Window<P>) -> bool {
        if self.newest_decoded.is_none_or(|decoded| frame >= decoded) {
            return false;
        }
        self.find_needed(window);
        let is_useless = |pending: &Pending| pending.frame == frame && !self.needed.contains(&pending.target);
        let Some(place) = self.pending.iter().position(is_useless) else { return false };
        self.pending.remove(place);
        true
    }

    /// Releases states that the sender asks no longer to keep, and old ones beyond the bound. Returns the states to
    /// release, and the number of entries that went for lack of room; none if nothing changes.
    pub(super) fn sweep<P: Payload>(&mut self, window: &Window<P>) -> Option<(&[StateId], u64)> {
        if !self.catalogue.is_untidy(self.keep) {
            return None;
        }
        self.find_needed(window);
        let Self { catalogue, pending, needed, keep, .. } = self;
        let in_use = |state| needed.contains(&state) || pending.iter().any(|pending| pending.source == state);
        Some(catalogue.sweep(*keep, in_use))
    }
}
