//! Resamples the sound of a device to the machine's clock, or from it.
//!
//! The clock of a sound card differs from the machine's by up to some hundred ppm. [`CaptureResampler`] turns the
//! samples of a microphone into frames, and [`PlaybackResampler`] turns frames into the samples of a loudspeaker. On the
//! call's side of both, 48,000 samples last one second of the machine's clock. So the two sides of echo cancellation do
//! not drift apart.
//!
//! ```text
//! microphone --> CaptureResampler --> frames        frames --> PlaybackResampler --> loudspeaker
//!                     ^ ratio                                        ^ ratio
//! callback time --> ClockFollower                callback time --> ClockFollower
//! ```
//!
//! A [`ClockFollower`] measures the fill level of an imaginary ring: the device moves samples at one end, and the
//! machine's clock at the other. It steers the ratio so that this level stays constant. No samples wait in the ring, so
//! the resampling adds only half the length of its filter, 1.3 ms. The owner passes the time; nothing reads a clock.

use std::collections::VecDeque;
use std::collections::vec_deque::Drain;
use std::time::Duration;

use rubato::audioadapter_buffers::direct::InterleavedSlice;
use rubato::{Adjustable, Async, FixedAsync, Resampler, SincInterpolationParameters, WindowFunction};

use crate::{FRAME_SAMPLES, Frame, SAMPLE_RATE, SoundFailure};

/// Largest relative change of the speed: 1,000 ppm, a pitch difference of 1.7 cents, which nobody hears. Crystals of
/// sound cards drift by up to 500 ppm.
const MAX_CHANGE: f64 = 1e-3;
/// Time over which the fill level is averaged, seconds. Callbacks are late by milliseconds at random.
const INTERVAL: f64 = 1.0;
/// Intervals that the follower remembers, five minutes (lab: 2026-11-echo).
const MEMORY: u32 = 300;
/// Beyond this change of the fill level, seconds, samples were lost or the device paused. The level then starts again.
const MAX_ERROR: f64 = 0.02;
/// Length of the resampler's filter, samples.
const FILTER_SAMPLES: usize = 128;

/// Follows the clock of a device with a growing-memory alpha-beta filter: the least-squares line through the fill
/// levels so far, and later a fading memory of [`MEMORY`] intervals.
///
/// Source: Brookner, "Tracking and Kalman Filtering Made Easy", 1998, chapter 1.
#[derive(Debug, Clone)]
struct ClockFollower {
    /// Sound that passed, seconds on the call's side.
    passed: f64,
    /// Seconds of sound on the call's side per nominal second of the device.
    speed: f64,
    /// Estimated part of [`Self::speed`] above 1 that lasts: the drift of the device.
    drift: f64,
    /// Mean fill level at the beginning, seconds. None before it is known.
    wanted: Option<f64>,
    intervals: u32,
    /// Start of the current interval, seconds on the machine's clock, and the fill levels in it.
    since: Option<f64>,
    sum: f64,
    count: u32,
}

impl ClockFollower {
    fn new() -> Self {
        Self {
            passed: 0.0,
            speed: 1.0,
            drift: 0.0,
            wanted: None,
            // A new speed changes the mean of the current interval only by half, so the gains begin lower.
            intervals: 2,
            since: None,
            sum: 0.0,
            count: 0,
        }
    }

    /// The device moved `nominal` seconds of its sound at `now`. Returns the new speed if it changes.
    fn on_callback(&mut self, now: Duration, nominal: f64) -> Option<f64> {
        let now = now.as_secs_f64();
        self.passed += nominal * self.speed;
        self.sum += self.passed - now;
        self.count += 1;
        let elapsed = now - *self.since.get_or_insert(now);
        if elapsed < INTERVAL {
            return None;
        }
        let level = self.sum / f64::from(self.count);
        (self.since, self.sum, self.count) = (Some(now), 0.0, 0);
        let error = level - *self.wanted.get_or_insert(level);
        if error.abs() > MAX_ERROR {
            self.wanted = Some(level);
            return None;
        }
        let n = f64::from(self.intervals);
        self.intervals = (self.intervals + 1).min(MEMORY);
        let (alpha, beta) = (2.0 * (2.0 * n - 1.0) / (n * (n + 1.0)), 6.0 / (n * (n + 1.0)));
        self.drift = (self.drift - beta * error / elapsed).clamp(-MAX_CHANGE, MAX_CHANGE);
        self.speed = 1.0 + (self.drift - alpha * error / elapsed).clamp(-MAX_CHANGE, MAX_CHANGE);
        Some(self.speed)
    }
}

/// One channel through a resampler, in chunks.
struct Pipe {
    resampler: Async<f32>,
    input: Vec<f32>,
    output: Vec<f32>,
}

