//! One call: the sending end and the receiving end, built from codec, media, transport and control; its per-frame log
//! and its scores. Clock-free: the simulator and the live driver run the same objects.
#![forbid(unsafe_code)]

mod announced;
mod call_log;
mod codec;
mod codec_model;
mod codec_model_fit;
mod codec_model_measure;
mod conventional;
mod distribution;
mod encode_time;
mod encoder;
mod external;
mod frame_columns;
mod frame_dropper;
mod frame_log;
mod freezes;
mod full_throttle;
mod functional;
mod held_states;
mod modelled_clip;
mod modelled_codec;
mod narrow;
mod overhead;
mod padded;
mod quantizer_choice;
mod rate_control;
mod receiving;
mod record;
mod report;
mod scores;
mod sending;
mod series;
mod session;
mod size_curve;
mod sound;
mod tuning;
mod vp8_codec;

pub use announced::announced;
pub use call_log::{CallLog, FinishedCall};
pub use codec::{Codec, FunctionalCodec, PictureCodec};
pub use codec_model::{
    ClipModel, CodecModel, CodecModelError, EffectTable, FOLLOWER_POINTS, HeldOutError, ModelPoint, NORMAL_POINTS,
    Persistence, REFERENCE_POINTS, ReferenceEffect,
};
pub use codec_model_measure::ClipMeasurements;
pub use conventional::{ConventionalEncoder, KEY_FRAME_INTERVAL, LONGEST_PACER_DELAY};
pub use distribution::{Distribution, MOST_EXACT_VALUES};
pub use encode_time::{CodingTimes, EncodeTime, EncodeTimeError, EncodeWork, JobTimes, Machine, TimePoint};
pub use encoder::{Candidate, EncodeJob, FrameEncoder, FrameRequest, FrameStart, Menu, MenuRunner, SerialMenu};
pub use external::{
    EncodeRequest, EncodedPicture, External, ExternalDecoder, ExternalEncoder, ExternalState, PictureDecoder,
    PictureEncoder,
};
pub use frame_columns::{FRAME_COLUMNS, FrameColumn};
pub use frame_dropper::FrameDropperConfig;
pub use frame_log::{CallObserver, KeptFrames, LoggedFrame, MOST_PENDING_FRAMES, OpenRecords};
pub use freezes::{FrameDuration, FreezeDetector};
pub use full_throttle::{Filling, FullThrottle};
pub use functional::{FINEST_USEFUL_QUANTIZER, FIT_PASSES, FunctionalConfig, FunctionalEncoder, MenuMode};
pub use modelled_clip::{BestFrame, ClipCurves, ModelledClip, ModelledFrame, ModelledPicture, ModelledReference};
pub use modelled_codec::{Modelled, ModelledState};
pub use narrow::NarrowWayConfig;
pub use padded::{Padded, Padding};
pub use rate_control::{FrameTarget, RateControl, TARGET_INTERVAL};
pub use receiving::{DecodeCounts, DecodeJob, DecodeOutcome, Display, ReceivingEnd};
pub use record::{FrameRecord, Outcome};
pub use report::{CallReport, DRAIN, DisplayRecord, OppositeResult, RIDING, carried, on_the_link};
pub use scores::{
    DelayScores, FrameCounts, FreezeScores, NEAR_FLOOR, NetworkScores, PsnrScores, SMALL_PACKET, Scores, SsimScores,
    TotalScores, VMAF_NOT_ASKED_FOR, VideoDelayFloor, mean, qoe_d, quantile, video_delays,
};
pub use sending::{Committed, DecodeLagConfig, SendingEnd, SendingStatus};
pub use series::{MOST_POINTS, SERIES_INTERVAL, Series, SeriesRecorder};
pub use session::{
    ReceivedCounts, SECOND_COLUMNS, SecondColumn, SentCounts, SessionMeter, SessionSecond, SessionTotals,
    SharedSessionMeter, TOTAL_COLUMNS, Total,
};
pub use size_curve::SizeCurveConfig;
pub use sound::{
    CallSound, LIP_SYNC, LipSync, ModelledListener, ModelledVoice, Playback, Playing, SoundAllowance, SoundScores,
    Speaking, Voice,
};
pub use tuning::Tuning;
pub use vp8_codec::Vp8;
