//! The states that the sender knows: which ones the receiver holds, which one the next frame is encoded from, which
//! ones nobody will need again.
//!
//! A frame's state may become a source as long as the frame is not older than [`SentStates::keep_from`], which never
//! goes back, and never passes the newest state that the receiver holds nor the source of a frame on whose decoding
//! anything may still depend. Only states that the receiver keeps by that rule are ever chosen, so an acknowledgement
//! that comes late cannot make the sender choose one that the receiver has been allowed to forget.

use std::collections::BTreeMap;

use crate::StateId;

#[derive(Debug)]
struct SentFrame {
    source: StateId,
    target: StateId,
    /// How many of its fragments count as lost.
    lost_fragments: u32,
    /// The receiver said that it cannot decode it.
    refused: bool,
    /// Its source will never be held.
    orphaned: bool,
    /// The newest catalogue names it.
    held: bool,
    /// Some catalogue named it.
    was_held: bool,
    /// Its loss was told.
    told: bool,
}

impl SentFrame {
    /// The receiver will not have its state, by what is known.
    fn broken(&self) -> bool {
        !self.held && (self.was_held || self.lost_fragments > 0 || self.refused || self.orphaned)
    }
}

/// What became of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The receiver holds its state.
    Held(u32, StateId),
    /// It was lost or refused, or is too old to wait for.
    Lost(u32),
}

#[derive(Debug)]
pub(crate) struct SentStates {
    frames: BTreeMap<u32, SentFrame>,
    bound: usize,
    /// The newest frame that the receiver holds.
    base: Option<u32>,
    pinned: Option<u32>,
    /// The frame whose state the owner may be encoding from.
    reserved: Option<u32>,
    keep_from: u32,
    verdicts: Vec<Verdict>,
    released: Vec<StateId>,
    evicted: u64,
}

impl SentStates {
    /// Room for `bound` states, at least five: newest sent, newest held, pinned, reserved and one to work with.
    pub(crate) fn new(bound: usize) -> Self {
        Self {
            frames: BTreeMap::new(),
            bound: bound.max(5),
            base: None,
            pinned: None,
            reserved: None,
            keep_from: 0,
            verdicts: Vec::new(),
            released: Vec::new(),
            evicted: 0,
        }
    }

    /// The receiver has less room than was thought.
    pub(crate) fn limit(&mut self, bound: usize) {
        self.bound = self.bound.min(bound).max(5);
        self.settle();
    }

    pub(crate) fn len(&self) -> usize {
        self.frames.len()
    }

    pub(crate) fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Older frames' states may be forgotten by both sides, except the pinned one.
    pub(crate) fn keep_from(&self) -> u32 {
        self.keep_from
    }

    /// The frame whose state the receiver must not evict.
    pub(crate) fn anchor(&self) -> u32 {
        self.base.unwrap_or(0).max(self.keep_from)
    }

    pub(crate) fn pinned(&self) -> Option<u32> {
        self.pinned
    }

    /// What became of frames since the last call.
    pub(crate) fn take_verdicts(&mut self) -> Vec<Verdict> {
        std::mem::take(&mut self.verdicts)
    }

    /// The states to forget since the last call.
    pub(crate) fn take_released(&mut self) -> Vec<StateId> {
        std::mem::take(&mut self.released)
    }

    pub(crate) fn knows(&self, state: StateId) -> bool {
        state == StateId::EMPTY || self.frames.values().any(|frame| frame.target == state)
    }

    pub(crate) fn is_held(&self, state: StateId) -> bool {
        state == StateId::EMPTY || self.frames.values().any(|frame| frame.held && frame.target == state)
    }

    pub(crate) fn target(&self, frame: u32) -> Option<StateId> {
        self.frames.get(&frame).map(|sent| sent.target)
    }

    pub(crate) fn pin(&mut self, state: StateId) -> bool {
        let Some(frame) = self.frame_of(state, u32::MAX) else { return false };
        self.pinned = Some(frame);
        self.settle();
        true
    }

    pub(crate) fn unpin(&mut self) {
        self.pinned = None;
        self.settle();
    }

    /// The newest frame, older than `before`, whose state this is; one whose state is held before one whose is not.
    fn frame_of(&self, state: StateId, before: u32) -> Option<u32> {
        let named = || self.frames.range(..before).rev().filter(move |(_, frame)| frame.target == state);
        let held = named().find(|(_, frame)| frame.held);
        held.or_else(|| named().find(|(_, frame)| !frame.broken())).or_else(|| named().next()).map(|(&at, _)| at)
    }

    /// The state that the next frame is to be encoded from.
    pub(crate) fn source(&self) -> StateId {
        self.source_frame().and_then(|frame| self.target(frame)).unwrap_or(StateId::EMPTY)
    }

