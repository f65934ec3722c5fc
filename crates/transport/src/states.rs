//! The states that the sender knows: which ones the receiver holds, which one the next frame is encoded from, which
//! ones nobody will need again.
//!
//! A frame's state may become a source as long as the frame is not older than [`SentStates::keep_from`], which never
//! goes back, and never passes the newest state that the receiver holds nor the source of a frame on whose decoding
//! anything may still depend. Only states that the receiver keeps by that rule are ever chosen, so an acknowledgement
//! that comes late cannot make the sender choose one that the receiver has been allowed to forget.
//!
//! The encoder has room for few states, and more frames than that may be under way: they wait for the pacer, or in a
//! queue of seconds. So what is known of a frame, which is little, and its state are two things. States go for want of
//! room, and then no further frame is encoded from them; what is known of the frame stays until it is older than
//! [`SentStates::keep_from`], or else a loss of it would break the frames after it unnoticed, and the receiver would be
//! told to let go the state that it waits to be decoded from.

use std::collections::VecDeque;

use crate::StateId;

/// So many frames are known at most where their states are fewer: twice as many as a receiver's window spans.
const MOST_KNOWN: usize = 512;

#[derive(Debug)]
struct SentFrame {
    number: u32,
    source: StateId,
    /// The frame that yielded the source, if it was known: the only one where no two yielded the same state.
    source_frame: Option<u32>,
    target: StateId,
    /// The encoder has its state.
    retained: bool,
    /// How many of its fragments count as lost, and how many may be: its parity restores them.
    lost_fragments: u32,
    spare_fragments: u32,
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
    /// The catalogue that is being read names it.
    named: bool,
}

impl SentFrame {
    /// Too many of its fragments are lost.
    fn has_lost(&self) -> bool {
        self.lost_fragments > self.spare_fragments
    }

    /// The receiver will not have its state, by what is known.
    fn broken(&self) -> bool {
        !self.held && (self.was_held || self.has_lost() || self.refused || self.orphaned)
    }

    /// What became of it, since the receiver does not hold it and will not.
    fn missing(&self) -> Verdict {
        if self.refused && !self.has_lost() { Verdict::Refused(self.number) } else { Verdict::Lost(self.number) }
    }
}

/// What became of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The receiver holds its state.
    Held(u32, StateId),
    /// It was lost, or is too old to wait for.
    Lost(u32),
    /// It came, and the receiver did not decode it.
    Refused(u32),
}

#[derive(Debug)]
pub(crate) struct SentStates {
    /// By number, the oldest first.
    frames: VecDeque<SentFrame>,
    /// How many of them have their states.
    retained: usize,
    /// How many may.
    bound: usize,
    /// The newest frame that the receiver holds.
    base: Option<u32>,
    /// The frame whose state the owner may be encoding from.
    reserved: Option<u32>,
    keep_from: u32,
    /// What the receiver said last that it holds.
    catalogue: Vec<u32>,
    /// What it said may mean something else by now.
    reread: bool,
    /// The newest frame whose state an older known one had yielded too.
    twin: Option<u32>,
    /// Something changed from which [`Self::settle`] has drawn no conclusions.
    unsettled: bool,
    /// Among it, that a frame is broken, mended, lost or forgotten.
    doubts: bool,
    /// Conclusions were drawn since [`Self::take_settled`] was asked.
    settled: bool,
    verdicts: Vec<Verdict>,
    released: Vec<StateId>,
    evicted: u64,
}

impl SentStates {
    /// Room for `bound` states, at least five: newest sent, newest held, reserved and two to work with.
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

    /// The receiver has less room than was thought.
    pub(crate) fn limit(&mut self, bound: usize) {
        self.bound = self.bound.min(bound).max(5);
        self.unsettled = true;
        self.settle();
    }

    /// How many frames' states the encoder has.
    pub(crate) fn retained(&self) -> usize {
        self.retained
    }

    pub(crate) fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Older frames' states may be forgotten by both sides.
    pub(crate) fn keep_from(&self) -> u32 {
        self.keep_from
    }

    /// The frame whose state the receiver must not evict.
    pub(crate) fn anchor(&self) -> u32 {
        self.base.unwrap_or(0).max(self.keep_from)
    }

