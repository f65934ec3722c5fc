//! What can be wrong with a trace.

use lockstep_units::quantity::QuantityError;

use crate::limits::{MAXIMUM_INPUT, MAXIMUM_OPPORTUNITIES, MAXIMUM_SEGMENTS};

/// What is wrong at one place of a trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// A mahimahi line that is not a whole number of milliseconds below 2^32.
    #[error("\"{0}\" is not a whole number of milliseconds")]
    Milliseconds(String),
    /// A time before (mahimahi) or not after (columns) the one above it.
    #[error("time {found} does not come after {previous}")]
    TimeOrder {
        /// The time above, as read.
        previous: String,
        /// The time here, as read.
        found: String,
    },
    /// A quantity that cannot be read or is out of range.
    #[error(transparent)]
    Quantity(#[from] QuantityError),
    /// A field that has to be there and is not.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// A line of a profile that starts with none of its words.
    #[error("\"{0}\" is none of rate, delay, loss, wait")]
    Word(String),
    /// More on a line than belongs there.
    #[error("\"{0}\" is one field too many")]
    Extra(String),
    /// Changes at the end of a profile that no `wait` follows, so that they would never hold.
    #[error("the changes at the end hold for no time: a wait is missing")]
    NoWait,
}

/// Why a trace was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// Something is wrong on a line of the text, counted from one.
    #[error("line {line}: {problem}")]
    Line {
        /// The line, counted from one.
        line: usize,
        /// What is wrong there.
        problem: Problem,
    },
    /// Something is wrong with a segment, counted from one.
    #[error("segment {segment}: {problem}")]
    Segment {
        /// The segment, counted from one.
        segment: usize,
        /// What is wrong there.
        problem: Problem,
    },
    /// The JSON cannot be read, or is not of AlphaRTC's shape.
    #[error("not an AlphaRTC trace: {message} (line {line}, column {column})")]
    Json {
        /// The line, counted from one.
        line: usize,
        /// The column, counted from one.
        column: usize,
        /// What the JSON reader says.
        message: String,
    },
    /// Bytes that are not UTF-8.
    #[error("line {line}: not text")]
    NotText {
        /// The line, counted from one.
        line: usize,
    },
    /// A file that gzip has packed.
    #[error("packed by gzip; unpack it first, with `gunzip`")]
    Packed,
    /// A text in none of the known formats.
    #[error("none of the known trace formats: line {line} reads \"{text}\"")]
    UnknownFormat {
        /// The first line that says something.
        line: usize,
        /// What it says, shortened.
        text: String,
    },
    /// Nothing in it.
    #[error("the trace is empty")]
    Empty,
    /// More input than [`MAXIMUM_INPUT`].
    #[error("the trace is larger than {MAXIMUM_INPUT} bytes")]
    InputTooLarge,
    /// More delivery opportunities than [`MAXIMUM_OPPORTUNITIES`].
    #[error("more than {MAXIMUM_OPPORTUNITIES} delivery opportunities")]
    TooManyOpportunities,
    /// More segments than [`MAXIMUM_SEGMENTS`].
    #[error("more than {MAXIMUM_SEGMENTS} segments")]
    TooManySegments,
    /// A trace that lasts no time, so that it could not be repeated.
    #[error("the trace lasts no time")]
    NoTime,
    /// A trace longer than [`MAXIMUM_PERIOD`](lockstep_units::quantity::MAXIMUM_PERIOD).
    #[error("the trace lasts longer than 49 days")]
    TooLong,
    /// Delivery opportunities can only be repeated.
    #[error("delivery opportunities have no last value to hold: they repeat")]
    CannotHold,
    /// A trace without capacity has no delivery opportunities.
    #[error("less than one packet of 1500 bytes passes in the trace: it has no delivery opportunities")]
    NoOpportunities,
    /// A bin that would not divide the trace into a bounded number of bins.
    #[error("bins have to last at least a millisecond and be at most {MAXIMUM_SEGMENTS}")]
    Bin,
    /// The file could not be read.
    #[error("{path}: {message}")]
    Read {
        /// The file.
        path: String,
        /// What the system says.
        message: String,
    },
    /// No family of traces is called so.
    #[error("there is no family \"{name}\"; there are: {known}")]
    Family {
        /// What was asked for, shortened.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// A file of families of traces without any.
    #[error("there is no family of traces in it")]
    NoFamily,
    /// Several families of traces, and no name that says which.
    #[error("there are several families; say which with name=, as one of: {known}")]
    ManyFamilies {
        /// The names that there are.
        known: String,
    },
    /// A generated trace was asked for in words that mean nothing.
    #[error("trace \"{spec}\": {message}")]
    Spec {
        /// What was asked for, shortened.
        spec: String,
        /// What is wrong with it, and what would be right.
        message: String,
    },
}
