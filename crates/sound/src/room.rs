//! Simulated rooms and talkers, which measure echo cancellation without devices and recordings.
//!
//! Samples are numbers from -1 to 1, 48,000 per second. Equal seeds give equal samples.

use std::time::Duration;

use lockstep_units::random::{happens, mix, normal};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use crate::talker::Talker;
use crate::wav::resample;
use crate::{FRAME_SAMPLES, SAMPLE_RATE};

/// Samples between two reflections on average: 2,000 reflections per second sound smooth (Karjalainen and Järveläinen,
/// "Reverberation modeling using velvet noise", 2007).
const REFLECTION_SPACING: usize = 24;
/// Samples before the first reflection: 1.5 ms, or 0.5 m.
const FIRST_REFLECTION: usize = 72;
/// Natural logarithm of 60 dB.
const SIXTY_DB: f64 = 6.907_755;

/// A microphone and a loudspeaker in a room.
#[derive(Debug, Clone, PartialEq)]
pub struct Room {
    /// Seed of reflections and noise.
    pub seed: u64,
    /// Time in which sound falls by 60 dB.
    pub reverberation: Duration,
    /// Delay from the reference to the direct echo: that of both devices, and of the air.
    pub delay: Duration,
    /// Relative drift of the microphone's clock: with 100e-6, its samples last 100 ppm longer than the loudspeaker's.
    pub drift: f64,
    /// Active level of the echo at the microphone, dB of full scale.
    pub echo_level: f64,
    /// Level of the room's noise, dB of full scale.
    pub noise_level: f64,
    /// Gain before the loudspeaker's saturation (a hyperbolic tangent); 0 for a linear loudspeaker.
    pub saturation: f64,
    /// Time after which the microphone stands elsewhere, with other reflections.
    pub moves_after: Option<Duration>,
}

impl Default for Room {
    /// A quiet office: 0.3 s of reverberation, and an echo as loud as a voice after 60 ms.
    fn default() -> Self {
        Self {
            seed: 1,
            reverberation: Duration::from_millis(300),
            delay: Duration::from_millis(60),
            drift: 0.0,
            echo_level: -26.0,
            noise_level: -75.0,
            saturation: 0.0,
            moves_after: None,
        }
    }
}

fn samples_of(duration: Duration) -> usize {
    (duration.as_secs_f64() * f64::from(SAMPLE_RATE)) as usize
}

impl Room {
    /// Positions and gains of the direct sound and its reflections, both with the same energy.
    fn reflections(&self, place: u64) -> Vec<(usize, f32)> {
        let mut random = Pcg64::seed_from_u64(mix(self.seed, place));
        let length = samples_of(self.reverberation);
        let decay = SIXTY_DB / length.max(1) as f64;
        let mut reflections = Vec::new();
        for cell in (FIRST_REFLECTION..length).step_by(REFLECTION_SPACING) {
            let at = cell + random.random_range(0..REFLECTION_SPACING);
            let sign = if happens(&mut random, 0.5) { 1.0 } else { -1.0 };
            reflections.push((at, sign * libm::exp(-decay * at as f64)));
        }
        let energy: f64 = reflections.iter().map(|(_, gain)| gain * gain).sum();
        let scale = libm::sqrt(energy).max(f64::MIN_POSITIVE);
        let scaled = reflections.into_iter().map(|(at, gain)| (at, (gain / scale) as f32));
        std::iter::once((0, 1.0)).chain(scaled).collect()
    }

    /// Echo of `played` at the place of the microphone.
    fn echo(&self, played: &[f32], place: u64) -> Vec<f32> {
        let delay = samples_of(self.delay);
        let mut echo = vec![0.0; played.len()];
        for (at, gain) in self.reflections(place) {
            let later = echo.iter_mut().skip(at + delay);
            later.zip(played).for_each(|(echo, sample)| *echo += gain * sample);
        }
        echo
    }

    /// Sound at the microphone while the loudspeaker plays `far`, and a person says `near`. It is as long as `far`.
    #[must_use]
    pub fn capture(&self, far: &[f32], near: &[f32]) -> Vec<f32> {
        let gain = self.saturation;
        let saturated = |&sample: &f32| (libm::tanh(gain * f64::from(sample)) / gain) as f32;
        let played: Vec<f32> = if gain > 0.0 { far.iter().map(saturated).collect() } else { far.to_vec() };
        let mut captured = self.echo(&played, 0);
        if let Some(time) = self.moves_after {
            let from = samples_of(time).min(captured.len());
            captured[from..].copy_from_slice(&self.echo(&played, 1)[from..]);
        }
        if self.drift != 0.0 {
            let length = captured.len();
            // A ratio near 1 is valid; an invalid one changes nothing.
            captured = resample(&captured, 1.0 / (1.0 + self.drift)).unwrap_or(captured);
            captured.resize(length, 0.0);
        }
        set_level(&mut captured, self.echo_level);
        captured.iter_mut().zip(near).for_each(|(sample, near)| *sample += near);
        self.add_noise(&mut captured);
        captured
    }

