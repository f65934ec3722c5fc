//! Whom a call is with: whoever gave a ticket, or whoever comes with one.

use std::net::SocketAddr;

use crate::LiveError;
use crate::identity::Identity;
use crate::sockets::Sockets;
use crate::ticket::{MOST_ADDRESSES, Ticket};

/// Waits for whoever has its ticket.
#[derive(Debug)]
pub struct Listener {
    pub(crate) sockets: Sockets,
    pub(crate) identity: Identity,
}

impl Listener {
    /// Binds `address`; the unspecified address of IPv6 takes IPv4 along.
    ///
    /// # Errors
    /// If it cannot be bound.
    pub fn bind(address: SocketAddr, identity: Identity) -> Result<Self, LiveError> {
        Ok(Self { sockets: Sockets::bind(address)?, identity })
    }

    /// The ticket to hand out: `others` are addresses that this machine does not know of itself, such as that of a router
    /// which forwards a port; they come first.
    ///
    /// # Errors
    /// If the sockets have no address.
    pub fn ticket(&self, others: &[SocketAddr]) -> Result<Ticket, LiveError> {
        let mut addresses = others.to_vec();
        addresses.extend(self.sockets.addresses()?);
        addresses.truncate(MOST_ADDRESSES);
        Ok(Ticket { key: self.identity.public(), secret: self.identity.secret(), addresses })
    }
}

/// The other end of a call.
#[derive(Debug)]
pub enum Peer {
    /// Whoever gave this ticket.
    Of(Ticket),
    /// Whoever joins with the ticket that this listener gave.
    At(Listener),
}
