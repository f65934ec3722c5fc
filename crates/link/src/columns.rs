//! Columns of time and rate, as in the Norway 3G and FCC data sets, and CSV with a header.

use std::fmt::Write;
use std::time::Duration;

use lockstep_units::excerpt;
use lockstep_units::quantity::{self, QuantityError};

use crate::error::{Problem, TraceError};
use crate::limits::MAX_SEGMENTS;
use crate::lines::lines;
use crate::timeline::End;
use crate::trace::{Conditions, Segment, Trace, nanos};

/// Unit of a column of times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum TimeUnit {
    /// Seconds.
    #[default]
    Seconds,
    /// Milliseconds.
    Milliseconds,
    /// Microseconds.
    Microseconds,
}

impl TimeUnit {
    fn nanoseconds(self) -> f64 {
        match self {
            Self::Seconds => 1e9,
            Self::Milliseconds => 1e6,
            Self::Microseconds => 1e3,
        }
    }
}

/// Unit of a column of rates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum RateUnit {
    /// bit/s.
    BitsPerSecond,
    /// kb/s.
    KilobitsPerSecond,
    /// Mb/s.
    #[default]
    MegabitsPerSecond,
}

impl RateUnit {
    fn bits_per_second(self) -> f64 {
        match self {
            Self::BitsPerSecond => 1.0,
            Self::KilobitsPerSecond => 1e3,
            Self::MegabitsPerSecond => 1e6,
        }
    }
}

/// Units of columns without a unit in the header.
///
/// Commas, semicolons, tabs or spaces separate the fields. Without a header, the first column is the time and the
/// second the rate.
///
/// A header names the columns, in any order. A title is a word and, after an underscore or in brackets, a unit:
///
/// - `time` or `timestamp`
/// - `duration`
/// - `rate`, `capacity`, `bandwidth` or `throughput`
/// - `loss`, from 0 to 1
/// - `delay` and `jitter`, in milliseconds by default
///
/// Examples are `time_ms,bandwidth_kbps` and `time (s), rate (Mbps)`. A title may also be only a unit: `s,kbps`.
///
/// A rate applies until the time of the next line. The last line lasts as long as the one before it, or a second if it
/// is the only one. A column of durations gives the exact length. The trace starts at the first time, whatever its
/// value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ColumnUnits {
    /// Unit of times.
    pub time: TimeUnit,
    /// Unit of rates.
    pub rate: RateUnit,
}

/// The fields of a line. Spaces next to another separator make no empty field; two consecutive commas do.
pub(crate) fn fields(line: &str) -> impl Iterator<Item = &str> {
    let strict = line.contains([',', ';']);
    let pattern = move |c: char| if strict { c == ',' || c == ';' } else { c.is_whitespace() };
    line.split(pattern).map(str::trim).filter(move |field| strict || !field.is_empty())
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Time,
    Duration,
    Rate,
    Loss,
    Delay,
    Jitter,
    Other,
}

/// A column: its kind, and the factor to nanoseconds or bit/s.
#[derive(Clone, Copy)]
struct Column {
    kind: Kind,
    scale: f64,
}

fn time_scale(unit: &str) -> Option<f64> {
    match unit {
        "s" | "sec" | "seconds" => Some(1e9),
        "ms" | "milliseconds" => Some(1e6),
        "us" | "microseconds" => Some(1e3),
        "ns" | "nanoseconds" => Some(1.0),
        _ => None,
    }
}

fn rate_scale(unit: &str) -> Option<f64> {
    let unit = unit.strip_suffix("/s").or(unit.strip_suffix("ps")).unwrap_or(unit);
    match unit.strip_suffix("bit").or(unit.strip_suffix('b')) {
        Some("") => Some(1.0),
        Some("k") => Some(1e3),
        Some("m") => Some(1e6),
        Some("g") => Some(1e9),
        _ => None,
    }
}

