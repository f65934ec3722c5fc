//! Errors of reading a recording.

use std::io;

use super::HeaderError;
use crate::{AlgorithmError, UnknownLatency};

/// Version of the format. Other versions are refused.
pub(super) const VERSION: u32 = 2;
/// Maximum line length, bytes: a feedback of about 50,000 fragments. A call's feedback has hundreds.
pub(super) const MAX_LINE_BYTES: usize = 4 << 20;

/// Error of reading a recording.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Input(#[from] io::Error),
    /// The first line is not that of a recording.
    #[error("not a recording of a controller's decisions: invalid first line")]
    NoRecording,
    /// The recording has another format version.
    #[error("format version {0}: this Lockstep reads version {VERSION} only")]
    Version(u32),
    /// The first line does not match the format.
    #[error("line 1: {0}")]
    BadHeader(String),
    /// The first line names an unknown controller.
    #[error("line 1: {0}")]
    Controller(AlgorithmError),
    /// The first line names an unknown latency.
    #[error("line 1: {0}")]
    Latency(UnknownLatency),
    /// No controller can be made from the first line.
    #[error("line 1: {0}")]
    Header(#[from] HeaderError),
    /// A line is too long.
    #[error("line {0} has more than {MAX_LINE_BYTES} bytes")]
    LongLine(u64),
    /// A line does not match the format.
    #[error("line {line}: {problem}")]
    BadLine {
        /// Line number, from 1.
        line: u64,
        /// Description of the problem.
        problem: String,
    },
    /// A value is out of range.
    #[error("line {line}: {value} is out of range")]
    Beyond {
        /// Line number, from 1.
        line: u64,
        /// Name of the value.
        value: &'static str,
    },
    /// Lines follow the end of the recording.
    #[error("line {0}: unexpected line after the end of the recording")]
    AfterEnd(u64),
}
