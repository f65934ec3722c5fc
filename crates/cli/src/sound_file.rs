//! WAV file of the received sound: for a simulated call at its end, for a live call as it plays.

use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail};

use lockstep_runner::output_file::{OutputFile, is_special, is_standard_output};
use lockstep_sound::{Frame, SoundFailure, SoundSink, WavRecording, WavWriteError, WavWriter};

/// Name of `path` in messages; an error if it is not a regular file.
fn seekable(path: &Path) -> Result<String> {
    let name = path.display().to_string();
    if is_standard_output(path) || is_special(path) {
        bail!("cannot write {name}: a WAV file starts with its length and requires seeking; name a file");
    }
    Ok(name)
}

/// WAV file of a live call, which keeps the sound if the call is killed.
///
/// The file is created with the first sound, so that a call that fails to start keeps an older file.
pub struct SoundRecording {
    path: PathBuf,
    name: String,
    recording: Option<WavRecording>,
}

impl SoundRecording {
    /// A file at `path`.
    pub fn create(path: &Path) -> Result<Self> {
        Ok(Self { path: path.to_owned(), name: seekable(path)?, recording: None })
    }

    /// Applies `what` to the recording, which is created if necessary.
    fn record(
        &mut self,
        what: impl FnOnce(&mut WavRecording) -> Result<(), WavWriteError>,
    ) -> Result<(), SoundFailure> {
        let recorded = match &mut self.recording {
            Some(recording) => what(recording),
            none => WavRecording::create(&self.path).and_then(|recording| what(none.insert(recording))),
        };
        recorded.map_err(|error| SoundFailure(format!("cannot write {}: {error}", self.name)))
    }
}

impl SoundSink for SoundRecording {
    fn play(&mut self, frame: &Frame) -> Result<(), SoundFailure> {
        self.record(|recording| recording.write(frame))
    }

    fn finish(&mut self) -> Result<(), SoundFailure> {
        self.record(WavRecording::finish)
    }
}

/// Output that outlives its writer.
#[derive(Clone)]
struct Shared(Arc<Mutex<OutputFile>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).flush()
    }
}

impl Seek for Shared {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).seek(to)
    }
}

struct Open {
    writer: WavWriter<Shared>,
    output: Shared,
}

/// WAV file that appears when it is complete.
#[derive(Clone)]
pub struct SoundFile {
    name: String,
    open: Arc<Mutex<Option<Open>>>,
}

impl SoundFile {
    /// A file at `path`.
    pub fn create(path: &Path) -> Result<Self> {
        let name = seekable(path)?;
        let output = OutputFile::create(path)?;
        let output = Shared(Arc::new(Mutex::new(output)));
        let writer = WavWriter::new(output.clone()).with_context(|| format!("cannot write {name}"))?;
        Ok(Self { name, open: Arc::new(Mutex::new(Some(Open { writer, output }))) })
    }

    /// Completes the file, which otherwise does not appear.
    pub fn complete(self) -> Result<()> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Open { writer, output }) = open else { return Ok(()) };
        let failed = || format!("cannot write {}", self.name);
        writer.finish().with_context(failed)?;
        match Arc::into_inner(output.0) {
            Some(output) => output.into_inner().unwrap_or_else(PoisonError::into_inner).finish(),
            None => Err(io::Error::from(ErrorKind::ResourceBusy)).with_context(failed),
        }
    }
}

impl SoundSink for SoundFile {
    fn play(&mut self, frame: &Frame) -> Result<(), SoundFailure> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let written = open.as_mut().map_or(Ok(()), |open| open.writer.write(frame));
        written.map_err(|error| SoundFailure(format!("cannot write {}: {error}", self.name)))
    }

    fn finish(&mut self) -> Result<(), SoundFailure> {
        self.clone().complete().map_err(|error| SoundFailure(format!("{error:#}")))
    }
}