fn column(title: &str, units: ColumnUnits) -> Column {
    let title = title.trim().trim_matches('"').to_ascii_lowercase();
    let mut words = title.split(|c: char| !(c.is_ascii_alphanumeric() || c == '/')).filter(|word| !word.is_empty());
    let first = words.next().unwrap_or_default();
    let kind = match first {
        "time" | "timestamp" | "t" => Kind::Time,
        "duration" => Kind::Duration,
        "rate" | "capacity" | "bandwidth" | "throughput" | "bitrate" => Kind::Rate,
        "loss" => Kind::Loss,
        "delay" => Kind::Delay,
        "jitter" => Kind::Jitter,
        // Some titles are only a unit.
        unit if time_scale(unit).is_some() => Kind::Time,
        unit if (unit.ends_with("ps") || unit.ends_with("/s")) && rate_scale(unit).is_some() => Kind::Rate,
        _ => Kind::Other,
    };
    let unit = words.next_back().unwrap_or(first);
    let scale = match kind {
        Kind::Time | Kind::Duration => time_scale(unit).unwrap_or(units.time.nanoseconds()),
        Kind::Rate => rate_scale(unit).unwrap_or(units.rate.bits_per_second()),
        Kind::Delay | Kind::Jitter => time_scale(unit).unwrap_or(1e6),
        Kind::Loss | Kind::Other => 1.0,
    };
    Column { kind, scale }
}

/// Parses a header. It must name a rate, and a time or a duration.
fn header(line: &str, units: ColumnUnits) -> Result<Vec<Column>, Problem> {
    let columns: Vec<Column> = fields(line).map(|title| column(title, units)).collect();
    let has = |kind| columns.iter().any(|column: &Column| column.kind == kind);
    if !has(Kind::Rate) {
        return Err(Problem::Missing("a column rate (or capacity, bandwidth, throughput, bitrate; such as rate_kbps)"));
    }
    if !has(Kind::Time) && !has(Kind::Duration) {
        return Err(Problem::Missing("a column time or duration (such as time_ms)"));
    }
    Ok(columns)
}

/// A parsed line.
#[derive(Clone, Copy)]
struct Row<'text> {
    line: usize,
    /// Time in nanoseconds. It may be negative, since only differences count.
    time: Option<f64>,
    /// The time as written.
    time_text: &'text str,
    segment: Segment,
    has_duration: bool,
}

fn row<'text>(line: usize, text: &'text str, columns: &[Column], named: bool) -> Result<Row<'text>, Problem> {
    let segment = Segment { duration: Duration::ZERO, rate: Default::default(), conditions: Conditions::NONE };
    let mut row = Row { line, time: None, time_text: "", segment, has_duration: false };
    let mut fields = fields(text);
    for &Column { kind, scale } in columns {
        let mut value = |field: &'static str| -> Result<(f64, &'text str), Problem> {
            let text = fields.next().ok_or(Problem::Missing(field))?;
            let number = text.parse::<f64>().map_err(|_| QuantityError::Number { field, text: excerpt(text) })?;
            Ok((number, text))
        };
        match kind {
            Kind::Time => {
                let (number, text) = value("time")?;
                let time = number * scale;
                if !time.is_finite() {
                    return Err(QuantityError::Range { field: "time", text: excerpt(text), range: "finite" }.into());
                }
                (row.time, row.time_text) = (Some(time), text);
            }
            Kind::Duration => {
                let (number, text) = value("duration")?;
                row.segment.duration = quantity::time("duration", number, scale, text)?;
                row.has_duration = true;
            }
            Kind::Rate => {
                let (number, text) = value("rate")?;
                row.segment.rate = quantity::rate(number, scale, text)?;
            }
            Kind::Loss => {
                let (number, text) = value("loss")?;
                row.segment.conditions.loss = quantity::share(number, text)?;
            }
            Kind::Delay => {
                let (number, text) = value("delay")?;
                row.segment.conditions.delay = quantity::time("delay", number, scale, text)?;
            }
            Kind::Jitter => {
                let (number, text) = value("jitter")?;
                row.segment.conditions.jitter = quantity::time("jitter", number, scale, text)?;
            }
            // An unknown column is ignored.
            Kind::Other => _ = fields.next(),
        }
    }
    match fields.find(|field| !field.is_empty()) {
        Some(field) if named => Err(Problem::Extra(excerpt(field))),
        // Without a header, further columns are ignored.
        _ => Ok(row),
    }
}

