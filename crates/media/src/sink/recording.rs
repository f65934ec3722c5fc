//! A growing file of pictures that ends with a complete picture even on a full disk.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};

/// Size of one write, bytes.
const BATCH: usize = 1 << 16;

/// Output that its owner flushes after each picture. If the disk has no room for a picture, its first bytes are
/// removed. This does not apply to pipes, devices and standard output, which other programs may share.
#[derive(Debug)]
pub(super) struct Recording {
    /// None only while the output is replaced to discard its buffer.
    output: Option<BufWriter<File>>,
    /// Length of the file up to the end of the last picture, bytes.
    whole: u64,
    can_be_cut: bool,
}

impl Recording {
    /// Writes to `file`, which must be empty if it is a regular file.
    pub(super) fn new(file: File) -> Self {
        let can_be_cut = file.metadata().is_ok_and(|found| found.is_file());
        Self { can_be_cut, ..Self::standard(file) }
    }

    /// Writes to standard output, given as `file`.
    pub(super) fn standard(file: File) -> Self {
        Self { output: Some(BufWriter::with_capacity(BATCH, file)), whole: 0, can_be_cut: false }
    }

    /// Runs `attempt` on the output. If it fails, the file returns to its state at the last flush.
    fn attempt<T>(&mut self, attempt: impl FnOnce(&mut BufWriter<File>) -> io::Result<T>) -> io::Result<T> {
        let mut output = self.output.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let done = attempt(&mut output);
        if done.as_ref().err().is_none_or(|error| error.kind() == io::ErrorKind::Interrupted) {
            self.output = Some(output);
            return done;
        }
        let (mut file, _) = output.into_parts();
        if self.can_be_cut {
            let _ = file.set_len(self.whole).and_then(|()| file.seek(SeekFrom::Start(self.whole)));
        }
        self.output = Some(BufWriter::with_capacity(BATCH, file));
        done
    }
}

impl Write for Recording {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.attempt(|output| output.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        let can_be_cut = self.can_be_cut;
        self.whole = self.attempt(|output| {
            output.flush()?;
            if can_be_cut { output.get_ref().metadata().map(|found| found.len()) } else { Ok(0) }
        })?;
        Ok(())
    }
}

impl Seek for Recording {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.attempt(|output| output.seek(to))
    }
}
