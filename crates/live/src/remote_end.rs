//! The other end of a call: the owner of a ticket, or the peer that joins with it.

use std::net::SocketAddr;

use crate::LiveError;
use crate::identity::Identity;
use lockstep_session::ticket::{MAX_ADDRESSES, Ticket};
use lockstep_socket::Sockets;

/// Waits for a peer with its ticket.
#[derive(Debug)]
pub struct Listener {
    pub(crate) sockets: Sockets,
    pub(crate) identity: Identity,
    pub(crate) rendezvous: Vec<SocketAddr>,
    pub(crate) hidden: bool,
}

impl Listener {
    /// Binds `address`; the unspecified IPv6 address also accepts IPv4.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub fn bind(address: SocketAddr, identity: Identity) -> Result<Self, LiveError> {
        Ok(Self { sockets: Sockets::bind(address)?, identity, rendezvous: Vec::new(), hidden: false })
    }

    /// Lets peers find this listener by a rendezvous at one of `servers`. With `hidden` the other end does not learn
    /// this end's addresses, and the rendezvous relays every packet.
    #[must_use]
    pub fn meeting_at(mut self, servers: &[SocketAddr], hidden: bool) -> Self {
        // The first of each address family.
        let first = |v6: bool| servers.iter().find(|server| server.is_ipv6() == v6);
        self.rendezvous = first(false).into_iter().chain(first(true)).copied().collect();
        self.hidden = hidden;
        self
    }

    /// The listener for the next call with a standing ticket ([`Identity::standing`]), on the same sockets. `None` if
    /// the ticket is valid for one call only. Two calls must not run at a time.
    ///
    /// # Errors
    /// The system cannot duplicate the sockets.
    pub fn for_next_call(&self) -> Result<Option<Self>, LiveError> {
        if self.identity.is_reusable() { self.try_clone().map(Some) } else { Ok(None) }
    }

    /// The same listener for many calls, one at a time, as long as it lives.
    pub(crate) fn many_times(self) -> Self {
        Self { identity: self.identity.many_times(), ..self }
    }

    /// The same listener for another call, one at a time.
    ///
    /// # Errors
    /// The system cannot duplicate the sockets.
    pub fn try_clone(&self) -> Result<Self, LiveError> {
        let (sockets, identity) = (self.sockets.try_clone()?, self.identity.clone());
        Ok(Self { sockets, identity, rendezvous: self.rendezvous.clone(), hidden: self.hidden })
    }

    /// The ticket for the other end. `others` are addresses that this machine cannot know, such as that of a router
    /// that forwards a port. They come first.
    ///
    /// # Errors
    /// The sockets have no address.
    pub fn ticket(&self, others: &[SocketAddr]) -> Result<Ticket, LiveError> {
        let mut addresses = others.to_vec();
        addresses.extend(self.sockets.addresses()?);
        addresses.truncate(if self.hidden { 0 } else { MAX_ADDRESSES });
        let rendezvous = self.rendezvous.clone();
        let (key, secret) = (self.identity.key(), self.identity.secret());
        Ok(Ticket { key, secret, addresses, rendezvous, is_room: false })
    }

    /// Opens sessions for pages without WebTransport, with this listener and those for its next calls.
    ///
    /// # Errors
    /// The sockets have no address, or the identity is not for browsers.
    #[cfg(feature = "web")]
    pub fn page_sessions(&self) -> Result<crate::PageSessions, LiveError> {
        crate::PageSessions::new(&self.identity, self.sockets.local_address()?)
    }
}

/// The other end of a call.
#[derive(Debug)]
pub enum RemoteEnd {
    /// The owner of this ticket.
    Of(Ticket),
    /// The owner of this ticket, reached only by its rendezvous. The other end does not learn this end's addresses.
    ByRendezvous(Ticket),
    /// The peer that joins with the ticket of this listener.
    At(Listener),
}