    /// Adds noise that falls with frequency, as of a fan.
    fn add_noise(&self, samples: &mut [f32]) {
        let mut random = Pcg64::seed_from_u64(mix(self.seed, 2));
        let gain = libm::pow(10.0, self.noise_level / 20.0);
        let mut low = 0.0;
        for sample in samples {
            let white = normal(&mut random);
            // A low-pass filter of unit gain for noise.
            low = 0.95 * low + 0.312 * white;
            *sample += (gain * (0.97 * low + 0.24 * white)) as f32;
        }
    }
}

/// The first `length` samples of a synthetic talker.
#[must_use]
pub fn talk(seed: u64, length: usize) -> Vec<f32> {
    Talker::new(seed).take(length).map(|sample| sample as f32).collect()
}

/// Active level of `samples`, dB of full scale: the mean power of the frames less than 30 dB below the loudest.
#[must_use]
pub fn level(samples: &[f32]) -> f64 {
    let power = |frame: &[f32]| frame.iter().map(|&sample| f64::from(sample).powi(2)).sum::<f64>() / frame.len() as f64;
    let powers: Vec<f64> = samples.chunks(FRAME_SAMPLES).map(power).collect();
    let loudest = powers.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let active: Vec<f64> = powers.into_iter().filter(|power| *power > 1e-3 * loudest).collect();
    10.0 * libm::log10((active.iter().sum::<f64>() / active.len().max(1) as f64).max(f64::MIN_POSITIVE))
}

/// Scales `samples` to an active level. Silence stays silent.
pub fn set_level(samples: &mut [f32], wanted: f64) {
    let gain = libm::pow(10.0, (wanted - level(samples)) / 20.0) as f32;
    if gain.is_finite() {
        samples.iter_mut().for_each(|sample| *sample *= gain);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: usize = SAMPLE_RATE as usize;

    fn room() -> Room {
        Room { noise_level: -120.0, ..Room::default() }
    }

    #[test]
    fn talker_pauses_and_repeats_with_its_seed() {
        let (talk_of_1, again, other) = (talk(1, 4 * SECOND), talk(1, 4 * SECOND), talk(2, 4 * SECOND));
        assert_eq!(talk_of_1, again);
        assert_ne!(talk_of_1, other);
        let silent = talk_of_1.chunks(FRAME_SAMPLES).filter(|frame| level(frame) < -100.0).count();
        assert!((10..100).contains(&silent), "{silent} of 200 frames");
        assert!(talk_of_1.iter().all(|sample| sample.is_finite()));
    }

    #[test]
    fn echo_has_its_delay_and_decays() {
        let mut click = vec![0.0; SECOND];
        click[0] = 1.0;
        let room = room();
        let captured = room.capture(&click, &[]);
        let first = captured.iter().position(|sample| sample.abs() > 0.01).unwrap();
        assert_eq!(first, samples_of(room.delay));
        let power = |from: usize| level(&captured[from..from + FRAME_SAMPLES]);
        let (early, late) = (power(first + 2 * FRAME_SAMPLES), power(first + 10 * FRAME_SAMPLES));
        // 160 ms of 300 ms are 32 dB.
        assert!((25.0..40.0).contains(&(early - late)), "{early} {late}");
        assert_ne!(Room { moves_after: Some(Duration::ZERO), ..room.clone() }.capture(&click, &[]), captured);
    }

    #[test]
    fn drift_moves_the_echo_by_its_share() {
        let mut click = vec![0.0; 10 * SECOND];
        click[9 * SECOND] = 1.0;
        let loudest = |room: Room| {
            let captured = room.capture(&click, &[]);
            (0..captured.len()).max_by(|&a, &b| captured[a].abs().total_cmp(&captured[b].abs())).unwrap()
        };
        let room = Room { reverberation: Duration::ZERO, ..room() };
        let (straight, drifted) = (loudest(room.clone()), loudest(Room { drift: 100e-6, ..room }));
        assert!(straight.abs_diff(drifted + 43) <= 1, "{straight} {drifted}");
    }

    #[test]
    fn near_voice_and_levels_are_those_asked_for() {
        let mut near = talk(3, 2 * SECOND);
        set_level(&mut near, -30.0);
        assert!((level(&near) + 30.0).abs() < 0.1);
        let captured = room().capture(&vec![0.0; near.len()], &near);
        assert!(captured.iter().zip(&near).all(|(a, b)| (a - b).abs() < 1e-4));
        let noisy = Room { noise_level: -50.0, ..room() }.capture(&vec![0.0; SECOND], &[]);
        assert!((level(&noisy) + 50.0).abs() < 1.5, "{}", level(&noisy));
    }
}
