//! States that the sender knows: which ones the receiver holds, and which one is the next source.
//!
//! [`SentStates::sent`] records frames, [`SentStates::catalogue`] what the receiver holds, and [`SentStates::settle`]
//! updates the verdicts. [`SentStates::source`] is the state for the next frame.
//!
//! A state may become a source only if its frame is not older than [`SentStates::keep_from`]. That limit never
//! decreases. It never exceeds the newest frame whose state the receiver holds. It never exceeds the source of a frame
//! that may still be needed. The receiver keeps states by the same limit. So even with a late acknowledgement, the
//! sender never chooses a state that the receiver may have released.
//!
//! More frames may be in flight than the encoder has room for states. They wait for the pacer, or in a queue of
//! seconds. So the record of a frame and its state have separate lifetimes. States are evicted for lack of room and are
//! then no longer sources. The record of a frame stays until the frame is older than [`SentStates::keep_from`]. Without
//! it, a loss would break later frames unnoticed. The sender would also let the receiver release a state that a waiting
//! frame needs.

use std::collections::VecDeque;

use crate::StateId;

/// Largest number of known frames, unless more states are retained: twice the window of a receiver.
const MAX_KNOWN_FRAMES: usize = 512;

#[derive(Debug)]
struct SentFrame {
    number: u32,
    source: StateId,
    /// Frame that yielded the source state, if it was known. Unique unless two frames yielded the same state.
    source_frame: Option<u32>,
    target: StateId,
    /// Whether the encoder retains the target state.
    retained: bool,
    /// Number of fragments that count as lost, and number that parity can restore.
    lost_fragments: u32,
    spare_fragments: u32,
    /// Whether the receiver reported that it cannot decode the frame.
    refused: bool,
    /// Whether the receiver will never hold the source state.
    orphaned: bool,
    /// Whether the newest catalogue lists the frame.
    held: bool,
    /// Whether any catalogue listed the frame.
    was_held: bool,
    /// Whether the loss of the frame was reported.
    reported: bool,
    /// Whether the catalogue that is being read lists the frame.
    named: bool,
}

impl SentFrame {
    /// Whether more fragments are lost than parity can restore.
    fn has_lost(&self) -> bool {
        self.lost_fragments > self.spare_fragments
    }

    /// Whether the receiver will not hold the target state, as far as is known.
    fn broken(&self) -> bool {
        !self.held && (self.was_held || self.has_lost() || self.refused || self.orphaned)
    }

    /// Verdict on a frame that the receiver will not hold.
    fn missing(&self) -> Verdict {
        if self.refused && !self.has_lost() { Verdict::Refused(self.number) } else { Verdict::Lost(self.number) }
    }
}

/// Verdict on a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The receiver holds the state of the frame.
    Held(u32, StateId),
    /// The frame was lost, or is too old.
    Lost(u32),
    /// The frame arrived, but the receiver did not decode it.
    Refused(u32),
}

#[derive(Debug)]
pub(crate) struct SentStates {
    /// Known frames, oldest first.
    frames: VecDeque<SentFrame>,
    /// Number of frames whose states are retained.
    retained: usize,
    /// Largest number of retained states.
    bound: usize,
    /// Newest frame whose state the receiver holds.
    base: Option<u32>,
    /// Frame whose state the owner may be encoding from.
    reserved: Option<u32>,
    keep_from: u32,
    /// Last catalogue of the receiver.
    catalogue: Vec<u32>,
    /// Whether the catalogue must be read again even if it is unchanged.
    reread: bool,
    /// Newest frame whose state an older known frame also yielded.
    twin: Option<u32>,
    /// Whether there are changes that [`Self::settle`] has not processed.
    unsettled: bool,
    /// Whether a frame became broken or intact, was lost, or was forgotten.
    doubts: bool,
    /// Whether [`Self::settle`] processed a change since the last [`Self::take_settled`].
    settled: bool,
    verdicts: Vec<Verdict>,
    released: Vec<StateId>,
    evicted: u64,
}

impl SentStates {
    /// Room for `bound` states, at least five: newest sent, newest held, reserved, and two to work with.
    pub(crate) fn new(bound: usize) -> Self {
        Self {
            frames: VecDeque::new(),
            retained: 0,
            bound: bound.max(5),
            base: None,
            reserved: None,
            keep_from: 0,
            catalogue: Vec::new(),
            reread: false,
            twin: None,
            unsettled: false,
            doubts: false,
            settled: false,
            verdicts: Vec::new(),
            released: Vec::new(),
            evicted: 0,
        }
    }

    /// Reduces the number of retained states to the receiver's bound.
    pub(crate) fn limit(&mut self, bound: usize) {
        self.bound = self.bound.min(bound).max(5);
        self.unsettled = true;
        self.settle();
    }

