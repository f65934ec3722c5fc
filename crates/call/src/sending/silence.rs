//! What the sending end does when nothing is heard of what it sends.

use lockstep_units::Timestamp;

use super::SendingEnd;
use crate::codec::Codec;

impl<C: Codec> SendingEnd<C> {
    /// Something came from the other end after nothing had for a while, by whatever way: where the path was silent, the
    /// next picture finds out whether it still is.
    pub fn path_returned(&mut self, now: Timestamp) {
        self.bound.on_return(now);
    }

    /// A hello was answered. Where something else was heard of meanwhile, that says more.
    pub(super) fn answered(&mut self, now: Timestamp) {
        if self.bound.is_silent(now) {
            self.path_returned(now);
        }
    }

    /// Frames of before a silence are not sent any more when it begins; a probe of the silence itself stays. As long as it
    /// lasts hellos go, unless sound does.
    pub(super) fn note_silence(&mut self, now: Timestamp) {
        let silent = self.controller.is_bounded() && self.bound.is_silent(now);
        if silent && !self.silent && self.transport.drop_waiting() > 0 {
            self.drain_events(now);
        }
        self.silent = silent;
        if !silent || self.closed || self.talks(now) {
            self.greets_at = None;
        } else if self.greets_at.is_none_or(|at| at <= now) {
            self.transport.greet(now);
            self.greets_at = Some(now + self.bound.greeting_pause(now));
        }
    }
}
