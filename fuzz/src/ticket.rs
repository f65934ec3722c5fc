//! Any text as a ticket, and any bytes in the place of what a ticket says, with the checksum that it must have.

use lockstep_live::{MOST_ADDRESSES, MOST_SERVERS, Ticket};

use crate::memory::bounded;

/// A ticket's text is 1 kB at most, and its addresses are few.
const MEMORY: usize = 64 << 10;

/// The whole input is the text, and then what a proper text says.
pub fn run(data: &[u8]) {
    bounded(MEMORY, || {
        let made_up = lockstep_live::fuzzing::ticket_of(data);
        for text in [String::from_utf8_lossy(data).into_owned(), made_up] {
            let Ok(ticket) = text.parse::<Ticket>() else { continue };
            assert!(ticket.addresses.len() <= MOST_ADDRESSES && ticket.rendezvous.len() <= MOST_SERVERS);
            assert!(!ticket.addresses.is_empty() || !ticket.rendezvous.is_empty());
            assert_eq!(ticket.to_string().parse(), Ok(ticket));
        }
    });
}
