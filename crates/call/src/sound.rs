//! Sound of a call: coding at the sending end, playing at the receiving end, and lip sync.
//!
//! A driver calls both every 20 ms ([`lockstep_sound::FRAME_DURATION`]). With the real codec they are Opus: [`Voice`],
//! and [`SoundPlayer`] of [`SoundDecoder`](lockstep_sound::SoundDecoder). In a modelled call, packets have only a length
//! (`lockstep_sim::ModelledVoice`, `lockstep_sim::ModelledListener`), with the same playout buffer.

mod lip_sync;
mod playing;
mod rate;

use lockstep_sound::{CodingError, SoundSender, SoundSource};
use lockstep_transport::{Payload, SoundPacket};
use lockstep_units::{Bitrate, Timestamp};

pub use lip_sync::{LIP_SYNC, LipSync};
pub use playing::{Playback, SoundPlayer, SoundScores};
pub(crate) use rate::{RecentRate, Share};

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

/// Sound of a call in virtual time, at both ends.
pub struct CallSound<P: Payload> {
    /// At the sending end.
    pub voice: Box<dyn SoundPacketSource<P>>,
    /// At the receiving end.
    pub playback: Box<dyn Playback<P>>,
    /// Whether pictures wait for their sound, and sound for its pictures.
    pub lip_sync: bool,
}
