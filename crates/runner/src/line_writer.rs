//! Lines of a file that grows while a call runs, written by a thread of their own: whoever has something to write never waits
//! for a disk or for the reader of a pipe.

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

/// Lines that may wait to be written: two minutes of a call's frames. Of more, as when a disk stands still, the newest are left
/// out, which is counted and told.
const MOST_WAITING: usize = 4_096;
/// Bytes that are written at once.
const BATCH: usize = 1 << 16;
/// How long the last lines may take.
const END_LIMIT: Duration = Duration::from_secs(10);
/// How often a thread that is waited for is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// Where lines go in.
#[derive(Clone)]
pub struct Lines {
    lines: SyncSender<Vec<u8>>,
    left_out: Arc<AtomicU64>,
}

impl Lines {
    /// Adds a line, which ends in a line break; never waits.
    pub fn push(&self, line: Vec<u8>) {
        if let Err(TrySendError::Full(_)) = self.lines.try_send(line) {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A pipe or a device. It is opened by whoever writes to it first: opening a named pipe waits until somebody reads it.
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

/// A file of lines.
pub struct LineWriter {
    name: String,
    lines: Option<Lines>,
    left_out: Arc<AtomicU64>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl LineWriter {
    /// Makes the file at `path`, or empties it; or writes to standard output.
    ///
    /// # Errors
    /// If that fails.
    pub fn create(path: &Path) -> Result<Self> {
        if is_standard_output(path) {
            return Self::start("standard output".to_owned(), stdout(), |_| {});
        }
        let name = path.display().to_string();
        if is_special(path) {
            return Self::start(name, Special { path: path.to_owned(), opened: None }, |_| {});
        }
        let file = File::create(path).with_context(|| format!("cannot create {name}"))?;
        // What is there of a disk that is full ends with a whole line.
        Self::start(name, file, |(file, whole): (&mut File, u64)| {
            let _ = file.set_len(whole);
        })
    }

    /// Writes to `output`; after a failure, `cut` is told how many bytes end with a whole line.
    fn start<Output: Write + Send + 'static>(
        name: String,
        output: Output,
        cut: impl Fn((&mut Output, u64)) + Send + 'static,
    ) -> Result<Self> {
        let (lines, incoming) = mpsc::sync_channel(MOST_WAITING);
        let told = name.clone();
        let thread = thread::Builder::new().name("log".to_owned()).spawn(move || {
            let written = write(output, &incoming, cut);
            if let Err(error) = &written {
                aside!("lockstep: cannot write {told}: {error}; the call goes on without it");
            }
            // What still comes is for nobody.
            if written.is_err() {
                incoming.iter().for_each(drop);
            }
            written
        });
        let thread = thread.context("cannot start a thread")?;
        let left_out = Arc::<AtomicU64>::default();
        let lines = Lines { lines, left_out: left_out.clone() };
        Ok(Self { name, lines: Some(lines), left_out, thread: Some(thread) })
    }

    /// Where its lines go in. It is over when all of these are gone.
    pub fn lines(&self) -> Option<Lines> {
        self.lines.clone()
    }

    /// Adds a line.
    pub fn push(&self, line: Vec<u8>) {
        if let Some(lines) = &self.lines {
            lines.push(line);
        }
    }

    /// Writes what is left.
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
                return Err(failed(anyhow!("it takes no more; what was written may be incomplete")));
            }
            thread::sleep(LOOK_INTERVAL);
        }
        match thread.join() {
            Ok(written) => written.map_err(|error| failed(error.into()))?,
            Err(_) => return Err(failed(anyhow!("the thread that writes it died"))),
        }
        match self.left_out.load(Ordering::Relaxed) {
            0 => Ok(()),
            lines => Err(failed(anyhow!("{lines} lines were left out because it took them too slowly"))),
        }
    }
}

/// Writes all lines that come.
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

    /// Has room for so many bytes, and takes a few at a time.
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
    fn what_is_there_of_a_full_disk_ends_with_a_whole_line_and_the_failure_is_told_at_the_end() {
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
    fn whoever_writes_does_not_wait_for_a_pipe_that_nobody_reads_and_lines_left_out_are_counted() {
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
        // If it waited, this would not end.
        (0..3 * MOST_WAITING).for_each(|_| writer.push(b"line\n".to_vec()));
        drop(hold);
        let said = format!("{:#}", writer.finish().unwrap_err());
        assert!(said.contains("lines were left out"), "{said}");
    }
}
