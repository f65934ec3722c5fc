//! Processing of the microphone's sound as in WebRTC: echo cancellation, noise suppression and automatic gain control.
//!
//! The algorithms are those of WebRTC's audio processing module, in the Rust port `sonora`. [`processed`] puts them
//! between the devices and the call:
//!
//! ```text
//! call --> EchoReference --> loudspeaker
//!                |                | echo
//!                v                v
//! call <-- ProcessedSource <-- microphone
//! ```
//!
//! The reference is the frames that the loudspeaker plays ([`SoundSink::take_played`]), or takes. The library estimates
//! the delay of their echo, and follows small changes. Devices resample both sides to the machine's clock, so the delay
//! does not drift ([`crate::CaptureResampler`]).

use std::sync::mpsc::{self, Receiver, SyncSender};

use sonora::config::{
    AdaptiveDigital, EchoCanceller, GainController2, HighPassFilter, NoiseSuppression, NoiseSuppressionLevel,
};
use sonora::{AudioProcessing, Config, StreamConfig};

use crate::{Frame, SAMPLE_RATE, SoundFailure, SoundSink, SoundSource};

/// Samples that the library processes at a time: 10 ms.
const BLOCK_SAMPLES: usize = 480;
/// Played frames that may wait for the microphone (500 ms), more than captured ones; further ones are dropped.
pub const MAX_PLAYED_FRAMES: usize = 25;

/// Parts of the processing, with the names of the constraints of `getUserMedia`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessingSettings {
    /// Removes the loudspeaker's sound from the microphone's.
    pub echo_cancellation: bool,
    /// Removes steady noise.
    pub noise_suppression: bool,
    /// Raises a quiet voice and lowers a loud one.
    pub auto_gain_control: bool,
}

impl Default for ProcessingSettings {
    /// All parts, as browsers do.
    fn default() -> Self {
        Self { echo_cancellation: true, noise_suppression: true, auto_gain_control: true }
    }
}

/// Processing of one microphone.
pub struct SoundProcessing {
    processing: AudioProcessing,
}

impl SoundProcessing {
    /// Processing that has received no sound yet.
    #[must_use]
    pub fn new(settings: ProcessingSettings) -> Self {
        let ProcessingSettings { echo_cancellation, noise_suppression, auto_gain_control } = settings;
        // Chromium suppresses noise at this level.
        let noise = NoiseSuppression { level: NoiseSuppressionLevel::High, ..NoiseSuppression::default() };
        let gain = GainController2 { adaptive_digital: Some(AdaptiveDigital::default()), ..GainController2::default() };
        let config = Config {
            high_pass_filter: Some(HighPassFilter::default()),
            echo_canceller: echo_cancellation.then(EchoCanceller::default),
            noise_suppression: noise_suppression.then_some(noise),
            gain_controller2: auto_gain_control.then_some(gain),
            ..Config::default()
        };
        let stream = || StreamConfig::new(SAMPLE_RATE, 1);
        let builder = AudioProcessing::builder().config(config);
        Self { processing: builder.capture_config(stream()).render_config(stream()).build() }
    }

    /// Takes a frame that the loudspeaker plays, before the microphone captures its echo.
    pub fn played(&mut self, frame: &Frame) {
        let mut unused = [0; BLOCK_SAMPLES];
        for block in frame.chunks_exact(BLOCK_SAMPLES) {
            // Only a wrong length or rate can fail, and both are constant.
            let _ = self.processing.process_render_i16(block, &mut unused);
        }
    }

    /// Processes a frame of the microphone. The processed sound is about 15 ms later.
    pub fn captured(&mut self, frame: &mut Frame) {
        for block in frame.chunks_exact_mut(BLOCK_SAMPLES) {
            let mut processed = [0; BLOCK_SAMPLES];
            // As above; an unprocessed block is better than none.
            if self.processing.process_capture_i16(block, &mut processed).is_ok() {
                block.copy_from_slice(&processed);
            }
        }
    }
}

