//! What goes between a connection and the two ends that use it, of which there is one or both; and when the connection
//! ends the call. It reads no clock and starts no thread: the loop of a live call drives it, and a rehearsal of a call in
//! virtual time does.

use std::net::SocketAddr;
use std::time::Duration;

use lockstep_call::{ReceivingEnd, SendingEnd};
use lockstep_transport::{Datagram, Transmit, WireError, wire::DATA_HEADER};
use lockstep_units::Timestamp;

use crate::connection::{Connection, Heard, Loss};
use crate::control::CloseReason;
use crate::presence::Presence;
use crate::{Ended, LiveError};

/// How long things may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// How long the other end may take to be there; none means for ever.
    pub(crate) wait_limit: Option<Duration>,
    /// How long it may be silent later; none means for ever.
    pub(crate) idle_limit: Option<Duration>,
}

/// The halves of one end of a call.
pub(crate) struct Ends<'a> {
    pub(crate) sending: Option<&'a mut SendingEnd>,
    pub(crate) receiving: Option<&'a mut ReceivingEnd>,
}

/// A connection, and what was heard of its end.
pub(crate) struct Exchange {
    pub(crate) connection: Connection,
    patience: Patience,
    started: Timestamp,
    lost: Option<Loss>,
    greeted: bool,
    other: Presence,
}

/// How an end that comes of itself is told to the other end.
pub(crate) fn reason(result: &Result<Ended, LiveError>) -> CloseReason {
    match result {
        Ok(_) => CloseReason::Done,
        Err(LiveError::UnknownEstimator { .. }) => CloseReason::Unsupported,
        Err(_) => CloseReason::Failed,
    }
}

impl Exchange {
    /// Over a connection that began at `started`.
    pub(crate) fn new(connection: Connection, patience: Patience, started: Timestamp) -> Self {
        Self { connection, patience, started, lost: None, greeted: false, other: Presence::default() }
    }

    /// What the other end gives of itself.
    pub(crate) fn other(&self) -> Presence {
        self.other
    }

    /// Takes what the connection has for the ends.
    pub(crate) fn hear(&mut self, now: Timestamp, ends: &mut Ends<'_>) {
        while let Some(heard) = self.connection.poll() {
            match heard {
                Heard::Joined => {}
                Heard::Returned => {
                    if let Some(sending) = &mut ends.sending {
                        sending.path_returned(now);
                    }
                }
                Heard::Moved => {
                    if let Some(sending) = &mut ends.sending {
                        sending.path_moved(now);
                    }
                }
                Heard::Datagram(at, datagram) => {
                    let decoded = Datagram::decode(&datagram);
                    // Hellos come in the stream.
                    if !matches!(decoded, Ok(Datagram::Hello(_) | Datagram::HelloReply(_))) {
                        take(ends, at, decoded);
                    }
                }
                Heard::Control(datagram) => {
                    let decoded = Datagram::decode(&datagram);
                    if matches!(decoded, Ok(Datagram::Hello(_) | Datagram::HelloReply(_))) {
                        take(ends, now, decoded);
                    }
                }
                Heard::Presence(presence) => self.other = presence,
                Heard::Lost(loss) => self.lost = self.lost.take().or(Some(loss)),
            }
        }
    }

    /// The next datagram that leaves, into `buffer`, which is empty; gives where it goes. Asked until there is none, after
    /// everything else that happens to the connection or the ends.
    pub(crate) fn poll_transmit(
        &mut self,
        now: Timestamp,
        ends: &mut Ends<'_>,
        buffer: &mut Vec<u8>,
    ) -> Option<SocketAddr> {
        if let (Some(sending), Some(largest)) = (&mut ends.sending, self.connection.largest_datagram()) {
            sending.set_payload(largest.saturating_sub(DATA_HEADER));
        }
        if let (Some(sending), Some(receiving)) = (&ends.sending, &mut ends.receiving) {
            receiving.thin_feedback(sending.is_way_narrow(now));
        }
        loop {
            // Each by itself, but for feedback that rides along, as the simulator has them.
            if let Some(to) = self.connection.poll_transmit(now, buffer) {
                return Some(to);
            }
            let transmit = self.connection.is_open().then(|| next_transmit(now, ends)).flatten()?;
            let largest = self.connection.largest_datagram().unwrap_or(0);
            let riding = ends.receiving.as_mut().and_then(|end| end.poll_riding(now, &transmit, largest));
            self.say(transmit);
            if let Some(riding) = riding {
                self.say(riding);
            }
        }
    }

