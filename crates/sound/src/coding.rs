//! Errors of sound coding, and the parts of Opus packets (RFC 6716) that need no decoder.

use thiserror::Error;

use crate::source::SoundFailure;

/// Error of the encoder or decoder.
#[derive(Debug, Error)]
pub enum CodingError {
    /// The bytes are not a packet of 20 ms.
    #[error("a packet of sound of {length} bytes is not 20 ms of Opus: {reason}")]
    Packet {
        /// Length of the packet, bytes.
        length: usize,
        /// Message of libopus.
        reason: String,
    },
    /// The source has no sound.
    #[error(transparent)]
    Source(#[from] SoundFailure),
    /// libopus failed.
    #[cfg(feature = "opus")]
    #[error("opus: {0}")]
    Opus(#[from] opus::Error),
}

/// Whether `packet` has a coarse copy of the frame before it. A packet begins with the table-of-contents byte (RFC
/// 6716, section 3.1). Frames of SILK and hybrid modes begin with one voice activity bit per 20 ms. The next bit
/// announces the copy (section 4.2.3).
#[must_use]
pub fn has_redundancy(packet: &[u8]) -> bool {
    let Some((&contents, frame)) = packet.split_first() else { return false };
    let is_celt = contents >> 3 >= 16;
    let is_single = contents & 3 == 0;
    !is_celt && is_single && frame.first().is_some_and(|bits| bits & 0x40 != 0)
}
