//! Records the shown pictures and the sound in a WebM or Matroska file.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lockstep_units::Timestamp;
use lockstep_vp8::{FrameKind, Picture};

use super::recoding::Recoder;
use super::recording::Recording;
use super::{Sink, SinkError, create};
use crate::format::VideoFormat;
use crate::webm::{Container, Tracks, WebmWriter};

/// Interval of key frames, to which players seek.
const KEY_INTERVAL: Duration = Duration::from_secs(5);
/// Maximum wait of a frame for the sound of its time.
const MAX_WAIT: Duration = Duration::from_secs(1);
/// Duration of an Opus packet.
const PACKET: Duration = Duration::from_millis(20);

/// Encodes pictures into a WebM or Matroska file with the sound that [`Sink::write_sound`] receives. Dropping the sink
/// finishes the file.
///
/// Times are capture times after the first picture. Frames wait at most one second for the sound of their time, so that
/// blocks are in order of time.
pub struct WebmSink {
    path: PathBuf,
    format: VideoFormat,
    container: Container,
    /// The file before its header is written. The header depends on the first picture and on the sound.
    file: Option<Recording>,
    writer: Option<WebmWriter<Recording>>,
    recoder: Recoder,
    sound_delay: Option<u16>,
    /// Capture time of the first picture.
    first: Option<Timestamp>,
    /// Coded frames that wait for sound.
    waiting: VecDeque<(Duration, Vec<u8>)>,
    /// Time of the newest frame and of the newest key frame.
    newest: Option<Duration>,
    newest_key: Duration,
    /// End of the sound so far.
    sound_until: Duration,
}

impl WebmSink {
    /// Creates the file, or truncates it. The extension `.mkv` selects Matroska.
    ///
    /// # Errors
    /// If that fails.
    pub fn create(path: &Path, format: VideoFormat) -> Result<Self, SinkError> {
        let is_matroska = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("mkv"));
        Ok(Self {
            path: path.to_owned(),
            format,
            container: if is_matroska { Container::Matroska } else { Container::Webm },
            file: Some(create(path)?),
            writer: None,
            recoder: Recoder::default(),
            sound_delay: None,
            first: None,
            waiting: VecDeque::new(),
            newest: None,
            newest_key: Duration::ZERO,
            sound_until: Duration::ZERO,
        })
    }

    /// Begins the file with the first picture.
    fn begin(&mut self, picture: &Picture) -> io::Result<()> {
        let Some(file) = self.file.take() else { return Ok(()) };
        let tracks = Tracks { width: picture.width(), height: picture.height(), sound_delay: self.sound_delay };
        self.writer = Some(WebmWriter::new(file, self.container, &tracks)?);
        Ok(())
    }

    /// Minimum time of the next frame: players expect increasing times in milliseconds.
    fn min_time(&self) -> Duration {
        self.newest.map_or(Duration::ZERO, |newest| newest + Duration::from_millis(1))
    }

    /// Encodes `picture`, and writes the frames that no longer wait for sound.
    fn record(&mut self, picture: &Picture, captured_at: Timestamp) -> io::Result<()> {
        self.begin(picture)?;
        let elapsed = captured_at.saturating_since(*self.first.get_or_insert(captured_at));
        let time = elapsed.max(self.min_time());
        let is_due = self.newest.is_some() && time.saturating_sub(self.newest_key) >= KEY_INTERVAL;
        let frame = self.recoder.encode(picture, if is_due { FrameKind::Key } else { FrameKind::Auto });
        if frame.first().is_some_and(|tag| tag & 1 == 0) {
            self.newest_key = time;
        }
        self.newest = Some(time);
        self.waiting.push_back((time, frame));
        let until = match self.sound_delay {
            Some(_) => self.sound_until.max(time.saturating_sub(MAX_WAIT)),
            None => time,
        };
        self.write_until(until)
    }

    /// Writes the waiting frames up to `until`.
    fn write_until(&mut self, until: Duration) -> io::Result<()> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let due = self.waiting.partition_point(|(time, _)| *time <= until);
        for (time, frame) in self.waiting.drain(..due) {
            writer.write_video(time, &frame)?;
        }
        writer.flush()
    }

    fn record_sound(&mut self, packet: &[u8], captured_at: Timestamp) -> io::Result<()> {
        let (Some(_), Some(first), Some(_)) = (self.sound_delay, self.first, &self.writer) else { return Ok(()) };
        let time = captured_at.saturating_since(first);
        if captured_at < first || time + PACKET <= self.sound_until {
            return Ok(());
        }
        self.write_until(time)?;
        let Some(writer) = &mut self.writer else { return Ok(()) };
        writer.write_sound(time, packet)?;
        self.sound_until = time + PACKET;
        writer.flush()
    }

    fn failed(&self, error: io::Error) -> SinkError {
        SinkError::Write { path: self.path.clone(), error }
    }
}

