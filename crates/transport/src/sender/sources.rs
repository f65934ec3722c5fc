//! From which states frames may be encoded.

use super::Sender;
use crate::StateId;
use crate::payload::Payload;

impl<P: Payload> Sender<P> {
    /// The state that the next frame must be encoded from: the target of the last frame as long as it may arrive,
    /// otherwise the newest that the receiver is known to hold, otherwise [`StateId::EMPTY`] (a key frame). The state
    /// is kept until the next frame is sent or this is asked again, however long encoding takes.
    pub fn next_source(&mut self) -> StateId {
        self.states.reserve()
    }

    /// Whether [`Sender::next_source`] would give `state`.
    #[must_use]
    pub fn is_next_source(&self, state: StateId) -> bool {
        self.states.source() == state
    }

    /// As [`Sender::next_source`], but a state that the receiver is known to hold wherever there is one: for paths on
    /// which the last frame is too likely to be lost to build on it.
    pub fn next_held_source(&mut self) -> StateId {
        self.states.reserve_held()
    }

    /// Whether the receiver holds `state`, by its newest acknowledgement.
    #[must_use]
    pub fn is_held(&self, state: StateId) -> bool {
        self.states.is_held(state)
    }
}