    /// Number of frames whose states the encoder retains.
    pub(crate) fn retained(&self) -> usize {
        self.retained
    }

    /// Number of frames whose states the receiver held at its newest acknowledgement.
    pub(crate) fn receiver_states(&self) -> usize {
        self.catalogue.len()
    }

    pub(crate) fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Both ends may release states of frames older than this one.
    pub(crate) fn keep_from(&self) -> u32 {
        self.keep_from
    }

    /// Frame whose state the receiver must not evict.
    pub(crate) fn anchor(&self) -> u32 {
        self.base.unwrap_or(0).max(self.keep_from)
    }

    /// Whether [`Self::take_verdicts`] or [`Self::take_released`] has anything to return.
    pub(crate) fn has_changes(&self) -> bool {
        !(self.verdicts.is_empty() && self.released.is_empty())
    }

    /// Takes the verdicts since the last call.
    pub(crate) fn take_verdicts(&mut self) -> impl Iterator<Item = Verdict> {
        self.verdicts.drain(..)
    }

    /// Takes the released states since the last call, sorted, each once.
    pub(crate) fn take_released(&mut self) -> impl Iterator<Item = StateId> {
        self.released.sort_unstable();
        self.released.dedup();
        self.released.drain(..)
    }

    /// Returns whether [`Self::settle`] processed a change since the last call. Otherwise the results of
    /// [`Self::may_arrive`] are unchanged.
    pub(crate) fn take_settled(&mut self) -> bool {
        std::mem::take(&mut self.settled)
    }

    /// Whether the encoder retains the state.
    pub(crate) fn retains(&self, state: StateId) -> bool {
        state == StateId::EMPTY || self.frames.iter().rev().any(|frame| frame.target == state && frame.retained)
    }

    /// Whether the encoder retains the state and the receiver holds it.
    pub(crate) fn is_held(&self, state: StateId) -> bool {
        let is_held = |frame: &SentFrame| frame.held && frame.retained && frame.target == state;
        state == StateId::EMPTY || self.frames.iter().any(is_held)
    }

    pub(crate) fn target(&self, frame: u32) -> Option<StateId> {
        self.get(frame).map(|sent| sent.target)
    }

    /// Position of the frame.
    fn place(&self, frame: u32) -> Result<usize, usize> {
        let first = self.frames.front().map_or(0, |first| first.number);
        let Some(distance) = frame.checked_sub(first) else { return Err(0) };
        // The numbers are consecutive, unless frames were evicted.
        if self.frames.get(distance as usize).is_some_and(|sent| sent.number == frame) {
            return Ok(distance as usize);
        }
        self.frames.binary_search_by_key(&frame, |sent| sent.number)
    }

    #[inline]
    fn get(&self, frame: u32) -> Option<&SentFrame> {
        let first = self.frames.front()?.number;
        match self.frames.get(frame.checked_sub(first)? as usize) {
            Some(sent) if sent.number == frame => Some(sent),
            _ => self.frames.get(self.place(frame).ok()?),
        }
    }

    fn get_mut(&mut self, frame: u32) -> Option<&mut SentFrame> {
        let place = self.place(frame).ok()?;
        self.frames.get_mut(place)
    }

    /// Whether two known frames may have yielded the same state.
    fn has_twins(&self) -> bool {
        self.twin.is_some_and(|twin| self.frames.front().is_some_and(|oldest| oldest.number < twin))
    }

    /// Newest frame before position `end` that yields the state. A frame whose state is held takes precedence.
    fn frame_of(&self, state: StateId, end: usize) -> Option<&SentFrame> {
        let mut best: Option<&SentFrame> = None;
        let twins = self.has_twins();
        for sent in self.frames.range(..end).rev().filter(|sent| sent.target == state) {
            if sent.held || !twins {
                return Some(sent);
            }
            if best.is_none_or(|best| best.broken() && !sent.broken()) {
                best = Some(sent);
            }
        }
        best
    }

    /// Frame that yields the source state of the frame at `place`, as [`Self::frame_of`].
    fn source_of(&self, place: usize) -> Option<&SentFrame> {
        let sent = &self.frames[place];
        // The fast path: each loss queries every frame, and the source of a frame may be far back.
        if self.twin.is_none() {
            return sent.source_frame.and_then(|from| self.get(from));
        }
        self.frame_of(sent.source, place)
    }

    /// Source state of the next frame.
    pub(crate) fn source(&self) -> StateId {
        self.source_frame().and_then(|frame| self.target(frame)).unwrap_or(StateId::EMPTY)
    }

    fn source_frame(&self) -> Option<u32> {
        self.frames.back().filter(|sent| !sent.broken()).map(|sent| sent.number).or(self.base)
    }