    /// Whether there is anything for [`Self::take_verdicts`] or [`Self::take_released`] to give.
    pub(crate) fn has_news(&self) -> bool {
        !(self.verdicts.is_empty() && self.released.is_empty())
    }

    /// What became of frames since the last call.
    pub(crate) fn take_verdicts(&mut self) -> impl Iterator<Item = Verdict> {
        self.verdicts.drain(..)
    }

    /// The states to forget since the last call, in their names' order, each once.
    pub(crate) fn take_released(&mut self) -> impl Iterator<Item = StateId> {
        self.released.sort_unstable();
        self.released.dedup();
        self.released.drain(..)
    }

    /// Whether [`Self::settle`] had anything to do since the last call: only then [`Self::may_arrive`] says anything
    /// new.
    pub(crate) fn take_settled(&mut self) -> bool {
        std::mem::take(&mut self.settled)
    }

    /// Whether the encoder has the state.
    pub(crate) fn retains(&self, state: StateId) -> bool {
        state == StateId::EMPTY || self.frames.iter().rev().any(|frame| frame.target == state && frame.retained)
    }

    /// Whether the encoder has the state, and so has the receiver.
    pub(crate) fn is_held(&self, state: StateId) -> bool {
        let is_held = |frame: &SentFrame| frame.held && frame.retained && frame.target == state;
        state == StateId::EMPTY || self.frames.iter().any(is_held)
    }

    pub(crate) fn target(&self, frame: u32) -> Option<StateId> {
        self.get(frame).map(|sent| sent.target)
    }

