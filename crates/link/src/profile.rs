//! BoB's profiles, one item per line: `rate 1418kbit`, `delay 50ms`, `loss 0.08%`, `wait 1s`.

use std::time::Duration;

use lockstep_units::Bitrate;
use lockstep_units::excerpt;
use lockstep_units::quantity::{QuantityError, parse_rate, parse_share, parse_time};

use crate::error::{Problem, TraceError};
use crate::limits::MAX_SEGMENTS;
use crate::lines::lines;
use crate::timeline::End;
use crate::trace::{Conditions, Segment, Trace};

/// First words of the lines of a profile.
pub(crate) const WORDS: [&str; 4] = ["rate", "delay", "loss", "wait"];

/// Parses a profile. Rate and times have units. A loss is a percentage with the sign, and a share without it; the
/// published files use both. `delay` is one-way.
pub(crate) fn parse_profile(text: &str) -> Result<Trace, TraceError> {
    let mut segments = Vec::new();
    let (mut rate, mut conditions): (Option<Bitrate>, _) = (None, Conditions::NONE);
    let mut unused = None;
    for (line, text) in lines(text) {
        let at = |problem| TraceError::Line { line, problem };
        let quantity = |error: QuantityError| at(error.into());
        let (word, value) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let value = value.trim();
        if value.is_empty() && WORDS.contains(&word) {
            return Err(at(Problem::Missing("the value")));
        }
        unused = Some(line);
        match word {
            "rate" => rate = Some(parse_rate(value).map_err(quantity)?),
            "delay" => conditions.delay = parse_time(value).map_err(quantity)?,
            "loss" => conditions.loss = parse_share(value).map_err(quantity)?,
            "wait" => {
                let duration: Duration = parse_time(value).map_err(quantity)?;
                let rate = rate.ok_or_else(|| at(Problem::Missing("a rate before the first wait")))?;
                if segments.len() == MAX_SEGMENTS {
                    return Err(TraceError::TooManySegments);
                }
                segments.push(Segment { duration, rate, conditions });
                unused = None;
            }
            other => return Err(at(Problem::Word(excerpt(other)))),
        }
    }
    if let Some(line) = unused {
        return Err(TraceError::Line { line, problem: Problem::NoWait });
    }
    Trace::from_segments(&segments, End::Repeat)
}
