//! Recording of a call as this end sees and hears it: the shown pictures with the own one small in a corner, and both
//! voices in one track.
//!
//! Wrappers of the call's sink, loudspeaker and microphone pass copies to a thread, which encodes and writes them. Times
//! are those of this end, when a picture is shown and sound is played. The call never waits for the recording.
//!
//! ```text
//! pictures ── sink ─────────┐
//! loudspeaker ── heard ─────┼── queue ── mixer ── Recorder ── file
//! microphone ── spoken ─────┘
//! ```

use std::collections::VecDeque;
use std::path::Path;
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};

use lockstep_media::{Sink, SinkError, VideoFormat, open_sink};
use lockstep_socket::Clock;
use lockstep_sound::{Decoded, Frame, SoundFailure, SoundSink, SoundSource};
use lockstep_units::Timestamp;
use lockstep_vp8::Picture;

use crate::recorder::Recorder;
use crate::{END_LIMIT, LiveError, OwnPicture, Thread};

/// Pictures and frames of sound that may wait for the file. Beyond this, while a disk stalls, the newest are lost.
const QUEUE: usize = 64;
/// Frames of the microphone that may wait for the loudspeaker (100 ms). Its clock may be slower.
const MAX_SPOKEN: usize = 5;

/// Input of the recording.
enum Input {
    /// The shown picture, and the own one.
    Shown(Timestamp, Box<(Picture, Option<Picture>)>),
    Heard(Timestamp, Box<Frame>),
    Spoken(Box<Frame>),
    End,
}

/// A recording. Clones belong to the same file.
#[derive(Clone)]
pub struct CallRecording {
    clock: Clock,
    own: OwnPicture,
    inputs: SyncSender<Input>,
    thread: Arc<Mutex<Thread>>,
}

impl std::fmt::Debug for CallRecording {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("CallRecording").finish_non_exhaustive()
    }
}

/// Adds two voices; a sum that is too loud is clipped.
fn mixed(heard: &Frame, spoken: Option<&Frame>) -> Frame {
    let mut frame = *heard;
    for (sample, other) in frame.iter_mut().zip(spoken.into_iter().flatten()) {
        *sample = sample.saturating_add(*other);
    }
    frame
}

/// Divisor of the sides of a picture that limits the size of the own one, as in the window.
const OWN_SHARE: usize = 4;

/// `picture` with `own` small in the lower right corner; `None` if there is no room.
fn with_own(picture: &Picture, own: &Picture) -> Option<Picture> {
    let (width, height) = (picture.width(), picture.height());
    // Even, because chroma has half the resolution.
    let across = (width / OWN_SHARE).min(own.width() * (height / OWN_SHARE) / own.height()) & !1;
    let down = (own.height() * across / own.width()) & !1;
    let margin = across / 8;
    let (left, top) = (width.checked_sub(across + margin)? & !1, height.checked_sub(down + margin)? & !1);
    if across == 0 || down == 0 {
        return None;
    }
    let mut samples = picture.to_i420();
    let mut begin = 0;
    for (plane, own) in picture.planes().iter().zip(own.planes()) {
        let half = usize::from(begin > 0) + 1;
        let (across, down, left, top) = (across / half, down / half, left / half, top / half);
        for y in 0..down {
            let from = own.row(y * own.height() / down);
            let row = begin + (top + y) * plane.width() + left;
            for (x, to) in samples[row..row + across].iter_mut().enumerate() {
                *to = from[x * own.width() / across];
            }
        }
        begin += plane.width() * plane.height();
    }
    Picture::from_i420(width, height, samples).ok()
}

/// Writes the inputs to a file, which begins with the first picture.
struct Mixer {
    sink: Option<Box<dyn Sink>>,
    recorder: Option<Recorder>,
    spoken: VecDeque<Box<Frame>>,
}

impl Mixer {
    fn new(sink: Box<dyn Sink>) -> Self {
        Self { sink: Some(sink), recorder: None, spoken: VecDeque::new() }
    }

