//! Parses arbitrary bytes as datagrams of a rendezvous or a peer, and sends them to a rendezvous server. Messages must
//! encode to the same bytes, and no answer may be longer than its request.

use std::net::SocketAddr;

use lockstep_live::{Rendezvous, RendezvousLimits};
use lockstep_units::Timestamp;

use crate::memory::bounded;

/// A datagram has at most 64 KiB and is not stored.
const MEMORY: usize = 512 << 10;
/// Magic bytes before the kind of a message.
const MAGIC: [u8; 4] = [1, b'l', b's', b'r'];

/// Input: one byte for the length of the datagrams, then the datagrams. Each is sent unchanged and after the magic
/// bytes.
pub fn run(data: &[u8]) {
    let Some((&length, stream)) = data.split_first() else { return };
    bounded(MEMORY, || {
        let Ok(mut server) = Rendezvous::new(RendezvousLimits::default()) else { return };
        let mut now = Timestamp::ZERO;
        for (place, part) in stream.chunks(2 * usize::from(length) + 1).enumerate() {
            let from = SocketAddr::from(([192, 0, 2, place as u8], 4600));
            now += std::time::Duration::from_millis(10);
            for datagram in [part.to_vec(), [&MAGIC[..], part].concat()] {
                lockstep_live::fuzzing::read_message(&datagram);
                server.handle_timeout(now);
                server.handle_datagram(now, from, &datagram);
                while let Some((to, answer)) = server.poll_transmit() {
                    assert!(to == from && answer.len() <= datagram.len());
                }
            }
        }
        assert_eq!(server.status().calls, 0, "no call may start without a valid signature");
    });
}
