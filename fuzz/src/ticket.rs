//! Parses arbitrary text as a ticket, and arbitrary bytes as the content of a ticket with a valid checksum.

use lockstep_live::{MAX_ADDRESSES, MAX_SERVERS, Ticket};

use crate::memory::bounded;

/// A ticket's text has at most 1 kB and contains few addresses.
const MEMORY: usize = 64 << 10;

/// Input: the text, and also the content.
pub fn run(data: &[u8]) {
    bounded(MEMORY, || {
        let made_up = lockstep_live::fuzzing::ticket_of(data);
        for text in [String::from_utf8_lossy(data).into_owned(), made_up] {
            let Ok(ticket) = text.parse::<Ticket>() else { continue };
            assert!(ticket.addresses.len() <= MAX_ADDRESSES && ticket.rendezvous.len() <= MAX_SERVERS);
            assert!(!ticket.addresses.is_empty() || !ticket.rendezvous.is_empty());
            assert_eq!(ticket.to_string().parse(), Ok(ticket));
        }
    });
}