    /// Where the frame is.
    fn place(&self, frame: u32) -> Result<usize, usize> {
        let first = self.frames.front().map_or(0, |first| first.number);
        let Some(distance) = frame.checked_sub(first) else { return Err(0) };
        // None is missing between them but after a shortage of room.
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

    /// Whether two frames may have yielded the same state.
    fn has_twins(&self) -> bool {
        self.twin.is_some_and(|twin| self.frames.front().is_some_and(|oldest| oldest.number < twin))
    }

    /// The newest frame, before the one at `end`, whose state this is; one whose state is held before one whose is not.
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

    /// As [`Self::frame_of`], of the source of the frame at `place`.
    fn source_of(&self, place: usize) -> Option<&SentFrame> {
        let sent = &self.frames[place];
        // Asked of every frame whenever one is lost, and most of them may be coded from one that is long ago.
        if self.twin.is_none() {
            return sent.source_frame.and_then(|from| self.get(from));
        }
        self.frame_of(sent.source, place)
    }

    /// The state that the next frame is to be encoded from.
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

    /// As [`Self::source`]; the state is kept until the next frame is sent or this is asked again.
    pub(crate) fn reserve(&mut self) -> StateId {
        self.set_reserved(self.source_frame());
        self.source()
    }

    /// The newest state that the receiver holds, or as [`Self::reserve`] if it is not known to hold any.
    pub(crate) fn reserve_held(&mut self) -> StateId {
        self.set_reserved(self.base.or_else(|| self.source_frame()));
        self.reserved.and_then(|frame| self.target(frame)).unwrap_or(StateId::EMPTY)
    }

    /// A frame, newer than all others, was sent, of which so many fragments may be lost.
    pub(crate) fn sent(&mut self, frame: u32, source: StateId, target: StateId, spare_fragments: u16) {
        if self.frames.iter().rev().any(|known| known.target == target) {
            self.twin = Some(frame);
        }
        self.reread |= self.catalogue.iter().any(|&named| named >= frame);
        let (refused, orphaned, held, was_held, told, named) = (false, false, false, false, false, false);
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
            told,
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

    /// A fragment of the frame counts as lost.
    pub(crate) fn fragment_lost(&mut self, frame: u32) {
        if let Some(sent) = self.get_mut(frame) {
            sent.lost_fragments += 1;
            self.doubt();
        }
    }

    /// A fragment that counted as lost arrived after all.
    pub(crate) fn fragment_found(&mut self, frame: u32) {
        if let Some(sent) = self.get_mut(frame) {
            sent.lost_fragments = sent.lost_fragments.saturating_sub(1);
            self.doubt();
        }
    }

    /// A frame will not be sent again though fragments of it are lost.
    pub(crate) fn give_up(&mut self, frame: u32) {
        // Where the frame itself is known no longer, the oldest known one cannot be decoded either.
        let broken = if self.get(frame).is_some() { Some(frame) } else { self.frames.front().map(|sent| sent.number) };
        if let Some(sent) = broken.filter(|&known| known >= frame).and_then(|broken| self.get_mut(broken)) {
            sent.lost_fragments += 1 + sent.spare_fragments;
            self.doubt();
        }
    }

    /// Whether the receiver may still have the frame's state, and does not yet, by what is known.
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

    /// The receiver holds these frames' states and no others.
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
                // One that was on its way and is held now surprises nobody.
                self.doubts |= !named || sent.lost_fragments > 0 || sent.refused || sent.orphaned;
            }
        }
    }

    /// Draws the conclusions from what changed.
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
            if !sent.was_held && !sent.told && (sent.has_lost() || sent.refused) {
                sent.told = true;
                self.verdicts.push(sent.missing());
            }
        }
    }

    /// Whether the source of the frame at `place` will ever be held, by what is known of the frames before it.
    fn find_orphan(&mut self, place: usize) {
        if self.frames[place].source == StateId::EMPTY {
            return;
        }
        // Where several frames yielded it, the one that is found is broken only if all are. A source that is no longer
        // known has been let go: of a frame that was taken for lost then, though it is not, nobody knows whether it came
        // before that, until the receiver holds what it led to.
        self.frames[place].orphaned = self.source_of(place).is_none_or(SentFrame::broken);
    }

    fn advance_keep_from(&mut self) {
        let Some(base) = self.base else { return };
        let mut least = self.reserved.map_or(base, |reserved| reserved.min(base));
        for (place, sent) in self.frames.iter().enumerate() {
            // Neither its source nor itself is older.
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
        // The newest stays.
        let old =
            self.frames.partition_point(|sent| sent.number < self.keep_from).min(self.frames.len().saturating_sub(1));
        (0..old).for_each(|_| self.remove(0));
        while self.retained > self.bound {
            let Some(place) = self.spare_state() else { break };
            self.let_go(place);
            self.evicted += 1;
        }
        while self.frames.len() > self.bound.max(MOST_KNOWN) {
            let in_use = [self.base, self.reserved];
            let oldest = self.frames.iter().position(|sent| !in_use.contains(&Some(sent.number)));
            self.remove(oldest.unwrap_or(0));
            // What waited for it waits no longer.
            self.doubt();
        }
    }

    /// The place of the frame whose state can be missed most, where there are too many: the oldest of which nothing is
    /// to be had, because the receiver will not hold it or holds a newer one; otherwise such that those that are left
    /// are spread evenly over what is under way, so that some of them are always among the few that the receiver holds.
    fn spare_state(&self) -> Option<usize> {
        let newest = self.frames.back()?.number;
        let in_use = [Some(newest), self.base, self.reserved];
        let spare = |sent: &SentFrame| sent.retained && !in_use.contains(&Some(sent.number));
        let is_useless =
            |sent: &SentFrame| sent.broken() || self.base.is_some_and(|base| sent.held && sent.number < base);
        let useless = self.frames.iter().position(|sent| spare(sent) && is_useless(sent));
        useless.or_else(|| {
            let numbers = || self.frames.iter().filter(|sent| sent.retained).map(|sent| sent.number);
            // Each with the distance between the retained frames before and after it.
            let before = std::iter::once(0).chain(numbers());
            let after = numbers().skip(1).chain(std::iter::once(newest));
            let gaps = before.zip(after).map(|(before, after)| after - before);
            let retained = (0..self.frames.len()).filter(|&place| self.frames[place].retained);
            let spread = retained.zip(gaps).filter(|&(place, _)| spare(&self.frames[place]));
            spread.min_by_key(|&(_, gap)| gap).map(|(place, _)| place)
        })
    }

    /// The encoder forgets the state of the frame at `place`, unless another frame yielded it, too.
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
        if !sent.was_held && !sent.told {
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
