//! Where sound comes from and where it goes; and the sources that need no microphone.

use std::f64::consts::{PI, TAU};

use thiserror::Error;

use crate::{FRAME_SAMPLES, Frame, SAMPLE_RATE};

/// What went wrong with a device or a file, in one line.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct SoundFailure(pub String);

/// Where what is heard goes.
pub trait SoundSink: Send {
    /// Takes the next 20 ms.
    ///
    /// # Errors
    /// What became of the device, or that the disk is full.
    fn play(&mut self, frame: &Frame) -> Result<(), SoundFailure>;

    /// Whether [`Self::play`] takes as long as a frame lasts, as a loudspeaker's does.
    fn is_live(&self) -> bool {
        false
    }

    /// Writes out what is left.
    ///
    /// # Errors
    /// What went wrong with that.
    fn finish(&mut self) -> Result<(), SoundFailure> {
        Ok(())
    }
}

/// Plays sound to nobody: it is scored or recorded.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nowhere;

impl SoundSink for Nowhere {
    fn play(&mut self, _: &Frame) -> Result<(), SoundFailure> {
        Ok(())
    }
}

/// Sound, a frame at a time.
pub trait SoundSource: Send {
    /// The next frame; none at the end.
    ///
    /// # Errors
    /// What became of the device.
    fn next_frame(&mut self) -> Result<Option<Frame>, SoundFailure>;

    /// Whether [`Self::next_frame`] takes as long as a frame lasts, as a microphone's does. Others are paced by whoever asks.
    fn is_live(&self) -> bool {
        false
    }
}

/// Sound without end in which nothing is heard.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silence;

impl SoundSource for Silence {
    fn next_frame(&mut self) -> Result<Option<Frame>, SoundFailure> {
        Ok(Some([0; FRAME_SAMPLES]))
    }
}

/// A voice of sorts, without end, to go with generated clips: it talks for three seconds, four syllables a second on a
/// pitch that glides, and is silent for one.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tone {
    sample: u64,
    phase: f64,
}

impl Tone {
    const TALK: f64 = 3.0;
    const PAUSE: f64 = 1.0;
    const SYLLABLES: f64 = 4.0;
    /// The pitch of a voice between a man's and a woman's, and how far it glides up and down, Hz.
    const PITCH: f64 = 160.0;
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
        // Harmonics that fall as those of a voice do, about 6 dB an octave.
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
    fn the_tone_talks_for_three_seconds_and_is_silent_for_one() {
        let mut tone = Tone::default();
        let loud: Vec<bool> =
            (0..400).filter_map(|_| tone.next_frame().unwrap()).map(|f| f.iter().any(|&s| s != 0)).collect();
        for (at, &is_loud) in loud.iter().enumerate() {
            assert_eq!(is_loud, at % 200 < 150, "frame {at}");
        }
    }
}
