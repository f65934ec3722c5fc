//! Session logs: what `--session-log DIR` leaves of a call, a row a second and one for all of it, as Parquet.
//!
//! The columns are those of `python/lockstep/sessions/schema.json`, from which Python writes and reads the same. A log has
//! no address and no picture. A live call writes what it has each minute, every file whole or not at all, so that a killed
//! one leaves a log of what was until then; an hour's rows are a part, so that memory does not grow with the call.

pub mod arguments;
pub mod rows;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use lockstep_call::{SessionMeter, SessionSecond, SessionTotals};
use lockstep_units::Timestamp;

use rows::{Description, SessionRow, write_seconds, write_sessions};

/// The folders of a session log's two kinds of files.
pub const SESSIONS: &str = "sessions";
/// See [`SESSIONS`].
pub const SECONDS: &str = "seconds";

/// How often a live call writes what it has.
const WRITTEN_EVERY: Duration = Duration::from_secs(60);
/// Rows of one part.
const PART: usize = 3_600;
/// Pictures may be told of so much later than the second in which they were captured or shown.
const LATENESS: u64 = 5;

/// The files of a session or of several, by name.
#[derive(Debug, Clone)]
pub struct Files {
    folder: PathBuf,
    name: String,
}

impl Files {
    /// Those called `name` in `folder`, whose own folders are made.
    pub fn new(folder: &Path, name: String) -> Result<Self> {
        for kind in [SESSIONS, SECONDS] {
            let path = folder.join(kind);
            fs::create_dir_all(&path).with_context(|| format!("cannot make the folder {}", path.display()))?;
        }
        Ok(Self { folder: folder.to_owned(), name })
    }

    /// Where the rows of sessions are.
    pub fn sessions(&self) -> PathBuf {
        self.folder.join(SESSIONS).join(format!("{}.parquet", self.name))
    }

    /// Where the rows of seconds are, of that part.
    pub fn seconds(&self, part: usize) -> PathBuf {
        // In the order of their names the parts of a session follow each other.
        self.folder.join(SECONDS).join(format!("{}-{part:04}.parquet", self.name))
    }
}

/// The log of one session that is being written.
pub struct SessionLog {
    files: Files,
    description: Description,
    totals: SessionTotals,
    /// Which part is being written, its first second, and its rows.
    part: usize,
    first: u64,
    rows: Vec<SessionSecond>,
}

impl SessionLog {
    /// A log in `folder`.
    pub fn create(folder: &Path, description: Description) -> Result<Self> {
        let name = format!("{}-{:016x}-{}", description.kind, description.session, description.seen_from);
        let files = Files::new(folder, name)?;
        Ok(Self { files, description, totals: SessionTotals::default(), part: 0, first: 0, rows: Vec::new() })
    }

    /// What is known of the session beside its rows.
    pub fn description(&mut self) -> &mut Description {
        &mut self.description
    }

    /// Takes the rows of `meter` before that second.
    fn take(&mut self, meter: &mut SessionMeter, until: u64) -> Result<()> {
        let (first, rows) = meter.take(until);
        if self.rows.is_empty() && self.part == 0 {
            self.first = first;
        }
        for row in rows {
            self.totals.add(&row);
            self.rows.push(row);
            if self.rows.len() == PART {
                self.write_part()?;
                self.first += PART as u64;
                self.part += 1;
                self.rows.clear();
            }
        }
        Ok(())
    }

    fn write_part(&self) -> Result<()> {
        write_seconds(&self.files.seconds(self.part), &[(self.description.session, self.first, &self.rows)])
    }

    fn write(&mut self, is_over: bool) -> Result<()> {
        if !self.rows.is_empty() || self.part == 0 {
            self.write_part()?;
        }
        let row = SessionRow { description: &self.description, totals: &self.totals, complete: is_over };
        write_sessions(&self.files.sessions(), &[row])
    }

    /// Writes what `meter` has, while the call goes on.
    pub fn checkpoint(&mut self, meter: &mut SessionMeter) -> Result<()> {
        self.take(meter, meter.seconds().saturating_sub(LATENESS))?;
        self.write(false)
    }

    /// Writes all: the call is over. What was in it after its first `most` seconds is left out.
    pub fn finish(mut self, meter: &mut SessionMeter, most: u64) -> Result<()> {
        self.take(meter, meter.seconds().min(most))?;
        self.write(true)
    }
}

/// The log of an end of a live call, from when the other end is there.
pub struct LiveSessionLog {
    log: SessionLog,
    meter: Option<SessionMeter>,
    written_at: Timestamp,
    /// When the clock of the call began, since the Unix epoch.
    epoch: Timestamp,
    failure: Option<anyhow::Error>,
}

impl LiveSessionLog {
    /// Into `log`; the clock of the call began at `epoch`.
    pub fn new(log: SessionLog, epoch: Timestamp) -> Self {
        Self { log, meter: None, written_at: Timestamp::ZERO, epoch, failure: None }
    }

    /// The meter, which begins now if it has not.
    pub fn meter(&mut self, now: Timestamp) -> &mut SessionMeter {
        if self.meter.is_none() {
            self.written_at = now;
            let started = self.epoch + now.saturating_since(Timestamp::ZERO);
            self.log.description().started_at_ms = i64::try_from(started.as_nanos() / 1_000_000).ok();
        }
        self.meter.get_or_insert_with(|| SessionMeter::new(now))
    }

    /// The meter, if it has begun.
    pub fn begun(&mut self) -> Option<&mut SessionMeter> {
        self.meter.as_mut()
    }

    /// The pictures that come have this size and rate.
    pub fn pictures(&mut self, format: &lockstep_transport::VideoFormat) {
        let samples = |count: u16| i32::from(count);
        let rate = 1e9 / format.frame_interval().as_secs_f64().max(1e-6) / 1e6;
        self.log.description().pictures = Some((samples(format.width), samples(format.height), rate.round() as i32));
    }

    /// Writes what there is if it is time. What goes wrong is told at the end: it is no reason to stop a call.
    pub fn tick(&mut self, now: Timestamp) {
        let Some(meter) = self.meter.as_mut().filter(|_| now >= self.written_at + WRITTEN_EVERY) else { return };
        self.written_at = now;
        if let Err(error) = self.log.checkpoint(meter) {
            self.failure.get_or_insert(error);
        }
    }

    /// Writes all that is left.
    pub fn finish(self) -> Result<()> {
        let Some(mut meter) = self.meter else { return Ok(()) };
        self.log.finish(&mut meter, u64::MAX)?;
        self.failure.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests;
