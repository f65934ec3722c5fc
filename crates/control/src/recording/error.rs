//! Why a recording cannot be read.

use std::io;

use super::HeaderError;
use crate::{AlgorithmError, UnknownLatency};

/// The version of the format: of another one nothing is read.
pub(super) const VERSION: u32 = 2;
/// The most bytes of a line: a feedback of some 50,000 fragments, where one of a call has hundreds.
pub(super) const LONGEST_LINE: usize = 4 << 20;

/// Why a recording cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Input(#[from] io::Error),
    /// Its first line is none.
    #[error("is no recording of a controller's decisions: its first line says nothing of one")]
    NoRecording,
    /// It is of another version.
    #[error("is of version {0} of the format; this Lockstep reads version {VERSION}")]
    Version(u32),
    /// Its first line is not as the format has it.
    #[error("line 1: {0}")]
    BadHeader(String),
    /// Its controller is none that there is.
    #[error("line 1: {0}")]
    Controller(AlgorithmError),
    /// Its latency is none that there is.
    #[error("line 1: {0}")]
    Latency(UnknownLatency),
    /// No controller can be made of its first line.
    #[error("line 1: {0}")]
    Header(#[from] HeaderError),
    /// A line is longer than any that is written.
    #[error("line {0} has more than {LONGEST_LINE} bytes")]
    LongLine(u64),
    /// A line is not as the format has it.
    #[error("line {line}: {problem}")]
    BadLine {
        /// Which, from 1.
        line: u64,
        /// What is wrong with it.
        problem: String,
    },
    /// A value is beyond what any call has.
    #[error("line {line}: {value} is beyond what any call has")]
    Beyond {
        /// Which, from 1.
        line: u64,
        /// Which value.
        value: &'static str,
    },
    /// There is more after the end.
    #[error("line {0}: there is more after the end of the recording")]
    AfterEnd(u64),
}
