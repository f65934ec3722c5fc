//! What the owner of a sender hears of.

use super::Sender;
use crate::payload::Payload;
use crate::states::Verdict;
use crate::wire::Acknowledgement;
use crate::{Feedback, SenderEvent};

impl<P: Payload> Sender<P> {
    /// Turns what the states concluded into events.
    #[inline]
    pub(super) fn tell(&mut self) {
        if self.states.has_news() {
            self.tell_verdicts();
        }
    }

    fn tell_verdicts(&mut self) {
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

    /// The owner has done with `feedback`, whose memory is used again.
    pub fn reuse(&mut self, feedback: Feedback) {
        self.spare = feedback.acknowledged;
        self.spare.clear();
    }

    /// The acknowledgement that was handled last, once: its memory is for [`Receiver::reuse`](crate::Receiver::reuse).
    pub fn take_handled(&mut self) -> Option<Box<Acknowledgement>> {
        self.handled.take()
    }

    /// Whether [`Self::poll_event`] has something.
    #[inline]
    #[must_use]
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// What has happened and was not polled yet.
    pub fn poll_event(&mut self) -> Option<SenderEvent> {
        let event = self.events.pop_front();
        if event.is_none() {
            // As a ring: begins anew at its front.
            self.events.clear();
        }
        event
    }
}
