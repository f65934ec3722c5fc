//! How a connection ends: the other end is told until it has heard, or for so long that it is given up.

use std::time::Duration;

use bytes::Bytes;
use lockstep_units::Timestamp;

use super::Connection;
use crate::control::{CloseReason, Message};

/// How long the end of a call is repeated.
const LIMIT: Duration = Duration::from_secs(3);

/// The other end is being told that it is over.
#[derive(Debug, Clone, Copy)]
pub(super) struct Closing {
    since: Timestamp,
    pub until: Timestamp,
}

impl Connection {
    /// Ends the connection: the other end is told until it has heard, or for `limit`.
    pub(crate) fn close(&mut self, now: Timestamp, reason: CloseReason, limit: Duration) {
        if self.over || self.closing.is_some() {
            return;
        }
        match self.chosen.and_then(|chosen| self.links.get_mut(&chosen)) {
            Some(link) => {
                link.tell(&Message::Close(reason));
                link.finish();
                self.closing = Some(Closing { since: now, until: now + limit.min(LIMIT) });
            }
            None => self.end(now),
        }
    }

    /// Gives up telling the other end, if it is time to.
    pub(super) fn give_up(&mut self, now: Timestamp) {
        if let Some(closing) = self.closing.filter(|closing| closing.until <= now && !self.over) {
            // Whoever was there until the end is likely to have heard of it, and to have gone: his last word, that he has, is
            // repeated by nobody.
            self.unheard = self.is_silent(closing.since).then(|| now.saturating_since(self.last_heard));
            self.end(now);
        }
    }

    /// Says that it is over, and that is all.
    pub(super) fn end(&mut self, at: Timestamp) {
        self.over = true;
        let now = self.origin.instant(at);
        for link in self.links.values_mut().filter(|link| !link.quic.is_closed()) {
            link.quic.close(now, 0u32.into(), Bytes::new());
        }
    }

    /// Whether nothing is left to say: to be asked after [`Self::transmit`].
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    /// How long nothing had come from the other end, where that had begun well before this one ended the call, and all the
    /// telling of that was not answered.
    pub(crate) fn unheard(&self) -> Option<Duration> {
        self.unheard
    }
}
