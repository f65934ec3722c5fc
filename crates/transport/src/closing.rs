//! The end of a connection: the side that ends it says so until the other has answered.

use std::time::Duration;

use lockstep_units::Timestamp;

use crate::repeat::Repeat;
use crate::wire::{Close, CloseReason};

/// The first pause between two copies of a close, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);
/// How many copies of a close there are if none is answered: over 2.85 s, which is twice the round trip of a path by
/// two satellites.
const COPIES: u32 = 14;
/// The same where nothing has ever come from the peer.
const COPIES_UNHEARD: u32 = 3;
/// How long after a close of the peer's another copy of it is awaited, because the answer may be lost: twice the
/// longest pause between two.
const LINGER: Duration = Duration::from_millis(500);

/// What a close that came means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heard {
    /// The peer ended the connection.
    Ended(CloseReason),
    /// It had ended before.
    Known,
    /// An answer to what was not said.
    Unexpected,
}

/// How far the end of a connection has come.
#[derive(Debug)]
pub(crate) struct Closing {
    reason: Option<CloseReason>,
    request: Repeat,
    answer_due: bool,
    lingers_until: Option<Timestamp>,
}

impl Closing {
    /// The connection is open.
    pub(crate) fn not_begun() -> Self {
        Self { reason: None, request: Repeat::never(), answer_due: false, lingers_until: None }
    }

    /// Whether either side has ended the connection.
    pub(crate) fn has_begun(&self) -> bool {
        self.reason.is_some()
    }

    /// This side ends the connection; says whether it was still open. `peer` says whether there is one to be told, and
    /// whether anything was heard from it.
    pub(crate) fn begin(&mut self, now: Timestamp, reason: CloseReason, peer: Peer) -> bool {
        if self.reason.is_some() {
            return false;
        }
        self.reason = Some(reason);
        self.request = match peer {
            Peer::None => Repeat::never(),
            Peer::Unheard => Repeat::from(now, FIRST_PAUSE, LONGEST_PAUSE, Some(COPIES_UNHEARD)),
            Peer::Heard => Repeat::from(now, FIRST_PAUSE, LONGEST_PAUSE, Some(COPIES)),
        };
        true
    }

    /// A close of this connection came.
    pub(crate) fn handle(&mut self, now: Timestamp, close: Close) -> Heard {
        if close.answer {
            self.request.stop();
            return if self.reason.is_some() { Heard::Known } else { Heard::Unexpected };
        }
        // Whoever ends the connection need not be told that it has ended, only that this was heard.
        self.request.stop();
        self.answer_due = true;
        self.lingers_until = Some(now + LINGER);
        if self.reason.is_some() {
            return Heard::Known;
        }
        self.reason = Some(close.reason);
        Heard::Ended(close.reason)
    }

    /// What is to be said of the end next.
    pub(crate) fn poll_transmit(&mut self, now: Timestamp, connection: u32) -> Option<Close> {
        let reason = self.reason?;
        let answer = std::mem::take(&mut self.answer_due);
        if !answer && !self.request.take(now) {
            return None;
        }
        Some(Close { connection, reason, answer })
    }

    /// When something is to be said or given up.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        Timestamp::earliest([self.request.next(), self.lingers_until])
    }

    /// Tells the time.
    pub(crate) fn handle_timeout(&mut self, now: Timestamp) {
        self.lingers_until = self.lingers_until.filter(|&until| until > now);
    }

    /// Whether nothing is left to say: the peer has answered, or would have, or has not asked again.
    pub(crate) fn is_finished(&self) -> bool {
        self.reason.is_some() && !self.answer_due && self.next().is_none()
    }
}

/// Who is to be told of an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// Nobody is known.
    None,
    /// Somebody of whom nothing was heard.
    Unheard,
    /// Somebody of whom something was heard.
    Heard,
}
