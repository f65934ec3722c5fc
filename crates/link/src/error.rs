//! Errors of traces.

use lockstep_units::quantity::QuantityError;

use crate::limits::{MAX_INPUT, MAX_OPPORTUNITIES, MAX_SEGMENTS};

/// What is wrong at one place of a trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// A mahimahi line is not a whole number of milliseconds below 2^32.
    #[error("\"{0}\" is not a whole number of milliseconds")]
    Milliseconds(String),
    /// A time is before (mahimahi) or not after (columns) the one on the line above.
    #[error("time {found} is not after {previous}")]
    TimeOrder {
        /// Time on the line above, as written.
        previous: String,
        /// Time on this line, as written.
        found: String,
    },
    /// A quantity that cannot be read or is out of range.
    #[error(transparent)]
    Quantity(#[from] QuantityError),
    /// A required field is missing.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// A line of a profile starts with an unknown word.
    #[error("unknown word \"{0}\", expected rate, delay, loss or wait")]
    Word(String),
    /// A line has too many fields.
    #[error("unexpected field \"{0}\"")]
    Extra(String),
    /// No `wait` follows the last changes of a profile, so that they have no effect.
    #[error("the last changes have no effect: add a wait after them")]
    NoWait,
}

/// Why a trace is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// A line of the text is invalid.
    #[error("line {line}: {problem}")]
    Line {
        /// Number of the line, from one.
        line: usize,
        /// The problem.
        problem: Problem,
    },
    /// A segment is invalid.
    #[error("segment {segment}: {problem}")]
    Segment {
        /// Number of the segment, from one.
        segment: usize,
        /// The problem.
        problem: Problem,
    },
    /// The JSON is invalid, or is not an AlphaRTC trace.
    #[error("not an AlphaRTC trace: {message} (line {line}, column {column})")]
    Json {
        /// Number of the line, from one.
        line: usize,
        /// Number of the column, from one.
        column: usize,
        /// Message of the JSON parser.
        message: String,
    },
    /// The bytes are not UTF-8.
    #[error("line {line}: not UTF-8 text")]
    NotText {
        /// Number of the line, from one.
        line: usize,
    },
    /// The file is compressed by gzip.
    #[error("compressed by gzip; decompress it first with `gunzip`")]
    Packed,
    /// The text is in no known format.
    #[error("none of the known trace formats: line {line} reads \"{text}\"")]
    UnknownFormat {
        /// First line that is not blank or a comment.
        line: usize,
        /// Content of the line, shortened.
        text: String,
    },
    /// The trace is empty.
    #[error("the trace is empty")]
    Empty,
    /// The input is longer than [`MAX_INPUT`].
    #[error("the trace is larger than {MAX_INPUT} bytes")]
    InputTooLarge,
    /// There are more delivery opportunities than [`MAX_OPPORTUNITIES`].
    #[error("more than {MAX_OPPORTUNITIES} delivery opportunities")]
    TooManyOpportunities,
    /// There are more segments than [`MAX_SEGMENTS`].
    #[error("more than {MAX_SEGMENTS} segments")]
    TooManySegments,
    /// The duration is zero, so that the trace cannot repeat.
    #[error("the duration of the trace is zero")]
    NoTime,
    /// The trace is longer than [`MAX_PERIOD`](lockstep_units::quantity::MAX_PERIOD).
    #[error("the trace is longer than 49 days")]
    TooLong,
    /// Delivery opportunities must repeat.
    #[error("delivery opportunities cannot hold a last value, only repeat")]
    CannotHold,
    /// The trace has too little capacity for delivery opportunities.
    #[error("less than one packet of 1500 bytes passes in the trace: it has no delivery opportunities")]
    NoOpportunities,
    /// The bin is too short, or gives too many bins.
    #[error("bins have to last at least a millisecond and be at most {MAX_SEGMENTS}")]
    Bin,
    /// The file cannot be read.
    #[error("{path}: {message}")]
    Read {
        /// Path of the file.
        path: String,
        /// Message of the operating system.
        message: String,
    },
    /// No family of traces has this name.
    #[error("unknown family \"{name}\"; known families: {known}")]
    Family {
        /// The requested name, shortened.
        name: String,
        /// Known names.
        known: String,
    },
    /// A file of families has no family.
    #[error("there is no family of traces in it")]
    NoFamily,
    /// A file has several families, and no name selects one.
    #[error("there are several families; say which with name=, as one of: {known}")]
    ManyFamilies {
        /// Known names.
        known: String,
    },
    /// The description of a generated trace is invalid.
    #[error("trace \"{spec}\": {message}")]
    Spec {
        /// The description, shortened.
        spec: String,
        /// What is wrong, and what is expected.
        message: String,
    },
}
