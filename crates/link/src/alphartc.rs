//! JSON traces of AlphaRTC's gym.

use std::fmt;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error as _, SeqAccess, Visitor};
use serde_json::{Map, Number, Value, json};

use lockstep_units::quantity::{rate, share, time};

use crate::error::{Problem, TraceError};
use crate::limits::{MAX_INPUT, MAX_SEGMENTS};
use crate::timeline::End;
use crate::trace::{Conditions, Segment, Trace};

/// Both directions of an AlphaRTC trace.
#[derive(Debug, Clone, PartialEq)]
pub struct AlphaRtcTraces {
    /// From the sender of the video to its receiver.
    pub uplink: Trace,
    /// The opposite direction, if the file has it.
    pub downlink: Option<Trace>,
}

#[derive(serde::Deserialize)]
struct File {
    uplink: Direction,
    #[serde(default)]
    downlink: Option<Direction>,
}

#[derive(serde::Deserialize)]
struct Direction {
    #[serde(default)]
    trace_pattern: Pattern,
}

/// One entry of the pattern, as written: milliseconds, kb/s, probability.
#[derive(serde::Deserialize)]
struct Entry {
    duration: Option<f64>,
    capacity: Option<f64>,
    loss: Option<f64>,
    jitter: Option<f64>,
    rtt: Option<f64>,
}

/// At most [`MAX_SEGMENTS`] entries.
#[derive(Default)]
struct Pattern(Vec<Entry>);

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Pattern;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a list of segments")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Pattern, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = list.next_element()? {
                    if entries.len() == MAX_SEGMENTS {
                        return Err(A::Error::custom(TraceError::TooManySegments));
                    }
                    entries.push(entry);
                }
                Ok(Pattern(entries))
            }
        }
        deserializer.deserialize_seq(Entries)
    }
}

impl Direction {
    fn trace(self) -> Result<Trace, TraceError> {
        let segments = self.trace_pattern.0.into_iter().enumerate().map(|(index, entry)| {
            entry.segment().map_err(|problem| TraceError::Segment { segment: index + 1, problem })
        });
        Trace::from_segments(&segments.collect::<Result<Vec<_>, _>>()?, End::Repeat)
    }
}

impl Entry {
    fn segment(&self) -> Result<Segment, Problem> {
        let milliseconds = |field, value: f64| time(field, value, 1e6, &value.to_string());
        let duration = milliseconds("duration", self.duration.ok_or(Problem::Missing("duration"))?)?;
        let capacity = self.capacity.ok_or(Problem::Missing("capacity"))?;
        let rate = rate(capacity, 1e3, &format!("{capacity} kb/s"))?;
        let loss = self.loss.unwrap_or(0.0);
        let conditions = Conditions {
            loss: share(loss, &loss.to_string())?,
            delay: milliseconds("rtt", self.rtt.unwrap_or(0.0))? / 2,
            jitter: milliseconds("jitter", self.jitter.unwrap_or(0.0))?,
        };
        Ok(Segment { duration, rate, conditions })
    }
}

/// Reads both directions of an AlphaRTC trace.
///
/// ```text
/// {"uplink": {"trace_pattern": [{"duration": ms, "capacity": kb/s, "loss": 0-1, "rtt": ms, "jitter": ms}]}}
/// ```
///
/// `duration` and `capacity` are required; the other fields default to zero. The gym delays each direction by half of
/// `rtt`, which is the one-way delay here. Other fields are ignored; `time` only repeats the durations. A direction
/// with an empty pattern counts as absent.
///
/// # Errors
/// [`TraceError::Json`], [`TraceError::Segment`] with the number of the segment, [`TraceError::Empty`] without an
/// uplink, and the limits of [`Trace::from_segments`].
pub fn parse_alphartc(text: &str) -> Result<AlphaRtcTraces, TraceError> {
    if text.len() > MAX_INPUT {
        return Err(TraceError::InputTooLarge);
    }
    let file: File = serde_json::from_str(text).map_err(|error| {
        let message = error.to_string();
        // The message ends with the position, which `TraceError::Json` reports separately.
        let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message).to_owned();
        TraceError::Json { line: error.line(), column: error.column(), message }
    })?;
    let downlink = file.downlink.filter(|direction| !direction.trace_pattern.0.is_empty());
    Ok(AlphaRtcTraces { uplink: file.uplink.trace()?, downlink: downlink.map(Direction::trace).transpose()? })
}

/// The number `units / scale`, as an integer if possible.
fn number(units: u64, scale: u64) -> Value {
    if units.is_multiple_of(scale) {
        return Value::from(units / scale);
    }
    Number::from_f64(units as f64 / scale as f64).map_or(Value::Null, Value::Number)
}

impl Trace {
    /// The trace as the uplink of an AlphaRTC trace: exact for rates, in bins of `bin` for delivery opportunities (see
    /// [`Trace::to_segments`]). `rtt` is twice the one-way delay. The format does not store the end of the trace.
    ///
    /// # Errors
    /// As [`Trace::to_segments`].
    pub fn to_alphartc_json(&self, bin: Duration) -> Result<String, TraceError> {
        let milliseconds = |time: Duration| number(crate::trace::nanos(time), 1_000_000);
        let entry = |segment: &Segment| {
            let mut entry = Map::new();
            entry.insert("duration".to_owned(), milliseconds(segment.duration));
            entry.insert("capacity".to_owned(), number(segment.rate.as_bps(), 1_000));
            entry.insert("loss".to_owned(), Value::from(segment.conditions.loss));
            entry.insert("rtt".to_owned(), milliseconds(segment.conditions.delay * 2));
            entry.insert("jitter".to_owned(), milliseconds(segment.conditions.jitter));
            Value::Object(entry)
        };
        let pattern: Vec<Value> = self.to_segments(bin)?.iter().map(entry).collect();
        let mut text = json!({"type": "video", "downlink": {}, "uplink": {"trace_pattern": pattern}}).to_string();
        text.push('\n');
        Ok(text)
    }
}
