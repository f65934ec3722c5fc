//! The other end of a call: the giver of a ticket, or whoever joins with one.

use std::net::SocketAddr;

use crate::LiveError;
use crate::identity::Identity;
use crate::ticket::{MOST_ADDRESSES, Ticket};
use lockstep_socket::Sockets;

/// Waits for whoever has its ticket.
#[derive(Debug)]
pub struct Listener {
    pub(crate) sockets: Sockets,
    pub(crate) identity: Identity,
    pub(crate) rendezvous: Vec<SocketAddr>,
    pub(crate) hidden: bool,
}

impl Listener {
    /// Binds `address`; the unspecified address of IPv6 takes IPv4 along.
    ///
    /// # Errors
    /// If it cannot be bound.
    pub fn bind(address: SocketAddr, identity: Identity) -> Result<Self, LiveError> {
        Ok(Self { sockets: Sockets::bind(address)?, identity, rendezvous: Vec::new(), hidden: false })
    }

    /// The same, to be met by a rendezvous at one of `servers`. With `hidden` the other end is not told where this one is, and
    /// all goes by the rendezvous.
    #[must_use]
    pub fn meeting_at(mut self, servers: &[SocketAddr], hidden: bool) -> Self {
        // One of each family.
        let first = |v6: bool| servers.iter().find(|server| server.is_ipv6() == v6);
        self.rendezvous = first(false).into_iter().chain(first(true)).copied().collect();
        self.hidden = hidden;
        self
    }

    /// The listener for the next call with a standing ticket ([`Identity::standing`]), on the same sockets; none if the ticket
    /// is good for one call. Two calls must not run at a time.
    ///
    /// # Errors
    /// If the system cannot duplicate the sockets.
    pub fn for_next_call(&self) -> Result<Option<Self>, LiveError> {
        if self.identity.is_reusable() { self.try_clone().map(Some) } else { Ok(None) }
    }

    /// The same listener for another call, one at a time.
    ///
    /// # Errors
    /// If the system cannot duplicate the sockets.
    pub fn try_clone(&self) -> Result<Self, LiveError> {
        let (sockets, identity) = (self.sockets.try_clone()?, self.identity.clone());
        Ok(Self { sockets, identity, rendezvous: self.rendezvous.clone(), hidden: self.hidden })
    }

    /// The ticket to hand out: `others` are addresses that this machine does not know of itself, such as that of a router
    /// which forwards a port; they come first.
    ///
    /// # Errors
    /// If the sockets have no address.
    pub fn ticket(&self, others: &[SocketAddr]) -> Result<Ticket, LiveError> {
        let mut addresses = others.to_vec();
        addresses.extend(self.sockets.addresses()?);
        addresses.truncate(if self.hidden { 0 } else { MOST_ADDRESSES });
        let rendezvous = self.rendezvous.clone();
        Ok(Ticket { key: self.identity.public(), secret: self.identity.secret(), addresses, rendezvous })
    }
}

/// The other end of a call.
#[derive(Debug)]
pub enum OtherEnd {
    /// Whoever gave this ticket.
    Of(Ticket),
    /// Whoever gave this ticket, by way of the rendezvous that it names and no other, so that the other end does not learn
    /// where this one is.
    ByRendezvous(Ticket),
    /// Whoever joins with the ticket that this listener gave.
    At(Listener),
}
