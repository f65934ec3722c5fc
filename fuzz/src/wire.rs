//! Any bytes as a datagram: what decodes is what would be encoded, and no part of it decodes.

use lockstep_transport::{Datagram, WireError};

use crate::memory::bounded;

/// A datagram is at most 64 KiB; its lists are at most 255 entries each.
const MEMORY: usize = 256 << 10;

/// The whole input is the datagram.
pub fn run(data: &[u8]) {
    bounded(MEMORY, || {
        let Ok(datagram) = Datagram::decode(data) else { return };
        let mut encoded = Vec::new();
        datagram.encode(&mut encoded);
        assert_eq!(encoded, data);
        for length in [0, 1, 2, data.len() / 2, data.len() - 1] {
            assert!(matches!(Datagram::decode(&data[..length]), Err(WireError::Truncated { .. })));
        }
        encoded.push(0);
        assert_eq!(Datagram::decode(&encoded), Err(WireError::Trailing(1)));
    });
}