impl Sink for WebmSink {
    fn show(&mut self, picture: &Picture, captured_at: Timestamp) -> Result<(), SinkError> {
        if self.file.is_none() && self.writer.is_none() {
            return Err(SinkError::Finished);
        }
        self.record(picture, captured_at).map_err(|error| {
            self.recoder.restart();
            self.failed(error)
        })
    }

    fn begin_sound(&mut self, delay: u16) -> bool {
        self.sound_delay = Some(delay);
        self.writer.is_none()
    }

    fn write_sound(&mut self, packet: &[u8], captured_at: Timestamp) -> Result<(), SinkError> {
        self.record_sound(packet, captured_at).map_err(|error| self.failed(error))
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.file = None;
        let written = self.write_until(Duration::MAX);
        let last = self.format.frame_interval();
        let finished = self.writer.take().map_or(Ok(()), |writer| writer.finish(last));
        written.and(finished).map_err(|error| self.failed(error))
    }
}

impl Drop for WebmSink {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use lockstep_vp8::{State, decode};
    use matroska_demuxer::{Frame, MatroskaFile};

    use super::*;
    use crate::{GeneratedClip, psnr};

    const MS: Duration = Duration::from_millis(1);

    fn format() -> VideoFormat {
        VideoFormat { width: 64, height: 48, ..VideoFormat::default() }
    }

    fn at(milliseconds: u64) -> Timestamp {
        Timestamp::from_millis(7_000 + milliseconds)
    }

    /// Track and time in milliseconds of each block, and the pictures that a decoder of all frames gives.
    fn played(path: &Path) -> (Vec<(u64, u64)>, Vec<Picture>) {
        let mut file = MatroskaFile::open(fs::File::open(path).unwrap()).unwrap();
        let (mut frame, mut state) = (Frame::default(), State::default());
        let (mut blocks, mut pictures) = (Vec::new(), Vec::new());
        while file.next_frame(&mut frame).unwrap_or(false) {
            blocks.push((frame.track, frame.timestamp));
            if frame.track == 1 {
                let (next, picture) = decode(&state, &frame.data).unwrap();
                pictures.push(picture);
                state = next;
            }
        }
        (blocks, pictures)
    }

    #[test]
    fn a_killed_recording_plays_as_shown_with_sound() {
        let folder = tempfile::tempdir().unwrap();
        let clip = GeneratedClip::new(format(), 1).unwrap();
        for name in ["killed.webm", "killed.mkv"] {
            let path = folder.path().join(name);
            let mut sink = WebmSink::create(&path, format()).unwrap();
            assert!(sink.begin_sound(312));
            sink.write_sound(&[0], at(0)).unwrap();
            for index in [0, 1, 2, 10] {
                sink.show(&clip.picture(index), at(33 * index)).unwrap();
                (0..2).for_each(|half| sink.write_sound(&[1], at(40 * index + 20 * half)).unwrap());
            }
            // Simulates a kill: no code of the sink runs after this point.
            std::mem::forget(sink);
            let (blocks, pictures) = played(&path);
            let expected =
                [(1, 0), (2, 0), (2, 20), (1, 33), (2, 40), (2, 60), (1, 66), (2, 80), (2, 100), (1, 330), (2, 400)];
            assert_eq!(blocks[..11], expected);
            for (picture, index) in pictures.iter().zip([0, 1, 2, 10]) {
                assert!(psnr(picture, &clip.picture(index)).unwrap() > 40.0, "{name}: picture {index}");
            }
        }
        let starts = ["killed.webm", "killed.mkv"].map(|name| fs::read(folder.path().join(name)).unwrap());
        let kinds = [&b"webm"[..], b"matroska"];
        for (start, kind) in starts.iter().zip(kinds) {
            assert!(start[..80].windows(kind.len()).any(|bytes| bytes == kind));
        }
    }

