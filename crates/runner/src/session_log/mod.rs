//! Session logs of `--session-log DIR`: one row per second and one row per session, as Parquet.
//!
//! The columns are those of `python/lockstep/sessions/schema.json`, which Python also uses. A log contains no address
//! and no picture.
//!
//! A live call writes its log every minute, so that a killed call keeps a log. Each file is written completely or not
//! at all. One part covers one hour, which bounds memory.

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

/// Folders of the two kinds of files in a session log.
pub const SESSIONS: &str = "sessions";
/// See [`SESSIONS`].
pub const SECONDS: &str = "seconds";

/// Interval at which a live call writes its log.
const WRITTEN_EVERY: Duration = Duration::from_secs(60);
/// Maximum rows of a part.
const PART: usize = 3_600;
/// Seconds after which no more pictures of a second are reported.
const LATENESS: u64 = 5;

/// Files of one or several sessions.
#[derive(Debug, Clone)]
pub struct Files {
    folder: PathBuf,
    name: String,
}

impl Files {
    /// Files `name` in `folder`; creates their folders.
    pub fn new(folder: &Path, name: String) -> Result<Self> {
        for kind in [SESSIONS, SECONDS] {
            let path = folder.join(kind);
            fs::create_dir_all(&path).with_context(|| format!("cannot make the folder {}", path.display()))?;
        }
        Ok(Self { folder: folder.to_owned(), name })
    }

    /// Files of one session in `folder`; creates nothing.
    fn of_session(folder: &Path, kind: &str, session: i64, seen_from: &str) -> Self {
        Self { folder: folder.to_owned(), name: format!("{kind}-{session:016x}-{seen_from}") }
    }

    /// File of the rows of sessions.
    pub fn sessions(&self) -> PathBuf {
        self.folder.join(SESSIONS).join(format!("{}.parquet", self.name))
    }

    /// File of the rows of seconds of a part.
    pub fn seconds(&self, part: usize) -> PathBuf {
        // The order of names is the order of parts.
        self.folder.join(SECONDS).join(format!("{}-{part:04}.parquet", self.name))
    }
}

/// Log of one session that is being written.
pub struct SessionLog {
    files: Files,
    description: Description,
    totals: SessionTotals,
    /// Number of the part that is being written.
    part: usize,
    first: u64,
    rows: Vec<SessionSecond>,
}

impl SessionLog {
    /// Creates a log in `folder`.
    pub fn create(folder: &Path, description: Description) -> Result<Self> {
        parquet_table::check()?;
        let Description { kind, session, seen_from, .. } = &description;
        let Files { folder, name } = Files::of_session(folder, kind, *session, seen_from);
        let files = Files::new(&folder, name)?;
        Ok(Self { files, description, totals: SessionTotals::default(), part: 0, first: 0, rows: Vec::new() })
    }

    /// Description of the session.
    pub fn description(&mut self) -> &mut Description {
        &mut self.description
    }

    /// Adds rows from second `first` on.
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

    /// Adds rows from second `first` on, and writes the log of the running call.
    fn checkpoint(&mut self, rows: (u64, Vec<SessionSecond>)) -> Result<()> {
        self.add(rows)?;
        self.write(false)
    }

    /// Writes the complete log at the end of the call, without rows after the first `most` seconds.
    pub fn finish(mut self, meter: &mut SessionMeter, most: u64) -> Result<()> {
        self.add(meter.take(meter.seconds().min(most)))?;
        self.write(true)
    }
}

/// Rows of `meter` that no longer change during the call.
fn settled(meter: &mut SessionMeter) -> (u64, Vec<SessionSecond>) {
    meter.take(meter.seconds().saturating_sub(LATENESS))
}

/// Log of one end of a live call, from the arrival of the peer. Separate threads write it, so that the call never waits
/// for a disk.
pub struct LiveSessionLog {
    writer: Writer,
    description: Description,
    meter: Option<SessionMeter>,
    written_at: Timestamp,
    /// Start of the call's clock, since the Unix epoch.
    epoch: Timestamp,
    failure: Option<anyhow::Error>,
}

/// Owner of the log.
enum Writer {
    Idle(Box<SessionLog>),
    Busy(JoinHandle<(Box<SessionLog>, Result<()>)>),
    /// The thread with the log panicked.
    Lost,
}

impl LiveSessionLog {
    /// Creates a live log that writes to `log`; the clock of the call started at `epoch`.
    pub fn new(log: SessionLog, epoch: Timestamp) -> Self {
        let description = log.description.clone();
        let writer = Writer::Idle(Box::new(log));
        Self { writer, description, meter: None, written_at: Timestamp::ZERO, epoch, failure: None }
    }

    /// The meter, which starts now if necessary.
    pub fn meter(&mut self, now: Timestamp) -> &mut SessionMeter {
        if self.meter.is_none() {
            self.written_at = now;
            let started = self.epoch + now.saturating_since(Timestamp::ZERO);
            self.description.started_at_ms = i64::try_from(started.as_nanos() / 1_000_000).ok();
        }
        self.meter.get_or_insert_with(|| SessionMeter::new(now))
    }

    /// The meter, if it has started.
    pub fn begun(&mut self) -> Option<&mut SessionMeter> {
        self.meter.as_mut()
    }

    /// Sets the size and frame rate of the received pictures.
    pub fn pictures(&mut self, format: &lockstep_transport::VideoFormat) {
        let samples = |count: u16| i32::from(count);
        let rate = 1e9 / format.frame_interval().as_secs_f64().max(1e-6) / 1e6;
        self.description.pictures = Some((samples(format.width), samples(format.height), rate.round() as i32));
    }

    /// Starts to write the log if it is due and no write is running. A failure is reported at the end, and does not
    /// stop the call.
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

    /// Takes the log back, from its thread if necessary.
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

    /// Writes the remaining rows.
    pub fn finish(mut self) -> Result<()> {
        let log = self.take_back();
        let Some(mut meter) = self.meter else { return Ok(()) };
        let Some(mut log) = log else { bail!("the session log is incomplete: its writing thread panicked") };
        log.description = self.description;
        log.finish(&mut meter, u64::MAX)?;
        self.failure.map_or(Ok(()), Err)
    }
}

#[cfg(all(test, feature = "parquet"))]
mod tests;
