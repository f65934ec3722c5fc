//! Choice of the source state of the next frame.

use super::Sender;
use crate::StateId;
use crate::payload::Payload;

impl<P: Payload> Sender<P> {
    /// Returns the source state of the next frame: the target of the last frame while it may arrive. Otherwise the
    /// newest state that the receiver holds, or [`StateId::EMPTY`] (key frame) without one. The state is kept until the
    /// next frame is sent or this is called again.
    pub fn next_source(&mut self) -> StateId {
        self.states.reserve()
    }

    /// Whether [`Sender::next_source`] would return `state`.
    #[must_use]
    pub fn is_next_source(&self, state: StateId) -> bool {
        self.states.source() == state
    }

    /// As [`Sender::next_source`], but prefers the newest state that the receiver holds. For paths on which the last
    /// frame is likely to be lost.
    pub fn next_held_source(&mut self) -> StateId {
        self.states.reserve_held()
    }

    /// Whether the receiver holds `state`, by its newest acknowledgement.
    #[must_use]
    pub fn is_held(&self, state: StateId) -> bool {
        self.states.is_held(state)
    }
}
