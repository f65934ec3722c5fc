//! Records the shown pictures in an IVF file.

use std::path::{Path, PathBuf};

use lockstep_units::Timestamp;
use lockstep_vp8::{FrameKind, Picture};

use super::recoding::Recoder;
use super::recording::Recording;
use super::{Sink, SinkError, create};
use crate::format::{FrameRate, VideoFormat};
use crate::ivf::{IvfError, IvfWriter};

/// Encodes pictures into an IVF file that any VP8 decoder plays. Dropping the sink finishes the file.
///
/// The time of a frame is its capture time after the first picture, in frame intervals. Lost pictures leave gaps.
pub struct IvfSink {
    path: PathBuf,
    writer: Option<IvfWriter<Recording>>,
    frames: u64,
    frame_rate: FrameRate,
    recoder: Recoder,
    /// Capture time of the first picture.
    first: Option<Timestamp>,
    /// Minimum time of the next frame, in frame intervals.
    next_time: u64,
}

impl IvfSink {
    /// Creates the file, or truncates it.
    ///
    /// # Errors
    /// If that fails.
    pub fn create(path: &Path, format: VideoFormat) -> Result<Self, SinkError> {
        let writer =
            IvfWriter::new(create(path)?, format).map_err(|error| SinkError::Ivf { path: path.to_owned(), error })?;
        Ok(Self {
            path: path.to_owned(),
            writer: Some(writer),
            frames: 0,
            frame_rate: format.frame_rate,
            recoder: Recoder::default(),
            first: None,
            next_time: 0,
        })
    }

    fn failed(&self, error: IvfError) -> SinkError {
        SinkError::Ivf { path: self.path.clone(), error }
    }
}

impl Sink for IvfSink {
    fn show(&mut self, picture: &Picture, captured_at: Timestamp) -> Result<(), SinkError> {
        let writer = self.writer.as_mut().ok_or(SinkError::Finished)?;
        let elapsed = captured_at.saturating_since(*self.first.get_or_insert(captured_at));
        let time = self.frame_rate.nearest_index(elapsed).max(self.next_time);
        let frame = self.recoder.encode(picture, FrameKind::Auto);
        if let Err(error) = writer.write_frame(time, &frame).and_then(|()| writer.flush()) {
            writer.forget_after(self.frames);
            self.recoder.restart();
            return Err(self.failed(error));
        }
        self.next_time = time.saturating_add(1);
        self.frames += 1;
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        let finished = self.writer.take().map(IvfWriter::finish).transpose();
        finished.map(drop).map_err(|error| self.failed(error))
    }
}

impl Drop for IvfSink {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::BufReader;
    use std::time::Duration;

    use lockstep_vp8::{State, decode};

    use super::*;
    use crate::{GeneratedClip, IvfReader, psnr};

    const SIZE: VideoFormat = VideoFormat { width: 64, height: 48, frame_rate: FrameRate::new(30, 1).unwrap() };

    fn clip(format: VideoFormat) -> GeneratedClip {
        GeneratedClip::new(format, 1).unwrap()
    }

    /// Times of the frames, whether each is a key frame, and the pictures that a decoder of all frames gives.
    fn played(path: &Path) -> Vec<(u64, bool, Picture)> {
        let mut reader = IvfReader::new(BufReader::new(File::open(path).unwrap())).unwrap();
        let mut state = State::default();
        let mut played = Vec::new();
        while let Some(frame) = reader.read_frame().unwrap() {
            let (next, picture) = decode(&state, &frame.data).unwrap();
            played.push((frame.time, frame.data[0] & 1 == 0, picture));
            state = next;
        }
        played
    }

    #[test]
    fn a_recording_plays_as_shown_with_gaps_for_lost_pictures() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shown.ivf");
        let clip = clip(SIZE);
        let shown = [0, 1, 2, 5, 6, 20, 21];
        let mut sink = IvfSink::create(&path, SIZE).unwrap();
        for index in shown {
            // The times are on a sender's clock, with slightly late captures.
            let captured_at = Timestamp::from_millis(7_000 + index % 3) + SIZE.time_of(index);
            sink.show(&clip.picture(index), captured_at).unwrap();
        }
        // Simulates a kill: no code of the sink runs after this point.
        std::mem::forget(sink);
        let played = played(&path);
        assert_eq!(played.iter().map(|(time, ..)| *time).collect::<Vec<_>>(), shown);
        for (index, (_, is_key, picture)) in shown.iter().zip(&played) {
            let quality = psnr(picture, &clip.picture(*index)).unwrap();
            assert!(quality > 40.0, "picture {index}: {quality} dB");
            assert_eq!(*is_key, *index == 0, "picture {index}");
        }
    }

    #[test]
    fn change_of_size_begins_with_a_key_frame() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sizes.ivf");
        let larger = VideoFormat { width: 80, height: 60, ..SIZE };
        let mut sink = IvfSink::create(&path, SIZE).unwrap();
        for (format, index) in [(SIZE, 0), (SIZE, 1), (larger, 2), (larger, 3)] {
            sink.show(&clip(format).picture(index), Timestamp::ZERO + SIZE.time_of(index)).unwrap();
        }
        sink.finish().unwrap();
        let played = played(&path);
        let sizes = played.iter().map(|(_, is_key, picture)| (*is_key, picture.width())).collect::<Vec<_>>();
        assert_eq!(sizes, [(true, 64), (false, 64), (true, 80), (false, 80)]);
    }

    #[test]
    fn frame_times_increase_at_any_capture_times() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("times.ivf");
        let picture = clip(SIZE).picture(0);
        let mut sink = IvfSink::create(&path, SIZE).unwrap();
        let claimed = [Duration::from_secs(1), Duration::ZERO, Duration::from_secs(1), Duration::from_secs(2)];
        for since in claimed {
            sink.show(&picture, Timestamp::ZERO + since).unwrap();
        }
        sink.finish().unwrap();
        assert_eq!(played(&path).iter().map(|(time, ..)| *time).collect::<Vec<_>>(), [0, 1, 2, 30]);
        assert_eq!(fs::read(&path).unwrap()[24..28], 4u32.to_le_bytes());
    }
}