    /// Handles an input; returns whether more may follow.
    fn take(&mut self, input: Input) -> Result<bool, LiveError> {
        let failed = |error: crate::recorder::RecordError| LiveError::Sink(error.to_string());
        match input {
            Input::Shown(at, pictures) => {
                let (picture, own) = *pictures;
                let picture = own.and_then(|own| with_own(&picture, &own)).unwrap_or(picture);
                if let Some(sink) = self.sink.take() {
                    self.recorder = Some(Recorder::new(sink, true, at).map_err(failed)?);
                }
                if let Some(recorder) = &mut self.recorder {
                    recorder.show(&picture, at).map_err(failed)?;
                }
            }
            Input::Heard(at, frame) => {
                let frame = mixed(&frame, self.spoken.pop_front().as_deref());
                if let Some(recorder) = &mut self.recorder {
                    recorder.record_sound(&Decoded { captured: Some(at), frame }).map_err(failed)?;
                }
            }
            Input::Spoken(frame) => {
                if self.spoken.len() >= MAX_SPOKEN {
                    self.spoken.pop_front();
                }
                self.spoken.push_back(frame);
            }
            Input::End => {
                self.recorder.as_mut().map_or(Ok(()), Recorder::finish).map_err(failed)?;
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl CallRecording {
    /// Creates the file: a .webm or .mkv file, for pictures of about this `format`. `own` is this end's picture.
    ///
    /// # Errors
    /// The file has another extension or cannot be created, or no thread can be started.
    pub fn create(path: &Path, format: VideoFormat, own: OwnPicture, clock: Clock) -> Result<Self, LiveError> {
        let name = path.to_string_lossy();
        if !lockstep_media::records_sound(&name) {
            return Err(LiveError::Sink(format!("cannot record the call to {name}: name a .webm or .mkv file")));
        }
        let sink = open_sink(&name, format).map_err(|error| LiveError::Sink(error.to_string()))?;
        let (inputs, incoming) = mpsc::sync_channel(QUEUE);
        let mut mixer = Mixer::new(sink);
        let thread = Thread::spawn("recording", move || {
            for input in incoming {
                if !mixer.take(input)? {
                    break;
                }
            }
            Ok(())
        })?;
        Ok(Self { clock, own, inputs, thread: Arc::new(Mutex::new(thread)) })
    }

    /// Passes an input on. It is lost if the disk is too slow; a failed thread is reported by [`Self::finish`].
    fn pass(&self, input: Input) {
        let _ = self.inputs.try_send(input);
    }

    /// Records the pictures that `sink` shows.
    #[must_use]
    pub fn of_sink(&self, sink: Box<dyn Sink>) -> Box<dyn Sink> {
        Box::new(RecordedSink { sink, recording: self.clone() })
    }

    /// Records the sound that `sink` plays.
    #[must_use]
    pub fn of_loudspeaker(&self, sink: Box<dyn SoundSink>) -> Box<dyn SoundSink> {
        Box::new(Heard { sink, recording: self.clone() })
    }

    /// Records the sound of `source`, except while it is muted.
    #[must_use]
    pub fn of_microphone(&self, source: Box<dyn SoundSource>) -> Box<dyn SoundSource> {
        Box::new(Spoken { source, recording: self.clone() })
    }

    /// Completes the file.
    ///
    /// # Errors
    /// The file is incomplete, because the disk is full for example. The written part plays.
    pub fn finish(&self) -> Result<(), LiveError> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if !thread.is_over() {
            let _ = self.inputs.send(Input::End);
        }
        thread.finish(END_LIMIT)
    }
}

struct RecordedSink {
    sink: Box<dyn Sink>,
    recording: CallRecording,
}

impl Sink for RecordedSink {
    fn show(&mut self, picture: &Picture, captured_at: Timestamp) -> Result<(), SinkError> {
        let (now, own) = (self.recording.clock.now(), self.recording.own.newest());
        self.recording.pass(Input::Shown(now, Box::new((picture.clone(), own))));
        self.sink.show(picture, captured_at)
    }

    fn is_live(&self) -> bool {
        self.sink.is_live()
    }

    fn begin_sound(&mut self, delay: u16) -> bool {
        self.sink.begin_sound(delay)
    }

    fn write_sound(&mut self, packet: &[u8], captured_at: Timestamp) -> Result<(), SinkError> {
        self.sink.write_sound(packet, captured_at)
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.sink.finish()
    }
}

struct Heard {
    sink: Box<dyn SoundSink>,
    recording: CallRecording,
}

impl SoundSink for Heard {
    fn play(&mut self, frame: &Frame) -> Result<(), SoundFailure> {
        self.recording.pass(Input::Heard(self.recording.clock.now(), Box::new(*frame)));
        self.sink.play(frame)
    }

    fn is_live(&self) -> bool {
        self.sink.is_live()
    }

    fn finish(&mut self) -> Result<(), SoundFailure> {
        self.sink.finish()
    }
}

struct Spoken {
    source: Box<dyn SoundSource>,
    recording: CallRecording,
}

impl SoundSource for Spoken {
    fn next_frame(&mut self) -> Result<Option<Frame>, SoundFailure> {
        let frame = self.source.next_frame()?;
        if let Some(frame) = frame {
            self.recording.pass(Input::Spoken(Box::new(frame)));
        }
        Ok(frame)
    }

    fn next_muted_frame(&mut self) -> Result<Option<Frame>, SoundFailure> {
        self.source.next_muted_frame()
    }

    fn is_live(&self) -> bool {
        self.source.is_live()
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use lockstep_media::{SourceOptions, open_source};
    use lockstep_sound::{FRAME_DURATION, FRAME_SAMPLES};

    use super::*;

    /// A tone of `samples` per period.
    fn tone(samples: usize) -> Frame {
        std::array::from_fn(|sample| if sample % samples < samples / 2 { 6_000 } else { -6_000 })
    }

    fn at(milliseconds: u64) -> Timestamp {
        Timestamp::from_millis(5_000 + milliseconds)
    }

    #[test]
    fn two_voices_add_up_without_overflow() {
        let (loud, other) = ([30_000; FRAME_SAMPLES], [-100; FRAME_SAMPLES]);
        assert_eq!(mixed(&loud, Some(&loud))[0], i16::MAX);
        assert_eq!((mixed(&loud, Some(&other))[7], mixed(&loud, None)[7]), (29_900, 30_000));
    }

    #[test]
    fn own_picture_is_in_the_lower_right_corner() {
        let grey = |width: usize, height: usize, luma: u8| {
            let chroma = width.div_ceil(2) * height.div_ceil(2);
            let samples = [vec![luma; width * height], vec![128; 2 * chroma]].concat();
            Picture::from_i420(width, height, samples).expect("a picture")
        };
        for (width, height) in [(64, 48), (63, 47), (640, 360), (48, 64)] {
            let drawn = with_own(&grey(width, height, 20), &grey(320, 180, 200)).expect("there is room");
            let bright = drawn.luma().rows().map(|row| row.iter().filter(|&&sample| sample == 200).count());
            let rows: Vec<usize> = bright.filter(|&count| count > 0).collect();
            assert!(rows.iter().all(|&count| count == (width / 4) & !1 && rows.len() <= height / 4), "{rows:?}");
            let middle = (drawn.luma().row(height / 2)[width / 2], drawn.luma().row(height - 1)[width - 1]);
            assert_eq!(middle, (20, 20), "{width}x{height}: the rest stays");
        }
        assert!(with_own(&grey(2, 2, 20), &grey(320, 180, 200)).is_none());
    }

    /// Records four seconds: pictures always, the peer's voice from 1 s to 2 s, the own voice from 2.5 s to 3.5 s.
    fn record(path: &Path, is_whole: bool) {
        let mut clip = open_source("generated:64x48@25", &SourceOptions::default()).expect("it is generated");
        let sink = open_sink(&path.to_string_lossy(), clip.format()).expect("a file");
        let mut mixer = Mixer::new(sink);
        let mut take = |input| assert!(mixer.take(input).expect("it is written"));
        for now in (0..4_000).step_by(20) {
            if now % 40 == 0 {
                let picture = clip.next().expect("it is generated").expect("it has no end");
                take(Input::Shown(at(now), Box::new((picture, None))));
            }
            let (hears, speaks) = ((1_000..2_000).contains(&now), (2_500..3_500).contains(&now));
            take(Input::Spoken(Box::new(if speaks { tone(48) } else { [0; FRAME_SAMPLES] })));
            take(Input::Heard(at(now), Box::new(if hears { tone(96) } else { [0; FRAME_SAMPLES] })));
        }
        if is_whole {
            assert!(!mixer.take(Input::End).expect("it is written"));
        }
        // Otherwise simulates a kill: no code of the sink runs.
        std::mem::forget(mixer);
    }

    fn output(program: &str, arguments: &[&str]) -> Option<(Vec<u8>, String)> {
        let output = Command::new(program).args(arguments).output().ok()?;
        Some((output.stdout, String::from_utf8_lossy(&output.stderr).into_owned()))
    }

    #[test]
    fn recording_has_both_voices_and_survives_a_kill() {
        if output("ffmpeg", &["-version"]).is_none() {
            eprintln!("skipped: ffmpeg is not installed");
            return;
        }
        let folder = tempfile::tempdir().expect("a folder");
        for (name, is_whole) in
            [("whole.webm", true), ("whole.mkv", true), ("killed.webm", false), ("killed.mkv", false)]
        {
            let path = folder.path().join(name);
            record(&path, is_whole);
            let path = path.to_str().expect("a name");
            let decode = [
                "-nostdin",
                "-loglevel",
                "warning",
                "-i",
                path,
                "-map",
                "0:a",
                "-ac",
                "1",
                "-ar",
                "48000",
                "-f",
                "s16le",
                "-",
            ];
            let (bytes, said) = output("ffmpeg", &decode).expect("it ran");
            assert_eq!(said, "", "{name}");
            let samples: Vec<i16> = bytes.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect();
            let loud: Vec<usize> = samples
                .chunks(4_800)
                .map(|part| part.iter().filter(|sample| sample.unsigned_abs() > 2_000).count())
                .collect();
            let expected = |tenth: usize| (10..20).contains(&tenth) || (25..35).contains(&tenth);
            // A kill loses the last half second, in which sound may still be late.
            let checked = if is_whole { 39 } else { 34 };
            assert!(loud.len() >= checked, "{name}: {} tenths of a second", loud.len());
            for (tenth, &count) in loud.iter().take(checked).enumerate() {
                let is_edge =
                    expected(tenth) != expected(tenth + 1) || (tenth > 0 && expected(tenth) != expected(tenth - 1));
                assert!(is_edge || (count > 1_000) == expected(tenth), "{name}: {count} loud samples at {tenth}");
            }
            let frames = ["-nostdin", "-loglevel", "warning", "-i", path, "-map", "0:v", "-f", "framemd5", "-"];
            let (bytes, said) = output("ffmpeg", &frames).expect("it ran");
            let text = String::from_utf8_lossy(&bytes);
            let count = text.lines().filter(|line| !line.starts_with('#')).count();
            assert!(said.is_empty() && count >= if is_whole { 100 } else { 60 }, "{name}: {count} pictures {said}");
        }
    }

    #[test]
    fn microphone_without_a_loudspeaker_clock_stays_bounded() {
        let folder = tempfile::tempdir().expect("a folder");
        let sink = open_sink(&folder.path().join("x.webm").to_string_lossy(), VideoFormat::default());
        let mut mixer = Mixer::new(sink.expect("a file"));
        for _ in 0..100 {
            mixer.take(Input::Spoken(Box::new(tone(48)))).expect("it is kept");
        }
        assert_eq!(mixer.spoken.len(), MAX_SPOKEN);
        assert_eq!(MAX_SPOKEN as u32 * FRAME_DURATION, std::time::Duration::from_millis(100));
    }
}
