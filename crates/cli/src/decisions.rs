//! Recording of a controller's inputs and answers during a call: `--decisions FILE`, which `lockstep replay` replays.

use std::io::{self, Write};
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use clap::Args;

use lockstep_control::recording::{Event, Header, Recorder, end_line, event_line, header_line};
use lockstep_runner::line_writer::LineWriter;
use lockstep_runner::output_file::OutputFile;

use crate::call_files::of_call;

/// Bytes that are written together, about forty lines.
///
/// A call records thousands of lines per second, and a killed call loses at most this much.
const BATCH: usize = 4 << 10;

/// Output of the controller's decisions.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Outputs")]
pub struct DecisionsArgument {
    /// File for all inputs and answers of the sender's controller, one line of JSON each, for `lockstep replay`.
    #[arg(long, value_name = "FILE")]
    decisions: Option<PathBuf>,
}

impl DecisionsArgument {
    /// The option and its file.
    pub fn output(&self) -> (&'static str, Option<&Path>) {
        ("--decisions", self.decisions.as_deref())
    }

    /// The same argument with the file of call `number` ([`of_call`]).
    pub fn of_call(&self, number: u32) -> Self {
        Self { decisions: self.decisions.as_deref().map(|path| of_call(path, number)) }
    }

    /// A recording that keeps its events until it is opened. Without the option it records nothing.
    pub fn log(&self) -> DecisionLog {
        DecisionLog { path: self.decisions.clone(), tape: Arc::default() }
    }
}

/// A recording of a controller's decisions.
#[derive(Default)]
pub struct DecisionLog {
    path: Option<PathBuf>,
    tape: Arc<Mutex<Tape>>,
}

#[derive(Default)]
struct Tape {
    /// Number of the next event.
    next: u64,
    waiting: Vec<u8>,
    to: Target,
    failure: Option<io::Error>,
}

#[derive(Default)]
enum Target {
    #[default]
    NotOpen,
    /// File that grows during the call.
    Growing(LineWriter),
    /// File that is complete or absent.
    Whole(OutputFile),
    Over,
}

impl Tape {
    fn add(&mut self, line: &str) {
        if matches!(self.to, Target::Over) {
            return;
        }
        self.waiting.extend_from_slice(line.as_bytes());
        if self.waiting.len() >= BATCH {
            self.write_batch();
        }
    }

    fn write_batch(&mut self) {
        match &mut self.to {
            Target::NotOpen => {}
            Target::Growing(lines) => lines.push(mem::take(&mut self.waiting)),
            Target::Whole(file) => {
                // After a failure nothing more is written, so that no line is missing in between.
                if self.failure.is_none() {
                    self.failure = file.write_all(&self.waiting).err();
                }
                self.waiting.clear();
            }
            Target::Over => self.waiting.clear(),
        }
    }
}

/// Handle by which the controller records on the tape.
struct TapeRecorder(Arc<Mutex<Tape>>);

impl Recorder for TapeRecorder {
    fn begin(&mut self, header: &Header) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).add(&header_line(header));
    }

    fn record(&mut self, event: &Event) {
        let mut tape = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let line = event_line(tape.next, event);
        tape.next += 1;
        tape.add(&line);
    }
}

impl DecisionLog {
    /// Recorder of the controller, if the option is given.
    pub fn recorder(&self) -> Option<Box<dyn Recorder>> {
        self.path.as_ref().map(|_| Box::new(TapeRecorder(Arc::clone(&self.tape))) as Box<dyn Recorder>)
    }

    /// Opens the file of a live call, which keeps its events if the call is killed.
    pub fn open_growing(&self) -> Result<()> {
        self.open(|path| Ok(Target::Growing(LineWriter::create(path)?)))
    }

    /// Opens the file of a call in virtual time, which appears when the call ends.
    pub fn open_whole(&self) -> Result<()> {
        self.open(|path| Ok(Target::Whole(OutputFile::create(path)?)))
    }

    fn open(&self, open: impl FnOnce(&Path) -> Result<Target>) -> Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let to = open(path)?;
        self.tape.lock().unwrap_or_else(PoisonError::into_inner).to = to;
        Ok(())
    }

    /// Writes the remaining events and the final line. Later events are not recorded.
    pub fn finish(self) -> Result<()> {
        let Some(path) = self.path else { return Ok(()) };
        let mut tape = self.tape.lock().unwrap_or_else(PoisonError::into_inner);
        let end = end_line(tape.next);
        tape.add(&end);
        tape.write_batch();
        let failed = || format!("cannot write {}", path.display());
        tape.failure.take().map_or(Ok(()), Err).with_context(failed)?;
        match mem::replace(&mut tape.to, Target::Over) {
            Target::Growing(lines) => lines.finish(),
            Target::Whole(file) => file.finish(),
            Target::NotOpen | Target::Over => Ok(()),
        }
    }
}
