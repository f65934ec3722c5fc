//! Rows of session logs, and their files.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;

use lockstep_configuration::{CallSettings, ControlSettings, OptionValue};
use lockstep_measure::{SECOND_COLUMNS, SessionSecond, SessionTotals, TOTAL_COLUMNS};
use lockstep_media::{SourceOptions, VideoFormat, source_format};

use crate::parquet_table::{self, Values};

/// Version of the schema, stored in each file's metadata under [`VERSION_KEY`].
pub const VERSION: &str = "1";
/// See [`VERSION`].
pub const VERSION_KEY: &str = "lockstep.sessions";

/// Description of a session.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Description {
    /// Number of the session, 63 bits.
    pub session: i64,
    /// Kind of call.
    pub kind: String,
    /// Logged ends: `sender`, `receiver`, `peer` or `both`.
    pub seen_from: &'static str,
    /// Start of the session, milliseconds since the Unix epoch.
    pub started_at_ms: Option<i64>,
    /// Start of the session in local time, seconds since midnight.
    pub local_start_s: Option<i32>,
    /// Place of the session.
    pub place: String,
    /// Kind of access network.
    pub access: String,
    /// Controller of the sender.
    pub controller: String,
    /// Codec of the sender.
    pub codec: String,
    /// Other labels.
    pub labels: BTreeMap<String, String>,
    /// Seed of a simulated call.
    pub seed: Option<i64>,
    /// Width, height, and frame rate in pictures per 1,000 seconds.
    pub pictures: Option<(i32, i32, i32)>,
}

impl Description {
    /// Sets the format of the pictures.
    pub fn pictures(&mut self, format: &VideoFormat) {
        let size = |samples: usize| i32::try_from(samples).unwrap_or(i32::MAX);
        let rate = (1_000.0 * format.frame_rate.as_f64()).round() as i32;
        self.pictures = Some((size(format.width), size(format.height), rate));
    }

    /// Describes a simulated call with these settings.
    ///
    /// # Errors
    /// If the video source cannot be opened.
    pub fn simulated(&mut self, settings: &CallSettings) -> Result<()> {
        self.control(&settings.control);
        self.seed = i64::try_from(settings.link.seed).ok();
        let options = SourceOptions { seed: settings.link.seed, ..SourceOptions::default() };
        self.pictures(&source_format(settings.clip.as_str(), &options)?);
        Ok(())
    }

    /// Sets the controller and codec of the sender.
    pub fn control(&mut self, control: &ControlSettings) {
        self.controller = control.controller.to_string();
        self.codec = control.codec.to_word();
    }
}

/// Row of a session.
#[derive(Debug, Clone, Copy)]
pub struct SessionRow<'a> {
    /// Facts about the session.
    pub description: &'a Description,
    /// Sums over the session.
    pub totals: &'a SessionTotals,
    /// Whether the log is complete.
    pub complete: bool,
}

/// Columns of rows of sessions.
pub fn session_columns(rows: &[SessionRow<'_>]) -> Vec<(&'static str, Values)> {
    let texts =
        |value: &dyn Fn(&Description) -> String| Values::Texts(rows.iter().map(|row| value(row.description)).collect());
    let small = |value: &dyn Fn(&Description) -> Option<i32>| {
        Values::Small(rows.iter().map(|row| value(row.description)).collect())
    };
    let integers = |value: &dyn Fn(&Description) -> Option<i64>| {
        Values::Integers(rows.iter().map(|row| value(row.description)).collect())
    };
    let program = concat!("lockstep ", env!("CARGO_PKG_VERSION")).to_owned();
    let mut columns = vec![
        ("session", Values::Names(rows.iter().map(|row| row.description.session).collect())),
        ("kind", texts(&|of| of.kind.clone())),
        ("seen_from", texts(&|of| of.seen_from.to_owned())),
        ("program", texts(&|_| program.clone())),
        ("started_at_ms", integers(&|of| of.started_at_ms)),
        ("local_start_s", small(&|of| of.local_start_s)),
        ("place", texts(&|of| of.place.clone())),
        ("access", texts(&|of| of.access.clone())),
        ("controller", texts(&|of| of.controller.clone())),
        ("codec", texts(&|of| of.codec.clone())),
        ("labels", texts(&|of| serde_json::to_string(&of.labels).unwrap_or_default())),
        ("seed", integers(&|of| of.seed)),
        ("width", small(&|of| of.pictures.map(|(width, ..)| width))),
        ("height", small(&|of| of.pictures.map(|(_, height, _)| height))),
        ("frame_rate_mhz", small(&|of| of.pictures.map(|(.., rate)| rate))),
        ("seconds", Values::Small(rows.iter().map(|row| bounded(Some(row.totals.seconds()))).collect())),
        ("complete", Values::Flags(rows.iter().map(|row| row.complete).collect())),
    ];
    let total = |name: &str| {
        let value = |row: &SessionRow<'_>| row.totals.get(name).map(|value| i64::try_from(value).unwrap_or(i64::MAX));
        Values::Integers(rows.iter().map(value).collect())
    };
    columns.extend(TOTAL_COLUMNS.iter().map(|&(name, _)| (name, total(name))));
    columns
}

/// `value` in 32 bits; larger values become the maximum.
fn bounded(value: Option<u64>) -> Option<i32> {
    value.map(|value| i32::try_from(value).unwrap_or(i32::MAX))
}

/// Columns of rows of seconds. Each session has its number, its first second, and its rows.
pub fn second_columns(sessions: &[(i64, u64, &[SessionSecond])]) -> Vec<(&'static str, Values)> {
    let rows = || sessions.iter().flat_map(|(.., rows)| rows.iter());
    let named = sessions.iter().flat_map(|&(session, _, rows)| rows.iter().map(move |_| session));
    let numbered = sessions.iter().flat_map(|&(_, first, rows)| (first..).zip(rows).map(|(second, _)| second));
    let mut columns = vec![
        ("session", Values::Names(named.collect())),
        ("second", Values::Small(numbered.map(|second| bounded(Some(second))).collect())),
    ];
    let column = |of: lockstep_measure::SecondColumn| Values::Small(rows().map(|row| bounded(of(row))).collect());
    columns.extend(SECOND_COLUMNS.iter().map(|&(name, of)| (name, column(of))));
    columns
}

fn write(path: &Path, name: &str, columns: Vec<(&'static str, Values)>) -> Result<()> {
    let version = [(VERSION_KEY, VERSION.to_owned())];
    parquet_table::write(path, name, columns, &version)
}

/// Writes rows of sessions to `path`.
pub fn write_sessions(path: &Path, rows: &[SessionRow<'_>]) -> Result<()> {
    write(path, "session", session_columns(rows))
}

/// Writes rows of seconds to `path`, session by session.
pub fn write_seconds(path: &Path, sessions: &[(i64, u64, &[SessionSecond])]) -> Result<()> {
    write(path, "second", second_columns(sessions))
}
