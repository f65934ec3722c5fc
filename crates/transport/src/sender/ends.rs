//! How a connection begins again where nothing was heard, and how it ends.

use std::time::Duration;

use lockstep_units::Timestamp;

use super::Sender;
use crate::closing::Peer;
use crate::payload::Payload;
use crate::repeat::Repeat;
use crate::wire::CloseReason;

impl<P: Payload> Sender<P> {
    /// Says hello once more: the receiver answers at once ([`SenderEvent::Answered`](crate::SenderEvent::Answered)), so
    /// that a path that was silent is seen to work again by a datagram as small as there is. Nothing as long as the first
    /// is not answered, which is repeated anyway.
    pub fn greet(&mut self, now: Timestamp) {
        if self.connected && !self.closing.has_begun() {
            self.hello = Repeat::from(now, Duration::ZERO, Duration::ZERO, Some(1));
            self.greets_again = true;
        }
    }

    /// Ends the connection; the receiver is told until it answers, for about three seconds at most. What was queued is
    /// not sent.
    pub fn close(&mut self, now: Timestamp, reason: CloseReason) {
        let heard = self.connected || self.newest_acknowledgement.is_some();
        if self.closing.begin(now, reason, if heard { Peer::Heard } else { Peer::Unheard }) {
            self.end();
        }
    }

    pub(super) fn end(&mut self) {
        self.hello.stop();
        self.queue.clear();
        self.queued = 0;
        self.sound.clear();
        self.retransmission.clear();
    }

    /// Whether the connection has ended and nothing is left to say of it: the receiver has answered the close or will
    /// not any more, or has had the answer to its own.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.closing.is_finished()
    }
}
