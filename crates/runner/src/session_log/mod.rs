//! Session logs: what `--session-log DIR` leaves of a call, a row a second and one for all of it, as Parquet.
//!
//! The columns are those of `python/lockstep/sessions/schema.json`, from which Python writes and reads the same. A log has
//! no address and no picture. A live call writes what it has each minute, every file whole or not at all, so that a killed
//! one leaves a log of what was until then; an hour's rows are a part, so that memory does not grow with the call.

pub mod arguments;
pub mod rows;

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use lockstep_measure::{SessionMeter, SessionSecond, SessionTotals};
use lockstep_units::Timestamp;

use crate::parquet_table;
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

    /// Those of one session in `folder`, in which nothing is made.
    fn of_session(folder: &Path, kind: &str, session: i64, seen_from: &str) -> Self {
        Self { folder: folder.to_owned(), name: format!("{kind}-{session:016x}-{seen_from}") }
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
        parquet_table::check()?;
        let Description { kind, session, seen_from, .. } = &description;
        let Files { folder, name } = Files::of_session(folder, kind, *session, seen_from);
        let files = Files::new(&folder, name)?;
        Ok(Self { files, description, totals: SessionTotals::default(), part: 0, first: 0, rows: Vec::new() })
    }

    /// What is known of the session beside its rows.
    pub fn description(&mut self) -> &mut Description {
        &mut self.description
    }

    /// Adds rows, the first of which is of second `first`.
    fn add(&mut self, (first, rows): (u64, Vec<SessionSecond>)) -> Result<()> {
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

    /// Adds rows, the first of which is of second `first`, and writes what there is, while the call goes on.
    fn checkpoint(&mut self, rows: (u64, Vec<SessionSecond>)) -> Result<()> {
        self.add(rows)?;
        self.write(false)
    }

    /// Writes all: the call is over. What was in it after its first `most` seconds is left out.
    pub fn finish(mut self, meter: &mut SessionMeter, most: u64) -> Result<()> {
        self.add(meter.take(meter.seconds().min(most)))?;
        self.write(true)
    }
}

/// The rows of `meter` of which nothing more will come while the call goes on.
fn settled(meter: &mut SessionMeter) -> (u64, Vec<SessionSecond>) {
    meter.take(meter.seconds().saturating_sub(LATENESS))
}

/// The log of an end of a live call, from when the other end is there. It is written by threads of their own: the call waits for
/// no disk.
pub struct LiveSessionLog {
    writer: Writer,
    description: Description,
    meter: Option<SessionMeter>,
    written_at: Timestamp,
    /// When the clock of the call began, since the Unix epoch.
    epoch: Timestamp,
    failure: Option<anyhow::Error>,
}

/// Who has the log.
enum Writer {
    Idle(Box<SessionLog>),
    Busy(JoinHandle<(Box<SessionLog>, Result<()>)>),
    /// A thread that took it did not end as it should.
    Lost,
}

impl LiveSessionLog {
    /// Into `log`; the clock of the call began at `epoch`.
    pub fn new(log: SessionLog, epoch: Timestamp) -> Self {
        let description = log.description.clone();
        let writer = Writer::Idle(Box::new(log));
        Self { writer, description, meter: None, written_at: Timestamp::ZERO, epoch, failure: None }
    }

    /// The meter, which begins now if it has not.
    pub fn meter(&mut self, now: Timestamp) -> &mut SessionMeter {
        if self.meter.is_none() {
            self.written_at = now;
            let started = self.epoch + now.saturating_since(Timestamp::ZERO);
            self.description.started_at_ms = i64::try_from(started.as_nanos() / 1_000_000).ok();
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
        self.description.pictures = Some((samples(format.width), samples(format.height), rate.round() as i32));
    }

    /// Has what there is written if it is time and the last time is over. What goes wrong is told at the end: it is no reason
    /// to stop a call.
    pub fn tick(&mut self, now: Timestamp) {
        let Some(meter) = self.meter.as_mut().filter(|_| now >= self.written_at + WRITTEN_EVERY) else { return };
        if matches!(&self.writer, Writer::Busy(thread) if !thread.is_finished()) {
            return;
        }
        self.written_at = now;
        let rows = settled(meter);
        let Some(mut log) = self.take_back() else { return };
        log.description.clone_from(&self.description);
        let thread = thread::Builder::new().name("session log".to_owned()).spawn(move || {
            let written = log.checkpoint(rows);
            (log, written)
        });
        match thread {
            Ok(thread) => self.writer = Writer::Busy(thread),
            Err(error) => drop(self.failure.get_or_insert(error.into())),
        }
    }

    /// The log, from the thread that has it if one does.
    fn take_back(&mut self) -> Option<Box<SessionLog>> {
        match std::mem::replace(&mut self.writer, Writer::Lost) {
            Writer::Idle(log) => Some(log),
            Writer::Busy(thread) => {
                let (log, written) = thread.join().ok()?;
                if let Err(error) = written {
                    self.failure.get_or_insert(error);
                }
                Some(log)
            }
            Writer::Lost => None,
        }
    }

    /// Writes all that is left.
    pub fn finish(mut self) -> Result<()> {
        let log = self.take_back();
        let Some(mut meter) = self.meter else { return Ok(()) };
        let Some(mut log) = log else { bail!("the session's log is incomplete: what wrote it has failed") };
        log.description = self.description;
        log.finish(&mut meter, u64::MAX)?;
        self.failure.map_or(Ok(()), Err)
    }
}

#[cfg(all(test, feature = "parquet"))]
mod tests;