    fn source_frame(&self) -> Option<u32> {
        let newest = self.frames.iter().next_back();
        newest.filter(|(_, sent)| !sent.broken()).map(|(&frame, _)| frame).or(self.base)
    }

    /// As [`Self::source`]; the state is kept until the next frame is sent or this is asked again.
    pub(crate) fn reserve(&mut self) -> StateId {
        self.reserved = self.source_frame();
        self.source()
    }

    /// The newest state that the receiver holds, or as [`Self::reserve`] if it is not known to hold any.
    pub(crate) fn reserve_held(&mut self) -> StateId {
        self.reserved = self.base.or_else(|| self.source_frame());
        self.reserved.and_then(|frame| self.target(frame)).unwrap_or(StateId::EMPTY)
    }

    pub(crate) fn sent(&mut self, frame: u32, source: StateId, target: StateId) {
        let (refused, orphaned, held, was_held, told) = (false, false, false, false, false);
        let sent = SentFrame { source, target, lost_fragments: 0, refused, orphaned, held, was_held, told };
        self.frames.insert(frame, sent);
        self.reserved = None;
        self.settle();
    }

    /// A fragment of the frame counts as lost.
    pub(crate) fn fragment_lost(&mut self, frame: u32) {
        if let Some(sent) = self.frames.get_mut(&frame) {
            sent.lost_fragments += 1;
        }
    }

    /// A fragment that counted as lost arrived after all.
    pub(crate) fn fragment_found(&mut self, frame: u32) {
        if let Some(sent) = self.frames.get_mut(&frame) {
            sent.lost_fragments = sent.lost_fragments.saturating_sub(1);
        }
    }

    /// A frame will not be sent again though fragments of it are lost.
    pub(crate) fn give_up(&mut self, frame: u32) {
        // Where the frame itself is known no longer, the oldest known one cannot be decoded either.
        let broken = if self.frames.contains_key(&frame) { Some(frame) } else { self.frames.keys().next().copied() };
        if let Some(broken) = broken.filter(|&known| known >= frame) {
            self.fragment_lost(broken);
        }
    }

    /// Whether the receiver may still have the frame's state, and does not yet, by what is known.
    pub(crate) fn may_arrive(&self, frame: u32) -> bool {
        let open = self.frames.get(&frame).is_none_or(|sent| !sent.held && !sent.broken());
        open && self.base != Some(frame) && frame >= self.anchor()
    }

    pub(crate) fn refused(&mut self, frame: u32) {
        if let Some(sent) = self.frames.get_mut(&frame) {
            sent.refused = true;
        }
    }

    /// The receiver holds these states and no others.
    pub(crate) fn catalogue(&mut self, catalogue: &[(u32, StateId)]) {
        for sent in self.frames.values_mut() {
            sent.held = false;
        }
        for &(frame, state) in catalogue.iter().rev() {
            let Some(sent) = self.frames.get_mut(&frame).filter(|sent| sent.target == state) else { continue };
            sent.held = true;
            if !std::mem::replace(&mut sent.was_held, true) {
                self.verdicts.push(Verdict::Held(frame, state));
            }
        }
    }

    /// Draws the conclusions from what changed.
    pub(crate) fn settle(&mut self) {
        self.find_orphans();
        for (&frame, sent) in &mut self.frames {
            if !sent.was_held && !sent.told && (sent.lost_fragments > 0 || sent.refused) {
                sent.told = true;
                self.verdicts.push(Verdict::Lost(frame));
            }
        }
        self.base = self.frames.iter().rev().find(|(_, sent)| sent.held).map(|(&frame, _)| frame);
        self.advance_keep_from();
        self.forget();
    }

    fn find_orphans(&mut self) {
        let frames: Vec<(u32, StateId)> = self.frames.iter().map(|(&frame, sent)| (frame, sent.source)).collect();
        for (frame, source) in frames {
            if source == StateId::EMPTY {
                continue;
            }
            // A source that is no longer known leaves the verdict as it was.
            let sources = || self.frames.range(..frame).rev().filter(|(_, older)| older.target == source);
            let sound = sources().any(|(_, older)| !older.broken());
            let known = sources().next().is_some();
            if let Some(sent) = self.frames.get_mut(&frame).filter(|_| known) {
                sent.orphaned = !sound;
            }
        }
    }

    fn advance_keep_from(&mut self) {
        let Some(base) = self.base else { return };
        let newest = self.frames.keys().next_back().copied();
        let mut least = self.reserved.map_or(base, |reserved| reserved.min(base));
        for (&frame, sent) in &self.frames {
            if !sent.was_held && (Some(frame) == newest || !sent.broken()) {
                least = least.min(self.frame_of(sent.source, frame).unwrap_or(frame));
            }
        }
        self.keep_from = self.keep_from.max(least);
    }

