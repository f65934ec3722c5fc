//! Writes lines to a file that grows during a call.
//!
//! A separate thread writes, so that the caller never waits for a disk or the reader of a pipe.

use std::fs::{File, OpenOptions};
use std::io::{self, Write, stdout};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, anyhow};

use crate::output_file::{is_special, is_standard_output};

/// Maximum lines that wait to be written: two minutes of a call's frames.
///
/// If the disk or pipe blocks for longer, the newest lines are dropped, counted and reported.
const MAX_QUEUED_LINES: usize = 4_096;
/// Bytes written together.
const BATCH: usize = 1 << 16;
/// Time limit for the last lines.
const END_LIMIT: Duration = Duration::from_secs(10);
/// Interval of checks for the end of the thread.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// Sender of lines to the writer.
#[derive(Clone)]
pub struct Lines {
    lines: SyncSender<Vec<u8>>,
    dropped: Arc<AtomicU64>,
}

impl Lines {
    /// Adds a line, which ends in a line break; never blocks.
    pub fn push(&self, line: Vec<u8>) {
        if let Err(TrySendError::Full(_)) = self.lines.try_send(line) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A pipe or a device. The first write opens it, because opening a named pipe waits for its reader.
struct Special {
    path: PathBuf,
    opened: Option<File>,
}

impl Write for Special {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut file = match self.opened.take() {
            Some(file) => file,
            None => OpenOptions::new().write(true).open(&self.path)?,
        };
        let written = file.write(bytes);
        self.opened = Some(file);
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        self.opened.as_mut().map_or(Ok(()), File::flush)
    }
}

/// File of lines.
pub struct LineWriter {
    name: String,
    lines: Option<Lines>,
    dropped: Arc<AtomicU64>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl LineWriter {
    /// Creates or truncates the file at `path`, or writes to standard output.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn create(path: &Path) -> Result<Self> {
        if is_standard_output(path) {
            return Self::start("standard output".to_owned(), stdout(), |_| {});
        }
        let name = path.display().to_string();
        if is_special(path) {
            return Self::start(name, Special { path: path.to_owned(), opened: None }, |_| {});
        }
        let file = File::create(path).with_context(|| format!("cannot create {name}"))?;
        // After a failure, such as a full disk, the file is cut after the last complete line.
        Self::start(name, file, |(file, whole): (&mut File, u64)| {
            let _ = file.set_len(whole);
        })
    }

    /// Writes to `output`; after a failure, `cut` receives the number of bytes up to the last complete line.
    fn start<Output: Write + Send + 'static>(
        name: String,
        output: Output,
        cut: impl Fn((&mut Output, u64)) + Send + 'static,
    ) -> Result<Self> {
        let (lines, incoming) = mpsc::sync_channel(MAX_QUEUED_LINES);
        let shown_name = name.clone();
        let thread = thread::Builder::new().name("log".to_owned()).spawn(move || {
            let written = write(output, &incoming, cut);
            if let Err(error) = &written {
                eprint_line!("lockstep: cannot write {shown_name}: {error}; the call continues without it");
            }
            // Later lines are discarded.
            if written.is_err() {
                incoming.iter().for_each(drop);
            }
            written
        });
        let thread = thread.context("cannot start a thread")?;
        let dropped = Arc::<AtomicU64>::default();
        let lines = Lines { lines, dropped: dropped.clone() };
        Ok(Self { name, lines: Some(lines), dropped, thread: Some(thread) })
    }

    /// Another sender of lines. The writer ends when all senders are dropped.
    pub fn lines(&self) -> Option<Lines> {
        self.lines.clone()
    }

    /// Adds a line.
    pub fn push(&self, line: Vec<u8>) {
        if let Some(lines) = &self.lines {
            lines.push(line);
        }
    }

