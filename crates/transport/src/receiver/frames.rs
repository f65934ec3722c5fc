//! Hands out frames, drops them, and takes the verdicts of the owner.

use super::Receiver;
use super::decoding::NextStep;
use crate::payload::Payload;
use crate::reassembly::{Frame, Stage};
use crate::{DropReason, ReceiverEvent, StateId};

impl<P: Payload> Receiver<P> {
    /// Hands out the frames that can be decoded now, and drops those that no frame needs any more.
    pub(super) fn advance(&mut self) {
        if !self.window.has_waiting() {
            return;
        }
        self.decoding.find_needed(&self.window);
        let mut last = None;
        while let Some(frame) = self.window.next_waiting(last) {
            let number = frame.number;
            last = Some(number);
            match self.decoding.turn(frame) {
                NextStep::HandOut => {}
                NextStep::Wait => continue,
                NextStep::Superseded => {
                    self.window.discard(number);
                    self.drop_frame(number, Stage::Complete, DropReason::Superseded);
                    continue;
                }
            }
            let Some((frame, payload)) = self.window.settle(number) else { continue };
            let Some(payload) = payload else {
                self.drop_frame(number, Stage::Complete, DropReason::Contradictory);
                continue;
            };
            self.decoding.on_handed_out(&frame);
            let Frame { source, target, captured, key_frame, restored, .. } = frame;
            self.statistics.restored += u64::from(restored);
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
        // The sender detects an incomplete frame by its lost fragments, but it cannot detect a lack of room.
        if reason != DropReason::Incomplete {
            self.acknowledging.on_refused(frame);
        }
        self.events.push_back(ReceiverEvent::Dropped { frame, reason });
    }

    pub(super) fn sweep(&mut self) {
        let Some((released, evicted)) = self.decoding.sweep(&self.window) else { return };
        self.statistics.evicted_states += evicted;
        self.events.extend(released.iter().copied().map(ReceiverEvent::Release));
    }

    /// Evicts a state as if the decoder held too many, so that the owner can bound their memory. Returns whether there
    /// was one to evict.
    pub fn evict_state(&mut self) -> bool {
        let Some(released) = self.decoding.evict(&self.window) else { return false };
        self.statistics.evicted_states += 1;
        self.events.extend(released.iter().copied().map(ReceiverEvent::Release));
        true
    }

    /// Records that the owner decoded a frame into `state`. If the frame named another target state, it counts as
    /// failed and `state` is released.
    pub fn frame_decoded(&mut self, frame: u32, state: StateId) {
        let Some(target) = self.decoding.take_pending(frame) else {
            self.statistics.unknown_verdicts += 1;
            return;
        };
        if state == target {
            self.statistics.decoded += 1;
            self.decoding.on_decoded(frame, state);
        } else {
            self.statistics.failed += 1;
            self.acknowledging.on_refused(frame);
            if !self.decoding.catalogue().holds(state) {
                self.events.push_back(ReceiverEvent::Release(state));
            }
        }
        self.acknowledging.on_verdict();
        self.advance();
        self.sweep();
    }

    /// Drops a frame that was handed out but not decoded yet. A newer frame must have been decoded, and no frame may
    /// need its state. Returns whether it did.
    pub fn supersede(&mut self, frame: u32) -> bool {
        if !self.decoding.take_superseded(frame, &self.window) {
            return false;
        }
        self.drop_frame(frame, Stage::Complete, DropReason::Superseded);
        true
    }

    /// Records that the owner failed to decode a frame.
    pub fn frame_failed(&mut self, frame: u32) {
        if self.decoding.take_pending(frame).is_none() {
            self.statistics.unknown_verdicts += 1;
            return;
        }
        self.statistics.failed += 1;
        self.acknowledging.on_refused(frame);
        self.advance();
        self.sweep();
    }
}
