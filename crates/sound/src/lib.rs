//! Sound of a call: from a microphone or file to Opus, and from received packets to a loudspeaker.
//!
//! The crate reads no clock and owns no device. `SoundSender` encodes 20 ms at a time. [`Player`] returns the next 20
//! ms whenever its owner asks, whatever has arrived:
//! - [`PlayoutBuffer`] delays packets by the jitter of the path.
//! - [`shorten`] and [`lengthen`] change the pace to reach that delay.
//! - In-band forward error correction of Opus restores a lost packet from the next one.
//! - Concealment replaces the rest.
//!
//! [`CaptureResampler`] and [`PlaybackResampler`] follow the clocks of devices.
//!
//! The feature `opus` adds libopus. Without it, packets are coded elsewhere, for example in a browser. The feature
//! `processing` adds echo cancellation, noise suppression and gain control of a microphone. `room` adds simulated rooms
//! that measure them.
//!
//! Format: one channel, 48,000 samples per second, frames of 20 ms.
#![forbid(unsafe_code)]

mod coding;
mod device_resampler;
mod numbering;
#[cfg(feature = "opus")]
mod opus;
mod plan;
mod player;
mod playout;
#[cfg(feature = "processing")]
mod processing;
mod recent_delays;
#[cfg(feature = "room")]
pub mod room;
#[cfg(feature = "opus")]
mod sender;
mod source;
mod stretch;
#[cfg(feature = "room")]
mod talker;
#[cfg(feature = "opus")]
mod track;
mod wav;

use std::time::Duration;

pub use coding::{CodingError, has_redundancy};
pub use device_resampler::{CaptureResampler, PlaybackResampler};
pub use hound::Error as WavWriteError;
pub use numbering::FrameNumbering;
#[cfg(feature = "opus")]
pub use opus::{SoundDecoder, SoundEncoder};
pub use plan::{MAX_BITRATE, MIN_BITRATE, SoundPlan, bitrate_within};
pub use player::{Decode, Decoded, LOOK_AHEAD, Player, PlayerStatistics};
pub use playout::{Pace, Playout, PlayoutBuffer, PlayoutStatistics};
#[cfg(feature = "processing")]
pub use processing::{MAX_PLAYED_FRAMES, ProcessingSettings, SoundProcessing, processed};
pub use recent_delays::RecentDelays;
#[cfg(feature = "opus")]
pub use sender::SoundSender;
pub use source::{DiscardSoundSink, Silence, SoundFailure, SoundSink, SoundSource, Tone};
pub use stretch::{lengthen, shorten};
#[cfg(feature = "opus")]
pub use track::{SoundTrack, TrackPacket};
pub use wav::{WavError, WavRecording, WavSource, WavWriter};

/// Samples per second.
pub const SAMPLE_RATE: u32 = 48_000;
/// Samples per frame.
pub const FRAME_SAMPLES: usize = 960;
/// Duration of a frame.
pub const FRAME_DURATION: Duration = Duration::from_millis(20);

/// 20 ms of one channel.
pub type Frame = [i16; FRAME_SAMPLES];

/// Duration of a number of samples.
#[must_use]
pub fn duration_of(samples: usize) -> Duration {
    Duration::from_nanos(samples as u64 * 1_000_000_000 / u64::from(SAMPLE_RATE))
}