    fn set_reserved(&mut self, frame: Option<u32>) {
        self.unsettled |= self.reserved != frame;
        self.reserved = frame;
    }

    /// As [`Self::source`]; the state is kept until the next frame is sent or this is called again.
    pub(crate) fn reserve(&mut self) -> StateId {
        self.set_reserved(self.source_frame());
        self.source()
    }

    /// Newest state that the receiver holds. As [`Self::reserve`] if it holds none.
    pub(crate) fn reserve_held(&mut self) -> StateId {
        self.set_reserved(self.base.or_else(|| self.source_frame()));
        self.reserved.and_then(|frame| self.target(frame)).unwrap_or(StateId::EMPTY)
    }

    /// Records a sent frame, newer than all others. Parity can restore `spare_fragments` lost fragments.
    pub(crate) fn sent(&mut self, frame: u32, source: StateId, target: StateId, spare_fragments: u16) {
        if self.frames.iter().rev().any(|known| known.target == target) {
            self.twin = Some(frame);
        }
        self.reread |= self.catalogue.iter().any(|&named| named >= frame);
        let (refused, orphaned, held, was_held, reported, named) = (false, false, false, false, false, false);
        let number = frame;
        self.frames.push_back(SentFrame {
            number,
            source,
            source_frame: self.frame_of(source, self.frames.len()).map(|from| from.number),
            target,
            retained: true,
            lost_fragments: 0,
            spare_fragments: spare_fragments.into(),
            refused,
            orphaned,
            held,
            was_held,
            reported,
            named,
        });
        self.retained += 1;
        self.find_orphan(self.frames.len() - 1);
        self.reserved = None;
        self.unsettled = true;
        self.settle();
    }

    fn doubt(&mut self) {
        self.doubts = true;
        self.unsettled = true;
    }

    /// Records that a fragment of the frame counts as lost.
    pub(crate) fn fragment_lost(&mut self, frame: u32) {
        if let Some(sent) = self.get_mut(frame) {
            sent.lost_fragments += 1;
            self.doubt();
        }
    }

    /// Records that a fragment that counted as lost arrived.
    pub(crate) fn fragment_found(&mut self, frame: u32) {
        if let Some(sent) = self.get_mut(frame) {
            sent.lost_fragments = sent.lost_fragments.saturating_sub(1);
            self.doubt();
        }
    }

    /// Records that the lost fragments of a frame will not be sent again.
    pub(crate) fn give_up(&mut self, frame: u32) {
        // If the frame itself is no longer known, the oldest known frame cannot be decoded either.
        let broken = if self.get(frame).is_some() { Some(frame) } else { self.frames.front().map(|sent| sent.number) };
        if let Some(sent) = broken.filter(|&known| known >= frame).and_then(|broken| self.get_mut(broken)) {
            sent.lost_fragments += 1 + sent.spare_fragments;
            self.doubt();
        }
    }

    /// Whether the receiver does not hold the frame's state yet but still may, as far as is known.
    pub(crate) fn may_arrive(&self, frame: u32) -> bool {
        if frame < self.anchor() || self.base == Some(frame) {
            return false;
        }
        self.get(frame).is_none_or(|sent| !sent.held && !sent.broken())
    }

    pub(crate) fn refused(&mut self, frame: u32) {
        if let Some(sent) = self.get_mut(frame).filter(|sent| !sent.refused) {
            sent.refused = true;
            self.doubt();
        }
    }

    /// Sets the frames whose states the receiver holds.
    pub(crate) fn catalogue(&mut self, catalogue: &[u32]) {
        if self.catalogue == catalogue && !std::mem::take(&mut self.reread) {
            return;
        }
        self.reread = false;
        self.catalogue.clear();
        self.catalogue.extend_from_slice(catalogue);
        self.unsettled = true;
        for &frame in catalogue.iter().rev() {
            let Ok(place) = self.place(frame) else { continue };
            let Some(sent) = self.frames.get_mut(place) else { continue };
            sent.named = true;
            if std::mem::replace(&mut sent.was_held, true) {
                self.doubts |= !sent.held;
            } else {
                self.verdicts.push(Verdict::Held(frame, sent.target));
            }
        }
        for sent in &mut self.frames {
            let named = std::mem::take(&mut sent.named);
            if std::mem::replace(&mut sent.held, named) != named {
                // A frame in flight that is now held changes no verdict.
                self.doubts |= !named || sent.lost_fragments > 0 || sent.refused || sent.orphaned;
            }
        }
    }

    /// Processes the changes since the last call.
    #[inline]
    pub(crate) fn settle(&mut self) {
        if std::mem::take(&mut self.unsettled) {
            self.draw_conclusions();
        }
    }