/// Sound source of a microphone, processed.
struct ProcessedSource {
    source: Box<dyn SoundSource>,
    processing: SoundProcessing,
    played: Receiver<Frame>,
    has_begun: bool,
}

impl SoundSource for ProcessedSource {
    fn next_frame(&mut self) -> Result<Option<Frame>, SoundFailure> {
        let Some(mut frame) = self.source.next_frame()? else { return Ok(None) };
        // Frames from before the first captured one would only shift the reference.
        let is_new = std::mem::replace(&mut self.has_begun, true);
        self.played.try_iter().filter(|_| is_new).for_each(|played| self.processing.played(&played));
        self.processing.captured(&mut frame);
        Ok(Some(frame))
    }

    fn is_live(&self) -> bool {
        self.source.is_live()
    }
}

/// Sink of a loudspeaker, whose frames are the reference of echo cancellation.
struct EchoReference {
    sink: Box<dyn SoundSink>,
    played: SyncSender<Frame>,
}

impl SoundSink for EchoReference {
    fn play(&mut self, frame: &Frame) -> Result<(), SoundFailure> {
        self.sink.play(frame)?;
        // The frame is dropped if the microphone is too slow or gone.
        let _ = self.played.try_send(*frame);
        Ok(())
    }

    fn is_live(&self) -> bool {
        self.sink.is_live()
    }

    fn finish(&mut self) -> Result<(), SoundFailure> {
        self.sink.finish()
    }
}

