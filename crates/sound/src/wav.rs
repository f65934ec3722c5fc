//! Reads and writes WAV files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use rubato::audioadapter_buffers::direct::InterleavedSlice;
use rubato::{Async, FixedAsync, Resampler, SincInterpolationParameters, WindowFunction};
use thiserror::Error;

use crate::source::{SoundFailure, SoundSource};
use crate::{FRAME_SAMPLES, Frame, SAMPLE_RATE};

/// Longest file, seconds. Files are read into memory.
const MAX_SECONDS: u64 = 3_600;
/// Length of the header of a file with one channel of 16 bits, bytes. Its last four bytes hold the size of the samples.
const HEADER: u64 = 44;
/// Offset of the RIFF size, bytes.
const RIFF_SIZE: u64 = 4;

/// Error of reading a WAV file.
#[derive(Debug, Error)]
pub enum WavError {
    /// The file cannot be opened or read.
    #[error("cannot read {path}: {error}", path = path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        error: std::io::Error,
    },
    /// The file is damaged, or shorter than its header announces.
    #[error("cannot read {path}: truncated or invalid WAV file: {error}; convert it with: ffmpeg -i FILE OTHER.wav",
        path = path.display())]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// Error of the parser.
        error: hound::Error,
    },
    /// The format of the file is not supported.
    #[error("{path}: {reason}", path = path.display())]
    Unsupported {
        /// Path of the file.
        path: PathBuf,
        /// The unsupported property, and what is supported.
        reason: String,
    },
}

impl WavError {
    /// Converts `error` of the file at `path`.
    fn of(error: hound::Error, path: &Path) -> Self {
        let path = path.to_owned();
        match error {
            hound::Error::IoError(error) if error.kind() != ErrorKind::Other => Self::File { path, error },
            error => Self::Damaged { path, error },
        }
    }
}

/// A WAV file as a source. Channels are mixed and resampled to 48,000 samples per second. The file can repeat.
#[derive(Debug, Clone)]
pub struct WavSource {
    samples: Vec<i16>,
    next: usize,
    repeats: bool,
}

impl WavSource {
    /// Reads the file at `path`. It may have any number of channels, and 8,000 to 192,000 samples per second. Samples
    /// are floating point or have 8 to 32 bits. It may last up to an hour. `repeats` restarts it at its end. Pipes are
    /// refused, since both directions of a call read the file.
    ///
    /// # Errors
    /// If the file cannot be read or is not supported.
    pub fn open(path: &Path, repeats: bool) -> Result<Self, WavError> {
        Self::read(Self::file(path)?, path, repeats)
    }

    /// Checks that the file at `path` exists and has a supported header, without reading the samples.
    ///
    /// # Errors
    /// See [`WavSource::open`].
    pub fn check(path: &Path) -> Result<(), WavError> {
        Self::header(Self::file(path)?, path).map(drop)
    }

    fn file(path: &Path) -> Result<BufReader<File>, WavError> {
        let failed = |error| WavError::File { path: path.to_owned(), error };
        // Opening a pipe would block until it has a writer.
        if !fs::metadata(path).map_err(failed)?.is_file() {
            let reason = "not a regular file; write the sound to a WAV file first".to_owned();
            return Err(WavError::Unsupported { path: path.to_owned(), reason });
        }
        Ok(BufReader::new(File::open(path).map_err(failed)?))
    }

    /// Reads and checks the header of `reader`.
    fn header<R: Read>(reader: R, path: &Path) -> Result<hound::WavReader<R>, WavError> {
        let unsupported = |reason: String| WavError::Unsupported { path: path.to_owned(), reason };
        let reader = hound::WavReader::new(reader).map_err(|error| WavError::of(error, path))?;
        let hound::WavSpec { channels, sample_rate, .. } = reader.spec();
        if channels == 0 || !(8_000..=192_000).contains(&sample_rate) {
            let what = format!("{channels} channels of {sample_rate} samples per second");
            return Err(unsupported(format!(
                "{what}; expected at least one channel and 8,000 to 192,000 samples per second"
            )));
        }
        let most = u64::from(sample_rate) * MAX_SECONDS;
        if u64::from(reader.duration()) > most {
            return Err(unsupported("longer than an hour".to_owned()));
        }
        Ok(reader)
    }

