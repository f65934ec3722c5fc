//! The sound of a call: from microphone or file to Opus, and from what arrives to what is played.
//!
//! Everything here is told the time and owns no device. [`SoundSender`] codes 20 ms at a time; [`Player`] is asked for
//! the 20 ms to be played now, whatever has arrived by then: it waits as long as the path's jitter calls for
//! ([`PlayoutBuffer`]), plays faster or slower to get there ([`shorten`], [`lengthen`]), uses what the next packet says of
//! a lost one (Opus's in-band forward error correction) and conceals the rest.
//!
//! One channel, 48,000 samples a second, frames of 20 ms.
#![forbid(unsafe_code)]

mod coding;
mod player;
mod playout;
mod recent_delays;
mod sender;
mod source;
mod stretch;
mod track;
mod wav;

use std::time::Duration;

pub use coding::{CodingError, SoundDecoder, SoundEncoder, has_redundancy};
pub use hound::Error as WavWriteError;
pub use player::{Decode, Decoded, LOOK_AHEAD, Player, PlayerStatistics};
pub use playout::{Pace, Playout, PlayoutBuffer, PlayoutStatistics};
pub use recent_delays::RecentDelays;
pub use sender::{HIGHEST_BITRATE, LOWEST_BITRATE, SoundPlan, SoundSender, bitrate_within};
pub use source::{Nowhere, Silence, SoundFailure, SoundSink, SoundSource, Tone};
pub use stretch::{lengthen, shorten};
pub use track::{SoundTrack, TrackPacket};
pub use wav::{WavError, WavRecording, WavSource, WavWriter};

/// Samples a second.
pub const SAMPLE_RATE: u32 = 48_000;
/// Samples of a frame.
pub const FRAME_SAMPLES: usize = 960;
/// How long a frame lasts.
pub const FRAME_DURATION: Duration = Duration::from_millis(20);

/// A frame: 20 ms of one channel.
pub type Frame = [i16; FRAME_SAMPLES];

/// How long `samples` last.
#[must_use]
pub fn duration_of(samples: usize) -> Duration {
    Duration::from_nanos(samples as u64 * 1_000_000_000 / u64::from(SAMPLE_RATE))
}
