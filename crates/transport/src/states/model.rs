//! Model of [`SentStates`] for tests: it recomputes all verdicts after every change.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{MAX_KNOWN_FRAMES, SentStates, Verdict};
use crate::StateId;

#[derive(Debug)]
struct SentFrame {
    source: StateId,
    target: StateId,
    /// Whether the encoder retains the target state.
    retained: bool,
    /// Number of fragments that count as lost.
    lost_fragments: u32,
    /// Number of lost fragments that parity can restore.
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
}

impl SentFrame {
    /// Whether the receiver will not hold the target state, as far as is known.
    fn broken(&self) -> bool {
        !self.held && (self.was_held || self.lost_fragments > self.spare_fragments || self.refused || self.orphaned)
    }

    fn missing(&self, frame: u32) -> Verdict {
        let lost = self.lost_fragments > self.spare_fragments;
        if self.refused && !lost { Verdict::Refused(frame) } else { Verdict::Lost(frame) }
    }
}

#[derive(Debug)]
struct Model {
    frames: BTreeMap<u32, SentFrame>,
    bound: usize,
    /// Newest frame whose state the receiver holds.
    base: Option<u32>,
    /// Frame whose state the owner may be encoding from.
    reserved: Option<u32>,
    keep_from: u32,
    verdicts: Vec<Verdict>,
    released: Vec<StateId>,
    evicted: u64,
}

impl Model {
    /// Room for `bound` states, at least five.
    fn new(bound: usize) -> Self {
        Self {
            frames: BTreeMap::new(),
            bound: bound.max(5),
            base: None,
            reserved: None,
            keep_from: 0,
            verdicts: Vec::new(),
            released: Vec::new(),
            evicted: 0,
        }
    }

    /// Reduces the number of retained states to the receiver's bound.
    fn limit(&mut self, bound: usize) {
        self.bound = self.bound.min(bound).max(5);
        self.settle();
    }

    fn retained(&self) -> usize {
        self.frames.values().filter(|frame| frame.retained).count()
    }

    fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Both ends may release states of frames older than this one.
    fn keep_from(&self) -> u32 {
        self.keep_from
    }

    /// Frame whose state the receiver must not evict.
    fn anchor(&self) -> u32 {
        self.base.unwrap_or(0).max(self.keep_from)
    }

    /// Takes the verdicts since the last call.
    fn take_verdicts(&mut self) -> Vec<Verdict> {
        std::mem::take(&mut self.verdicts)
    }

    /// Takes the released states since the last call.
    fn take_released(&mut self) -> Vec<StateId> {
        std::mem::take(&mut self.released)
    }

    fn retains(&self, state: StateId) -> bool {
        state == StateId::EMPTY || self.frames.values().any(|frame| frame.retained && frame.target == state)
    }

    fn is_held(&self, state: StateId) -> bool {
        let is_held = |frame: &SentFrame| frame.held && frame.retained && frame.target == state;
        state == StateId::EMPTY || self.frames.values().any(is_held)
    }

    fn target(&self, frame: u32) -> Option<StateId> {
        self.frames.get(&frame).map(|sent| sent.target)
    }

    /// Newest frame older than `before` that yields the state. A frame whose state is held takes precedence.
    fn frame_of(&self, state: StateId, before: u32) -> Option<u32> {
        let named = || self.frames.range(..before).rev().filter(move |(_, frame)| frame.target == state);
        let held = named().find(|(_, frame)| frame.held);
        held.or_else(|| named().find(|(_, frame)| !frame.broken())).or_else(|| named().next()).map(|(&at, _)| at)
    }

    /// Source state of the next frame.
    fn source(&self) -> StateId {
        self.source_frame().and_then(|frame| self.target(frame)).unwrap_or(StateId::EMPTY)
    }

    fn source_frame(&self) -> Option<u32> {
        let newest = self.frames.iter().next_back();
        newest.filter(|(_, sent)| !sent.broken()).map(|(&frame, _)| frame).or(self.base)
    }

    /// As [`Self::source`]; the state is kept until the next frame is sent or this is called again.
    fn reserve(&mut self) -> StateId {
        self.reserved = self.source_frame();
        self.source()
    }

    /// Newest state that the receiver holds. As [`Self::reserve`] if it holds none.
    fn reserve_held(&mut self) -> StateId {
        self.reserved = self.base.or_else(|| self.source_frame());
        self.reserved.and_then(|frame| self.target(frame)).unwrap_or(StateId::EMPTY)
    }

