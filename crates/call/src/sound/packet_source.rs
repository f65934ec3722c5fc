//! Source of a call's sound packets, with or without an encoder.

use lockstep_sound::CodingError;
use lockstep_transport::SoundPacket;
use lockstep_units::{Bitrate, Timestamp};

/// State of the path for sound.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SoundAllowance {
    /// Target bit rate without headers.
    pub bitrate: Bitrate,
    /// Share of lost packets, 0 to 1.
    pub loss: f64,
}

/// Source of a call's sound packets.
pub trait SoundPacketSource<P>: Send {
    /// The packet of the 20 ms that end at `now`; none during silence that is already signalled.
    ///
    /// # Errors
    /// [`CodingError`] if the sound cannot be coded.
    fn next_packet(
        &mut self,
        now: Timestamp,
        allowance: &SoundAllowance,
    ) -> Result<Option<SoundPacket<P>>, CodingError>;
}
