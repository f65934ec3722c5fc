//! Reactions of the sending end to silence, to frames that are not decoded, and to a path change.

use std::time::Duration;

use lockstep_transport::{Recovery, StateId};
use lockstep_units::Timestamp;

use super::{Encoding, SendingEnd};
use crate::codec::Codec;

impl<C: Codec> SendingEnd<C> {
    /// Records any arrival from the other end after a pause. If the path was silent, the next picture tests it.
    pub fn path_returned(&mut self, now: Timestamp) {
        self.path.on_return(now);
    }

    /// Records a path change: data sent to the old address of the other end may be lost. The next frame depends on none
    /// of it and is sent at once. Otherwise the loss would be known only a round trip later, by a frame that could not
    /// be decoded. During silence such frames are rare.
    pub fn path_moved(&mut self, now: Timestamp) {
        self.path_returned(now);
        self.chain.has_moved = self.recovery == Recovery::FromHeldState;
        if let Some(encoding) = &mut self.encoding {
            encoding.misdirected = self.chain.has_moved;
        }
    }

    /// Whether recent frames seem not to be decoded, although feedback arrives.
    pub(super) fn is_stuck(&self, now: Timestamp) -> bool {
        let round_trip = self.transport.round_trip_time().map_or(Duration::ZERO, |time| time.smoothed);
        let patience = self.tuning.control.silence.latest_feedback + 3 * round_trip;
        self.chain.is_stuck(now, patience)
    }

    /// Whether a frame coded from its source can still be decoded, as far as known.
    pub(super) fn is_still_decodable(&self, encoding: &Encoding<C::Picture>) -> bool {
        let source = encoding.source;
        let may_arrive = !encoding.misdirected && self.transport.is_next_source(source);
        source == StateId::EMPTY || self.transport.is_held(source) || may_arrive
    }

    /// Handles the answer to a hello. It counts only if the path is silent, since other feedback is better evidence.
    pub(super) fn answered(&mut self, now: Timestamp) {
        if self.path.is_silent(now) {
            self.path_returned(now);
        }
    }

    /// Updates the silence. At its start, waiting frames from before are dropped, but not a probe of the silence
    /// itself. During it hellos are sent. Sound replaces them, except on a path that drops: there more packets end the
    /// silence sooner.
    pub(super) fn note_silence(&mut self, now: Timestamp) {
        let silent = self.traits().is_bounded && self.path.is_silent(now);
        if silent && !self.silent && self.transport.drop_waiting() > 0 {
            self.drain_events(now);
        }
        self.silent = silent;
        if !silent || self.talks(now) && !self.path.drops(now) {
            self.hello_at = None;
        } else if self.hello_at.is_none_or(|at| at <= now) {
            self.transport.send_hello(now);
            self.hello_at = Some(now + self.path.hello_interval(now));
        }
    }
}