    fn sent(&mut self, frame: u32, source: StateId, target: StateId, spare_fragments: u16) {
        let (refused, orphaned, held, was_held, reported) = (false, false, false, false, false);
        let (retained, lost_fragments, spare_fragments) = (true, 0, spare_fragments.into());
        let sent = SentFrame {
            source,
            target,
            retained,
            lost_fragments,
            spare_fragments,
            refused,
            orphaned,
            held,
            was_held,
            reported,
        };
        self.frames.insert(frame, sent);
        self.reserved = None;
        self.settle();
    }

    /// Records that a fragment of the frame counts as lost.
    fn fragment_lost(&mut self, frame: u32) {
        if let Some(sent) = self.frames.get_mut(&frame) {
            sent.lost_fragments += 1;
        }
    }

    /// Records that a fragment that counted as lost arrived.
    fn fragment_found(&mut self, frame: u32) {
        if let Some(sent) = self.frames.get_mut(&frame) {
            sent.lost_fragments = sent.lost_fragments.saturating_sub(1);
        }
    }

    /// Records that the lost fragments of a frame will not be sent again.
    fn give_up(&mut self, frame: u32) {
        // If the frame itself is no longer known, the oldest known frame cannot be decoded either.
        let broken = if self.frames.contains_key(&frame) { Some(frame) } else { self.frames.keys().next().copied() };
        if let Some(sent) = broken.filter(|&known| known >= frame).and_then(|broken| self.frames.get_mut(&broken)) {
            sent.lost_fragments += 1 + sent.spare_fragments;
        }
    }

    /// Whether the receiver does not hold the frame's state yet but still may, as far as is known.
    fn may_arrive(&self, frame: u32) -> bool {
        let open = self.frames.get(&frame).is_none_or(|sent| !sent.held && !sent.broken());
        open && self.base != Some(frame) && frame >= self.anchor()
    }

    fn refused(&mut self, frame: u32) {
        if let Some(sent) = self.frames.get_mut(&frame) {
            sent.refused = true;
        }
    }

    /// Sets the frames whose states the receiver holds.
    fn catalogue(&mut self, catalogue: &[u32]) {
        for sent in self.frames.values_mut() {
            sent.held = false;
        }
        for &frame in catalogue.iter().rev() {
            let Some(sent) = self.frames.get_mut(&frame) else { continue };
            sent.held = true;
            if !std::mem::replace(&mut sent.was_held, true) {
                self.verdicts.push(Verdict::Held(frame, sent.target));
            }
        }
    }

    /// Recomputes everything.
    fn settle(&mut self) {
        self.find_orphans();
        for (&frame, sent) in &mut self.frames {
            if !sent.was_held && !sent.reported && (sent.lost_fragments > sent.spare_fragments || sent.refused) {
                sent.reported = true;
                self.verdicts.push(sent.missing(frame));
            }
        }
        self.base = self.frames.iter().rev().find(|(_, sent)| sent.held && sent.retained).map(|(&frame, _)| frame);
        self.advance_keep_from();
        self.forget();
    }