/// Processes the sound of a live source, such as a microphone. A live sink is the reference for its echo. Sound of
/// files stays unchanged.
#[must_use]
pub fn processed(
    source: Box<dyn SoundSource>,
    sink: Option<Box<dyn SoundSink>>,
    settings: ProcessingSettings,
) -> (Box<dyn SoundSource>, Option<Box<dyn SoundSink>>) {
    if !source.is_live() {
        return (source, sink);
    }
    let (play, mut played) = mpsc::sync_channel(MAX_PLAYED_FRAMES);
    let reference = |mut sink: Box<dyn SoundSink>| -> Box<dyn SoundSink> {
        match sink.take_played() {
            Some(frames) => played = frames,
            None if sink.is_live() => return Box::new(EchoReference { sink, played: play }),
            None => {}
        }
        sink
    };
    let sink = sink.map(reference);
    (Box::new(ProcessedSource { source, processing: SoundProcessing::new(settings), played, has_begun: false }), sink)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::room::{Room, set_level, talk};
    use crate::{FRAME_SAMPLES, Silence, Tone};

    const SECOND: usize = SAMPLE_RATE as usize;

    fn frames(samples: &[f32]) -> Vec<Frame> {
        let frame = |samples: &[f32]| std::array::from_fn(|at| (32_768.0 * samples[at]) as i16);
        samples.chunks_exact(FRAME_SAMPLES).map(frame).collect()
    }

    fn energy(frames: &[Frame]) -> f64 {
        frames.iter().flatten().map(|&sample| f64::from(sample).powi(2)).sum()
    }

    #[test]
    fn echo_in_a_room_falls_by_more_than_30_db() {
        let mut far = talk(1, 10 * SECOND);
        set_level(&mut far, -23.0);
        let captured = frames(&Room { drift: 100e-6, ..Room::default() }.capture(&far, &[]));
        let mut processing = SoundProcessing::new(ProcessingSettings::default());
        let mut sent = captured.clone();
        for (frame, played) in sent.iter_mut().zip(frames(&far)) {
            processing.played(&played);
            processing.captured(frame);
        }
        let after = 5 * SECOND / FRAME_SAMPLES;
        let erle = 10.0 * (energy(&captured[after..]) / energy(&sent[after..])).log10();
        assert!(erle > 30.0, "{erle:.1} dB");
    }

    #[test]
    fn voice_beside_a_silent_loudspeaker_is_kept() {
        let mut near = talk(2, 6 * SECOND);
        set_level(&mut near, -26.0);
        let captured = frames(&near);
        let settings = ProcessingSettings { auto_gain_control: false, ..ProcessingSettings::default() };
        let mut processing = SoundProcessing::new(settings);
        let mut sent = captured.clone();
        for frame in &mut sent {
            processing.played(&[0; FRAME_SAMPLES]);
            processing.captured(frame);
        }
        let change = 10.0 * (energy(&sent[100..]) / energy(&captured[100..])).log10();
        assert!(change.abs() < 2.0, "{change:.1} dB");
    }

    /// Source and sink that claim to be devices.
    struct Device<T>(T);

    impl SoundSource for Device<Tone> {
        fn next_frame(&mut self) -> Result<Option<Frame>, SoundFailure> {
            self.0.next_frame()
        }

        fn is_live(&self) -> bool {
            true
        }
    }

    #[derive(Clone, Default)]
    struct Played(Arc<Mutex<Vec<Frame>>>);

    impl SoundSink for Device<Played> {
        fn play(&mut self, frame: &Frame) -> Result<(), SoundFailure> {
            self.0.0.lock().unwrap().push(*frame);
            Ok(())
        }

        fn is_live(&self) -> bool {
            true
        }
    }

    #[test]
    fn device_plays_unchanged_sound_and_captures_processed() {
        let played = Played::default();
        let (mut source, sink) = processed(
            Box::new(Device(Tone::default())),
            Some(Box::new(Device(played.clone()))),
            ProcessingSettings::default(),
        );
        let mut sink = sink.unwrap();
        assert!(source.is_live() && sink.is_live());
        let (mut tone, mut was_changed) = (Tone::default(), false);
        // More frames than may wait.
        for _ in 0..3 * MAX_PLAYED_FRAMES {
            sink.play(&[7; FRAME_SAMPLES]).unwrap();
        }
        for _ in 0..100 {
            was_changed |= source.next_frame().unwrap() != tone.next_frame().unwrap();
        }
        assert!(was_changed);
        assert_eq!(played.0.lock().unwrap().as_slice(), [[7; FRAME_SAMPLES]; 3 * MAX_PLAYED_FRAMES]);
    }

    /// A loudspeaker whose played frames the test chooses.
    struct Late(Option<Receiver<Frame>>);

    impl SoundSink for Late {
        fn play(&mut self, _: &Frame) -> Result<(), SoundFailure> {
            Ok(())
        }

        fn take_played(&mut self) -> Option<Receiver<Frame>> {
            self.0.take()
        }
    }

    #[test]
    fn reference_is_what_the_device_really_plays() {
        let (play, played) = mpsc::sync_channel(MAX_PLAYED_FRAMES);
        let (source, sink) = (Device(Tone::default()), Late(Some(played)));
        let (mut source, sink) = processed(Box::new(source), Some(Box::new(sink)), ProcessingSettings::default());
        assert!(sink.unwrap().take_played().is_none());
        play.try_send([0; FRAME_SAMPLES]).unwrap();
        source.next_frame().unwrap();
        // The source has taken the frame.
        (0..MAX_PLAYED_FRAMES).for_each(|_| play.try_send([0; FRAME_SAMPLES]).unwrap());
        assert!(play.try_send([0; FRAME_SAMPLES]).is_err());
    }

    #[test]
    fn sound_of_a_file_is_unchanged() {
        let (mut source, sink) = processed(Box::new(Tone::default()), None, ProcessingSettings::default());
        let mut tone = Tone::default();
        for _ in 0..50 {
            assert_eq!(source.next_frame(), tone.next_frame());
        }
        assert!(sink.is_none());
        let (mut silence, _) = processed(Box::new(Silence), None, ProcessingSettings::default());
        assert_eq!(silence.next_frame(), Ok(Some([0; FRAME_SAMPLES])));
    }
}