    /// Writes the remaining lines.
    ///
    /// # Errors
    /// If anything is missing from the file.
    pub fn finish(mut self) -> Result<()> {
        self.lines = None;
        let failed = |error: Error| error.context(format!("cannot write {}", self.name));
        let Some(thread) = self.thread.take() else { return Ok(()) };
        let deadline = Instant::now() + END_LIMIT;
        while !thread.is_finished() {
            if Instant::now() >= deadline {
                return Err(failed(anyhow!("it is blocked; the written part may be incomplete")));
            }
            thread::sleep(LOOK_INTERVAL);
        }
        match thread.join() {
            Ok(written) => written.map_err(|error| failed(error.into()))?,
            Err(_) => return Err(failed(anyhow!("its writing thread panicked"))),
        }
        match self.dropped.load(Ordering::Relaxed) {
            0 => Ok(()),
            lines => Err(failed(anyhow!("{lines} lines were dropped because the output was too slow"))),
        }
    }
}

/// Writes all lines of the channel.
fn write<Output: Write>(
    mut output: Output,
    lines: &Receiver<Vec<u8>>,
    cut: impl Fn((&mut Output, u64)),
) -> io::Result<()> {
    let (mut batch, mut whole) = (Vec::new(), 0);
    while let Ok(line) = lines.recv() {
        batch.extend(line);
        while batch.len() < BATCH
            && let Ok(line) = lines.try_recv()
        {
            batch.extend(line);
        }
        let mut written = 0;
        while written < batch.len() {
            let result = match output.write(&batch[written..]) {
                Ok(0) => Err(io::ErrorKind::WriteZero.into()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
                result => result,
            };
            match result {
                Ok(bytes) => written += bytes,
                Err(error) => {
                    let end = batch[..written].iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
                    cut((&mut output, whole + end as u64));
                    return Err(error);
                }
            }
        }
        whole += batch.len() as u64;
        batch.clear();
        output.flush()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Output with a limited capacity that accepts a few bytes per write.
    #[derive(Clone)]
    struct Small(Arc<Mutex<Vec<u8>>>, usize);

    impl Write for Small {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut kept = self.0.lock().unwrap();
            let room = (self.1 - kept.len()).min(bytes.len()).min(7);
            if room == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            kept.extend_from_slice(&bytes[..room]);
            Ok(room)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn file_on_a_full_disk_ends_with_a_complete_line() {
        for room in [0, 5, 6, 40, 1_000] {
            let small = Small(Arc::default(), room);
            let cut = |(small, whole): (&mut Small, u64)| small.0.lock().unwrap().truncate(whole as usize);
            let writer = LineWriter::start("small".to_owned(), small.clone(), cut).unwrap();
            (0..50).for_each(|line| writer.push(format!("line {line}\n").into_bytes()));
            let finished = writer.finish();
            let kept = String::from_utf8(small.0.lock().unwrap().clone()).unwrap();
            assert!(kept.is_empty() || kept.ends_with('\n'), "{kept:?}");
            assert!(kept.lines().eq((0..kept.lines().count()).map(|line| format!("line {line}"))));
            let said = finished.err().map(|error| format!("{error:#}"));
            assert_eq!(said.is_some(), room < 500, "{said:?}");
            assert!(said.is_none_or(|said| said.starts_with("cannot write small: ")));
        }
    }

    #[test]
    fn push_never_waits_and_dropped_lines_are_counted() {
        let (hold, held) = mpsc::channel::<()>();
        struct Still(Receiver<()>);
        impl Write for Still {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                let _ = self.0.recv();
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let writer = LineWriter::start("still".to_owned(), Still(held), |_| {}).unwrap();
        // More lines than a batch and the queue can hold. This loop would not end if `push` waited.
        (0..BATCH + 2 * MAX_QUEUED_LINES).for_each(|_| writer.push(b"\n".to_vec()));
        drop(hold);
        let said = format!("{:#}", writer.finish().unwrap_err());
        assert!(said.contains("lines were dropped"), "{said}");
    }
}