    fn find_orphans(&mut self) {
        let frames: Vec<(u32, StateId)> = self.frames.iter().map(|(&frame, sent)| (frame, sent.source)).collect();
        for (frame, source) in frames {
            if source == StateId::EMPTY {
                continue;
            }
            // A frame whose source is no longer known counts as orphaned.
            let sound = self.frames.range(..frame).any(|(_, older)| older.target == source && !older.broken());
            if let Some(sent) = self.frames.get_mut(&frame) {
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
        let old = self.frames.range(..self.keep_from).map(|(&frame, _)| frame);
        let old: Vec<u32> = old.filter(|&frame| Some(frame) != newest).collect();
        old.into_iter().for_each(|frame| self.remove(frame));
        let in_use = [newest, self.base, self.reserved];
        while self.retained() > self.bound {
            let retained: Vec<u32> = self.frames.iter().filter(|(_, sent)| sent.retained).map(|(&at, _)| at).collect();
            let spare: Vec<usize> = (0..retained.len()).filter(|&at| !in_use.contains(&Some(retained[at]))).collect();
            let useless = spare.iter().find(|&&at| {
                let sent = &self.frames[&retained[at]];
                sent.broken() || sent.held && self.base.is_some_and(|base| retained[at] < base)
            });
            let gap = |at: usize| retained[at + 1] - at.checked_sub(1).map_or(0, |before| retained[before]);
            let Some(&victim) = useless.or_else(|| spare.iter().min_by_key(|&&at| gap(at))) else { break };
            self.let_go(retained[victim]);
            self.evicted += 1;
        }
        while self.frames.len() > self.bound.max(MAX_KNOWN_FRAMES) {
            let in_use = [self.base, self.reserved];
            let oldest = self.frames.keys().copied().find(|&frame| !in_use.contains(&Some(frame)));
            self.remove(oldest.expect("few are in use"));
        }
    }

    fn let_go(&mut self, frame: u32) {
        let Some(sent) = self.frames.get_mut(&frame).filter(|sent| sent.retained) else { return };
        sent.retained = false;
        let state = sent.target;
        if !self.retains(state) {
            self.released.push(state);
        }
    }

    fn remove(&mut self, frame: u32) {
        self.let_go(frame);
        let Some(sent) = self.frames.remove(&frame) else { return };
        if !sent.was_held && !sent.reported {
            self.verdicts.push(sent.missing(frame));
        }
    }
}

proptest! {
    /// Frames from any known state, some of which yield the state of another frame. Real and spurious losses, refusals,
    /// and catalogues of sent and unsent frames.
    #[test]
    fn verdicts_updated_on_change_equal_recomputed_verdicts(
        operations in prop::collection::vec((0..16u8, 0..24u32, any::<u16>()), 0..300),
        bound in prop::sample::select(vec![5, 8, 32]),
        twins in any::<bool>(),
    ) {
        let (mut states, mut model) = (SentStates::new(bound), Model::new(bound));
        let mut next = 0;
        let target = |frame: u32| StateId(u64::from(if twins { frame / 2 } else { frame }) + 100);
        let mut arrived: Vec<bool> = Vec::new();
        for (operation, number, bits) in operations {
            let frame = u32::saturating_sub(next, number);
            match operation {
                0..=4 => {
                    let source = match operation {
                        0 => target(frame),
                        1 => { model.reserve_held(); states.reserve_held() }
                        2 => StateId::EMPTY,
                        _ => { model.reserve(); states.reserve() }
                    };
                    prop_assert_eq!(states.retains(source), model.retains(source));
                    if operation != 4 && model.retains(source) {
                        // A frame that does not fit is not sent, and its number is not used.
                        let spare = bits % 3;
                        states.sent(next, source, target(next), spare);
                        model.sent(next, source, target(next), spare);
                        next += 1;
                    }
                }
                5 | 6 => { states.fragment_lost(frame); model.fragment_lost(frame); }
                7 => { states.fragment_found(frame); model.fragment_found(frame); }
                8 => { states.refused(frame); model.refused(frame); }
                9 => { states.give_up(frame); model.give_up(frame); }
                10 if number == 0 => { states.limit(usize::from(bits % 8)); model.limit(usize::from(bits % 8)); }
                11..=14 => {
                    // Newest first, as receivers list them.
                    let listed = (0..16).filter(|at| bits >> at & 1 == 1);
                    let list: Vec<_> = listed.map(|at| frame.saturating_add(3).saturating_sub(at)).collect();
                    for _ in 0..operation - 10 {
                        states.catalogue(&list);
                        model.catalogue(&list);
                        states.settle();
                        model.settle();
                    }
                }
                _ => {}
            }
            states.settle();
            model.settle();
            prop_assert_eq!(states.take_verdicts().collect::<Vec<_>>(), model.take_verdicts());
            let released: std::collections::BTreeSet<StateId> = model.take_released().into_iter().collect();
            prop_assert_eq!(states.take_released().collect::<Vec<_>>(), released.into_iter().collect::<Vec<_>>());
            prop_assert_eq!((states.retained(), states.evicted(), states.keep_from(), states.anchor(), states.source()),
                (model.retained(), model.evicted(), model.keep_from(), model.anchor(), model.source()));
            let may_arrive: Vec<bool> = (0..next).map(|frame| states.may_arrive(frame)).collect();
            if !states.take_settled() {
                prop_assert_eq!(&may_arrive, &arrived);
            }
            for frame in 0..next + 2 {
                prop_assert_eq!(states.may_arrive(frame), model.may_arrive(frame));
                prop_assert_eq!(states.target(frame), model.target(frame));
                prop_assert_eq!(states.is_held(target(frame)), model.is_held(target(frame)));
                prop_assert_eq!(states.retains(target(frame)), model.retains(target(frame)));
            }
            arrived = may_arrive;
        }
    }
}
