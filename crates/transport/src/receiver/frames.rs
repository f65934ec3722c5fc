//! What becomes of frames: handed out, dropped, judged.

use super::{REFUSED_LISTED, Receiver};
use crate::payload::Payload;
use crate::reassembly::{Frame, Stage};
use crate::{DropReason, ReceiverEvent, StateId};

impl<P: Payload> Receiver<P> {
    /// Hands out the frames that can be decoded now, drops those that are not needed any more.
    pub(super) fn advance(&mut self) {
        if !self.window.has_waiting() {
            return;
        }
        self.window.needed(self.decoded, &mut self.needed);
        let mut last = None;
        while let Some(frame) = self.window.next_waiting(last) {
            let (number, source) = (frame.number, frame.source);
            last = Some(number);
            let is_needed = self.needed.contains(&frame.target);
            if !is_needed && self.decoded.is_some_and(|decoded| number < decoded) {
                self.window.discard(number);
                self.drop_frame(number, Stage::Complete, DropReason::Superseded);
                continue;
            }
            let handed_out = self.pending.last().map(|&(newest, ..)| newest);
            let in_turn = is_needed || handed_out.is_none_or(|newest| number > newest);
            let room = self.pending.len() < self.config.window as usize;
            if !(in_turn && room && self.catalogue.holds(source)) {
                continue;
            }
            let Some((frame, payload)) = self.window.settle(number) else { continue };
            let Some(payload) = payload else {
                self.drop_frame(number, Stage::Complete, DropReason::Contradictory);
                continue;
            };
            let Frame { target, captured, key_frame, restored, .. } = frame;
            self.statistics.restored += u64::from(restored);
            let place = self.pending.partition_point(|&(pending, ..)| pending < number);
            self.pending.insert(place, (number, source, target));
            self.statistics.frames += 1;
            let frame = number;
            self.events.push_back(ReceiverEvent::Frame { frame, source, target, captured, key_frame, payload });
        }
    }

    pub(super) fn drop_frame(&mut self, frame: u32, stage: Stage, reason: DropReason) {
        if stage == Stage::Complete {
            self.statistics.refused += 1;
        } else {
            self.statistics.incomplete += 1;
        }
        // The sender notices by itself that an incomplete frame lost fragments, but not that there was no room.
        if reason != DropReason::Incomplete {
            self.refuse(frame);
        }
        self.events.push_back(ReceiverEvent::Dropped { frame, reason });
    }

    fn refuse(&mut self, frame: u32) {
        self.refused.push_front(frame);
        self.refused.truncate(REFUSED_LISTED);
        self.tell_verdict();
    }

    pub(super) fn sweep(&mut self) {
        if !self.catalogue.is_untidy(self.keep) {
            return;
        }
        self.window.needed(self.decoded, &mut self.needed);
        let in_use = |state| self.needed.contains(&state) || self.pending.iter().any(|&(_, source, _)| source == state);
        let (released, evicted) = self.catalogue.sweep(self.keep, in_use);
        self.statistics.evicted_states += evicted;
        self.events.extend(released.iter().copied().map(ReceiverEvent::Release));
    }

    /// A frame that was handed out waits for the owner's verdict no longer; gives its target, if it did.
    fn judged(&mut self, frame: u32) -> Option<StateId> {
        let place = self.pending.iter().position(|&(pending, ..)| pending == frame)?;
        Some(self.pending.remove(place).2)
    }

    /// The owner has decoded a frame that was handed out, and it yielded `state`. If that is not the state that the
    /// frame named, the frame counts as failed and `state` is released.
    pub fn frame_decoded(&mut self, frame: u32, state: StateId) {
        let Some(target) = self.judged(frame) else {
            self.statistics.unknown_verdicts += 1;
            return;
        };
        if state == target {
            self.statistics.decoded += 1;
            self.catalogue.insert(frame, state);
            self.decoded = self.decoded.max(Some(frame));
        } else {
            self.statistics.failed += 1;
            self.refuse(frame);
            if !self.catalogue.holds(state) {
                self.events.push_back(ReceiverEvent::Release(state));
            }
        }
        self.tell_verdict();
        self.advance();
        self.sweep();
    }

    /// Drops a frame that was handed out and that the owner has not begun to decode, if a newer one was decoded and none
    /// needs its state; says whether it did.
    pub fn supersede(&mut self, frame: u32) -> bool {
        if self.decoded.is_none_or(|decoded| frame >= decoded) {
            return false;
        }
        self.window.needed(self.decoded, &mut self.needed);
        let is_useless = |&(pending, _, target): &_| pending == frame && !self.needed.contains(&target);
        let Some(place) = self.pending.iter().position(is_useless) else { return false };
        self.pending.remove(place);
        self.drop_frame(frame, Stage::Complete, DropReason::Superseded);
        true
    }

    /// The owner could not decode a frame that was handed out.
    pub fn frame_failed(&mut self, frame: u32) {
        if self.judged(frame).is_none() {
            self.statistics.unknown_verdicts += 1;
            return;
        }
        self.statistics.failed += 1;
        self.refuse(frame);
        self.advance();
        self.sweep();
    }
}
