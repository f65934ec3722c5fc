//! Parses arbitrary bytes as a datagram. A valid one must encode to the same bytes, and no prefix of it may be valid.

use lockstep_transport::{Datagram, WireError};

use crate::memory::bounded;

/// A datagram has at most 64 KiB, and its lists at most 255 entries each.
const MEMORY: usize = 256 << 10;

/// Input: the datagram.
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
