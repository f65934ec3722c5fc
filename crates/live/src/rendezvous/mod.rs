//! Meeting by a rendezvous: a server with a public address by which two ends of a call find each other through routers that
//! let nobody in who was not sent something first, and which relays for them when they cannot.
//!
//! A protocol of its own rather than QUIC with the server: a server of it needs no key that anybody would have to carry
//! about, for nothing that it says need be believed; it keeps a kilobyte for a call; and what it relays has 13 bytes more on
//! the way to it, and 5 on the way from it, not a second connection's.

mod keys;
mod meeting;
mod message;
mod serve;
mod server;
#[cfg(test)]
mod tests;

pub(crate) use meeting::{Came, Meeting, Need, RELAY};
pub(crate) use message::{Kind, MAGIC, RELAYED_HEADER, Side};
pub use serve::RendezvousServer;
pub use server::{Limits, Rendezvous, RendezvousStatus};

/// Reads a datagram as a rendezvous and an end do, for the fuzzer: what is a message says itself again.
#[doc(hidden)]
pub fn read_message(datagram: &[u8]) {
    if let Some(message) = message::Message::decode(datagram) {
        let again = message.to_bytes();
        assert_eq!(again.len(), datagram.len());
        assert!(message::Message::decode(&again).is_some());
    }
    if let Some(addresses) = message::listed(datagram) {
        assert_eq!(message::listed(&message::list(&addresses)), Some(addresses));
    }
}
