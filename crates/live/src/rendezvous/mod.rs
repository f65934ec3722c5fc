//! Rendezvous: a public server through which two ends of a call behind routers find each other. It relays their packets
//! if no direct route exists.
//!
//! It uses a small protocol instead of QUIC to the server:
//!
//! - The server needs no key that users must distribute, because the ends verify everything important themselves.
//! - A call takes one kilobyte of the server's memory.
//! - Relayed packets grow by 13 bytes on the way to the server and by 5 on the way from it.

mod code;
#[cfg(test)]
mod code_tests;
mod exchange;
mod invitation;
mod keys;
mod limits;
mod meeting;
mod message;
mod nameplates;
mod serve;
mod server;
#[cfg(test)]
mod tests;

pub use code::{Code, CodeError};
pub use exchange::{OfferResult, RedeemError};
pub use invitation::{CodeOffer, redeem};
pub use limits::Limits;
pub(crate) use meeting::{Meeting, Need, Outcome, RELAY};
pub(crate) use message::{Kind, MAGIC, RELAYED_HEADER, Side};
pub use serve::RendezvousServer;
pub use server::{Rendezvous, RendezvousStatus};

/// Parses a datagram as a server and an end do, for the fuzzer. A message must encode to the same length. Returns
/// whether the datagram is a message.
#[doc(hidden)]
pub fn read_message(datagram: &[u8]) -> bool {
    let message = message::Message::decode(datagram);
    if let Some(message) = &message {
        let again = message.to_bytes();
        assert_eq!(again.len(), datagram.len());
        assert!(message::Message::decode(&again).is_some());
    }
    if let Some(addresses) = message::listed(datagram) {
        assert_eq!(message::listed(&message::list(&addresses)), Some(addresses));
    }
    message.is_some()
}

/// One datagram per kind of message, with the name of the kind, as seeds for the fuzzer.
#[doc(hidden)]
#[must_use]
pub fn messages() -> Vec<(&'static str, Vec<u8>)> {
    use message::{Announce, Exchange, Message, Other, PARCEL, Refusal};

    let exchange = Exchange { side: Side::Joiner, session: [3; 8], nameplate: 7, cookie: [4; 16], parcel: [5; PARCEL] };
    let [v4, v6] = [([192, 0, 2, 7], 4600).into(), ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 7], 4600).into()];
    let (session, cookie, channel, token, code) = ([3; 8], [4; 16], [5; 8], [6; 8], [7; 16]);
    let sealed = [8; size_of::<message::Sealed>()];
    let announce = Announce { call: [2; 32], side: Side::Joiner, session, number: 1, known: 0, cookie, sealed };
    let other = Some(Box::new(Other { number: 1, sealed }));
    let packet = &[0x40; 30];
    let named = [
        ("announce", Message::Announce(Box::new(announce), [9; 64], &[])),
        ("prove", Message::Prove { session, cookie, address: v4 }),
        ("met", Message::Met { session, address: v6, channel, other }),
        ("refused", Message::Refused { session, refusal: Refusal::Taken }),
        ("relay", Message::Relay { channel, packet }),
        ("relayed", Message::Relayed(packet)),
        ("unknown", Message::Unknown { channel }),
        ("probe", Message::Probe(Side::Joiner, token, code, &[])),
        ("answer", Message::Answer(Side::Listener, token, code, &[])),
        ("exchange", Message::Exchange(Box::new(exchange))),
        ("exchanged", Message::Exchanged { session, nameplate: 7, parcel: Box::new([6; PARCEL]) }),
    ];
    named.into_iter().map(|(name, message)| (name, message.to_bytes())).collect()
}
