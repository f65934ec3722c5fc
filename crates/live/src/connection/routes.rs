//! Routes to the other end: direct to an address, or relayed by the rendezvous.
//!
//! Direct addresses come from the ticket or from the search by the rendezvous. QUIC treats the relayed route as one
//! more address ([`RELAY`]).
//!
//! The joiner chooses the route: first the one whose handshake completes first, then a direct one as soon as it has been
//! found. If nothing arrives any more, the joiner returns to the relay. The listener follows, as QUIC follows a client
//! that changes its address.

use std::net::SocketAddr;

use bytes::Buf;
use lockstep_session::{Carrier, Route, SILENT};
use lockstep_socket::Incoming;
use lockstep_units::Timestamp;

use super::{Connection, Link, Role};
use crate::LiveError;
use crate::rendezvous::{MAGIC, Meeting, Need, Outcome, RELAY, Side};
use lockstep_session::ticket::Secret;

impl Connection {
    /// Starts the search for the other end by one of `servers`, if there are any. `own` are addresses of this end; with
    /// `hidden` the other end does not receive them.
    pub(crate) fn meet(
        &mut self,
        secret: &Secret,
        servers: Vec<SocketAddr>,
        own: &[SocketAddr],
        hidden: bool,
        now: Timestamp,
    ) -> Result<(), LiveError> {
        if servers.is_empty() {
            return Ok(());
        }
        let side = if matches!(self.role, Role::Joiner { .. }) { Side::Joiner } else { Side::Listener };
        let meeting = Meeting::new(secret, side, servers, own, hidden, now)?;
        self.gate = self.gate.clone().with_rendezvous(meeting.servers());
        self.meeting = Some(meeting);
        Ok(())
    }

    /// Starts a link to the listener at `address`, unless there is one.
    pub(super) fn dial(&mut self, address: SocketAddr, now: Timestamp) -> Result<(), LiveError> {
        let Role::Joiner { config, tried, .. } = &mut self.role else { return Ok(()) };
        if tried.contains(&address) {
            return Ok(());
        }
        tried.push(address);
        // QUIC checks the key, not the name.
        let dialled = self.endpoint.connect(self.origin.instant(now), (**config).clone(), address, "lockstep");
        let (handle, dialled) = dialled.map_err(|error| LiveError::Identity(error.to_string()))?;
        self.links.insert(handle.0, Link::new(dialled, now));
        Ok(())
    }

    /// Removes the relay's header from a datagram for QUIC; `None` if the datagram is not for QUIC.
    pub(super) fn unwrapped(&mut self, incoming: Incoming) -> Option<Incoming> {
        let Some(meeting) = self.meeting.as_mut().filter(|_| incoming.datagram.starts_with(&MAGIC)) else {
            return Some(incoming);
        };
        let Incoming { at, from, to, mut datagram } = incoming;
        match meeting.handle_datagram(at, from, &datagram) {
            Outcome::Relayed(place) => {
                datagram.advance(place);
                Some(Incoming { at, from: RELAY, to, datagram })
            }
            Outcome::Handled => {
                self.find_routes(at);
                None
            }
        }
    }

    /// Adds the relay's header to a packet for `to` where needed, and returns its destination; `None` if it cannot be
    /// sent.
    pub(super) fn wrapped(&self, to: SocketAddr, buffer: &mut Vec<u8>) -> Option<SocketAddr> {
        if to != RELAY {
            return Some(to);
        }
        let (to, message) = self.meeting.as_ref()?.relayed(buffer)?;
        *buffer = message;
        Some(to)
    }

    /// Next datagram of the search for the other end.
    pub(super) fn poll_meeting(&mut self, buffer: &mut Vec<u8>) -> Option<SocketAddr> {
        let (to, message) = self.meeting.as_mut()?.poll_transmit()?;
        *buffer = message;
        Some(to)
    }

    /// Whether the joiner has no further route to try.
    pub(super) fn has_tried_all(&self) -> bool {
        let Role::Joiner { tried, .. } = &self.role else { return false };
        self.meeting.is_none() || tried.contains(&RELAY)
    }

    /// Current address of the other end; `None` before it has joined.
    pub(super) fn destination(&self) -> Option<SocketAddr> {
        let link = self.links.get(&self.chosen?)?;
        match &self.role {
            Role::Joiner { route, .. } => route.current(),
            Role::Listener { .. } => Some(link.quic.remote_address()),
        }
    }

    /// Whether the other end has been silent for [`SILENT`], so that the route may be lost.
    pub(super) fn is_silent(&self, now: Timestamp) -> bool {
        now.saturating_since(self.last_received) >= SILENT
    }

    /// When the joiner starts to use the relay if no peer has answered.
    fn relay_at(&self) -> Option<Timestamp> {
        let Role::Joiner { tried, .. } = &self.role else { return None };
        let begins = self.chosen.is_none() && !tried.contains(&RELAY);
        self.meeting.as_ref().filter(|_| begins)?.relay_at()
    }

    pub(super) fn meeting_timeout(&self) -> Option<Timestamp> {
        let meeting = self.meeting.as_ref()?.poll_timeout();
        Timestamp::earliest([meeting, self.relay_at()])
    }

    /// Drives the search for routes and applies the routes that it found.
    pub(super) fn find_routes(&mut self, now: Timestamp) {
        let (current_route, silent) = (self.route(), self.is_silent(now));
        let closing = self.over || self.closing.is_some();
        let Some(meeting) = &mut self.meeting else { return };
        meeting.need(
            now,
            match current_route {
                Some(_) if closing => Need::Nothing,
                Some(_) if silent => Need::Any,
                None => Need::Any,
                Some(Route::Relayed) => Need::Direct,
                Some(Route::Direct) => Need::Nothing,
            },
        );
        meeting.handle_timeout(now);
        let relays = meeting.can_relay();
        // A new route gets time to prove itself.
        let mut lost = silent && now.saturating_since(self.moved_at) >= SILENT;
        while let Some(address) = self.meeting.as_mut().and_then(Meeting::poll_found) {
            if current_route.is_none() {
                // An address that cannot be dialled is skipped.
                let _ = self.dial(address, now);
            } else if let Role::Joiner { route, .. } = &mut self.role
                && (lost || route.current() == Some(RELAY))
            {
                route.move_to(address);
                (lost, self.moved_at) = (false, now);
            }
        }
        if self.relay_at().is_some_and(|at| at <= now) {
            let _ = self.dial(RELAY, now);
        }
        if let Role::Joiner { route, .. } = &mut self.role
            && current_route == Some(Route::Direct)
            && lost
            && relays
            && !closing
        {
            route.move_to(RELAY);
        }
    }

    /// Whether the rendezvous answers, if there is one.
    pub(crate) fn rendezvous_answers(&self) -> Option<bool> {
        self.meeting.as_ref().map(Meeting::is_answered)
    }
}
