//! Traits of sound sources and sinks, and sources without a microphone.

use std::f64::consts::{PI, TAU};

use std::sync::mpsc::Receiver;

use thiserror::Error;

use crate::{FRAME_SAMPLES, Frame, SAMPLE_RATE};

/// Error of a sound device or file, one line.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct SoundFailure(pub String);

/// Consumer of sound, such as a loudspeaker or a file.
pub trait SoundSink: Send {
    /// Plays the next 20 ms.
    ///
    /// # Errors
    /// If the device fails or the disk is full.
    fn play(&mut self, frame: &Frame) -> Result<(), SoundFailure>;

    /// Whether [`Self::play`] blocks for the duration of a frame, as with a loudspeaker.
    fn is_live(&self) -> bool {
        false
    }

    /// Receiver of the frames that the device really plays, with the silence that it inserts while no frame waits. None
    /// if they are those of [`Self::play`], and after the first call.
    fn take_played(&mut self) -> Option<Receiver<Frame>> {
        None
    }

    /// Completes the output.
    ///
    /// # Errors
    /// If the output cannot be completed.
    fn finish(&mut self) -> Result<(), SoundFailure> {
        Ok(())
    }
}

/// Sink that discards sound.
#[derive(Debug, Clone, Copy, Default)]
pub struct DiscardSoundSink;

impl SoundSink for DiscardSoundSink {
    fn play(&mut self, _: &Frame) -> Result<(), SoundFailure> {
        Ok(())
    }
}

/// Producer of sound, frame by frame.
pub trait SoundSource: Send {
    /// The next frame. None at the end.
    ///
    /// # Errors
    /// If the device fails.
    fn next_frame(&mut self) -> Result<Option<Frame>, SoundFailure>;

    /// The next frame, which nobody hears because the source is muted.
    ///
    /// # Errors
    /// If the device fails.
    fn next_muted_frame(&mut self) -> Result<Option<Frame>, SoundFailure> {
        self.next_frame()
    }

    /// Whether [`Self::next_frame`] blocks for the duration of a frame, as with a microphone. The caller paces other
    /// sources.
    fn is_live(&self) -> bool {
        false
    }
}

/// Endless silence.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silence;

impl SoundSource for Silence {
    fn next_frame(&mut self) -> Result<Option<Frame>, SoundFailure> {
        Ok(Some([0; FRAME_SAMPLES]))
    }
}

/// Endless synthetic voice for generated clips. It talks for three seconds, with four syllables per second and a
/// gliding pitch, then pauses for one.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tone {
    sample: u64,
    phase: f64,
}

impl Tone {
    const TALK: f64 = 3.0;
    const PAUSE: f64 = 1.0;
    const SYLLABLES: f64 = 4.0;
    /// Mean pitch, Hz, between those of male and female voices.
    const PITCH: f64 = 160.0;
    /// Amplitude of the gliding pitch, Hz.
    const GLIDE: f64 = 30.0;
    /// A third of full scale over all harmonics.
    const AMPLITUDE: f64 = 6_000.0;

    fn next_sample(&mut self) -> i16 {
        let time = self.sample as f64 / f64::from(SAMPLE_RATE);
        self.sample += 1;
        let moment = time % (Self::TALK + Self::PAUSE);
        let pitch = Self::PITCH + Self::GLIDE * libm::sin(TAU * 0.7 * time);
        self.phase = (self.phase + pitch / f64::from(SAMPLE_RATE)).fract();
        if moment >= Self::TALK {
            return 0;
        }
        let loudness = libm::sin(PI * (Self::SYLLABLES * moment).fract()).powi(2);
        // Harmonics fall by about 6 dB per octave, as in a voice.
        let harmonics: f64 = (1..=8).map(|n| libm::sin(TAU * self.phase * f64::from(n)) / f64::from(n)).sum();
        (Self::AMPLITUDE * loudness * harmonics) as i16
    }
}

impl SoundSource for Tone {
    fn next_frame(&mut self) -> Result<Option<Frame>, SoundFailure> {
        Ok(Some(std::array::from_fn(|_| self.next_sample())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tone_talks_for_three_seconds_and_pauses_for_one() {
        let mut tone = Tone::default();
        let loud: Vec<bool> =
            (0..400).filter_map(|_| tone.next_frame().unwrap()).map(|f| f.iter().any(|&s| s != 0)).collect();
        for (at, &is_loud) in loud.iter().enumerate() {
            assert_eq!(is_loud, at % 200 < 150, "frame {at}");
        }
    }
}
