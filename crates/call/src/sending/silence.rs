//! What the sending end does when nothing is heard of what it sends, when none of that is decoded, or when it may have gone
//! where nobody is any more.

use std::time::Duration;

use lockstep_transport::{Recovery, StateId};
use lockstep_units::Timestamp;

use super::{Encoding, SendingEnd};
use crate::codec::Codec;

impl<C: Codec> SendingEnd<C> {
    /// Something came from the other end after nothing had for a while, by whatever way: where the path was silent, the
    /// next picture finds out whether it still is.
    pub fn path_returned(&mut self, now: Timestamp) {
        self.path.on_return(now);
    }

    /// What is sent from now on takes another way than before: the other end is at another address, and what went to the one
    /// before may never arrive. The next frame is built on none of it, and goes at once. That it is lost would otherwise be
    /// known a round trip after a frame that was built on it and could not be decoded, and into a path that was silent,
    /// because what it told was lost as well, such frames are sent seldom.
    pub fn path_moved(&mut self, now: Timestamp) {
        self.path_returned(now);
        self.chain.has_moved = self.recovery == Recovery::FromHeldState;
        if let Some(encoding) = &mut self.encoding {
            encoding.misdirected = self.chain.has_moved;
        }
    }

    /// Whether what was sent lately seems not to be decoded, although something is heard of it.
    pub(super) fn is_stuck(&self, now: Timestamp) -> bool {
        let round_trip = self.transport.round_trip_time().map_or(Duration::ZERO, |time| time.smoothed);
        let patience = self.tuning.control.silence.latest_feedback + 3 * round_trip;
        self.chain.is_stuck(now, patience)
    }

    /// Whether a frame that was coded from its source can still be decoded, by all that is known now.
    pub(super) fn leads_on(&self, encoding: &Encoding<C::Picture>) -> bool {
        let source = encoding.source;
        let may_arrive = !encoding.misdirected && self.transport.is_next_source(source);
        source == StateId::EMPTY || self.transport.is_held(source) || may_arrive
    }

    /// A hello was answered. Where something else was heard of meanwhile, that says more.
    pub(super) fn answered(&mut self, now: Timestamp) {
        if self.path.is_silent(now) {
            self.path_returned(now);
        }
    }

    /// Frames of before a silence are not sent any more when it begins; a probe of the silence itself stays. As long as it
    /// lasts hellos go, unless sound does.
    pub(super) fn note_silence(&mut self, now: Timestamp) {
        let silent = self.controller.traits().is_bounded && self.path.is_silent(now);
        if silent && !self.silent && self.transport.drop_waiting() > 0 {
            self.drain_events(now);
        }
        self.silent = silent;
        if !silent || self.talks(now) {
            self.greets_at = None;
        } else if self.greets_at.is_none_or(|at| at <= now) {
            self.transport.greet(now);
            self.greets_at = Some(now + self.path.greeting_pause(now));
        }
    }
}
