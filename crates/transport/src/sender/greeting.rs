//! How a connection resumes after a silence.

use std::time::Duration;

use lockstep_units::Timestamp;

use super::Sender;
use crate::payload::Payload;
use crate::repeat::Repeat;

impl<P: Payload> Sender<P> {
    /// Says hello once more: the receiver answers at once ([`SenderEvent::Answered`](crate::SenderEvent::Answered)), so
    /// that a path that was silent is seen to work again by a datagram as small as there is. Nothing as long as the first
    /// is not answered, which is repeated anyway.
    pub fn greet(&mut self, now: Timestamp) {
        if self.connected {
            self.hello = Repeat::from(now, Duration::ZERO, Duration::ZERO, Some(1));
            self.greets_again = true;
        }
    }
}
