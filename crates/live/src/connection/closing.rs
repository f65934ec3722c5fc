//! Closes a connection: repeats the close message until the other end acknowledges it or a limit passes.

use std::time::Duration;

use bytes::Bytes;
use lockstep_units::Timestamp;

use super::Connection;
use lockstep_session::control::{CloseReason, Message};

/// How long the close message is repeated.
const LIMIT: Duration = Duration::from_secs(3);

/// State while the close message is repeated.
#[derive(Debug, Clone, Copy)]
pub(super) struct Closing {
    since: Timestamp,
    pub until: Timestamp,
}

impl Connection {
    /// Closes the connection: repeats the close message until it is acknowledged, at most for `limit`.
    pub(crate) fn close(&mut self, now: Timestamp, reason: CloseReason, limit: Duration) {
        if self.over || self.closing.is_some() {
            return;
        }
        match self.chosen.and_then(|chosen| self.links.get_mut(&chosen)) {
            Some(link) => {
                link.send(&Message::Close(reason));
                link.finish();
                let _ = link.close_session(u32::from(reason.number()).into());
                self.closing = Some(Closing { since: now, until: now + limit.min(LIMIT) });
            }
            None => self.end(now),
        }
    }

    /// Stops repeating the close message when its limit has passed.
    pub(super) fn give_up(&mut self, now: Timestamp) {
        if let Some(closing) = self.closing.filter(|closing| closing.until <= now && !self.over) {
            // A peer that was alive until the end has probably received the message and gone. Nobody repeats its last
            // acknowledgement if that was lost.
            self.unconfirmed = self.is_silent(closing.since).then(|| now.saturating_since(self.last_received));
            self.end(now);
        }
    }

    /// Ends all links at once.
    pub(super) fn end(&mut self, at: Timestamp) {
        self.over = true;
        let now = self.origin.instant(at);
        // A page that knows of the end closes its connection. A browser that gets QUIC's close too early hides the code.
        for link in self.links.values_mut().filter(|link| !link.quic.is_closed() && !link.is_acknowledged) {
            link.quic.close(now, 0u32.into(), Bytes::new());
        }
    }

    /// Whether nothing is left to send; valid after [`Self::poll_transmit`] returned `None`.
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }
}
