//! Events for the owner of a sender.

use super::Sender;
use crate::payload::Payload;
use crate::states::Verdict;
use crate::wire::Acknowledgement;
use crate::{Feedback, SenderEvent};

impl<P: Payload> Sender<P> {
    /// Emits the verdicts and releases of the states as events.
    #[inline]
    pub(super) fn emit_events(&mut self) {
        if self.states.has_changes() {
            self.emit_verdicts();
        }
    }

    fn emit_verdicts(&mut self) {
        for verdict in self.states.take_verdicts() {
            self.events.push_back(match verdict {
                Verdict::Held(frame, state) => {
                    self.statistics.frames_acknowledged += 1;
                    SenderEvent::FrameAcknowledged { frame, state }
                }
                Verdict::Lost(frame) => {
                    self.statistics.frames_lost += 1;
                    SenderEvent::FrameLost(frame)
                }
                Verdict::Refused(frame) => {
                    self.statistics.frames_refused += 1;
                    SenderEvent::FrameRefused(frame)
                }
            });
        }
        self.events.extend(self.states.take_released().map(SenderEvent::Release));
    }

    /// Returns the memory of `feedback` for reuse.
    pub fn reuse(&mut self, feedback: Feedback) {
        self.spare = feedback.acknowledged;
        self.spare.clear();
    }

    /// Takes the acknowledgement that was handled last. Pass it to [`Receiver::reuse`](crate::Receiver::reuse) to reuse
    /// its memory.
    pub fn take_handled(&mut self) -> Option<Box<Acknowledgement>> {
        self.handled.take()
    }

    /// Whether [`Self::poll_event`] has an event.
    #[inline]
    #[must_use]
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<SenderEvent> {
        let event = self.events.pop_front();
        if event.is_none() {
            // An empty deque restarts at its first slot, which is in the cache (see `Ring`).
            self.events.clear();
        }
        event
    }
}