impl Pipe {
    fn new(ratio: f64, chunk: usize, fixed: FixedAsync) -> Result<Self, SoundFailure> {
        let filter = SincInterpolationParameters::new(FILTER_SAMPLES, WindowFunction::BlackmanHarris2);
        // Ratios of both directions are within the limits.
        let range = 1.0 / (1.0 - 2.0 * MAX_CHANGE);
        let resampler = Async::new_sinc(ratio, range, &filter, chunk, 1, fixed)
            .map_err(|error| SoundFailure(format!("cannot resample the device: {error}")))?;
        let input = Vec::with_capacity(2 * resampler.input_frames_max());
        let output = vec![0.0; resampler.output_frames_max()];
        Ok(Self { resampler, input, output })
    }

    /// Changes the ratio to `change` times that of the beginning, within the next chunk.
    fn adjust(&mut self, change: f64) {
        // The change is within the limits.
        let _ = self.resampler.set_resample_ratio_relative(change, true);
    }

    /// The next chunk, if there is enough input.
    fn next_chunk(&mut self) -> Option<&[f32]> {
        let needed = self.resampler.input_frames_next();
        let input = InterleavedSlice::new(self.input.get(..needed)?, 1, needed).ok()?;
        let length = self.output.len();
        let mut output = InterleavedSlice::new_mut(&mut self.output, 1, length).ok()?;
        let (taken, given) = self.resampler.process_into_buffer(&input, &mut output, None).ok()?;
        self.input.drain(..taken);
        self.output.get(..given)
    }
}

fn to_sample(value: f32) -> i16 {
    (value * 32_768.0).round() as i16
}

/// Frames from the samples of a microphone.
pub struct CaptureResampler {
    rate: f64,
    clock: ClockFollower,
    pipe: Pipe,
}

impl CaptureResampler {
    /// For a microphone of `rate` samples per second by its own clock.
    ///
    /// # Errors
    /// If `rate` is zero.
    pub fn new(rate: u32) -> Result<Self, SoundFailure> {
        let rate = f64::from(rate);
        let pipe = Pipe::new(f64::from(SAMPLE_RATE) / rate, FRAME_SAMPLES, FixedAsync::Output)?;
        Ok(Self { rate, clock: ClockFollower::new(), pipe })
    }

    /// Takes `samples` (-1 to 1), the last of which was captured at `now`, and passes complete frames to `frame`.
    pub fn capture(&mut self, now: Duration, samples: impl Iterator<Item = f32>, mut frame: impl FnMut(Frame)) {
        let before = self.pipe.input.len();
        self.pipe.input.extend(samples);
        let count = self.pipe.input.len() - before;
        if let Some(speed) = self.clock.on_callback(now, count as f64 / self.rate) {
            self.pipe.adjust(speed);
        }
        while let Some(samples) = self.pipe.next_chunk() {
            let mut captured = [0; FRAME_SAMPLES];
            captured.iter_mut().zip(samples).for_each(|(to, &from)| *to = to_sample(from));
            frame(captured);
        }
    }
}

/// Samples of a loudspeaker from frames.
pub struct PlaybackResampler {
    rate: f64,
    clock: ClockFollower,
    pipe: Pipe,
    ready: VecDeque<f32>,
}

impl PlaybackResampler {
    /// For a loudspeaker of `rate` samples per second by its own clock.
    ///
    /// # Errors
    /// If `rate` is zero.
    pub fn new(rate: u32) -> Result<Self, SoundFailure> {
        let rate = f64::from(rate);
        let pipe = Pipe::new(rate / f64::from(SAMPLE_RATE), FRAME_SAMPLES, FixedAsync::Input)?;
        Ok(Self { rate, clock: ClockFollower::new(), pipe, ready: VecDeque::new() })
    }

