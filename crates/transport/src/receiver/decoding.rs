//! State of the decoder as the receiver knows it: the states that it holds and the frames that it works on.

use crate::StateId;
use crate::catalogue::{Catalogue, Keep};
use crate::payload::Payload;
use crate::reassembly::{Frame, Window};

/// Next step for a complete frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextStep {
    /// Hand the frame to the decoder now.
    HandOut,
    /// Wait for the source state, an older frame, or room at the decoder.
    Wait,
    /// Drop the frame: a newer one was decoded, and no frame needs its state.
    Superseded,
}

/// A frame at the decoder, without a verdict.
#[derive(Debug)]
struct Pending {
    frame: u32,
    source: StateId,
    target: StateId,
    bytes: usize,
}

/// Whether a frame in the window or at the decoder needs `state`.
fn is_in_use(needed: &[StateId], pending: &[Pending], state: StateId) -> bool {
    needed.contains(&state) || pending.iter().any(|pending| pending.source == state)
}

/// The states that the decoder holds, and the frames that it works on.
#[derive(Debug)]
pub(super) struct Decoding {
    /// Frames at the decoder, oldest first; the list is short.
    pending: Vec<Pending>,
    max_pending: usize,
    max_pending_bytes: usize,
    newest_decoded: Option<u32>,
    catalogue: Catalogue,
    keep: Keep,
    /// Source states of frames in the window. The vector is reused.
    needed: Vec<StateId>,
}

impl Decoding {
    /// A decoder that holds at most `retained_states` states and works on at most `max_pending` frames. Together these
    /// have at most `max_pending_bytes` bytes, or there is only one frame.
    pub(super) fn new(retained_states: usize, max_pending: usize, max_pending_bytes: usize) -> Self {
        Self {
            pending: Vec::new(),
            max_pending,
            max_pending_bytes,
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

    /// Updates the needed source states of the frames in `window`, for [`Self::turn`].
    pub(super) fn find_needed<P: Payload>(&mut self, window: &Window<P>) {
        window.needed(self.newest_decoded, &mut self.needed);
    }

    /// Next step for a complete frame, by the states of the last [`Self::find_needed`].
    pub(super) fn turn<P>(&self, frame: &Frame<P>) -> NextStep {
        let is_needed = self.needed.contains(&frame.target);
        if !is_needed && self.newest_decoded.is_some_and(|decoded| frame.number < decoded) {
            return NextStep::Superseded;
        }
        let in_turn = is_needed || self.pending.last().is_none_or(|newest| frame.number > newest.frame);
        let can_decode = in_turn && self.has_room(frame.bytes) && self.catalogue.holds(frame.source);
        if can_decode { NextStep::HandOut } else { NextStep::Wait }
    }

    /// Whether the decoder has room for a frame of `bytes` bytes.
    fn has_room(&self, bytes: usize) -> bool {
        let waiting: usize = self.pending.iter().map(|pending| pending.bytes).sum();
        self.pending.is_empty() || self.pending.len() < self.max_pending && waiting + bytes <= self.max_pending_bytes
    }

    /// Records that the decoder received a frame.
    pub(super) fn on_handed_out<P>(&mut self, frame: &Frame<P>) {
        let place = self.pending.partition_point(|pending| pending.frame < frame.number);
        let &Frame { number, source, target, bytes, .. } = frame;
        self.pending.insert(place, Pending { frame: number, source, target, bytes });
    }

    /// Removes a frame from the decoder and returns its target state. `None` if the decoder did not have it.
    pub(super) fn take_pending(&mut self, frame: u32) -> Option<StateId> {
        let place = self.pending.iter().position(|pending| pending.frame == frame)?;
        Some(self.pending.remove(place).target)
    }

    /// Records that a frame yielded `state`, which the decoder now holds.
    pub(super) fn on_decoded(&mut self, frame: u32, state: StateId) {
        self.catalogue.insert(frame, state);
        self.newest_decoded = self.newest_decoded.max(Some(frame));
    }

    /// Takes back a frame from the decoder, if a newer one was decoded and no frame needs its state.
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

    /// Releases states that the sender no longer needs, and evicts old ones beyond the bound. Returns the released
    /// states and the number of evicted entries; `None` if nothing changes.
    pub(super) fn sweep<P: Payload>(&mut self, window: &Window<P>) -> Option<(&[StateId], u64)> {
        if !self.catalogue.needs_sweep(self.keep) {
            return None;
        }
        self.find_needed(window);
        let Self { catalogue, pending, needed, keep, .. } = self;
        Some(catalogue.sweep(*keep, |state| is_in_use(needed, pending, state)))
    }

    /// Evicts one state. Returns the states that are released with it; `None` if no state can be evicted.
    pub(super) fn evict<P: Payload>(&mut self, window: &Window<P>) -> Option<&[StateId]> {
        self.find_needed(window);
        let Self { catalogue, pending, needed, keep, .. } = self;
        catalogue.evict(*keep, |state| is_in_use(needed, pending, state))
    }
}