    fn draw_conclusions(&mut self) {
        self.settled = true;
        if std::mem::take(&mut self.doubts) {
            self.find_lost();
        }
        self.base = self.frames.iter().rev().find(|sent| sent.held && sent.retained).map(|sent| sent.number);
        self.advance_keep_from();
        self.forget();
    }

    fn find_lost(&mut self) {
        (0..self.frames.len()).for_each(|place| self.find_orphan(place));
        for sent in &mut self.frames {
            if !sent.was_held && !sent.reported && (sent.has_lost() || sent.refused) {
                sent.reported = true;
                self.verdicts.push(sent.missing());
            }
        }
    }

    /// Updates whether the source of the frame at `place` will never be held, by the frames before it.
    fn find_orphan(&mut self, place: usize) {
        if self.frames[place].source == StateId::EMPTY {
            return;
        }
        // If several frames yielded the source, `source_of` finds a broken one only if all are broken. A source that is
        // no longer known was released. After a spurious loss, nobody knows whether the frame arrived before that
        // release. The next catalogue that lists one of its successors decides.
        self.frames[place].orphaned = self.source_of(place).is_none_or(SentFrame::broken);
    }

    fn advance_keep_from(&mut self) {
        let Some(base) = self.base else { return };
        let mut least = self.reserved.map_or(base, |reserved| reserved.min(base));
        for (place, sent) in self.frames.iter().enumerate() {
            // Neither the frame nor its source is older than `least`.
            if self.twin.is_none() && sent.source_frame.is_some_and(|from| from >= least) {
                continue;
            }
            if !sent.was_held && (place + 1 == self.frames.len() || !sent.broken()) {
                least = least.min(self.source_of(place).unwrap_or(sent).number);
            }
        }
        self.keep_from = self.keep_from.max(least);
    }

    fn forget(&mut self) {
        // The newest frame stays known.
        let old =
            self.frames.partition_point(|sent| sent.number < self.keep_from).min(self.frames.len().saturating_sub(1));
        (0..old).for_each(|_| self.remove(0));
        while self.retained > self.bound {
            let Some(place) = self.spare_state() else { break };
            self.let_go(place);
            self.evicted += 1;
        }
        while self.frames.len() > self.bound.max(MAX_KNOWN_FRAMES) {
            let in_use = [self.base, self.reserved];
            let oldest = self.frames.iter().position(|sent| !in_use.contains(&Some(sent.number)));
            self.remove(oldest.unwrap_or(0));
            // Frames that depend on the removed one are now broken.
            self.doubt();
        }
    }

    /// Position of the frame whose state is evicted if there are too many. First choice: the oldest state that is
    /// useless, since the receiver will not hold it or holds a newer one. Otherwise, the remaining states must be
    /// spread evenly over the frames in flight. Then the few states that the receiver holds include some of them.
    fn spare_state(&self) -> Option<usize> {
        let newest = self.frames.back()?.number;
        let in_use = [Some(newest), self.base, self.reserved];
        let spare = |sent: &SentFrame| sent.retained && !in_use.contains(&Some(sent.number));
        let is_useless =
            |sent: &SentFrame| sent.broken() || self.base.is_some_and(|base| sent.held && sent.number < base);
        let useless = self.frames.iter().position(|sent| spare(sent) && is_useless(sent));
        useless.or_else(|| {
            let numbers = || self.frames.iter().filter(|sent| sent.retained).map(|sent| sent.number);
            // For each retained frame, the distance between the retained frames before and after it.
            let before = std::iter::once(0).chain(numbers());
            let after = numbers().skip(1).chain(std::iter::once(newest));
            let gaps = before.zip(after).map(|(before, after)| after - before);
            let retained = (0..self.frames.len()).filter(|&place| self.frames[place].retained);
            let spread = retained.zip(gaps).filter(|&(place, _)| spare(&self.frames[place]));
            spread.min_by_key(|&(_, gap)| gap).map(|(place, _)| place)
        })
    }

    /// The encoder releases the state of the frame at `place`, unless another frame yielded it as well.
    fn let_go(&mut self, place: usize) {
        let Some(sent) = self.frames.get_mut(place).filter(|sent| sent.retained) else { return };
        sent.retained = false;
        self.retained -= 1;
        let state = sent.target;
        if !self.has_twins() || !self.retains(state) {
            self.released.push(state);
        }
    }

    fn remove(&mut self, place: usize) {
        let twins = self.has_twins();
        self.let_go(place);
        let Some(sent) = self.frames.remove(place) else { return };
        if !sent.was_held && !sent.reported {
            self.verdicts.push(sent.missing());
        }
        if twins || self.base == Some(sent.number) || !sent.was_held && !sent.broken() {
            self.doubt();
        }
    }
}

#[cfg(test)]
mod model;

#[cfg(test)]
mod tests;