    /// The `count` samples (-1 to 1) that the device asks for at `now`. `frame` returns the next 20 ms of the call.
    pub fn play(&mut self, now: Duration, count: usize, mut frame: impl FnMut() -> Frame) -> Drain<'_, f32> {
        if let Some(speed) = self.clock.on_callback(now, count as f64 / self.rate) {
            self.pipe.adjust(1.0 / speed);
        }
        while self.ready.len() < count {
            self.pipe.input.extend(frame().map(|sample| f32::from(sample) / 32_768.0));
            // A frame is always enough input; silence is better than no end.
            match self.pipe.next_chunk() {
                Some(samples) => self.ready.extend(samples),
                None => self.ready.resize(count, 0.0),
            }
        }
        self.ready.drain(..count)
    }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::{PI, TAU};
    use std::ops::Range;

    use rand::{Rng, SeedableRng};
    use rand_pcg::Pcg32;

    use super::*;

    const DRIFTS: [f64; 4] = [-500e-6, -100e-6, 100e-6, 500e-6];
    const HERTZ: f64 = 1_000.0;
    /// Time after which the clock of the device is known, seconds.
    const SETTLED: f64 = 30.0;

    /// A device in virtual time. Each callback moves the samples of 10 ms, up to 4 ms late at random.
    struct Device {
        rate: u32,
        /// Samples per second of the machine's clock.
        true_rate: f64,
        random: Pcg32,
        moved: usize,
    }

    impl Device {
        fn new(rate: u32, drift: f64) -> Self {
            Self { rate, true_rate: f64::from(rate) * (1.0 + drift), random: Pcg32::seed_from_u64(1), moved: 0 }
        }

        /// The time of the next callback in seconds, and the numbers of the samples that it moves.
        fn next_callback(&mut self) -> (f64, Range<usize>) {
            let from = self.moved;
            self.moved += self.rate as usize / 100;
            (self.moved as f64 / self.true_rate + 0.004 * self.random.random::<f64>(), from..self.moved)
        }
    }

    /// Phase of a sine of 1 kHz in `samples`, and its ratio to everything else, dB. The first sample is at `start`, and
    /// the others follow every `interval` seconds.
    fn fit(samples: &[f64], start: f64, interval: f64) -> (f64, f64) {
        let [mut cc, mut cs, mut ss, mut xc, mut xs] = [0.0; 5];
        let moments = || (0..).map(|at| TAU * HERTZ * (start + f64::from(at) * interval));
        for (sample, phase) in samples.iter().zip(moments()) {
            let (sin, cos) = phase.sin_cos();
            cc += cos * cos;
            cs += cos * sin;
            ss += sin * sin;
            xc += sample * cos;
            xs += sample * sin;
        }
        let determinant = cc * ss - cs * cs;
        let (cosine, sine) = ((xc * ss - xs * cs) / determinant, (xs * cc - xc * cs) / determinant);
        let [mut voice, mut other] = [0.0; 2];
        for (sample, phase) in samples.iter().zip(moments()) {
            let fitted = cosine * phase.cos() + sine * phase.sin();
            voice += fitted * fitted;
            other += (sample - fitted).powi(2);
        }
        (cosine.atan2(sine), 10.0 * (voice / other).log10())
    }

    /// Sound of a device, piece by piece.
    #[derive(Debug, Default)]
    struct Heard {
        pieces: u32,
        /// Start of each piece, seconds, and its latency, milliseconds more than that of the first.
        latencies: Vec<(f64, f64)>,
        last_phase: Option<f64>,
        /// Largest change of the pitch, relative to 1 kHz.
        pitch: f64,
        /// Smallest ratio of the settled sine to everything else, dB.
        snr: Option<f64>,
    }

    impl Heard {
        fn on_piece(&mut self, samples: &[f64], start: f64, interval: f64) {
            // The resampler's filter begins in the first pieces.
            self.pieces += 1;
            if self.pieces <= 5 {
                return;
            }
            let (phase, snr) = fit(samples, start, interval);
            let turn = (phase - self.last_phase.unwrap_or(phase) + PI).rem_euclid(TAU) - PI;
            let before = self.latencies.last().map_or(0.0, |&(_, latency)| latency);
            self.latencies.push((start, before - 1e3 * turn / (TAU * HERTZ)));
            self.pitch = self.pitch.max((turn / (TAU * HERTZ * samples.len() as f64 * interval)).abs());
            // Before, the true pitch differs from that of the fitted sine.
            if start > SETTLED {
                self.snr = Some(self.snr.map_or(snr, |least| least.min(snr)));
            }
            self.last_phase = Some(phase);
        }

        /// Largest difference between latencies after `from` seconds, milliseconds.
        fn latency_range(&self, from: f64) -> f64 {
            let latencies = || self.latencies.iter().filter(|&&(start, _)| start >= from).map(|&(_, latency)| latency);
            latencies().fold(f64::MIN, f64::max) - latencies().fold(f64::MAX, f64::min)
        }
    }

    #[test]
    fn fill_level_is_constant_for_ten_minutes_of_drift() {
        for rate in [48_000, 44_100] {
            for drift in DRIFTS {
                let (mut device, mut clock) = (Device::new(rate, drift), ClockFollower::new());
                let (mut levels, mut speed) = (f64::MAX..f64::MIN, clock.speed);
                let (mut off, mut jump) = (0.0_f64, 0.0_f64);
                loop {
                    let (now, samples) = device.next_callback();
                    if now > 600.0 {
                        break;
                    }
                    clock.on_callback(Duration::from_secs_f64(now), samples.len() as f64 / f64::from(rate));
                    let level = clock.passed - device.moved as f64 / device.true_rate;
                    levels = levels.start.min(level)..levels.end.max(level);
                    if now > SETTLED {
                        off = off.max((clock.speed * (1.0 + drift) - 1.0).abs());
                        jump = jump.max((clock.speed - speed).abs());
                    }
                    speed = clock.speed;
                }
                let range = levels.end - levels.start;
                assert!(off < 50e-6 && jump < 80e-6, "{rate} Hz, {drift}: {off}, {jump}");
                assert!(range < 0.002, "{rate} Hz, {drift}: the level changes by {range} s");
            }
        }
    }

    /// Length of the cases with samples, which take longer.
    const SECONDS: f64 = 60.0;
    /// Their devices.
    const DEVICES: [(u32, f64); 2] = [(48_000, 500e-6), (44_100, -500e-6)];

    fn check(heard: &Heard, case: (u32, f64)) {
        let (rate, drift) = case;
        let (whole, settled) = (heard.latency_range(0.0), heard.latency_range(SETTLED));
        assert!(heard.pitch < 1.05 * (MAX_CHANGE + drift.abs()), "{rate} Hz, {drift}: pitch {}", heard.pitch);
        assert!(heard.snr > Some(55.0), "{rate} Hz, {drift}: {:?} dB", heard.snr);
        assert!(whole < 2.0 && settled < 0.3, "{rate} Hz, {drift}: {whole} ms, {settled} ms");
    }

    #[test]
    fn captured_sine_keeps_pitch_and_latency_under_drift() {
        for (rate, drift) in DEVICES {
            let (mut device, mut resampler) = (Device::new(rate, drift), CaptureResampler::new(rate).unwrap());
            let (mut heard, mut frames, mut waited) = (Heard::default(), 0, f64::MAX..f64::MIN);
            loop {
                let (now, samples) = device.next_callback();
                if now > SECONDS {
                    break;
                }
                let interval = 1.0 / device.true_rate;
                let sine = samples.map(|at| (0.5 * (TAU * HERTZ * at as f64 * interval).sin()) as f32);
                resampler.capture(Duration::from_secs_f64(now), sine, |frame| {
                    let frame = frame.map(|sample| f64::from(sample) / 32_768.0);
                    heard.on_piece(&frame, 0.02 * f64::from(frames), 1.0 / f64::from(SAMPLE_RATE));
                    frames += 1;
                });
                let behind = now - 0.02 * f64::from(frames);
                waited = waited.start.min(behind)..waited.end.max(behind);
            }
            check(&heard, (rate, drift));
            // A reader of 20 ms of the machine's clock needs one waiting frame, and always has it.
            let range = waited.end - waited.start;
            assert!(range < 0.03, "{rate} Hz, {drift}: frames are up to {range} s late");
        }
    }

    #[test]
    fn played_sine_keeps_pitch_and_latency_under_drift() {
        for (rate, drift) in DEVICES {
            let (mut device, mut resampler) = (Device::new(rate, drift), PlaybackResampler::new(rate).unwrap());
            let (mut heard, mut frames, mut waiting) = (Heard::default(), 0, f64::MAX..f64::MIN);
            loop {
                let (now, samples) = device.next_callback();
                if now > SECONDS {
                    break;
                }
                let (interval, count) = (1.0 / device.true_rate, samples.len());
                let played = resampler.play(Duration::from_secs_f64(now), count, || {
                    frames += 1;
                    std::array::from_fn(|at| {
                        let moment = 0.02 * f64::from(frames - 1) + at as f64 / f64::from(SAMPLE_RATE);
                        (16_384.0 * (TAU * HERTZ * moment).sin()).round() as i16
                    })
                });
                let played: Vec<f64> = played.map(f64::from).collect();
                heard.on_piece(&played, samples.start as f64 * interval, interval);
                let ahead = 0.02 * f64::from(frames) - now;
                waiting = waiting.start.min(ahead)..waiting.end.max(ahead);
            }
            check(&heard, (rate, drift));
            // A writer of 20 ms of the machine's clock needs room for one frame, and always has it.
            let range = waiting.end - waiting.start;
            assert!(range < 0.03, "{rate} Hz, {drift}: frames wait up to {range} s");
        }
    }

    #[test]
    fn pause_of_a_device_starts_a_new_fill_level() {
        let mut clock = ClockFollower::new();
        let mut passed = |from: u32, to: u32| {
            for at in from..to {
                clock.on_callback(Duration::from_millis(10 * u64::from(at)), 0.01);
            }
            clock.speed
        };
        assert!((passed(0, 3_000) - 1.0).abs() < 1e-9);
        // Ten seconds without callbacks are not made up for.
        assert!((passed(4_000, 7_000) - 1.0).abs() < 1e-4);
    }
}
