//! Sound source of a call, encoded with libopus.

use lockstep_sound::{CodingError, SoundSender, SoundSource};
use lockstep_transport::SoundPacket;
use lockstep_units::Timestamp;

use super::packet_source::{SoundAllowance, SoundPacketSource};

/// Sound source with an Opus encoder.
pub struct Voice {
    source: Box<dyn SoundSource>,
    sender: SoundSender,
}

impl Voice {
    /// # Errors
    /// [`CodingError`] if Opus cannot allocate memory.
    pub fn new(source: Box<dyn SoundSource>) -> Result<Self, CodingError> {
        Ok(Self { source, sender: SoundSender::new()? })
    }
}

impl SoundPacketSource<Vec<u8>> for Voice {
    fn next_packet(&mut self, now: Timestamp, allowance: &SoundAllowance) -> Result<Option<SoundPacket>, CodingError> {
        self.sender.adapt(allowance.bitrate, allowance.loss)?;
        // The source has ended.
        let Some(frame) = self.source.next_frame()? else { return Ok(None) };
        self.sender.capture(now, &frame)
    }
}