    fn say(&mut self, transmit: Transmit) {
        let bytes = transmit.to_bytes();
        match transmit.datagram {
            // In the stream it need not be repeated; a later one asks whether anything comes through, which the connection's
            // own packets are answered for, too.
            Datagram::Hello(_) if std::mem::replace(&mut self.greeted, true) => self.connection.ping(),
            Datagram::Hello(_) | Datagram::HelloReply(_) => self.connection.tell(bytes),
            Datagram::Data(_) | Datagram::Sound(_) | Datagram::Acknowledgement(_) => self.connection.send(bytes),
        }
    }

    /// Whether what the connection was told ends the call, and how; once.
    pub(crate) fn loss(&mut self) -> Result<Option<Ended>, LiveError> {
        match self.lost.take() {
            None => Ok(None),
            Some(Loss::Closed(CloseReason::Failed)) => Err(LiveError::PeerFailed),
            Some(Loss::Closed(CloseReason::Unsupported)) => Err(LiveError::Refused),
            Some(Loss::Closed(CloseReason::Done | CloseReason::Other(_))) => Ok(Some(Ended::ByPeer)),
            Some(Loss::Refused(refusal)) => Err(LiveError::Ticket(refusal)),
            Some(Loss::Restarted) => Err(LiveError::Restarted),
            Some(Loss::Broken(reason)) => Err(LiveError::Connection(reason)),
        }
    }

    /// What a call comes to that ended like this, now that the other end was told: to end it is one thing, that the other end
    /// knows is another.
    pub(crate) fn told(&self, result: Result<Ended, LiveError>) -> Result<Ended, LiveError> {
        match self.connection.unheard() {
            Some(silence) => result.and(Err(LiveError::Unheard { silence })),
            None => result,
        }
    }

    /// An error if the other end takes too long to join, or is silent for too long.
    pub(crate) fn silence(&self, now: Timestamp) -> Result<(), LiveError> {
        let waited = now.saturating_since(self.started);
        if !self.connection.is_joined() {
            if self.patience.wait_limit.is_some_and(|limit| waited >= limit) {
                return Err(match self.connection.tried() {
                    tried if tried.is_empty() => LiveError::NotCalled { waited },
                    tried => LiveError::Unanswered { waited, tried },
                });
            }
        } else if let Some(limit) = self.patience.idle_limit
            && now.saturating_since(self.connection.last_heard()) >= limit
        {
            return Err(LiveError::Silent { silence: limit });
        }
        Ok(())
    }

    /// When the connection or the ends are to be asked next.
    pub(crate) fn poll_timeout(&mut self, ends: &Ends<'_>) -> Option<Timestamp> {
        let joined = self.connection.is_open();
        // Before anybody is there the ends have much to say, and nobody to say it to.
        let sending = ends.sending.as_ref().and_then(|end| end.poll_timeout()).filter(|_| joined);
        let receiving = ends.receiving.as_ref().and_then(|end| end.poll_timeout()).filter(|_| joined);
        Timestamp::earliest([self.connection.poll_timeout(), sending, receiving])
    }
}

/// Gives a datagram to the end that it is for: what a sender says to the one that receives, and the other way round.
fn take(ends: &mut Ends<'_>, at: Timestamp, decoded: Result<Datagram, WireError>) {
    let of_a_receiver = matches!(decoded, Ok(Datagram::Acknowledgement(_) | Datagram::HelloReply(_)));
    match (&mut ends.sending, &mut ends.receiving) {
        (Some(sending), None) => drop(sending.handle_datagram(at, decoded)),
        (Some(sending), Some(_)) if of_a_receiver => drop(sending.handle_datagram(at, decoded)),
        (_, Some(receiving)) => drop(receiving.handle_datagram(at, decoded, false)),
        (None, None) => {}
    }
}

fn next_transmit(now: Timestamp, ends: &mut Ends<'_>) -> Option<Transmit> {
    let sending = ends.sending.as_mut().and_then(|end| end.poll_transmit(now));
    sending.or_else(|| ends.receiving.as_mut().and_then(|end| end.poll_transmit(now)))
}