    fn forget(&mut self) {
        let newest = self.frames.keys().next_back().copied();
        let spare = |frame: u32, pinned: Option<u32>| Some(frame) != pinned && Some(frame) != newest;
        let old = self.frames.range(..self.keep_from).map(|(&frame, _)| frame);
        let mut gone: Vec<u32> = old.filter(|&frame| spare(frame, self.pinned)).collect();
        let stay = |frame: u32| !spare(frame, self.pinned) || [self.base, self.reserved].contains(&Some(frame));
        let excess = (self.frames.len() - gone.len()).saturating_sub(self.bound);
        let evicted = self.frames.range(self.keep_from..).map(|(&frame, _)| frame).filter(|&frame| !stay(frame));
        let evicted: Vec<u32> = evicted.take(excess).collect();
        self.evicted += evicted.len() as u64;
        gone.extend(evicted);
        for frame in gone {
            let Some(sent) = self.frames.remove(&frame) else { continue };
            if !sent.was_held && !sent.told {
                self.verdicts.push(Verdict::Lost(frame));
            }
            if !self.knows(sent.target) {
                self.released.push(sent.target);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(frame: u32) -> StateId {
        StateId(u64::from(frame) + 100)
    }

    /// Frames 0 to `count - 1`, each from the one before.
    fn chain(count: u32) -> SentStates {
        let mut states = SentStates::new(8);
        for frame in 0..count {
            let source = states.reserve();
            states.sent(frame, source, state(frame));
        }
        states
    }

    fn hold(states: &mut SentStates, frames: &[u32]) {
        states.catalogue(&frames.iter().map(|&frame| (frame, state(frame))).collect::<Vec<_>>());
        states.settle();
    }

    #[test]
    fn without_loss_the_chain_goes_on_and_after_a_loss_from_the_newest_held() {
        let mut states = chain(4);
        assert_eq!(states.source(), state(3));
        hold(&mut states, &[1, 0]);
        assert_eq!((states.source(), states.keep_from()), (state(3), 1));
        states.fragment_lost(2);
        states.settle();
        assert_eq!(states.source(), state(1));
        assert_eq!(states.take_verdicts().last(), Some(&Verdict::Lost(2)));
        states.sent(4, state(1), state(4));
        assert_eq!(states.source(), state(4));
    }

    #[test]
    fn the_newest_held_state_can_be_asked_for_though_the_chain_is_whole() {
        let mut states = chain(5);
        assert_eq!(states.reserve_held(), state(4), "none is known to be held");
        hold(&mut states, &[0, 1, 2]);
        assert_eq!((states.reserve_held(), states.reserve()), (state(2), state(4)));
    }

    #[test]
    fn a_loss_that_was_none_mends_the_chain() {
        let mut states = chain(3);
        hold(&mut states, &[0]);
        states.fragment_lost(1);
        states.settle();
        assert_eq!(states.source(), state(0));
        states.fragment_found(1);
        states.settle();
        assert_eq!(states.source(), state(2));
    }

    #[test]
    fn what_waits_for_a_state_keeps_it() {
        let mut states = chain(1);
        hold(&mut states, &[0]);
        states.sent(1, state(0), state(1));
        states.sent(2, state(0), state(2));
        hold(&mut states, &[2, 0]);
        assert_eq!(states.keep_from(), 0, "frame 1 may still need the state of frame 0");
        states.fragment_lost(1);
        states.settle();
        assert_eq!((states.keep_from(), states.take_released()), (2, vec![state(0), state(1)]));
    }

    #[test]
    fn a_state_being_encoded_from_is_kept() {
        let mut states = chain(2);
        hold(&mut states, &[0]);
        states.fragment_lost(1);
        states.settle();
        assert_eq!(states.reserve(), state(0));
        states.fragment_found(1);
        hold(&mut states, &[1, 0]);
        assert_eq!(states.keep_from(), 0);
        states.sent(2, state(0), state(2));
        hold(&mut states, &[2, 1, 0]);
        assert_eq!(states.keep_from(), 2);
    }

    #[test]
    fn the_number_of_states_is_bounded_and_the_pinned_and_held_ones_stay() {
        let mut states = chain(2);
        assert!(states.pin(state(0)) && !states.pin(state(77)));
        hold(&mut states, &[1, 0]);
        for frame in 2..40 {
            states.sent(frame, states.source(), state(frame));
            assert!(states.len() <= 8);
        }
        assert!(states.is_held(state(0)) && states.is_held(state(1)) && states.knows(state(39)));
        states.refused(39);
        states.settle();
        assert_eq!(states.source(), state(1));
    }
}
