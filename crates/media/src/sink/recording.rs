//! A file of pictures that grows while they come, and ends with a whole one whatever happens to its disk.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};

/// Bytes that are written at once.
const BATCH: usize = 1 << 16;

/// Output whose owner flushes it after each picture. What was written since the last time is taken back when there is no room
/// for all of it; not from a pipe or a device, nor from standard output, which is not this program's alone.
#[derive(Debug)]
pub(super) struct Recording {
    /// There is always one; it is exchanged for a new one when what it holds is to be forgotten.
    output: Option<BufWriter<File>>,
    /// Bytes up to the end of the last picture.
    whole: u64,
    can_be_cut: bool,
}

impl Recording {
    /// Into `file`, which is empty if it is a file.
    pub(super) fn new(file: File) -> Self {
        let can_be_cut = file.metadata().is_ok_and(|found| found.is_file());
        Self { can_be_cut, ..Self::standard(file) }
    }

    /// Into standard output, as `file`.
    pub(super) fn standard(file: File) -> Self {
        Self { output: Some(BufWriter::with_capacity(BATCH, file)), whole: 0, can_be_cut: false }
    }

    /// Does something with the output; if that fails, there is in the file what was there when it was last flushed.
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
