//! Opens files that may be FIFOs (named pipes). The system blocks until the other end of a FIFO is opened, too.

use std::fs::File;
use std::io::Result;
use std::path::Path;

/// Opens `path` for reading.
///
/// If `path` is a FIFO without a writer, waits for one. A line on standard error reports a wait of a second. Another line
/// reports that the writer has sent nothing for a second.
///
/// # Errors
/// As [`File::open`].
pub fn open_input(path: &Path) -> Result<File> {
    let file = waiting::announced(path, "writer", || File::open(path))?;
    waiting::announce_missing_data(path, &file);
    Ok(file)
}

/// Opens the device or FIFO `path` for writing. Otherwise as [`open_input`], with a reader in place of a writer.
///
/// # Errors
/// If it cannot be opened for writing.
pub fn open_output(path: &Path) -> Result<File> {
    waiting::announced(path, "reader", || File::options().write(true).open(path))
}

/// Whether `path` is a FIFO.
#[must_use]
pub fn is_fifo(path: &Path) -> bool {
    waiting::is_fifo(path)
}

#[cfg(unix)]
mod waiting {
    use std::fs::File;
    use std::io::{Write, stderr};
    use std::os::unix::fs::FileTypeExt;
    use std::path::Path;
    use std::sync::mpsc::{RecvTimeoutError, channel};
    use std::thread;
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use crate::printable;

    /// Time after which the user learns of the wait. Programs of one pipeline start within a second.
    const PATIENCE: Duration = Duration::from_secs(1);

    pub fn is_fifo(path: &Path) -> bool {
        path.metadata().is_ok_and(|found| found.file_type().is_fifo())
    }

    /// Result of `open`, which waits for a `partner` if `path` is a FIFO.
    pub fn announced<Opened>(path: &Path, partner: &str, open: impl FnOnce() -> Opened) -> Opened {
        if !is_fifo(path) {
            return open();
        }
        let (opened, waiting) = channel::<()>();
        let wait = format!("waiting for a {partner} of {}: it is a FIFO", path.display());
        // If the thread cannot start, the wait is silent. Otherwise the thread ends with `opened`.
        let _ = thread::Builder::new().name("fifo".to_owned()).spawn(move || {
            if waiting.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                report(&wait);
            }
        });
        let result = open();
        drop(opened);
        result
    }

    /// If `file` at `path` is a FIFO, waits for its first byte or its end. A wait of a second is reported and ended.
    pub fn announce_missing_data(path: &Path, file: &File) {
        let patience = Timespec { tv_sec: PATIENCE.as_secs() as _, tv_nsec: 0 };
        if is_fifo(path) && poll(&mut [PollFd::new(file, PollFlags::IN)], Some(&patience)) == Ok(0) {
            report(&format!("waiting for data from {}: its writer has sent nothing", path.display()));
        }
    }

    /// Writes a line to standard error, which may be closed.
    fn report(line: &str) {
        let _ = writeln!(stderr(), "{}", printable(line));
    }
}

#[cfg(not(unix))]
mod waiting {
    use std::fs::File;
    use std::path::Path;

    pub fn announce_missing_data(_: &Path, _: &File) {}

    pub fn is_fifo(_: &Path) -> bool {
        false
    }

    pub fn announced<Opened>(_: &Path, _: &str, open: impl FnOnce() -> Opened) -> Opened {
        open()
    }
}
