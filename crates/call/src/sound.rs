//! Sound of a call: coding at the sending end, playing at the receiving end, and lip sync.
//!
//! A driver calls both every 20 ms ([`lockstep_sound::FRAME_DURATION`]). With the feature `opus` they are
//! `Voice`, and [`SoundPlayer`] of `lockstep_sound::SoundDecoder`. In a modelled call, packets have only a length
//! (`lockstep_sim::modelled_sound`), with the same playout buffer.

mod lip_sync;
mod packet_source;
mod playing;
mod rate;
#[cfg(feature = "opus")]
mod voice;

use lockstep_transport::Payload;

pub use lip_sync::{LIP_SYNC, LipSync};
pub use packet_source::{SoundAllowance, SoundPacketSource};
pub use playing::{Playback, SoundPlayer, SoundScores};
pub(crate) use rate::{RecentRate, Share};
#[cfg(feature = "opus")]
pub use voice::Voice;

/// Sound of a call in virtual time, at both ends.
pub struct CallSound<P: Payload> {
    /// At the sending end.
    pub voice: Box<dyn SoundPacketSource<P>>,
    /// At the receiving end.
    pub playback: Box<dyn Playback<P>>,
    /// Whether pictures wait for their sound, and sound for its pictures.
    pub lip_sync: bool,
}
