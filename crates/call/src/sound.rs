//! The sound of a call beside its pictures: what codes it at the sending end, what plays it at the receiving end, and
//! what keeps the two together.
//!
//! A driver asks both every 20 ms ([`lockstep_sound::FRAME_DURATION`]). With the real codec it is Opus ([`Voice`],
//! [`Playing`] of [`SoundDecoder`](lockstep_sound::SoundDecoder)); in a modelled call packets have a length and nothing else (`lockstep_sim::ModelledVoice`,
//! `lockstep_sim::ModelledListener`), and the same playout buffer waits for them.

mod lip_sync;
mod playing;
mod rate;

use lockstep_sound::{CodingError, SoundSender, SoundSource};
use lockstep_transport::{Payload, SoundPacket};
use lockstep_units::{Bitrate, Timestamp};

pub use lip_sync::{LIP_SYNC, LipSync};
pub use playing::{Playback, Playing, SoundScores};
pub(crate) use rate::{RecentRate, Share};

/// What sound is told of the path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SoundAllowance {
    /// What it is to spend, headers apart.
    pub bitrate: Bitrate,
    /// The share of packets, 0 to 1, that is lost.
    pub loss: f64,
}

/// Gives the packets of a call's sound.
pub trait Speaking<P>: Send {
    /// The 20 ms that end at `now`, as a packet; none where they are silent and that has been said.
    ///
    /// # Errors
    /// The sound could not be coded.
    fn speak(&mut self, now: Timestamp, allowance: &SoundAllowance) -> Result<Option<SoundPacket<P>>, CodingError>;
}

/// A source whose sound Opus codes.
pub struct Voice {
    source: Box<dyn SoundSource>,
    sender: SoundSender,
}

impl Voice {
    /// # Errors
    /// Opus has no memory.
    pub fn new(source: Box<dyn SoundSource>) -> Result<Self, CodingError> {
        Ok(Self { source, sender: SoundSender::new()? })
    }
}

impl Speaking<Vec<u8>> for Voice {
    fn speak(&mut self, now: Timestamp, allowance: &SoundAllowance) -> Result<Option<SoundPacket>, CodingError> {
        self.sender.adapt(allowance.bitrate, allowance.loss)?;
        // At its end there is nothing more to be said of it.
        let Some(frame) = self.source.next_frame()? else { return Ok(None) };
        self.sender.capture(now, &frame)
    }
}

/// The sound of a call in virtual time, both ends of it.
pub struct CallSound<P: Payload> {
    /// At the sending end.
    pub voice: Box<dyn Speaking<P>>,
    /// At the receiving end.
    pub playback: Box<dyn Playback<P>>,
    /// Whether pictures wait for their sound, and sound for its pictures.
    pub lip_sync: bool,
}
