//! Logs of downloads, as in Norway's 3G and Belgium's 4G data sets. A line per second has six fields:
//!
//! - time since 1970, seconds
//! - time since the start
//! - latitude
//! - longitude
//! - bytes since the last line
//! - milliseconds since the last line

use std::time::Duration;

use lockstep_units::Bitrate;
use lockstep_units::excerpt;
use lockstep_units::quantity::QuantityError;

use crate::error::TraceError;
use crate::limits::MAX_SEGMENTS;
use crate::lines::lines;
use crate::timeline::End;
use crate::trace::{Conditions, Segment, Trace};

/// Number of fields of a line.
const FIELDS: usize = 6;
/// Earliest time of a line: 2001, in seconds since 1970. It distinguishes this format from columns, whose times are
/// smaller.
const MIN_TIME_SECONDS: f64 = 1e9;

/// Whether `line` looks like a line of such a log.
pub(crate) fn is_line(line: &str) -> bool {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let number = |index: usize| fields[index].parse::<f64>().ok().filter(|value| value.is_finite());
    fields.len() == FIELDS
        && (0..FIELDS).all(|index| number(index).is_some())
        && number(0).is_some_and(|moment| moment >= MIN_TIME_SECONDS)
}

pub(crate) fn parse_transfer_log(text: &str) -> Result<Trace, TraceError> {
    let mut segments = Vec::new();
    for (line, text) in lines(text) {
        let wrong = || TraceError::Line {
            line,
            problem: QuantityError::Range {
                field: "bytes and milliseconds",
                text: excerpt(text),
                range: "six numbers a line, the last two not negative",
            }
            .into(),
        };
        let fields: Vec<&str> = text.split_whitespace().collect();
        let number = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok());
        let (Some(bytes), Some(milliseconds)) = (number(4), number(5)) else { return Err(wrong()) };
        if fields.len() != FIELDS {
            return Err(wrong());
        }
        if milliseconds == 0 {
            continue;
        }
        if segments.len() == MAX_SEGMENTS {
            return Err(TraceError::TooManySegments);
        }
        let rate = Bitrate::from_bps(bytes.saturating_mul(8_000) / milliseconds);
        segments.push(Segment { duration: Duration::from_millis(milliseconds), rate, conditions: Conditions::NONE });
    }
    Trace::from_segments(&segments, End::Repeat)
}

#[cfg(test)]
mod tests {
    use lockstep_units::Timestamp;

    use super::*;
    use crate::TraceFormat;

    #[test]
    fn rate_is_bytes_over_milliseconds() {
        let text = "1300000000 1000 59.8 10.7 125000 1000\n1300000001 3000 59.8 10.7 0 2000\n";
        assert_eq!(TraceFormat::detect(text), Ok(TraceFormat::TransferLog));
        let trace = Trace::from_bytes(text.as_bytes()).unwrap();
        assert_eq!(trace.period(), Duration::from_secs(3));
        let rate = |milliseconds| trace.capacity_at(Timestamp::from_millis(milliseconds)).as_bps();
        assert_eq!([rate(500), rate(1_500)], [1_000_000, 0]);
    }

    #[test]
    fn invalid_lines_are_refused_with_their_number() {
        let text = "1300000000 1000 59.8 10.7 125000 1000\n1300000001 3000 59.8 10.7 -5 2000\n";
        let error = Trace::from_bytes(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains('2'), "{error}");
        assert!(Trace::from_bytes(b"1300000000 1000 59.8 10.7 125000 0\n").is_err());
    }
}
