//! Later hellos: a new format, and the test of a path after silence.

use std::time::Duration;

use lockstep_units::Timestamp;

use super::{MAX_HELLO_INTERVAL, Sender};
use crate::payload::Payload;
use crate::repeat::Repeat;
use crate::wire::VideoFormat;

impl<P: Payload> Sender<P> {
    /// Sets the format and announces it. The hello is repeated until the receiver answers.
    pub fn set_format(&mut self, now: Timestamp, format: VideoFormat) {
        if self.config.format != format {
            self.config.format = format;
            self.hello = Repeat::from(now, self.config.hello_interval, MAX_HELLO_INTERVAL, None);
            self.is_greeting = self.connected;
        }
    }

    /// Number of the connection.
    #[must_use]
    pub fn connection(&self) -> u32 {
        self.config.connection
    }

    /// Format that was announced last.
    #[must_use]
    pub fn format(&self) -> VideoFormat {
        self.config.format
    }

    /// Sends one more hello. The receiver answers at once ([`SenderEvent::Answered`](crate::SenderEvent::Answered)), so
    /// that a small datagram tests a silent path. No effect while the first hello is unanswered, since that one is
    /// repeated.
    pub fn send_hello(&mut self, now: Timestamp) {
        if self.connected {
            self.hello = Repeat::from(now, Duration::ZERO, Duration::ZERO, Some(1));
            self.is_greeting = true;
        }
    }
}