    /// Reads a WAV file from `reader`. Errors call it `path`.
    ///
    /// # Errors
    /// See [`WavSource::open`].
    pub fn read(reader: impl Read, path: &Path, repeats: bool) -> Result<Self, WavError> {
        let unsupported = |reason: String| WavError::Unsupported { path: path.to_owned(), reason };
        let mut reader = Self::header(reader, path)?;
        let hound::WavSpec { channels, sample_rate, bits_per_sample, sample_format } = reader.spec();
        let scale = 2.0_f32.powi(1 - i32::from(bits_per_sample));
        let samples = match sample_format {
            hound::SampleFormat::Float => mix(channels, reader.samples::<f32>()),
            hound::SampleFormat::Int => mix(channels, reader.samples::<i32>().map(|s| s.map(|s| s as f32 * scale))),
        };
        let samples = samples.map_err(|error| WavError::of(error, path))?;
        if samples.is_empty() {
            return Err(unsupported("no samples".to_owned()));
        }
        let samples = if sample_rate == SAMPLE_RATE {
            samples
        } else {
            let ratio = f64::from(SAMPLE_RATE) / f64::from(sample_rate);
            resample(&samples, ratio).map_err(|error| unsupported(error.to_string()))?
        };
        let samples = samples.iter().map(|sample| (sample * 32_768.0).round() as i16).collect();
        Ok(Self { samples, next: 0, repeats })
    }
}

/// Mixes interleaved channels into their mean, sample by sample, to save memory. An incomplete last group is dropped.
fn mix(channels: u16, mut samples: impl Iterator<Item = Result<f32, hound::Error>>) -> Result<Vec<f32>, hound::Error> {
    let mut mixed = Vec::new();
    while let Some(first) = samples.next() {
        let mut sum = first?;
        for _ in 1..channels {
            let Some(sample) = samples.next() else { return Ok(mixed) };
            sum += sample?;
        }
        mixed.push(sum / f32::from(channels));
    }
    Ok(mixed)
}

/// Resamples to `ratio` times the number of samples.
pub(crate) fn resample(samples: &[f32], ratio: f64) -> Result<Vec<f32>, Box<dyn std::error::Error>> {
    const CHUNK: usize = 1_024;
    let filter = SincInterpolationParameters::new(128, WindowFunction::BlackmanHarris2);
    let mut resampler = Async::<f32>::new_sinc(ratio, 1.0, &filter, CHUNK, 1, FixedAsync::Input)?;
    let input = InterleavedSlice::new(samples, 1, samples.len())?;
    Ok(resampler.process_all(&input, samples.len(), None)?.take_data())
}

impl SoundSource for WavSource {
    fn next_frame(&mut self) -> Result<Option<Frame>, SoundFailure> {
        if self.next >= self.samples.len() {
            if !self.repeats {
                return Ok(None);
            }
            self.next = 0;
        }
        let rest = &self.samples[self.next..];
        let mut frame = [0; FRAME_SAMPLES];
        frame.iter_mut().zip(rest).for_each(|(to, &from)| *to = from);
        self.next += FRAME_SAMPLES;
        Ok(Some(frame))
    }
}

/// Writes frames as WAV: one channel, 16 bits, 48,000 samples per second.
pub struct WavWriter<W: Write + Seek> {
    writer: hound::WavWriter<W>,
    /// Number of frames for which the file still has room. Its 32-bit sizes allow 12 hours.
    room: u64,
}

impl<W: Write + Seek> WavWriter<W> {
    /// Writes to `output`, which must support seeking: the header holds the length.
    ///
    /// # Errors
    /// If writing fails.
    pub fn new(output: W) -> Result<Self, hound::Error> {
        let spec = hound::WavSpec {
            channels: 1,
            sample_rate: SAMPLE_RATE,
            bits_per_sample: 16,
            sample_format: hound::SampleFormat::Int,
        };
        let room = (u64::from(u32::MAX) - HEADER) / (2 * FRAME_SAMPLES as u64);
        Ok(Self { writer: hound::WavWriter::new(output, spec)?, room })
    }

    /// Appends `frame`.
    ///
    /// # Errors
    /// If writing fails, as on a full disk, or the file exceeds 12 hours.
    pub fn write(&mut self, frame: &Frame) -> Result<(), hound::Error> {
        let left = self.room.checked_sub(1);
        self.room = left.ok_or_else(|| io::Error::other("a WAV file holds at most 12 hours"))?;
        frame.iter().try_for_each(|&sample| self.writer.write_sample(sample))
    }

