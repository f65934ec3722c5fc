//! How a connection resumes after a silence.

use std::time::Duration;

use lockstep_units::Timestamp;

use super::{LONGEST_HELLO, Sender};
use crate::payload::Payload;
use crate::repeat::Repeat;
use crate::wire::VideoFormat;

impl<P: Payload> Sender<P> {
    /// Announces another format: the hello is repeated until the receiver answers.
    pub fn set_format(&mut self, now: Timestamp, format: VideoFormat) {
        if self.config.format != format {
            self.config.format = format;
            self.hello = Repeat::from(now, self.config.hello_interval, LONGEST_HELLO, None);
            self.greets_again = self.connected;
        }
    }

    /// The format last announced.
    #[must_use]
    pub fn format(&self) -> VideoFormat {
        self.config.format
    }

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
