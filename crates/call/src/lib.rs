//! The two ends of a call, built from codec, media, transport and control, and the records of its frames. Both are
//! state machines without a clock: the simulator and the live driver run the same objects.
#![forbid(unsafe_code)]

mod announced;
mod codec;
mod conventional;
mod distribution;
mod effort;
mod encoder;
mod external;
mod frame_dropper;
mod functional;
mod held_states;
mod narrow;
mod open_records;
mod overhead;
mod quantizer_choice;
mod rate_control;
mod receiving;
mod record;
mod salsify;
mod screen;
mod sending;
mod size_curve;
mod sound;
mod tuning;
mod vp8_codec;

pub use announced::announced;
pub use codec::{Candidate, Codec, CodecTraits, FunctionalCodec, PictureCodec, Vp8};
pub use conventional::{ConventionalEncoder, KEY_FRAME_INTERVAL, MAX_PACER_DELAY};
pub use distribution::{DelayScores, Distribution, MAX_EXACT_VALUES, mean, quantile};
pub use effort::{EffortLadder, EffortLevel, FINEST_USEFUL_QUANTIZER, Preset};
pub use encoder::{EncodeJob, EncodeWork, FrameEncoder, FrameRequest, FrameStart, Menu, MenuRunner, SerialMenu};
pub use external::{
    EncodeRequest, EncodedPicture, External, ExternalDecoder, ExternalEncoder, ExternalState, PictureDecoder,
    PictureEncoder,
};
pub use frame_dropper::FrameDropperConfig;
pub use functional::{FIT_PASSES, FunctionalConfig, FunctionalEncoder, MenuMode};
pub use narrow::NarrowPathSharesConfig;
pub use open_records::OpenRecords;
pub use rate_control::{FrameTarget, RateControl, TARGET_INTERVAL};
pub use receiving::{DecodeCounts, DecodeJob, DecodeOutcome, Display, ReceivingEnd, age};
pub use record::{DisplayRecord, FrameRecord, Outcome};
pub use salsify::{MAX_SKIPS, SalsifyEncoder, SalsifyVersions};
pub use screen::{ScreenConfig, SharpBudget};
pub use sending::{Committed, DecodeLagConfig, SendingEnd, SendingStatus};
pub use size_curve::SizeCurveConfig;
#[cfg(feature = "opus")]
pub use sound::Voice;
pub use sound::{CallSound, LIP_SYNC, LipSync, Playback, SoundAllowance, SoundPacketSource, SoundPlayer, SoundScores};
pub use tuning::Tuning;
