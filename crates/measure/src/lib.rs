//! Measures of a call: frame log, scores, series, freezes and session statistics.
//!
//! ```text
//! records, displays --> CallLog --------+
//!                                       +--> Scores, Series
//! packets -----------> SeriesRecorder --+
//! counters, frames --> SessionMeter --------> one row per second
//! ```
//!
//! Memory is bounded for calls of any length. No clock is read.
#![forbid(unsafe_code)]

mod call_log;
mod frame_columns;
mod frame_log;
mod freezes;
mod packets;
mod report;
mod scores;
mod series;
mod session;

pub use call_log::{CallLog, FinishedCall};
pub use frame_columns::{FRAME_COLUMNS, FrameColumn};
pub use frame_log::{FrameObserver, KeptFrames, LoggedFrame, MAX_PENDING_FRAMES};
pub use freezes::{FrameDuration, FreezeDetector};
pub use report::{CallReport, CodingTimes, DRAIN, Machine, OppositeResult, PersonFlowReport, RoomReport};
pub use scores::{
    ChoiceScores, FrameCounts, FreezeScores, NEAR_FLOOR, NetworkScores, PsnrScores, SMALL_PACKET, Scores, SsimScores,
    StateScores, TotalScores, VMAF_NOT_ASKED_FOR, VideoDelayFloor, qoe_d, video_delays,
};
pub use series::{MAX_POINTS, SERIES_INTERVAL, Series, SeriesRecorder};
pub use session::{
    ReceivedCounts, SECOND_COLUMNS, SecondColumn, SentCounts, SessionMeter, SessionSecond, SessionTotals,
    SharedSessionMeter, TOTAL_COLUMNS, Total,
};
