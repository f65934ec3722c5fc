//! A synthetic talker, for measurements without recordings: a source and a filter (Fant 1960).
//!
//! Its sound has the spectrum, the pauses and the changes of speech up to 8 kHz, and no meaning.

use std::collections::VecDeque;
use std::f64::consts::{PI, TAU};

use lockstep_units::random::{happens, normal};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use crate::SAMPLE_RATE;

const RATE: f64 = SAMPLE_RATE as f64;
/// The first three formants of eight vowels of men, Hz (Peterson and Barney 1952).
const VOWELS: [[f64; 3]; 8] = [
    [270.0, 2_290.0, 3_010.0],
    [390.0, 1_990.0, 2_550.0],
    [530.0, 1_840.0, 2_480.0],
    [660.0, 1_720.0, 2_410.0],
    [730.0, 1_090.0, 2_440.0],
    [570.0, 840.0, 2_410.0],
    [440.0, 1_020.0, 2_240.0],
    [300.0, 870.0, 2_240.0],
];
/// Bandwidths of the formants, Hz.
const BANDWIDTHS: [f64; 3] = [60.0, 90.0, 150.0];
/// Share of a period in which the glottis is open.
const OPEN: f64 = 0.6;
/// Share of the syllables that begin with a fricative.
const FRICATIVES: f64 = 0.4;

/// A filter with one resonance.
#[derive(Debug, Clone, Copy, Default)]
struct Resonator {
    last: [f64; 2],
}

impl Resonator {
    fn next(&mut self, input: f64, frequency: f64, bandwidth: f64) -> f64 {
        let radius = libm::exp(-PI * bandwidth / RATE);
        let (first, second) = (2.0 * radius * libm::cos(TAU * frequency / RATE), -radius * radius);
        let output = (1.0 - first - second) * input + first * self.last[0] + second * self.last[1];
        self.last = [output, self.last[0]];
        output
    }
}

/// An endless talker: phrases of 4 to 13 syllables, and pauses of 0.2 to 0.8 s.
#[derive(Debug, Clone)]
pub(crate) struct Talker {
    random: Pcg64,
    /// Mean pitch, Hz.
    pitch: f64,
    /// Phase of the glottis, 0 to 1.
    phase: f64,
    vowel: [f64; 3],
    formants: [Resonator; 3],
    fricative: Resonator,
    syllables_left: u32,
    samples: VecDeque<f64>,
}

impl Talker {
    /// A talker whose voice and words depend on `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Pcg64::seed_from_u64(seed);
        let pitch = random.random_range(95.0..220.0);
        Self {
            random,
            pitch,
            phase: 0.0,
            vowel: VOWELS[0],
            formants: Default::default(),
            fricative: Resonator::default(),
            syllables_left: 0,
            samples: VecDeque::new(),
        }
    }

    /// A number of samples that last between `shortest` and `longest` seconds.
    fn duration(&mut self, shortest: f64, longest: f64) -> usize {
        (RATE * self.random.random_range(shortest..longest)) as usize
    }

    fn fricative(&mut self) {
        let length = self.duration(0.04, 0.12);
        let frequency = self.random.random_range(3_000.0..7_500.0);
        for at in 0..length {
            let noise = 0.25 * normal(&mut self.random);
            let loudness = libm::sin(PI * at as f64 / length as f64);
            self.samples.push_back(loudness * self.fricative.next(noise, frequency, 2_000.0));
        }
    }

    fn vowel(&mut self) {
        let (from, to) = (self.vowel, VOWELS[self.random.random_range(0..VOWELS.len())]);
        let length = self.duration(0.12, 0.30);
        let loudness = self.random.random_range(0.5..1.0);
        let (pitch, glide) = (self.pitch * self.random.random_range(0.88..1.14), self.random.random_range(-0.15..0.15));
        for at in 0..length {
            let progress = at as f64 / length as f64;
            self.phase = (self.phase + pitch * (1.0 + glide * progress) / RATE).fract();
            // Airflow's derivative (Klatt and Klatt 1990), and breath.
            let open = self.phase / OPEN;
            let mut sample = 0.0;
            if open < 1.0 {
                sample = 2.0 * open - 3.0 * open * open + 0.05 * normal(&mut self.random);
            }
            let change = (3.0 * progress).min(1.0);
            for (number, formant) in self.formants.iter_mut().enumerate() {
                let frequency = from[number] + change * (to[number] - from[number]);
                sample = formant.next(sample, frequency, BANDWIDTHS[number]);
            }
            self.samples.push_back(loudness * sample * libm::sqrt(libm::sin(PI * progress)));
        }
        self.vowel = to;
    }
}

impl Iterator for Talker {
    type Item = f64;

    fn next(&mut self) -> Option<f64> {
        while self.samples.is_empty() {
            if self.syllables_left == 0 {
                let pause = self.duration(0.2, 0.8);
                self.samples.extend(std::iter::repeat_n(0.0, pause));
                self.syllables_left = self.random.random_range(4..14);
                continue;
            }
            self.syllables_left -= 1;
            if happens(&mut self.random, FRICATIVES) {
                self.fricative();
            }
            self.vowel();
        }
        self.samples.pop_front()
    }
}