    /// Whether the sound so far lasts a whole number of seconds.
    fn has_whole_seconds(&self) -> bool {
        self.writer.duration().is_multiple_of(SAMPLE_RATE)
    }

    /// Updates the header, so that the file is complete up to here.
    ///
    /// # Errors
    /// If writing fails.
    pub fn flush(&mut self) -> Result<(), hound::Error> {
        self.writer.flush()
    }

    /// Completes the file.
    ///
    /// # Errors
    /// If writing fails.
    pub fn finish(self) -> Result<(), hound::Error> {
        self.writer.finalize()
    }
}

/// A WAV file that stays valid if its writing is interrupted, as by a kill or a full disk.
pub struct WavRecording {
    path: PathBuf,
    /// None once the recording has ended.
    writer: Option<WavWriter<BufWriter<File>>>,
}

impl WavRecording {
    /// Creates a file at `path`, or truncates it.
    ///
    /// # Errors
    /// If writing fails.
    pub fn create(path: &Path) -> Result<Self, hound::Error> {
        let mut writer = WavWriter::new(BufWriter::new(File::create(path)?))?;
        writer.flush()?;
        Ok(Self { path: path.to_owned(), writer: Some(writer) })
    }

    /// Appends `frame`. The header is updated every second. After a failure, the file keeps the sound so far, and later
    /// calls do nothing.
    ///
    /// # Errors
    /// If writing fails, as on a full disk.
    pub fn write(&mut self, frame: &Frame) -> Result<(), hound::Error> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let mut written = writer.write(frame);
        if written.is_ok() && writer.has_whole_seconds() {
            written = writer.flush();
        }
        if written.is_err() {
            drop(self.writer.take());
            // The caller receives the first error.
            let _ = make_whole(&self.path);
        }
        written
    }

    /// Completes the file.
    ///
    /// # Errors
    /// If writing fails. The file keeps the sound so far.
    pub fn finish(&mut self) -> Result<(), hound::Error> {
        let Some(writer) = self.writer.take() else { return Ok(()) };
        let finished = writer.finish();
        if finished.is_err() {
            let _ = make_whole(&self.path);
        }
        finished
    }
}

