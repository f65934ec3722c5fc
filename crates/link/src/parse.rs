//! Reads traces: detects the format, and parses mahimahi files.

use std::io::Read;
use std::path::Path;

use lockstep_units::excerpt;

use crate::alphartc::parse_alphartc;
use crate::columns::{ColumnUnits, parse_columns};
use crate::error::{Problem, TraceError};
use crate::limits::{MAX_INPUT, MAX_OPPORTUNITIES};
use crate::lines::lines;
use crate::profile::{WORDS, parse_profile};
use crate::trace::Trace;
use crate::transfer_log::{is_line, parse_transfer_log};

/// Formats of traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TraceFormat {
    /// mahimahi: one line per delivery opportunity of 1500 bytes, its time in whole milliseconds. Repeats at the last
    /// line.
    Mahimahi,
    /// The `uplink` of an AlphaRTC trace; [`parse_alphartc`] reads both directions.
    AlphaRtc,
    /// Lines of `rate`, `delay`, `loss` and `wait`, as in BoB's evaluation. Each `wait` lets time pass under the
    /// current values.
    Profile,
    /// Columns of time and rate, optionally of duration, loss, delay and jitter; see [`ColumnUnits`].
    Columns(ColumnUnits),
    /// Log of a download, as of Norway's 3G and Belgium's 4G. Columns: time, time since the start, latitude, longitude,
    /// bytes and milliseconds since the last line.
    TransferLog,
}

/// First bytes of a gzip file (RFC 1952, section 2.3.1).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The text of `bytes`, without a byte-order mark.
fn text(bytes: &[u8]) -> Result<&str, TraceError> {
    if bytes.len() > MAX_INPUT {
        return Err(TraceError::InputTooLarge);
    }
    if bytes.starts_with(&GZIP) {
        return Err(TraceError::Packed);
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let good = &bytes[..error.valid_up_to()];
        TraceError::NotText { line: good.iter().filter(|&&byte| byte == b'\n').count() + 1 }
    })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

impl TraceFormat {
    /// Detects the format by the first line with content:
    ///
    /// - an opening brace: AlphaRTC
    /// - `rate`, `delay`, `loss` or `wait` with one value: profile
    /// - a single whole number: mahimahi
    /// - six numbers, the first one a date: transfer log
    /// - two or more fields: columns
    ///
    /// # Errors
    /// [`TraceError::Empty`] and [`TraceError::UnknownFormat`].
    pub fn detect(text: &str) -> Result<Self, TraceError> {
        let (line, first) = lines(text).next().ok_or(TraceError::Empty)?;
        let mut words = first.split_whitespace();
        let (word, values) = (words.next().unwrap_or_default(), words.count());
        if first.starts_with('{') {
            Ok(Self::AlphaRtc)
        } else if WORDS.contains(&word) && values == 1 {
            Ok(Self::Profile)
        } else if first.bytes().all(|byte| byte.is_ascii_digit()) {
            Ok(Self::Mahimahi)
        } else if is_line(first) {
            Ok(Self::TransferLog)
        } else if crate::columns::fields(first).count() >= 2 {
            Ok(Self::Columns(ColumnUnits::default()))
        } else {
            Err(TraceError::UnknownFormat { line, text: excerpt(first) })
        }
    }
}

impl Trace {
    /// Parses a trace in a known format. The `MAXIMUM_*` constants of this crate bound its memory. The trace repeats;
    /// see [`Trace::with_end`].
    ///
    /// # Errors
    /// [`TraceError`] with the line or segment.
    pub fn parse(format: TraceFormat, bytes: &[u8]) -> Result<Self, TraceError> {
        let text = text(bytes)?;
        match format {
            TraceFormat::Mahimahi => parse_mahimahi(text),
            TraceFormat::AlphaRtc => Ok(parse_alphartc(text)?.uplink),
            TraceFormat::Profile => parse_profile(text),
            TraceFormat::Columns(units) => parse_columns(text, units),
            TraceFormat::TransferLog => parse_transfer_log(text),
        }
    }

    /// Parses a trace in any format; see [`TraceFormat::detect`].
    ///
    /// # Errors
    /// As [`Trace::parse`] and [`TraceFormat::detect`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, TraceError> {
        Self::parse(TraceFormat::detect(text(bytes)?)?, bytes)
    }

    /// Reads a trace in any format from a file. Reads at most [`MAX_INPUT`] bytes.
    ///
    /// # Errors
    /// [`TraceError::Read`], and as [`Trace::from_bytes`].
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let failed =
            |error: std::io::Error| TraceError::Read { path: path.display().to_string(), message: error.to_string() };
        let mut bytes = Vec::new();
        let file = lockstep_units::open_input(path).map_err(failed)?;
        file.take(MAX_INPUT as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
        Self::from_bytes(&bytes)
    }
}

fn parse_mahimahi(text: &str) -> Result<Trace, TraceError> {
    let mut times = Vec::<u32>::new();
    for (line, text) in lines(text) {
        let at = |problem| TraceError::Line { line, problem };
        let time: u32 = match text.bytes().all(|byte| byte.is_ascii_digit()) {
            true => text.parse().map_err(|_| at(Problem::Milliseconds(excerpt(text))))?,
            false => return Err(at(Problem::Milliseconds(excerpt(text)))),
        };
        if let Some(&previous) = times.last()
            && previous > time
        {
            return Err(at(Problem::TimeOrder { previous: previous.to_string(), found: time.to_string() }));
        }
        if times.len() == MAX_OPPORTUNITIES {
            return Err(TraceError::TooManyOpportunities);
        }
        times.push(time);
    }
    let period = times.last().copied().ok_or(TraceError::Empty)?;
    Trace::from_opportunities(times, period)
}