/// Parses columns; see [`ColumnUnits`].
pub(crate) fn parse_columns(text: &str, units: ColumnUnits) -> Result<Trace, TraceError> {
    let (mut rows, mut columns): (Vec<Row>, Vec<Column>) = (Vec::new(), Vec::new());
    let mut named = false;
    for (line, text) in lines(text) {
        let at = |problem| TraceError::Line { line, problem };
        if columns.is_empty() {
            let first = fields(text).next().unwrap_or_default();
            named = first.parse::<f64>().is_err();
            if named {
                columns = header(text, units).map_err(at)?;
                continue;
            }
            columns = vec![column("time", units), column("rate", units)];
        }
        let found = row(line, text, &columns, named).map_err(at)?;
        if rows.len() == MAX_SEGMENTS {
            return Err(TraceError::TooManySegments);
        }
        rows.push(found);
    }
    let mut segments = Vec::with_capacity(rows.len());
    for (index, row) in rows.iter().enumerate() {
        let mut segment = row.segment;
        if !row.has_duration {
            // Durations are differences of rounded times, so that rounding errors do not accumulate.
            let whole = |row: &Row| (row.time.unwrap_or(0.0) - rows[0].time.unwrap_or(0.0)).round();
            let pair = match (rows.get(index + 1), index.checked_sub(1)) {
                (Some(next), _) => Some((row, next)),
                (None, Some(before)) => Some((&rows[before], row)),
                (None, None) => None,
            };
            let (from, to) = pair.map_or((0.0, 1e9), |(from, to)| (whole(from), whole(to)));
            let line = pair.map_or(row.line, |(_, to)| to.line);
            if let Some((before, at)) = pair.filter(|_| to <= from) {
                let (previous, found) = (excerpt(before.time_text), excerpt(at.time_text));
                return Err(TraceError::Line { line, problem: Problem::TimeOrder { previous, found } });
            }
            let text = ((to - from) / 1e9).to_string();
            segment.duration = quantity::time("time", to - from, 1.0, &text)
                .map_err(|error| TraceError::Line { line, problem: error.into() })?;
        }
        segments.push(segment);
    }
    Trace::from_segments(&segments, End::Repeat)
}

impl Trace {
    /// The trace as CSV with the columns `time_s`, `duration_s`, `rate_bps`, `loss`, `delay_ms` and `jitter_ms`. Exact
    /// for rates, in bins of `bin` for delivery opportunities (see [`Trace::to_segments`]). The format does not store
    /// the end of the trace.
    ///
    /// # Errors
    /// As [`Trace::to_segments`].
    pub fn to_csv(&self, bin: Duration) -> Result<String, TraceError> {
        let mut text = String::from("time_s,duration_s,rate_bps,loss,delay_ms,jitter_ms\n");
        let mut start = 0;
        for Segment { duration, rate, conditions } in self.to_segments(bin)? {
            let seconds =
                |nanoseconds: u64| format!("{}.{:09}", nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000);
            let milliseconds = |time: Duration| nanos(time) as f64 / 1e6;
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{},{},{},{},{},{}",
                seconds(start),
                seconds(nanos(duration)),
                rate.as_bps(),
                conditions.loss,
                milliseconds(conditions.delay),
                milliseconds(conditions.jitter)
            );
            start += nanos(duration);
        }
        Ok(text)
    }
}