/// Sets the sizes in the header of a file of [`WavWriter`] to its length. A file without a whole header stays
/// unchanged.
fn make_whole(path: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    let Some(sound) = file.metadata()?.len().checked_sub(HEADER) else { return Ok(()) };
    let sound = sound - sound % 2;
    file.set_len(HEADER + sound)?;
    let size = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX).to_le_bytes();
    for (place, bytes) in [(RIFF_SIZE, HEADER - 8 + sound), (HEADER - 4, sound)] {
        file.seek(SeekFrom::Start(place))?;
        file.write_all(&size(bytes))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::source::Tone;

    fn frames(source: &mut dyn SoundSource) -> Vec<Frame> {
        std::iter::from_fn(|| source.next_frame().unwrap()).take(500).collect()
    }

    #[test]
    fn written_sound_is_read_back_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tone.wav");
        let mut writer = WavWriter::new(File::create(&path).unwrap()).unwrap();
        let mut tone = Tone::default();
        let written: Vec<Frame> = (0..100).filter_map(|_| tone.next_frame().unwrap()).collect();
        written.iter().for_each(|frame| writer.write(frame).unwrap());
        writer.finish().unwrap();
        assert_eq!(frames(&mut WavSource::open(&path, false).unwrap()), written);
        assert_eq!(frames(&mut WavSource::open(&path, true).unwrap())[..200], [written.clone(), written].concat());
    }

    #[test]
    fn interrupted_recording_lacks_at_most_the_last_second() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("killed.wav");
        let mut recording = WavRecording::create(&path).unwrap();
        let mut tone = Tone::default();
        for _ in 0..120 {
            recording.write(&tone.next_frame().unwrap().unwrap()).unwrap();
        }
        // `forget` runs no destructor, like a kill.
        std::mem::forget(recording);
        assert_eq!(frames(&mut WavSource::open(&path, false).unwrap()).len(), 100);
    }

    #[test]
    fn sound_beyond_the_size_limit_is_refused() {
        let mut writer = WavWriter::new(Cursor::new(Vec::new())).unwrap();
        writer.room = 1;
        let frame = Tone::default().next_frame().unwrap().unwrap();
        writer.write(&frame).unwrap();
        assert!(writer.write(&frame).unwrap_err().to_string().contains("12 hours"));
    }

    #[test]
    fn full_disk_leaves_a_valid_file() {
        let folder = tempfile::tempdir().unwrap();
        for length in [0, 20, 46, 47, 3_000, 20_001, 192_044] {
            let path = folder.path().join("full.wav");
            let mut recording = WavRecording::create(&path).unwrap();
            let mut tone = Tone::default();
            let written: Vec<Frame> = (0..100).map(|_| tone.next_frame().unwrap().unwrap()).collect();
            written.iter().for_each(|frame| recording.write(frame).unwrap());
            recording.finish().unwrap();
            OpenOptions::new().write(true).open(&path).unwrap().set_len(length).unwrap();
            make_whole(&path).unwrap();
            if length < HEADER {
                assert_eq!(std::fs::metadata(&path).unwrap().len(), length);
                continue;
            }
            let samples = (length - HEADER) as usize / 2;
            let read = frames(&mut WavSource::open(&path, false).unwrap()).concat();
            // A source pads its last frame with silence.
            assert_eq!(read[..samples], written.concat()[..samples], "{length}");
            assert!(read[samples..].iter().all(|&sample| sample == 0), "{length}");
        }
    }

    #[test]
    fn other_rates_and_formats_keep_duration_and_pitch() {
        let folder = tempfile::tempdir().unwrap();
        for (rate, bits, channels) in [(8_000, 16, 1), (44_100, 24, 2), (96_000, 32, 1), (16_000, 8, 3)] {
            let path = folder.path().join(format!("{rate}.wav"));
            let sample_format = hound::SampleFormat::Int;
            let spec = hound::WavSpec { channels, sample_rate: rate, bits_per_sample: bits, sample_format };
            let mut writer = hound::WavWriter::create(&path, spec).unwrap();
            let full = 2.0_f64.powi(i32::from(bits) - 1);
            for at in 0..rate {
                let value = 0.5 * full * (std::f64::consts::TAU * 440.0 * f64::from(at) / f64::from(rate)).sin();
                (0..channels).for_each(|_| writer.write_sample(value as i32).unwrap());
            }
            writer.finalize().unwrap();
            let samples = frames(&mut WavSource::open(&path, false).unwrap()).concat();
            assert!(samples.len().abs_diff(SAMPLE_RATE as usize) <= 2 * FRAME_SAMPLES, "{rate}: {}", samples.len());
            let middle = &samples[10_000..38_800];
            let crossings = middle.windows(2).filter(|pair| (pair[0] < 0) != (pair[1] < 0)).count();
            assert!(crossings.abs_diff(528) <= 2, "{rate}: {crossings} crossings of zero in 0.6 s of 440 Hz");
            let loudest = middle.iter().map(|sample| sample.unsigned_abs()).max().unwrap();
            assert!((15_500..17_200).contains(&loudest), "{rate}: {loudest}");
        }
    }

    #[test]
    fn error_of_an_invalid_file_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("not.wav");
        let mut whole = Vec::new();
        let mut writer = WavWriter::new(Cursor::new(&mut whole)).unwrap();
        writer.write(&[7; FRAME_SAMPLES]).unwrap();
        writer.finish().unwrap();
        let cut = &whole[..whole.len() / 2];
        for bytes in [&b""[..], b"RIFF", b"RIFF\xff\xff\xff\xffWAVEfmt ", &[0; 100], cut] {
            std::fs::write(&path, bytes).unwrap();
            let error = WavSource::open(&path, false).unwrap_err().to_string();
            assert!(error.contains("not.wav: truncated or invalid WAV file") && error.contains("ffmpeg"), "{error}");
        }
        let error = WavSource::open(&folder.path().join("none.wav"), false).unwrap_err().to_string();
        assert!(error.starts_with("cannot read ") && error.contains("none.wav"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn pipe_or_folder_is_refused_without_blocking() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe.wav");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo is installed").success());
        for path in [&pipe, folder.path()] {
            let error = WavSource::open(path, false).unwrap_err().to_string();
            assert!(error.starts_with(path.to_str().unwrap()) && error.contains("not a regular file"), "{error}");
        }
    }
}