    #[test]
    fn pictures_wait_at_most_a_second_for_sound() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("waits.webm");
        let picture = GeneratedClip::new(format(), 1).unwrap().picture(0);
        let mut sink = WebmSink::create(&path, format()).unwrap();
        sink.begin_sound(312);
        for time in [0, 500, 1_000, 1_500] {
            sink.show(&picture, at(time)).unwrap();
        }
        assert_eq!(played(&path).0, [(1, 0), (1, 500)]);
        sink.finish().unwrap();
        assert_eq!(played(&path).0, [(1, 0), (1, 500), (1, 1_000), (1, 1_500)]);
        assert!(matches!(sink.show(&picture, at(2_000)), Err(SinkError::Finished)));
    }

    #[test]
    fn times_increase_at_any_capture_times() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("times.webm");
        let picture = GeneratedClip::new(format(), 1).unwrap().picture(0);
        let mut sink = WebmSink::create(&path, format()).unwrap();
        for time in [1_000, 0, 1_000, 2_000] {
            sink.show(&picture, at(time)).unwrap();
        }
        sink.show(&picture, Timestamp::from_nanos(u64::MAX)).unwrap();
        drop(sink);
        let (blocks, _) = played(&path);
        assert_eq!(blocks[..4], [(1, 0), (1, 1), (1, 2), (1, 1_000)]);
    }

    #[test]
    fn players_can_seek_every_five_seconds() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("long.webm");
        let clip = GeneratedClip::new(format(), 1).unwrap();
        let mut sink = WebmSink::create(&path, format()).unwrap();
        for index in 0..24 {
            sink.show(&clip.picture(index), at(500 * index)).unwrap();
        }
        sink.finish().unwrap();
        let mut file = MatroskaFile::open(fs::File::open(&path).unwrap()).unwrap();
        let (mut frame, mut keys) = (Frame::default(), Vec::new());
        while file.next_frame(&mut frame).unwrap() {
            keys.extend((frame.is_keyframe == Some(true)).then_some(frame.timestamp));
        }
        assert_eq!(keys, [0, 5_000, 10_000]);
        file.seek(9_000).unwrap();
        assert!(file.next_frame(&mut frame).unwrap());
        assert_eq!(frame.timestamp, 9_000);
    }

    #[test]
    fn ffmpeg_decodes_a_recording_without_an_error() {
        if Command::new("ffmpeg").arg("-version").output().is_err() {
            eprintln!("skipped: ffmpeg is not installed");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let larger = VideoFormat { width: 80, height: 60, ..format() };
        let clips = [format(), larger].map(|format| GeneratedClip::new(format, 1).unwrap());
        for (name, finishes) in [("whole.webm", true), ("killed.mkv", false)] {
            let path = folder.path().join(name);
            let mut sink = WebmSink::create(&path, format()).unwrap();
            for index in 0..20 {
                sink.show(&clips[usize::from(index >= 10)].picture(index), Timestamp::ZERO + 40 * MS * index as u32)
                    .unwrap();
            }
            if finishes {
                sink.finish().unwrap()
            } else {
                std::mem::forget(sink)
            }
            let output = Command::new("ffmpeg")
                .args(["-nostdin", "-loglevel", "warning", "-i", path.to_str().unwrap()])
                .args(["-fps_mode", "passthrough", "-f", "framemd5", "-"])
                .output()
                .unwrap();
            let [frames, errors] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
            assert_eq!(
                (errors.as_str(), frames.lines().filter(|line| !line.starts_with('#')).count()),
                ("", 20),
                "{name}"
            );
        }
    }
}
